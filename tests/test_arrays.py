"""Validation of arrays: what is accepted becomes a fresh float array, the rest a clear error."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from gausscontrol import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, real_matrix, real_vector, symmetric_matrix

READERS = [real_array, real_matrix, real_vector, symmetric_matrix]
MATRIX_READERS = [real_matrix, symmetric_matrix]

BAD_ENTRIES = {
    "complex": (np.eye(2) * 1j, ParameterError, "complex numbers"),
    "object": (np.array([[1, None], [None, 1]]), ParameterError, "objects"),
    "huge integers": ([[10**30, 0], [0, 1]], ParameterError, "objects"),
    "sparse": (scipy.sparse.eye_array(2), ParameterError, "objects"),
    "none": (None, ParameterError, "None"),
    "boolean": (np.eye(2, dtype=bool), ParameterError, "booleans"),
    "text": ([["1", "0"], ["0", "1"]], ParameterError, "entries of type"),
    "dates": (np.zeros((2, 2), dtype="M8[s]"), ParameterError, "entries of type"),
    "nan": ([[1.0, np.nan], [np.nan, 1.0]], ParameterError, "2 NaN or infinite of 4 entries"),
    "infinite": ([[np.inf, 0.0], [0.0, 1.0]], ParameterError, "1 NaN or infinite of 4 entries"),
    "ragged": ([[1.0, 2.0], [3.0]], ShapeError, "rows of different lengths"),
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", BAD_ENTRIES)
def test_bad_entries_are_refused_by_name(read, kind):
    value, error, found = BAD_ENTRIES[kind]
    with pytest.raises(error, match=f"^gain: expected .*found .*{found}.*; ") as caught:
        read(value, "gain")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", READERS)
def test_errors_are_value_errors(read):
    with pytest.raises(ValueError, match="gain"):
        read([[1j]], "gain")


@pytest.mark.parametrize("read", [real_array, real_matrix, symmetric_matrix])
@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float32, np.longdouble])
def test_every_real_type_becomes_float(read, dtype):
    matrix = read(np.array([[2, 1], [1, 3]], dtype=dtype), "gain")
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, [[2.0, 1.0], [1.0, 3.0]])


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("dtype", [int, float])
def test_result_is_a_copy_and_the_input_is_left_alone(read, dtype):
    value = np.ones((1, 1), dtype=dtype)
    value.flags.writeable = False
    result = read(value, "gain")
    assert not np.shares_memory(result, value)
    result += 1
    assert value[0, 0] == 1


def test_subclasses_are_not_passed_on():
    class Tagged(np.ndarray):
        pass

    assert type(real_matrix(np.eye(2).view(Tagged), "gain")) is np.ndarray


def test_masked_entries_are_refused():
    masked = np.ma.array(np.eye(2), mask=np.eye(2))
    with pytest.raises(ParameterError, match="A: expected every entry, found 2 of 4 masked"):
        real_array(masked, "A")
    assert type(real_array(np.ma.array(np.eye(2)), "A")) is np.ndarray


def test_any_number_of_axes():
    for shape in [(), (3,), (0,), (2, 3, 4)]:
        assert real_array(np.zeros(shape), "gain").shape == shape


@pytest.mark.parametrize("read", MATRIX_READERS)
def test_a_scalar_is_a_matrix_of_one_entry(read):
    np.testing.assert_array_equal(read(3, "gain"), [[3.0]])


@pytest.mark.parametrize("read", MATRIX_READERS)
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (1, 2), (2,), (0,), (0, 0), (0, 2), (2, 2, 2)])
def test_square_is_required_unless_a_shape_is_given(read, shape):
    with pytest.raises(ShapeError, match=r"^gain: expected .*found shape .*; "):
        read(np.zeros(shape), "gain")


def test_wanted_shape():
    assert real_matrix(np.zeros((2, 3)), "gain", (2, 3)).shape == (2, 3)
    assert real_matrix(np.zeros((2, 3)), "gain", (None, 3)).shape == (2, 3)
    assert real_matrix(np.zeros((2, 3)), "gain", (None, None)).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"^gain: expected a 3 x any matrix, found shape \(2, 3\)"):
        real_matrix(np.zeros((2, 3)), "gain", (3, None))
    with pytest.raises(ShapeError, match=r"^gain: expected a 2 x 2 matrix, found shape \(1, 1\)"):
        real_matrix(3.0, "gain", (2, 2))


@pytest.mark.parametrize("value", [[1, 2, 3], [[1, 2, 3]], [[1], [2], [3]]])
def test_rows_and_columns_are_vectors(value):
    np.testing.assert_array_equal(real_vector(value, "bias", 3), [1.0, 2.0, 3.0])


def test_a_scalar_is_a_vector_of_one_entry():
    np.testing.assert_array_equal(real_vector(2, "bias"), [2.0])


@pytest.mark.parametrize("shape", [(0,), (0, 1), (2, 2), (1, 1, 2)])
def test_not_a_vector(shape):
    with pytest.raises(ShapeError, match=r"^bias: expected a vector, found shape .*; "):
        real_vector(np.zeros(shape), "bias")


@pytest.mark.parametrize("value", [[1.0, 2.0], 1.0, np.zeros((1, 4))])
def test_vector_of_the_wrong_size(value):
    found = r"^bias: expected a vector of 3 entries, found (shape|one number)"
    with pytest.raises(ShapeError, match=found):
        real_vector(value, "bias", 3)


def test_rounding_level_asymmetry_is_averaged():
    matrix = symmetric_matrix([[1.0, 2.0 + 4e-9], [2.0, 5.0]], "covariance")
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix[0, 1], 2.0 + 2e-9, rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_symmetry_is_judged_relative_to_the_largest_entry(scale):
    symmetric_matrix(scale * np.array([[1.0, 0.9e-8], [0.0, 1.0]]), "covariance")
    with pytest.raises(ParameterError, match=r"^covariance: expected a symmetric matrix, found"):
        symmetric_matrix(scale * np.array([[1.0, 1.1e-8], [0.0, 1.0]]), "covariance")


def test_symmetric_size():
    assert symmetric_matrix(np.eye(3), "covariance", 3).shape == (3, 3)
    with pytest.raises(ShapeError, match=r"^covariance: expected a 3 x 3 matrix"):
        symmetric_matrix(np.eye(2), "covariance", 3)


def test_zero_is_symmetric():
    np.testing.assert_array_equal(symmetric_matrix(np.zeros((2, 2)), "covariance"), 0)


def test_what_is_not_there_is_said_to_be_none():
    with pytest.raises(ParameterError, match=r"V: expected real numbers, found None; pass"):
        real_array(None, "V")


def test_a_number_in_place_of_a_vector_is_said_to_be_one():
    with pytest.raises(ShapeError, match=r"b: expected a vector of 2 entries, found one number; "):
        real_vector(1.0, "b", 2)
