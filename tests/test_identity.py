"""A file of results belongs to one function, told by what it holds."""

from functools import partial

import pytest
import sweep_functions as functions

import gausscontrol as gct
from gausscontrol.sweeps.sweep import sweep


def test_functions_of_one_name_that_hold_other_things(tmp_path):
    def shifted(by, *, also=0.0):
        def shift(x, factor=by):
            return x + by

        return shift

    twice = [lambda x: 2 * x, lambda x: 3 * x]
    pairs = [
        [shifted(1.0), shifted(2.0)],
        twice,
        [functions.Scaled(1.0).call, functions.Scaled(2.0).call],
        [functions.Scaled(1.0), functions.Scaled(2.0)],
        [partial(functions.Scaled(1.0).call), partial(functions.Scaled(2.0).call)],
    ]
    for k, (one, other) in enumerate(pairs):
        file = tmp_path / f"file{k}"
        first = sweep(one, [1.0, 2.0], resume=file)
        assert sweep(one, [1.0, 2.0], resume=file).resumed == 2
        with pytest.raises(gct.ParameterError, match=r"is of another sweep: fixed: expected"):
            sweep(other, [1.0, 2.0], resume=file)
        assert first.values != sweep(other, [1.0, 2.0]).values


@pytest.mark.parametrize("name", ["opaque", "method", "closure"])
def test_functions_without_identity(tmp_path, name):
    opaque = functions.Opaque()
    given = {"opaque": opaque, "method": opaque.call, "closure": lambda x: opaque(x)}[name]
    with pytest.raises(gct.ParameterError, match=r"resume: expected .*use a function of a module"):
        sweep(given, [1], resume=tmp_path / "file")
    assert sweep(given, [1]).values == (1,)


def test_points_that_a_file_cannot_tell_apart(tmp_path):
    with pytest.raises(gct.ParameterError, match="grid: cannot be told from others"):
        sweep(functions.square, [object()], resume=tmp_path / "file")
    with pytest.raises(gct.ParameterError, match="function: what it holds is unknown"):
        sweep(partial(functions.affine, offset=object()), [(1, 2)], resume=tmp_path / "file")
