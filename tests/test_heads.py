"""Attention heads: every product against the sum over heads that defines it."""

from __future__ import annotations

import numpy as np
import pytest

from gausscontrol.model.heads import DenseHeads, FactoredHeads

SIZES = [(1, 1), (1, 3), (4, 1), (3, 2), (5, 4)]  # (d, h)


def random_heads(dim, n_heads, seed=0):
    V, B = np.random.default_rng(seed).standard_normal((2, n_heads, dim, dim))
    return DenseHeads(V, B)


def plain_attention(heads, S):
    return sum(V @ S @ B for V, B in zip(heads.V, heads.B, strict=True))


@pytest.fixture(params=SIZES, ids=lambda size: "d={} h={}".format(*size))
def heads(request):
    return random_heads(*request.param)


@pytest.fixture
def S(heads):
    return np.random.default_rng(1).standard_normal((heads.dim, heads.dim))


def test_sizes_and_total(heads):
    assert heads.V.shape == heads.B.shape == (heads.n_heads, heads.dim, heads.dim)
    np.testing.assert_allclose(heads.total, sum(heads.V))


def test_attention_is_the_sum_over_heads(heads, S):
    np.testing.assert_allclose(heads.attention(S), plain_attention(heads, S), atol=1e-12)


def test_attention_of_a_known_matrix():
    V = np.array([[[1.0, 2.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]])
    B = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    S = np.array([[1.0, 3.0], [3.0, 5.0]])
    np.testing.assert_array_equal(DenseHeads(V, B).attention(S), [[7.0, 0.0], [3.0, 1.0]])


def test_complex_arguments_pass_through(heads, S):
    Z = S + 1j * S.T
    np.testing.assert_allclose(heads.attention(Z), plain_attention(heads, Z), atol=1e-12)


def factored(rng, heads=3, width=2, dim=5):
    """Factored heads, and the same heads written out."""
    O = rng.normal(size=(heads, dim, width + 1))
    U = rng.normal(size=(heads, width + 1, dim))
    K, Q = rng.normal(size=(2, heads, width, dim))
    return FactoredHeads(O, U, K, Q), DenseHeads(O @ U, K.transpose(0, 2, 1) @ Q)


@pytest.mark.parametrize(
    "method",
    [
        lambda heads, S: heads.attention(S),
        lambda heads, S: heads.tilt(S, np.ones((heads.n_heads, heads.dim))),
        lambda heads, S: heads.products(S),
        lambda heads, S: heads.norms(),
        lambda heads, S: heads.total,
        lambda heads, S: heads.transform(S, np.linalg.inv(S)).attention(S),
        lambda heads, S: heads.scaled(np.arange(1.0, 4), np.arange(2.0, 5)).attention(S),
        lambda heads, S: heads.adjoint().attention(S),
    ],
)
def test_factored_heads_do_what_dense_ones_do(method):
    rng = np.random.default_rng(1)
    few, dense = factored(rng)
    S = rng.normal(size=(5, 5))
    np.testing.assert_allclose(method(few, S), method(dense, S), rtol=1e-12, atol=1e-12)


def test_adjoint_is_the_adjoint():
    rng = np.random.default_rng(2)
    for heads in factored(rng):
        X, Y = rng.normal(size=(2, 5, 5))
        left = np.sum(Y * heads.attention(X))
        np.testing.assert_allclose(left, np.sum(X * heads.adjoint().attention(Y)), rtol=1e-12)


def test_tilt_is_the_sum_over_heads(heads, S):
    k = np.random.default_rng(3).standard_normal((heads.n_heads, heads.dim))
    expected = sum(V @ S @ row for V, row in zip(heads.V, k, strict=True))
    np.testing.assert_allclose(heads.tilt(S, k), expected, atol=1e-12)


def test_products(heads, S):
    expected = np.stack([B @ S for B in heads.B])
    np.testing.assert_allclose(heads.products(S), expected, atol=1e-13)


def test_norm_bound_bounds_the_operator_and_ignores_the_gauge(heads, S):
    bound = heads.norm_bound()
    assert np.linalg.norm(heads.attention(S)) <= bound * np.linalg.norm(S)
    rescaled = DenseHeads(heads.V * 1e6, heads.B / 1e6)
    np.testing.assert_allclose(rescaled.norm_bound(), bound, rtol=1e-12)


def test_norm_bound_of_a_known_head():
    assert DenseHeads(np.diag([3.0, -4.0])[None], np.diag([0.5, 0.1])[None]).norm_bound() == 2.0


def test_transform_moves_the_operator(heads, S):
    # In coordinates R x the attention of R S R^T is R T(S) R^-1.
    R = np.random.default_rng(4).standard_normal((heads.dim, heads.dim)) + 3 * np.eye(heads.dim)
    R_inverse = np.linalg.inv(R)
    moved = heads.transform(R, R_inverse)
    expected = R @ heads.attention(S) @ R_inverse
    np.testing.assert_allclose(moved.attention(R @ S @ R.T), expected, atol=1e-10)


def test_arrays_of_any_memory_layout():
    heads = random_heads(3, 2)
    fortran = DenseHeads(np.asfortranarray(heads.V), np.asfortranarray(heads.B))
    S = np.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(fortran.attention(S), heads.attention(S))
