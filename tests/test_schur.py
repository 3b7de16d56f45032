"""The SciPy backend: each equation solved, separations from above, refusal of perturbed data."""

import numpy as np
import pytest
from hypothesis import given
from matrices import LAWS, dims, relative, seeds, symmetric, well_posed

from gausscontrol.linalg.schur import schur_generalized_lyapunov, schur_lyapunov, schur_riccati


def smallest_singular_value(A, E):
    return np.linalg.svd(np.kron(A, E) + np.kron(E, A), compute_uv=False)[-1]


@LAWS
@given(d=dims, seed=seeds)
def test_linear_equations_and_their_separation(d, seed):
    rng = np.random.default_rng(seed)
    A, Q = well_posed(rng, d), symmetric(rng, d)
    X, separation = schur_lyapunov(A, Q)
    assert relative(A @ X + X @ A.T, -Q) < 1e-11
    exact = smallest_singular_value(A, np.eye(d))
    assert exact * (1.0 - 1e-10) <= separation
    E = np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)
    X, separation = schur_generalized_lyapunov(A @ E, E, Q)
    assert relative(A @ E @ X @ E.T + E @ X @ E.T @ A.T, -Q) < 1e-10
    assert smallest_singular_value(A @ E, E) * (1.0 - 1e-10) <= separation


def test_riccati():
    rng = np.random.default_rng(5)
    A, B, R = rng.standard_normal((4, 4)), rng.standard_normal((4, 2)), np.diag([1.0, 2.0])
    X = schur_riccati(A, B, np.eye(4), R)
    G = B @ np.linalg.inv(R) @ B.T
    assert relative(A.T @ X + X @ A - X @ G @ X, -np.eye(4)) < 1e-11
    assert np.linalg.eigvals(A - G @ X).real.max() < 0.0


def test_a_perturbed_equation_is_no_answer():
    with pytest.raises(np.linalg.LinAlgError, match="dtrsyl perturbed"):
        schur_lyapunov(np.diag([1.0, -1.0]), np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        schur_generalized_lyapunov(np.diag([1.0, -1.0]), np.eye(2), np.eye(2))
