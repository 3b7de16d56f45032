"""What a sweep returns: arrays, labels and a report."""

import sys

import numpy as np
import pytest
import sweep_functions as functions
from sweep_functions import GIVEN, give, pick

import gausscontrol as gct
from gausscontrol.sweeps.result import SweepResult
from gausscontrol.sweeps.sweep import sweep

# -- arrays ---------------------------------------------------------------------------------------


def test_arrays_of_results():
    result = sweep(functions.table, {"x": [1, 2]})
    assert result.fields == ("half", "row", "name")
    np.testing.assert_array_equal(result.array("half"), [0.5, 1.0])
    np.testing.assert_array_equal(result.array("row"), [[0, 1, 2], [0, 2, 4]])
    assert result.array("name").tolist() == ["n1", "n2"]
    assert result.array(lambda value: value["half"] > 0.7).tolist() == [False, True]
    assert result.array().dtype == object
    with pytest.raises(gct.ParameterError, match="found 'colour' at item 0, a dict; its parts are"):
        result.array("colour")
    with pytest.raises(gct.ParameterError, match="a float; it has no parts"):
        sweep(functions.affine, [(1, 2)]).array("colour")
    assert sweep(functions.affine, [(1, 2)]).array("real").tolist() == [4.0]


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (1, np.array([1.0, np.nan])),
        (True, np.array([True, None])),
        ("a", np.array(["a", None])),
        (np.ones(2), np.array([[1, 1], [np.nan, np.nan]])),
        ([1], None),
    ],
)
def test_missing_entries(present, expected):
    def half(x):
        if x:
            raise ValueError
        return present

    array = sweep(half, [0, 1]).array()
    if expected is None:
        assert array.tolist() == [[1], None]
    else:
        np.testing.assert_array_equal(array, expected)
        assert array.dtype.kind == expected.dtype.kind


def test_masked_values_are_missing():
    GIVEN["value"] = np.ma.array([1, 2], mask=[False, True])
    np.testing.assert_array_equal(sweep(give, [0, 1]).array(), [[1, np.nan]] * 2)
    GIVEN["value"] = np.ma.array(["a", "b"], mask=[False, True])
    assert sweep(lambda x: GIVEN["value"], [0]).array()[0].tolist() == ["a", None]
    GIVEN["value"] = np.ma.masked
    assert np.isnan(sweep(give, [0, 2]).array()[0])


@pytest.mark.parametrize(
    "values", [[2**53 + 1, 0.5], [2**63 + 1, -1], [2**53 + 1, None], [2**64, 1], [2**53 + 1, 1j]]
)
def test_integers_that_no_float_equals_stay(values):
    GIVEN["value"] = values
    array = sweep(pick, [0, 1]).array()
    assert array.tolist() == values
    assert array.dtype == object


def test_integers_beside_floats_that_equal_them():
    GIVEN["value"] = [2**60, 0.5, None]
    array = sweep(pick, range(3)).array()
    assert array.dtype == float
    np.testing.assert_array_equal(array, [2.0**60, 0.5, np.nan])


def test_a_sweep_in_which_all_fails():
    result = sweep(functions.fail_at_odd, [1, 3])
    assert result.array().tolist() == [None, None]
    assert result.fields == ()
    assert result.failed.all()
    assert repr(result) == "<SweepResult: Sweep of sweep_functions.fail_at_odd over 2 points>"


def test_failed_is_read_only():
    result = sweep(functions.square, [1])
    with pytest.raises(ValueError, match="read-only"):
        result.failed[0] = True


# -- labels ---------------------------------------------------------------------------------------


