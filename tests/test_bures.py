"""Distances and maps between covariances, singular ones above all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import LAWS, dims, relative, seeds

from gausscontrol.errors import ParameterError, ShapeError, UnreachableError
from gausscontrol.linalg.bures import (
    align,
    bures_wasserstein,
    equilibrated_factor,
    optimal_transport_map,
    ranked_factor,
    read_covariance,
    relative_spectrum,
)


def covariance(rng, d, r=None):
    L = rng.standard_normal((d, r or d))
    return L @ L.T


def test_known_distances():
    # POT test_gaussian, ott gaussian_test
    assert bures_wasserstein(([0.0], [[1.0]]), ([10.0], [[1.0]])) == 10
    assert bures_wasserstein((0.0, 1.0), (1.0, 4.0)) == pytest.approx(np.sqrt(2), rel=1e-15)
    assert bures_wasserstein(1.0, 4.0) == 1


def test_commuting_covariances_at_any_rank():
    a, b = np.array([4.0, 1.0, 0.0, 9.0, 0.0]), np.array([1.0, 2.0, 3.0, 0.0, 0.0])
    expected = np.sqrt(np.sum((np.sqrt(a) - np.sqrt(b)) ** 2))
    assert bures_wasserstein(np.diag(a), np.diag(b)) == pytest.approx(expected, rel=1e-15)
    R = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    rotated = bures_wasserstein(*((R * v) @ R.T for v in (a, b)))
    assert rotated == pytest.approx(expected, rel=1e-14)


def test_tiny_eigenvalues_of_a_diagonal_matrix_are_data():
    distance = bures_wasserstein(np.diag([1.0, 1e-20]), np.diag([1.0, 0.0]))
    assert distance == pytest.approx(1e-10, rel=1e-14)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_equal_arguments_are_at_distance_zero(rank):
    S = covariance(np.random.default_rng(rank), 5, rank)
    assert bures_wasserstein(S, S) == 0
    assert bures_wasserstein((np.ones(5), S), (np.ones(5), S.copy())) == 0


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_two_roundings_of_one_matrix_are_near(rank):
    rng = np.random.default_rng(rank)
    L = rng.standard_normal((5, rank))
    Q = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    assert bures_wasserstein(L @ L.T, (L @ Q) @ (L @ Q).T) < 1e-13


def test_close_matrices_keep_their_digits():
    # A difference of traces would return about 1e-8 here.
    S = covariance(np.random.default_rng(1), 4)
    expected = np.sqrt(np.trace(S)) * (np.sqrt(1 + 1e-10) - 1)
    assert bures_wasserstein(S, (1 + 1e-10) * S) == pytest.approx(expected, rel=1e-5)


@LAWS
@given(dims, seeds)
def test_formula_with_roots(d, seed):
    rng = np.random.default_rng(seed)
    P, Q = covariance(rng, d) + np.eye(d), covariance(rng, d)
    values, vectors = np.linalg.eigh(P)
    root = (vectors * np.sqrt(values)) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ Q @ root), 0)).sum()
    expected = np.sqrt(max(np.trace(P) + np.trace(Q) - 2 * cross, 0))
    assert bures_wasserstein(P, Q) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@LAWS
@given(dims, seeds, st.integers(1, 6), st.integers(1, 6))
def test_metric(d, seed, first, second):
    rng = np.random.default_rng(seed)
    P, Q, R = (covariance(rng, d, min(r, d)) for r in (first, second, d))
    assert bures_wasserstein(P, Q) == pytest.approx(bures_wasserstein(Q, P), rel=1e-12)
    assert bures_wasserstein(P, Q) <= (
        bures_wasserstein(P, R) + bures_wasserstein(R, Q) + 1e-12 * np.trace(P + Q + R)
    )


@LAWS
@given(dims, seeds)
def test_distance_scales_with_the_unit(d, seed):
    rng = np.random.default_rng(seed)
    P, Q = covariance(rng, d), covariance(rng, d)
    expected = 1e-7 * bures_wasserstein(P, Q)
    assert bures_wasserstein(1e-14 * P, 1e-14 * Q) == pytest.approx(expected, rel=1e-10)


@LAWS
@given(dims, seeds)
def test_map_of_positive_definite_covariances(d, seed):
    rng = np.random.default_rng(seed)
    P, Q = covariance(rng, d) + 0.1 * np.eye(d), covariance(rng, d)
    T = optimal_transport_map(P, Q)
    assert np.array_equal(T, T.T)
    assert np.linalg.eigvalsh(T)[0] > -1e-12 * np.linalg.norm(T)
    assert relative(T @ P @ T, Q) < 1e-11
    cost = np.trace((T - np.eye(d)) @ P @ (T - np.eye(d)))
    assert cost == pytest.approx(bures_wasserstein(P, Q) ** 2, rel=1e-9, abs=1e-12)


def test_map_to_the_identity_and_of_scalars():
    S = covariance(np.random.default_rng(3), 3)
    np.testing.assert_allclose(optimal_transport_map(S, S), np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(optimal_transport_map(1.0, 4.0), [[2.0]])


@pytest.mark.parametrize(("first", "second"), [(1, 1), (3, 3), (3, 1), (5, 2), (2, 0)])
def test_map_of_singular_covariances(first, second):
    rng = np.random.default_rng(10 * first + second)
    P = covariance(rng, 5, first)
    Q = covariance(rng, 5, second) if second else np.zeros((5, 5))
    T = optimal_transport_map(P, Q)
    assert np.isfinite(T).all()
    np.testing.assert_allclose(T @ P @ T.T, Q, atol=1e-12)
    cost = np.trace((T - np.eye(5)) @ P @ (T - np.eye(5)).T)
    assert cost == pytest.approx(bures_wasserstein(P, Q) ** 2, rel=1e-10)
    rest = np.eye(5) - P @ np.linalg.pinv(P, rcond=1e-10)
    np.testing.assert_allclose(T @ rest, 0, atol=1e-7)


def test_map_between_orthogonal_lines():
    # No symmetric map does this; L1 Q L0^+ does.
    T = optimal_transport_map(np.diag([1.0, 0.0]), np.diag([0.0, 4.0]))
    np.testing.assert_allclose(np.abs(T), [[0, 0], [2, 0]], atol=1e-15)


def test_no_map_raises_a_rank():
    with pytest.raises(UnreachableError, match="rank at most 1, that of S0, found rank 2"):
        optimal_transport_map(np.diag([1.0, 0.0]), np.eye(2))


@LAWS
@given(dims, seeds)
def test_alignment_is_procrustes(d, seed):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, d + 1))
    L0, L1 = rng.standard_normal((2, d, r))
    aligned = align(L0, L1)
    product = L0.T @ aligned
    np.testing.assert_allclose(aligned @ aligned.T, L1 @ L1.T, atol=1e-12)
    np.testing.assert_allclose(product, product.T, atol=1e-12)
    assert np.linalg.eigvalsh((product + product.T) / 2)[0] > -1e-12


def test_factor_of_a_badly_scaled_covariance():
    scale = np.array([1e-9, 1.0, 1e9])
    S = scale[:, None] * (np.eye(3) + 0.5) * scale
    L = equilibrated_factor(S)
    np.testing.assert_allclose(L @ L.T, S, rtol=1e-14)
    assert equilibrated_factor(np.zeros((2, 2))).shape == (2, 0)


SMALL = np.array([[1e4, 0.0], [3e-5, 1e-4]]), np.array([[2e4, 0.0], [1e-5, 3e-4]])


def test_units_of_coordinates_do_not_decide_the_rank():
    P, Q = np.diag([1e8, 1e-8]), np.diag([1e8, 4e-8])
    np.testing.assert_allclose(optimal_transport_map(P, Q), np.diag([1.0, 2.0]), rtol=1e-12)
    assert ranked_factor(P).shape == (2, 2)
    np.testing.assert_allclose(relative_spectrum(P), [1, 1], rtol=1e-14)
    P, Q = (L @ L.T for L in SMALL)
    T = optimal_transport_map(P, Q)
    assert np.array_equal(T, T.T)
    np.testing.assert_allclose(T @ P @ T.T, Q, rtol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 3, 5])
def test_rank_counts_and_the_factor_has_it(rank):
    rng = np.random.default_rng(rank)
    for _ in range(5):
        units = 10.0 ** rng.uniform(-6, 6, 5)
        L = units[:, None] * rng.standard_normal((5, rank))
        S = read_covariance(L @ L.T, "S")
        found = ranked_factor(S)
        assert found.shape == (5, rank)
        sizes = np.sqrt(np.outer(np.diag(S), np.diag(S)))
        assert (np.abs(found @ found.T - S) <= 1e-12 * sizes).all()


def test_a_rank_by_request_takes_the_leading_directions():
    S = np.diag([1.0, 1e-12])
    np.testing.assert_allclose(np.abs(ranked_factor(S, 1)), [[1], [0]], atol=1e-15)
    correlated = np.array([[1.0, 1e-6], [1e-6, 1e-12]])
    np.testing.assert_allclose(np.abs(ranked_factor(correlated, 1)), [[1], [1e-6]], rtol=1e-12)
    # A covariance of rank 1 up to rounding, whose correlation matrix would be indefinite.
    noisy = np.array([[1.0, 1e-17], [1e-17, 1e-36]])
    assert ranked_factor(noisy).shape == (2, 1)


def test_one_dimension_needs_no_matrix():
    expected = bures_wasserstein((0.0, 1.0), (1.0, 4.0))
    assert bures_wasserstein(([0.0], [1.0]), ([1.0], [4.0])) == expected
    assert bures_wasserstein(([0.0], 1.0), ([1.0], [[4.0]])) == expected


def test_the_map_has_no_use_for_means():
    pair = np.zeros(2), np.eye(2)
    with pytest.raises(ShapeError, match=r"S0: expected a covariance .* found a pair"):
        optimal_transport_map(pair, pair)
    with pytest.raises(ShapeError, match=r"S1: expected a covariance .* found a pair"):
        optimal_transport_map(np.eye(2), pair)


def test_inputs_are_left_alone():
    P, Q = np.diag([1.0, 0.0]), np.eye(2)
    kept = P.copy(), Q.copy()
    bures_wasserstein(P, Q)
    optimal_transport_map(Q, P)
    np.testing.assert_array_equal(P, kept[0])
    np.testing.assert_array_equal(Q, kept[1])


@pytest.mark.parametrize(
    ("P", "Q", "error", "message"),
    [
        (np.eye(2), np.eye(3), ShapeError, "Q: expected dimension 2 as in P, found 3"),
        (np.eye(2), (np.zeros(2), np.eye(2)), ParameterError, "Q: expected the same kind as P"),
        (-np.eye(2), np.eye(2), ParameterError, "P: expected a positive semidefinite"),
        ([[1.0, 2.0], [0.0, 1.0]], np.eye(2), ParameterError, "P: expected a symmetric"),
        (([0.0], np.eye(2)), (np.zeros(2), np.eye(2)), ShapeError, "P mean: expected a vector"),
        (([0, 0], [[1], [1, 2]]), (np.zeros(2), np.eye(2)), ShapeError, "P covariance: expected"),
        ([[np.nan]], [[1.0]], ParameterError, "P: expected finite"),
    ],
)
def test_bad_arguments(P, Q, error, message):
    with pytest.raises(error, match=message):
        bures_wasserstein(P, Q)


def test_a_nested_list_is_a_matrix():
    assert bures_wasserstein([[4, 0], [0, 1]], [[1, 0], [0, 1]]) == 1
