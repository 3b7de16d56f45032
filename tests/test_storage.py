"""Values in a file of results come back to the last bit, or are refused."""

import numpy as np
import pytest
import sweep_functions as functions
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_functions import GIVEN, give, pick

import gausscontrol as gct
from gausscontrol.sweeps.sweep import sweep
from gausscontrol.sweeps.verdict import Verdict

NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=5)
)


VALUES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)


def identical(x, y):
    """Whether two values are the same to the last bit and type; NaN equals itself."""
    if type(x) is not type(y):
        return False
    if isinstance(x, dict):
        return list(x) == list(y) and all(identical(x[key], y[key]) for key in x)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(identical, x, y))
    if isinstance(x, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    return repr(x) == repr(y)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(VALUES)
def test_values_come_back_as_they_were(tmp_path_factory, value):
    file = tmp_path_factory.mktemp("stored") / "file"

    def give(x):
        return value

    computed, read = (sweep(give, [0], resume=file) for _ in range(2))
    assert (computed.resumed, read.resumed) == (0, 1)
    assert identical(computed.values[0], value)
    assert identical(read.values[0], value)


ARRAYS = [
    np.linspace(0, 1, 7)[::2],
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([[1e-310, -0.0], [np.inf, np.nan]]),
    np.arange(3, dtype=np.int8),
    np.array([2**63], dtype=np.uint64),
    np.array([True, False]),
    np.array(["collapse", "x"]),
    np.array([1 + 2j]),
    np.zeros((0, 2)),
    np.array(3.0, dtype=">f4"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_arrays_come_back_as_they_were(tmp_path, array):
    file = tmp_path / "file"

    def give(x):
        return {"array": array, "again": (array, [array])}

    sweep(give, [0], resume=file)
    (value,) = sweep(give, [0], resume=file).values
    native = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    assert identical(value["array"], native)
    assert identical(value["again"][1][0], native)
    value["array"][...] = array  # not read-only


def test_results_of_this_package_come_back(tmp_path):
    file = tmp_path / "file"
    grid = {"a": [0.5, 0.25], "v": [-1.0, 0.0]}
    computed = sweep(functions.regime, grid, resume=file)
    read = sweep(functions.regime, grid, resume=file)
    assert read.resumed == 4
    assert read.values == computed.values
    verdict, undecided = read.values[:2]
    assert isinstance(verdict, Verdict)
    assert verdict.model == gct.GaussianTransformer(0.5, 1, -1)
    assert (verdict.regime, verdict.certified) == ("globally stable", True)
    assert (undecided.regime, undecided.certified, undecided.margin) == ("undecided", False, None)
    assert str(verdict).startswith("Globally stable: every Gaussian")
    assert str(undecided) == "Undecided: not certified"
    plain = sweep(functions.regime, grid)
    assert isinstance(plain.values[0], gct.Classification)
    for field in plain.fields:
        np.testing.assert_array_equal(plain.array(field), read.array(field))

    stack = gct.LayerStack([gct.GaussianTransformer(np.eye(2), np.eye(2), np.eye(2), dt=0.1)] * 2)
    factors = np.random.default_rng(0).standard_normal((4, 2, 1, 3))
    factored = gct.GaussianTransformer.from_weights(
        *factors[:3], factors[3].transpose(0, 2, 1), name="factored"
    )
    point = gct.find_equilibrium(gct.GaussianTransformer(1, 1, -1))
    results = [stack, factored, point]
    GIVEN["value"] = results
    models = sweep(pick, range(3), resume=tmp_path / "models")
    assert models.values[:2] == (stack, factored)
    assert type(models.values[1].heads) is type(factored.heads)
    assert isinstance(models.values[2], dict)
    assert models.values[2]["model"] == point.model
    np.testing.assert_array_equal(models.values[2]["covariance"], point.covariance)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({1, 2}, "set"),
        (b"raw", "bytes"),
        (np.array([None]), "object"),
        (np.ma.array([1.0], mask=[True]), "MaskedArray"),
        (np.longdouble(1), "longdouble"),
        ({"x": [0, {"y": object()}]}, r"object at x\[1\].y"),
        (1 << 20000, "int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_results_that_a_file_does_not_hold(tmp_path, value, named):
    GIVEN["value"] = value
    with pytest.raises(gct.ParameterError, match=f"function: at item 0, .*{named}.*resume out"):
        sweep(give, [0, 1], resume=tmp_path / "first")
    # After one that it does hold, it is that item's failure.
    result = sweep(give, [2, 1], resume=tmp_path / "second")
    assert result.values == (1.0, None)
    assert result.errors[0].type == "ParameterError"
    assert sweep(lambda x: value, [0, 1]).values[0] is value


def test_a_value_without_end_is_refused(tmp_path):
    endless = []
    endless.append(endless)
    GIVEN["value"] = endless
    with pytest.raises(gct.ParameterError, match=r"at item 0, .* nestings"):
        sweep(give, [0], resume=tmp_path / "file")
    with pytest.raises(gct.ParameterError, match=r"function: expected .* nestings"):
        sweep(lambda x: endless, [0], resume=tmp_path / "file")
