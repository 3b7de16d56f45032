"""The points of a sweep, and the seed of each item."""

from functools import partial

import numpy as np
import pytest
import sweep_functions as functions
from sweep_functions import Immediate

import gausscontrol as gct
from gausscontrol.sweeps.sweep import sweep


def test_a_grid_is_every_combination_last_fastest():
    result = sweep(functions.affine, {"a": [1, 2], "b": np.array([0.0, 0.5, 1.0])})
    assert result.shape == (2, 3)
    assert result.points[:2] == ({"a": 1, "b": 0.0}, {"a": 1, "b": 0.5})
    assert result.values == (2.0, 2.5, 3.0, 4.0, 4.5, 5.0)
    assert result.grid == {"a": (1, 2), "b": (0.0, 0.5, 1.0)}
    np.testing.assert_array_equal(result.array(), [[2.0, 2.5, 3.0], [4.0, 4.5, 5.0]])
    assert not result.failed.any()
    assert len(result) == 6


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([{"a": 1, "b": 2}, {"b": 0, "a": 3}], (4.0, 6.0)),
        ([(1, 2), (3, 0)], (4.0, 6.0)),
        (iter([(1, 2)]), (4.0,)),
    ],
)
def test_points_by_name_and_by_position(points, expected):
    result = sweep(functions.affine, points)
    assert result.values == expected
    assert result.grid is None
    assert result.shape == (len(expected),)


def test_single_arguments_may_be_anything():
    models = [gct.GaussianTransformer(1, 1, -1), gct.GaussianTransformer(-1, 1, -1)]
    result = sweep(partial(gct.classify, sdp=False), models)
    assert result.array("regime").tolist() == ["globally stable", "collapse"]
    rows = sweep(np.sum, np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert rows.values == (3.0, 7.0)


def test_nothing_that_is_passed_in_changes():
    axis = np.array([1.0, 2.0])
    grid = {"a": axis, "b": [1]}
    result = sweep(functions.affine, grid)
    axis[0] = 9.0
    grid["c"] = [1]
    assert result.points[0] == {"a": 1.0, "b": 1}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "grid: expected at least one parameter"),
        ([], "grid: expected at least one point"),
        ("abc", "grid: expected a mapping of names to values or a list of points, found str"),
        (3.0, "grid: expected a mapping .* found float"),
        (np.array(3.0), "grid: expected a mapping .* found ndarray"),
        ({"x": 1.0}, r"grid\['x'\]: expected a list of values, found float"),
        ({"x": "abc"}, r"grid\['x'\]: expected a list of values, found str"),
        ({"x": []}, r"grid\['x'\]: expected at least one value"),
        ({1: [2]}, "grid: expected names of parameters, found the key 1"),
        ([{"x": 1}, {"y": 1}], r"grid\[1\]: expected a mapping with the names of the first"),
        ([{"x": 1}, 2], r"grid\[1\]: expected a mapping .* found int"),
        ([(1,), (1, 2)], "grid: expected points of one kind"),
        ([(1,), 2], "grid: expected points of one kind"),
        ([{1: 2}], "grid: expected names of parameters"),
        ({"y": [1]}, r"function: expected one that takes the parameters of the grid \(y\)"),
        ([(1, 2)], r"function: expected one .* \(2 by position\), found too many"),
    ],
)
def test_bad_grids(grid, message):
    with pytest.raises(gct.ParameterError, match=message):
        sweep(functions.square, grid)


# -- seeds ----------------------------------------------------------------------------------------


def test_seeds_do_not_depend_on_the_order_or_on_what_is_done(tmp_path):
    backwards = sweep(functions.draw_seed, range(9), executor=Immediate(order=9))
    here = sweep(functions.draw_seed, range(9))
    assert backwards.values == here.values
    assert len(set(here.values)) == 9
    assert all(0 <= seed < 2**64 for seed in here.values)
    file = tmp_path / "file"
    sweep(functions.draw_seed, range(9), resume=file)
    kept = file.read_text().splitlines(keepends=True)
    file.write_text("".join(kept[:1] + kept[3:4] + kept[8:9]))
    assert sweep(functions.draw_seed, range(9), resume=file).values == here.values


def test_seeds_go_where_they_are_asked_for():
    def both(x, *, rng, seed=5):
        return rng.random(), seed

    def any_keyword(**given):
        return sorted(given)

    assert sweep(both, [1]).values[0][1] != 5
    assert sweep(both, [{"x": 1, "seed": 2}]).values[0][1] == 2
    assert sweep(partial(both, seed=3), [1]).values[0][1] == 3
    assert sweep(any_keyword, {"x": [1]}).values == (["x"],)
    assert sweep(lambda seed: seed, [11, 12]).values == (11, 12)
    assert sweep(max, [[1, 2]]).values == (2,)  # no signature to read