def test_xarray():
    result = sweep(functions.affine, {"a": [1, 2], "b": [0.0, 0.5]})
    array = result.to_xarray()
    assert (array.dims, array.name) == (("a", "b"), "affine")
    assert float(array.sel(a=2, b=0.5)) == 4.5
    table = sweep(functions.table, {"x": [1, 2]}).to_xarray()
    assert set(table.data_vars) == {"half", "row", "name"}
    assert table["row"].dims == ("x", "dim_0")
    assert not table["failed"].any()
    failing = sweep(functions.fail_at_odd, {"x": range(4)}).to_xarray()
    assert failing["failed"].values.tolist() == [False, True] * 2
    listed = sweep(functions.affine, [(1, 2), (3, 4)]).to_xarray()
    assert listed.dims == ("item",)

    def clash(x, failed):
        return {"x": np.ones(2), "y": np.ones(3), "failed": failed}

    mixed = sweep(clash, {"x": [object()], "failed": [1, 2]}).to_xarray()
    assert mixed["y"].dims == ("x", "failed", "y_dim_0")
    assert mixed["failed_"].dims == ("x", "failed")
    assert set(mixed.data_vars) == {"x_", "y", "failed__"}


def test_xarray_names_that_are_taken():
    def row(dim_0):
        return np.arange(3)

    assert sweep(row, {"dim_0": [1, 2]}).to_xarray().dims == ("dim_0", "dim_0_")

    def fields(x):
        return {"dim_0": np.ones(2), "": 1.0, "dim_0_": 2.0}

    table = sweep(fields, {"x": [1, "a"]}).to_xarray()
    assert set(table.data_vars) == {"dim_0_", "", "dim_0__"}
    assert table["dim_0_"].dims == ("x", "dim_0")
    assert table["x"].values.tolist() == [1, "a"]
    assert float(table[""].sel(x=1)) == 1.0


def test_pandas():
    frame = sweep(functions.table, {"x": [1, 2]}).to_pandas()
    assert list(frame.columns) == ["x", "half", "row", "name", "error"]
    assert frame["half"].tolist() == [0.5, 1.0]
    np.testing.assert_array_equal(frame["row"][1], [0, 2, 4])
    failing = sweep(functions.fail_at_odd, range(2)).to_pandas()
    assert list(failing.columns) == ["point", "value", "error"]
    assert failing["error"].tolist() == [None, "Unreturnable: this and 1"]
    tuples = sweep(functions.affine, [(1, 2)]).to_pandas()
    assert list(tuples.columns) == ["point_0", "point_1", "value", "error"]
    same = sweep(lambda value, error: value, {"value": [1], "error": [2]}).to_pandas()
    assert list(same.columns) == ["value", "error", "value_", "error_"]


def test_labels_by_what_is_installed(monkeypatch):
    grid = sweep(functions.affine, {"a": [1, 2], "b": [0.0, 0.5]})
    points = sweep(functions.affine, [(1, 2)])
    assert type(grid.labelled).__name__ == "DataArray"
    assert type(points.labelled).__name__ == "DataFrame"
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(points.labelled).__name__ == "DataArray"
    monkeypatch.setitem(sys.modules, "xarray", None)
    np.testing.assert_array_equal(grid.labelled, grid.array())
    assert isinstance(points.labelled, np.ndarray)
    with pytest.raises(gct.ParameterError, match="expected xarray to be installed"):
        grid.to_xarray()
    with pytest.raises(gct.ParameterError, match="expected pandas to be installed"):
        grid.to_pandas()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "xarray", None)
    assert type(grid.labelled).__name__ == "DataFrame"


# -- report ---------------------------------------------------------------------------------------


def test_report(tmp_path):
    grid = {"a": [1, 2], "b": [0.0, 0.5, 1.0]}
    sweep(functions.affine, grid, resume=tmp_path / "file")
    result = sweep(functions.affine, grid, resume=tmp_path / "file")
    assert str(result) == (
        "Sweep of sweep_functions.affine over a (2) x b (3)\n"
        "  finished  6 of 6, of which 6 read from the file\n"
        "  seed      0"
    )
    assert isinstance(result, SweepResult)
    assert str(sweep(functions.square, [1, 2])).startswith(
        "Sweep of sweep_functions.square over 2 points"
    )
    assert "<th" in result._repr_html_()
    long = sweep(functions.fail_at_odd, [{"x": 10**80 + 1}])
    assert "..." in str(long)
