"""Semidefinite and gradient proofs from exact structure, and one P for a polytope."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import lotka_volterra, planted_problem

import gausscontrol as gct
from gausscontrol.certificates.local import certify_local_stability
from gausscontrol.certificates.rigorous.polytope import prove_polytope
from gausscontrol.certificates.rigorous.structure import prove_gradient, prove_semidefinite

FEW = settings(derandomize=True, deadline=None, max_examples=10)
SEEDS = st.integers(0, 10_000)
NEAR = 1e-6


# -- semidefinite ---------------------------------------------------------------------------------


def singular_key_model(rng, dim, kernel=1):
    """Return A antistable, V = -I and an integer B >= 0 of deficient rank, with its equilibrium."""
    Z = rng.standard_normal((dim, dim))
    A = np.eye(dim) + (Z - Z.T) / 2
    g = rng.integers(-3, 4, (dim, dim - kernel)).astype(float)
    B = g @ g.T
    return gct.GaussianTransformer(A, B, -np.eye(dim)), gct.bernoulli(A, -2 * B).solution


@FEW
@given(SEEDS, st.integers(2, 4), st.integers(1, 2))
def test_kernels_known_from_structure_are_proved(seed, dim, kernel):
    rng = np.random.default_rng(seed)
    try:
        model, Sigma = singular_key_model(rng, dim, min(kernel, dim - 1))
    except gct.MatrixEquationError:
        return
    if np.linalg.cond(Sigma) > 1e8:
        return
    assert prove_semidefinite(model, Sigma, NEAR, mean=False)
    assert not prove_semidefinite(model.replace(dt=0.1), Sigma, NEAR)
    assert not prove_semidefinite(model, 1.01 * Sigma, NEAR)
    # The mean moves with A - I, whose eigenvalues lie on the imaginary axis at K = 0.
    shifted = model.replace(V=-model.V, B=-model.B)
    assert prove_semidefinite(shifted, Sigma, NEAR)
    assert not prove_semidefinite(shifted, Sigma, NEAR, mean=True)


def test_one_digit_of_the_key_decides():
    A = np.array([[1.0, 2.0], [-2.0, 1.0]])
    B = np.array([[1.0, 3.0], [3.0, 9.0]])
    for entry, wanted in ((9.0, True), (np.nextafter(9, 10), True), (np.nextafter(9, 8), False)):
        B[1, 1] = entry
        model = gct.GaussianTransformer(A, B, -np.eye(2))
        Sigma = gct.bernoulli(A, -2 * B).solution
        assert prove_semidefinite(model, Sigma, NEAR) is wanted


def test_observability_is_not_skipped():
    """A diagonal: the kernel direction is not reached, and L is singular or not Hurwitz."""
    A, B = np.diag([1.0, -1.0]), np.diag([1.0, 0.0])
    model = gct.GaussianTransformer(A, B, -np.eye(2))
    assert not prove_semidefinite(model, np.eye(2), NEAR)
    still = gct.GaussianTransformer(np.diag([1.0, 0.0]), B, -np.eye(2))
    assert not prove_semidefinite(still, np.eye(2), NEAR)


def test_heads_without_values_do_not_count():
    rng = np.random.default_rng(1)
    model, Sigma = singular_key_model(rng, 3)
    B, V = np.stack([model.B[0], np.eye(3)]), np.stack([model.V[0], np.zeros((3, 3))])
    assert prove_semidefinite(gct.GaussianTransformer(model.A, B, V), Sigma, NEAR)


# -- gradient -------------------------------------------------------------------------------------


def gradient_model(rng, dim):
    """Return A > 0, B > 0 and V = -B, and Sigma* = B^-1 A B^-1 where that is M = 0."""
    Q, Z = rng.integers(-3, 4, (2, dim, dim)).astype(float)
    A, B = Z @ Z.T + np.eye(dim), Q @ Q.T / 8 + np.eye(dim)
    X = np.linalg.inv(B)
    Sigma = X @ A @ X
    return gct.GaussianTransformer(A, B, -B), (Sigma + Sigma.T) / 2


@FEW
@given(SEEDS, st.integers(1, 4))
def test_gradient_cases_are_proved(seed, dim):
    model, Sigma = gradient_model(np.random.default_rng(seed), dim)
    P = np.eye(dim)
    assert prove_gradient(model, Sigma, P, NEAR)
    assert prove_gradient(model, Sigma, 3.0 * P, NEAR)
    assert not prove_gradient(model, Sigma, -P, NEAR)
    assert not prove_gradient(model, Sigma, np.nan * P, NEAR)
    assert not prove_gradient(model, 1.01 * Sigma, P, NEAR)
    assert not prove_gradient(model.replace(dt=0.1), Sigma, P, NEAR)
    assert not prove_gradient(model.replace(V=-model.V, A=-model.A), Sigma, P, NEAR)


def test_one_digit_of_symmetry_decides():
    model, Sigma = gradient_model(np.random.default_rng(3), 3)
    for name in ("A", "B", "V"):
        matrix = getattr(model, name).copy()
        matrix[..., 0, 1] = np.nextafter(matrix[..., 0, 1], np.inf)
        assert not prove_gradient(model.replace(**{name: matrix}), Sigma, np.eye(3), 1e-3)


def test_a_metric_other_than_the_identity_is_proved_if_exact():
    """In the coordinates D x, D of powers of two, P = D^-2 has the structure without rounding."""
    model, Sigma = gradient_model(np.random.default_rng(4), 2)
    D = np.diag([4.0, 0.5])
    moved = model.transform(D)
    P = np.linalg.inv(D @ D)
    assert prove_gradient(moved, D @ Sigma @ D, P, NEAR)
    assert not prove_gradient(moved, D @ Sigma @ D, np.eye(2), NEAR)


def test_competition_is_proved_where_interaction_is_definite():
    known = lotka_volterra()
    Sigma = np.diag(np.linalg.solve([[1.0, 0.5], [0.5, 1.0]], np.ones(2)))
    # Heads V = C_ij E_ij / 2, B = E_ji: T(E) = diag(C diag E) / 2 leaves out E_12.
    assert not prove_gradient(known.model, Sigma, np.eye(2), NEAR)


# -- polytopes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1e-5, 1e-7])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_polytopes_are_proved_as_certified(dim, share):
    model, Sigma = planted_problem(np.random.default_rng(dim), dim, 1, 1.0)
    vertices = [
        model.replace(A=model.A * (1 + share)),
        model.replace(V=model.V * (1 - share)),
        model.replace(B=model.B * (1 + share)),
    ]
    found = certify_local_stability(model, Sigma, vertices=vertices)
    assert found.data["equilibria"]
    claim = (model, vertices, found.covariance, found.lyapunov_matrix)
    assert prove_polytope(*claim)
    assert prove_polytope(*claim, found.radius)
    assert not prove_polytope(*claim, found.radius / 10)
    assert not prove_polytope(*claim, np.nan)
    assert not prove_polytope(*claim[:3], -found.lyapunov_matrix)
    assert not prove_polytope(*claim[:3], np.nan * found.lyapunov_matrix)
    unstable = [*vertices, model.replace(V=-model.V)]
    assert not prove_polytope(model, unstable, *claim[2:])


def test_polytopes_without_equilibria_speak_of_linearisations():
    model, Sigma = planted_problem(np.random.default_rng(0), 2, 1, 1.0)
    vertices = [model.replace(A=1.1 * model.A)]
    found = certify_local_stability(model, Sigma, vertices=vertices)
    assert not found.data["equilibria"]
    claim = (model, vertices, found.covariance, found.lyapunov_matrix)
    assert prove_polytope(*claim)
    assert not prove_polytope(*claim, 1e-3)
