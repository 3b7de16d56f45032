"""Symmetric matrices as vectors, operators on them, factors and whitening."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import random_covariance

import gausscontrol as gct
from gausscontrol import ParameterError, ShapeError
from gausscontrol.linalg.symmetric import (
    covariance_matrix,
    factor,
    is_positive_definite,
    positive_spectrum,
    smat,
    svec,
    symmetric_size,
    unvech,
    vech,
    vech_index,
    whitening,
)

law = settings(derandomize=True, deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)
dims = st.integers(1, 7)


@st.composite
def symmetric_matrices(draw, dim=dims, trailing=()):
    size = draw(dim)
    numbers = st.floats(-1e3, 1e3)
    matrix = draw(hnp.arrays(float, (size, size, *trailing), elements=numbers))
    return matrix + matrix.swapaxes(0, 1)


# -- vech and svec --------------------------------------------------------------------------------


def test_vech_reads_the_lower_triangle_column_by_column():
    matrix = [[1, 9, 9], [2, 4, 9], [3, 5, 6]]
    np.testing.assert_array_equal(vech(matrix), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    np.testing.assert_array_equal(unvech([1, 2, 3, 4, 5, 6]), [[1, 2, 3], [2, 4, 5], [3, 5, 6]])
    np.testing.assert_array_equal(unvech(7), [[7.0]])


def test_public_names():
    assert gct.vech is vech
    assert gct.unvech is unvech


@law
@given(symmetric_matrices())
def test_vech_round_trip(matrix):
    np.testing.assert_array_equal(unvech(vech(matrix)), matrix)
    np.testing.assert_array_equal(vech(unvech(vech(matrix))), vech(matrix))


@law
@given(symmetric_matrices(trailing=(4,)))
def test_time_stays_on_the_last_axis(matrices):
    for to_vector, to_matrix in [(vech, unvech), (svec, smat)]:
        vectors = to_vector(matrices)
        for time in range(4):
            np.testing.assert_array_equal(vectors[:, time], to_vector(matrices[..., time]))
        np.testing.assert_allclose(to_matrix(vectors), matrices, rtol=1e-15)


def test_svec_with_as_many_times_as_entries():
    # (n, N) times the weights would broadcast the wrong way, silently, where N = n.
    matrices = np.random.default_rng(0).standard_normal((2, 2, 3))
    np.testing.assert_array_equal(svec(matrices)[:, 1], svec(matrices[..., 1]))
    np.testing.assert_allclose(smat(svec(matrices))[1, 0], matrices[1, 0])


@law
@given(seeds, dims)
def test_svec_is_an_isometry(seed, dim):
    X, Y = np.random.default_rng(seed).standard_normal((2, dim, dim))
    X, Y = X + X.T, Y + Y.T
    np.testing.assert_allclose(svec(X) @ svec(Y), np.trace(X @ Y), rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(svec(X)), np.linalg.norm(X), rtol=1e-14)
    np.testing.assert_allclose(smat(svec(X)), X, rtol=1e-15)


@pytest.mark.parametrize("dim", range(1, 40))
def test_symmetric_size_of_every_length(dim):
    assert symmetric_size(dim * (dim + 1) // 2) == dim


@pytest.mark.parametrize("entries", [0, 2, 4, 5, 7, 8, 9, 11, 1000001])
def test_other_lengths_are_refused(entries):
    with pytest.raises(ShapeError, match=rf"^x: expected d\(d\+1\)/2 entries .*found {entries}; "):
        symmetric_size(entries, "x")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 0), (3, 2, 4)])
def test_vech_needs_square_matrices(shape):
    with pytest.raises(ShapeError, match=r"^matrix: expected shape"):
        vech(np.zeros(shape))


@pytest.mark.parametrize("shape", [(0,), (2,), (4, 6)])
def test_unvech_needs_a_triangular_length(shape):
    with pytest.raises(ShapeError, match=r"^vector: expected"):
        unvech(np.zeros(shape))


@pytest.mark.parametrize(("read", "name"), [(vech, "matrix"), (unvech, "vector")])
@pytest.mark.parametrize("value", [[[np.nan]], [[1j]], [[True]], [[None]]])
def test_vech_refuses_bad_entries(read, name, value):
    with pytest.raises(ParameterError, match=f"^{name}: expected"):
        read(value)


def test_index_arrays_cannot_be_spoilt():
    with pytest.raises(ValueError, match="read-only"):
        vech_index(3).low[0] = 1


# -- covariances ----------------------------------------------------------------------------------


def test_good_covariances_pass_unchanged():
    for value in ([[2, 1], [1, 2]], [[0, 0], [0, 0]], [[1, 0], [0, 0]], 3):
        np.testing.assert_array_equal(covariance_matrix(value), np.atleast_2d(value))


def test_covariance_is_a_copy():
    value = np.eye(2)
    covariance_matrix(value)[0, 0] = 5
    assert value[0, 0] == 1


def test_rounding_level_negative_eigenvalues_are_clipped():
    covariance = covariance_matrix(np.diag([1.0, -1e-11]))
    np.testing.assert_allclose(covariance, np.diag([1.0, 0.0]), atol=1e-15)


@pytest.mark.parametrize(
    "value", [-np.eye(2), np.diag([1.0, -1e-9]), [[0.0, 1.0], [1.0, 0.0]], -1e-300]
)
def test_indefinite_covariances_are_refused(value):
    with pytest.raises(ParameterError, match=r"^start: expected a positive semidefinite matrix"):
        covariance_matrix(value, "start")


def test_asymmetric_covariances_are_refused():
    with pytest.raises(ParameterError, match=r"^start: expected a symmetric matrix"):
        covariance_matrix([[1.0, 0.1], [0.0, 1.0]], "start")


@pytest.mark.parametrize("value", [np.eye(3), np.zeros((0, 0)), np.zeros((2, 3)), [1.0, 2.0]])
def test_covariances_of_the_wrong_shape_are_refused(value):
    with pytest.raises(ShapeError, match=r"^start: expected"):
        covariance_matrix(value, "start", 2)


@law
@given(seeds, dims)
def test_spectrum_rebuilds_the_matrix(seed, dim):
    covariance = random_covariance(np.random.default_rng(seed), dim)
    values, vectors = positive_spectrum(covariance, "covariance")
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(vectors * values @ vectors.T, covariance, atol=1e-12)


# -- factors and whitening ------------------------------------------------------------------------


@law
@given(seeds, dims, dims)
def test_factor_has_the_rank_of_its_covariance(seed, dim, rank):
    rank = min(rank, dim)
    covariance = random_covariance(np.random.default_rng(seed), dim, rank=rank)
    L = factor(covariance)
    assert L.shape == (dim, rank)
    np.testing.assert_allclose(L @ L.T, covariance, atol=1e-12)
    lengths = np.linalg.norm(L, axis=0)
    assert (np.diff(lengths) <= 0).all()


@pytest.mark.parametrize("dim", [2, 8, 64, 200])
def test_an_outer_product_has_rank_one(dim):
    u = np.random.default_rng(dim).standard_normal(dim)
    assert factor(np.outer(u, u)).shape == (dim, 1)


def test_zero_has_a_factor_without_columns():
    L = factor(np.zeros((3, 3)))
    assert L.shape == (3, 0)
    np.testing.assert_array_equal(L @ L.T, np.zeros((3, 3)))


def test_factor_of_a_given_rank():
    covariance = np.diag([4.0, 9.0, 1.0])
    np.testing.assert_allclose(np.abs(factor(covariance, 1)), [[0], [3], [0]], atol=1e-15)
    assert factor(np.diag([1.0, 0.0]), 2).shape == (2, 2)
    assert factor(covariance, 0).shape == (3, 0)


@pytest.mark.parametrize("rank", [-1, 4])
def test_factor_of_an_impossible_rank(rank):
    with pytest.raises(ParameterError, match=f"^rank: expected .* from 0 to 3, found {rank}; "):
        factor(np.eye(3), rank)


@law
@given(seeds, dims)
def test_whitening_makes_the_identity(seed, dim):
    covariance = random_covariance(np.random.default_rng(seed), dim, condition=1e4)
    R, R_inverse = whitening(covariance)
    np.testing.assert_array_equal(R, R.T)
    np.testing.assert_allclose(R @ covariance @ R.T, np.eye(dim), atol=1e-11)
    np.testing.assert_allclose(R_inverse @ R_inverse, covariance, atol=1e-11)
    np.testing.assert_allclose(R @ R_inverse, np.eye(dim), atol=1e-11)


@pytest.mark.parametrize("covariance", [np.zeros((2, 2)), np.diag([1.0, 0.0]), np.ones((2, 2))])
def test_whitening_needs_full_rank(covariance):
    with pytest.raises(ParameterError, match=r"^Sigma: expected a positive definite matrix"):
        whitening(covariance, "Sigma")


def test_positive_definite():
    assert is_positive_definite(np.diag([1e-300, 1.0]))
    for matrix in (np.diag([1.0, 0.0]), np.diag([1.0, -1e-300]), -np.eye(2), np.zeros((1, 1))):
        assert not is_positive_definite(matrix)


def test_nothing_with_nan_is_positive_definite():
    assert not is_positive_definite(np.full((3, 3), np.nan))
    assert not is_positive_definite(np.diag([1.0, np.inf]))
