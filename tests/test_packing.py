"""The state of a moment system: packing it, and reading what a user calls one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import LAWS, dims, seeds

from gausscontrol import ParameterError, ShapeError, pack, unpack
from gausscontrol.model.packing import read_moments, state_dim


def test_pack_is_mean_then_lower_triangle():
    x = pack([1, 2], [[3, 4], [4, 5]])
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0, 4.0, 5.0])
    mean, covariance = unpack(x)
    np.testing.assert_array_equal(mean, [1.0, 2.0])
    np.testing.assert_array_equal(covariance, [[3.0, 4.0], [4.0, 5.0]])


def test_pack_takes_scalars_at_dimension_one():
    np.testing.assert_array_equal(pack(1, 2), [1.0, 2.0])
    np.testing.assert_array_equal(pack([1], [[2]]), [1.0, 2.0])


@LAWS
@given(seeds, dims, st.sampled_from([(), (1,), (4,)]))
def test_pack_round_trip_with_time_on_the_last_axis(seed, dim, times):
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal((dim, *times))
    covariance = rng.standard_normal((dim, dim, *times))
    covariance = covariance + covariance.swapaxes(0, 1)
    x = pack(mean, covariance)
    assert x.shape == (dim * (dim + 3) // 2, *times)
    for value, expected in zip(unpack(x), (mean, covariance), strict=True):
        np.testing.assert_array_equal(value, expected)
    if times:
        np.testing.assert_array_equal(x[:, 0], pack(mean[:, 0], covariance[:, :, 0]))


def test_pack_accepts_what_is_symmetric_but_no_covariance():
    np.testing.assert_array_equal(pack([0.0], [[-1.0]]), [0.0, -1.0])


def test_packing_copies():
    mean, covariance = np.ones(2), np.eye(2)
    x = pack(mean, covariance)
    x[:] = 7
    new_mean, new_covariance = unpack(x)
    new_mean[:] = new_covariance[:] = 9
    assert (x == 7).all()
    np.testing.assert_array_equal(covariance, np.eye(2))
    np.testing.assert_array_equal(mean, np.ones(2))


@pytest.mark.parametrize(
    ("mean", "covariance", "name", "error"),
    [
        ([0.0, 0.0], np.eye(3), "covariance", ShapeError),
        ([0.0, 0.0], np.zeros((2, 3)), "covariance", ShapeError),
        ([0.0, 0.0], 1.0, "covariance", ShapeError),
        ([0.0, 0.0], np.zeros((2, 2, 3)), "covariance", ShapeError),
        (np.zeros((2, 4)), np.zeros((2, 2, 3)), "covariance", ShapeError),
        (np.zeros((2, 3)), np.zeros((3, 2, 2)), "covariance", ShapeError),
        ([], np.zeros((0, 0)), "mean", ShapeError),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], "covariance", ParameterError),
        (np.zeros((2, 1)), [[[1.0], [0.5]], [[0.0], [1.0]]], "covariance", ParameterError),
        ([0.0, np.nan], np.eye(2), "mean", ParameterError),
        ([0.0, 0.0], np.eye(2) * 1j, "covariance", ParameterError),
        ([True, False], np.eye(2), "mean", ParameterError),
        ([None, None], np.eye(2), "mean", ParameterError),
    ],
)
def test_pack_refuses_by_name(mean, covariance, name, error):
    with pytest.raises(error, match=f"^{name}: expected .*found .*; ") as caught:
        pack(mean, covariance)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dim", range(1, 40))
def test_state_dim_of_every_size(dim):
    assert state_dim(dim * (dim + 3) // 2) == dim


@pytest.mark.parametrize("entries", [0, 1, 3, 4, 6, 10, 13])
def test_states_of_no_dimension_are_refused(entries):
    with pytest.raises(ShapeError, match=rf"^x: expected .* entries .*found {entries}; "):
        unpack(np.zeros(entries))


@pytest.mark.parametrize("x", [[np.nan, 1.0], [1j, 1.0], [True, False], [None, None]])
def test_unpack_refuses_bad_entries(x):
    with pytest.raises(ParameterError, match=r"^x: expected"):
        unpack(x)


# -- reading what a user calls a state ------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        ([1, 2], [[3, 1], [1, 4]]),
        [np.array([1, 2]), np.array([[3, 1], [1, 4]])],
        (np.array([[1], [2]]), [[3, 1], [1, 4]]),
        [1, 2, 3, 1, 4],
        np.array([1.0, 2.0, 3.0, 1.0, 4.0]),
    ],
    ids=["tuple", "list", "column", "packed list", "packed array"],
)
def test_pairs_and_packed_states_read_the_same(value):
    mean, covariance = read_moments(value, "initial", 2)
    np.testing.assert_array_equal(mean, [1.0, 2.0])
    np.testing.assert_array_equal(covariance, [[3.0, 1.0], [1.0, 4.0]])


@pytest.mark.parametrize(
    "value",
    [(1, 2), [1, 2], np.array([1, 2]), ([1], 2), (1, [[2]]), ([1], [[2]]), (1.0, np.array([[2]]))],
    ids=repr,
)
def test_dimension_one_in_every_spelling(value):
    mean, covariance = read_moments(value, "initial", 1)
    np.testing.assert_array_equal(mean, [1.0])
    np.testing.assert_array_equal(covariance, [[2.0]])


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (([0.0], np.eye(2)), ShapeError, r"initial mean: expected a vector of 2 entries"),
        (([0.0, 0.0], np.eye(3)), ShapeError, r"initial covariance: expected a 2 x 2 matrix"),
        (([0.0, 0.0], 1.0), ShapeError, r"initial covariance: expected a 2 x 2 matrix"),
        (np.zeros(4), ShapeError, r"initial: expected \(mean, covariance\) or a packed state of 5"),
        (np.zeros((5, 1)), ShapeError, r"initial: expected \(mean, covariance\) or a packed"),
        (np.eye(2), ShapeError, r"initial: expected \(mean, covariance\) or a packed state"),
        (3.0, ShapeError, r"initial: expected \(mean, covariance\) or a packed state"),
        (None, ParameterError, r"initial: expected real numbers"),
        (([0.0, 0.0], -np.eye(2)), ParameterError, r"initial covariance: expected a positive"),
        ([0, 0, -1, 0, 1], ParameterError, r"initial covariance: expected a positive"),
        (([0, 0], [[1, 1], [0, 1]]), ParameterError, r"initial covariance: expected a symmetric"),
        (([np.inf, 0], np.eye(2)), ParameterError, r"initial mean: expected finite numbers"),
        (([0, 0], [[1], [0, 1]]), ShapeError, r"initial covariance: expected a rectangular"),
    ],
)
def test_bad_states_are_refused_by_name(value, error, message):
    with pytest.raises(error, match=f"^{message}.*found .*; ") as caught:
        read_moments(value, "initial", 2)
    assert "\n" not in str(caught.value)
