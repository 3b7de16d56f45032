"""Linear maps on symmetric matrices against what they do to one."""

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, seeds

from gausscontrol.linalg import operators
from gausscontrol.linalg.operators import (
    factor_derivative,
    symmetric_basis,
    symmetric_operator,
    to_svec_basis,
)
from gausscontrol.linalg.symmetric import svec, symmetrise, vech


def random_factors(seed, dim, terms):
    P, R = np.random.default_rng(seed).standard_normal((2, terms, dim, dim))
    return P, R


@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("dim", [1, 2, 3, 8, 15, 16, 17, 20])
def test_operator_against_its_definition(dim, terms):
    P, R = random_factors(dim, dim, terms)
    operator = symmetric_operator(P, R)
    assert operator.shape == (dim * (dim + 1) // 2,) * 2
    rng = np.random.default_rng(dim)
    for _ in range(3):
        E = symmetrise(rng.standard_normal((dim, dim)))
        image = sum(p @ E @ r for p, r in zip(P, R, strict=True))
        np.testing.assert_allclose(operator @ vech(E), vech(image + image.T), atol=1e-11)


@pytest.mark.parametrize("dim", [1, 2, 5, 16])
@pytest.mark.parametrize("dtype", [float, complex])
def test_both_ways_to_build_the_operator_agree(dim, dtype, monkeypatch):
    P, R = random_factors(1, dim, 2)
    P = P + P.swapaxes(1, 2) * (1j if dtype is complex else 1)
    by_tensor = symmetric_operator(P, R)
    monkeypatch.setattr(operators, "TENSOR_SIZE", 0)
    by_columns = symmetric_operator(P, R)
    assert by_tensor.dtype == by_columns.dtype == dtype
    np.testing.assert_allclose(by_tensor, by_columns, rtol=1e-13, atol=1e-13)


@LAWS
@given(seeds, dims)
def test_svec_basis_keeps_the_map_and_shows_its_symmetry(seed, dim):
    rng = np.random.default_rng(seed)
    P, R = rng.standard_normal((2, 1, dim, dim))
    operator = to_svec_basis(symmetric_operator(P, R))
    E = symmetrise(rng.standard_normal((dim, dim)))
    image = P[0] @ E @ R[0]
    np.testing.assert_allclose(operator @ svec(E), svec(image + image.T), atol=1e-12)
    # The adjoint of E -> P E R + transpose is E -> P^T E R^T + transpose.
    adjoint = to_svec_basis(symmetric_operator(P.swapaxes(1, 2), R.swapaxes(1, 2)))
    np.testing.assert_allclose(adjoint, operator.T, atol=1e-12)


def test_operators_leave_their_arguments_alone():
    P, R = random_factors(0, 3, 2)
    P.flags.writeable = R.flags.writeable = False
    symmetric_operator(P, R)
    to_svec_basis(symmetric_operator(P, R))


def test_the_symmetric_basis_is_orthonormal():
    X = np.random.default_rng(0).standard_normal((3, 3))
    S, basis = X + X.T, symmetric_basis(3)
    np.testing.assert_allclose(basis @ svec(S), S.reshape(-1))
    np.testing.assert_allclose((basis.T @ basis).toarray(), np.eye(6), atol=1e-15)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_the_derivative_of_a_product_is_exact_but_for_the_square(rank):
    L, step = np.random.default_rng(rank).standard_normal((2, 4, rank))
    moved = (L + step) @ (L + step).T - L @ L.T - step @ step.T
    np.testing.assert_allclose(factor_derivative(L) @ step.reshape(-1), vech(moved), atol=1e-13)
