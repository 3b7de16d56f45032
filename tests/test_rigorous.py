"""Proofs at an equilibrium: planted ones, barely false ones, gauge, coordinates, tampering."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import cubic_factor, lyapunov_globally_stable, planted_problem, random_model

import gausscontrol as gct
from gausscontrol.certificates.linearisation import in_vech, lyapunov_candidate
from gausscontrol.certificates.rigorous.equilibrium import enclosed_equilibrium
from gausscontrol.certificates.rigorous.exact_model import ExactModel, working
from gausscontrol.certificates.rigorous.stability import prove_form, prove_local, prove_riccati
from gausscontrol.errors import NotCertified

FEW = settings(derandomize=True, deadline=None, max_examples=15)
SEEDS = st.integers(0, 10_000)
NEAR = 1e-6


def candidate(model, Sigma):
    return in_vech(lyapunov_candidate(model, Sigma), Sigma)


def near_marginal(margin, dim=3, seed=0):
    """Return a model with Sigma* = I exactly whose form has largest eigenvalue -margin.

    V = Q D Q^T with D = (-1, ..., -1, -margin) and Q the reflection with entries in the dyadic
    rationals, B = I and A = -V: every float is exact, so that the margin is too.
    """
    u = np.zeros(dim)
    u[:2] = 1.0, -1.0  # a 45 degree reflection: Q D Q^T swaps D's entries and stays exact
    Q = np.eye(dim) - np.outer(u, u)
    D = -np.ones(dim)
    D[seed % dim] = -margin
    V = Q @ np.diag(D) @ Q.T
    return gct.GaussianTransformer(-V, np.eye(dim), V), np.eye(dim)


@FEW
@given(SEEDS, st.integers(1, 5), st.integers(1, 3), st.sampled_from([0.0, 1.0, 5.0]))
def test_planted_problems_are_proved(seed, dim, heads, kappa):
    model, Sigma = planted_problem(np.random.default_rng(seed), dim, heads, kappa)
    found = gct.certify_global_stability(model, Sigma)
    options = {"rate": found.rate, "mean": found.mean_stable}
    assert prove_form(model, found.covariance, found.radius, **options)
    assert not prove_form(model, found.covariance, found.radius, rate=2 * found.rate + 1)
    local = gct.certify_local_stability(model, Sigma)
    P = local.lyapunov_matrix
    assert prove_local(model, local.covariance, P, local.radius, mean=local.mean_stable)


def test_eight_dimensions_are_proved():
    model, Sigma = planted_problem(np.random.default_rng(8), 8, 2, 1.0)
    found = gct.certify_global_stability(model, Sigma)
    assert prove_form(model, Sigma, found.radius, rate=found.rate, mean=found.mean_stable)
    assert prove_local(model, Sigma, candidate(model, Sigma), found.radius)


@FEW
@given(SEEDS, st.integers(1, 4), st.integers(1, 2))
def test_fixed_points_of_layers_are_proved(seed, dim, heads):
    model, Sigma = planted_problem(np.random.default_rng(seed), dim, heads, 1.0)
    model = model.replace(dt=1e-2)
    try:
        Sigma = gct.find_equilibrium(model, Sigma).covariance
        found = gct.certify_local_stability(model, Sigma)
    except (NotCertified, gct.EquilibriumNotFound):
        return
    P = found.lyapunov_matrix
    assert prove_local(model, Sigma, P, found.radius, mean=found.mean_stable)
    assert not prove_local(model, Sigma, -P, found.radius)
    # A layer of the same depth that overshoots is not a contraction in any norm.
    assert not prove_local(model.replace(dt=1e3), Sigma, P, 1e3)
    assert not prove_form(model, Sigma, found.radius)


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_sign_of_a_thin_margin_decides(dim, seed):
    for margin in (1e-10, 1e-13, 1e-15, 5e-324):
        model, Sigma = near_marginal(margin, dim, seed)
        assert prove_form(model, Sigma, NEAR)
        model, Sigma = near_marginal(-margin, dim, seed)
        assert not prove_form(model, Sigma, NEAR)
    model, Sigma = near_marginal(0.0, dim, seed)
    assert not prove_form(model, Sigma, NEAR)


@pytest.mark.parametrize("margin", [1e-10, 1e-13])
def test_rotated_thin_margins_are_decided_too(margin):
    """Rounding of the rotated entries is about 1e-16 of them, below either margin."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        Q, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        for sign in (1.0, -1.0):
            V = Q @ np.diag([-1.0, -1.0, -sign * margin]) @ Q.T
            V = (V + V.T) / 2
            model = gct.GaussianTransformer(-V, np.eye(3), V)
            assert prove_form(model, np.eye(3), NEAR) is (sign > 0)


def test_local_margin_decides():
    P = np.eye(1)
    for margin in (1e-10, 1e-13):
        for sign in (1.0, -1.0):
            a = sign * margin
            model = gct.GaussianTransformer(a, 1.0, -a)
            assert prove_local(model, np.eye(1), P, NEAR) is (sign > 0)


def test_mean_margin_decides():
    """M + Vbar = -A + A^3 + ... would hide it: here it is a rotation shifted by the margin."""
    K = np.array([[0.0, 3.0], [-1.0, 0.0]])
    for margin in (1e-10, 1e-13):
        for sign in (1.0, -1.0):
            # The second head moves Vbar and, with B = 0, nothing else.
            V = np.stack([-np.eye(2), np.eye(2) + K - sign * margin * np.eye(2)])
            B = np.stack([np.eye(2), np.zeros((2, 2))])
            model = gct.GaussianTransformer(np.eye(2), B, V)
            assert prove_form(model, np.eye(2), NEAR)
            assert prove_form(model, np.eye(2), NEAR, mean=True) is (sign > 0)
            P = np.eye(3)
            assert prove_local(model, np.eye(2), P, NEAR, mean=True) is (sign > 0)


def test_head_gauge_changes_nothing():
    model, Sigma = planted_problem(np.random.default_rng(1), 3, 2, 1.0)
    P = candidate(model, Sigma)
    for power in (-8, -1, 8):
        gauged = gct.GaussianTransformer(
            model.A, model.B * 10.0**-power, model.V * 10.0**power, model.b
        )
        assert prove_form(gauged, Sigma, NEAR)
        assert prove_local(gauged, Sigma, P, NEAR)


def test_ill_conditioned_coordinates_change_nothing():
    model, Sigma = planted_problem(np.random.default_rng(2), 4, 1, 1.0)
    R = np.diag(2.0 ** np.array([-13, 0, 7, 14]))  # exact, condition 1e8
    J = R @ Sigma @ R
    moved = model.transform(R)
    assert prove_form(moved, J, NEAR, rate=1e-6)
    P = candidate(model, Sigma)
    scale = gct.vech(np.outer(R.diagonal(), R.diagonal()))
    assert prove_local(moved, J, P / scale[:, None] / scale, NEAR)


def test_dense_ill_conditioned_coordinates_are_proved():
    rng = np.random.default_rng(3)
    U, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    model, Sigma = planted_problem(rng, 3, 1, 1.0)
    R = U @ np.diag([1e-2, 1.0, 1e2]) @ U.T
    moved = model.transform(R)
    found = gct.find_equilibrium(moved, R @ Sigma @ R.T)
    assert prove_form(moved, found.covariance, 1e-3)


def test_enclosure_is_tight_and_says_how_near():
    known = lyapunov_globally_stable()
    with working(3):
        ball = enclosed_equilibrium(ExactModel.of(known.model), known.covariance, NEAR)
        assert max(x.rad() for x in ball.entries()) < 1e-80
        values = [[float(x) for x in row] for row in ball.table()]
        residual = ExactModel.of(known.model).residual(ball)
        assert all(x.contains(0) for x in residual.entries())
        # The equilibrium of the floats is some 1e-16 away from the computed one, not 1e-30.
        assert enclosed_equilibrium(ExactModel.of(known.model), known.covariance, 1e-30) is None
        assert enclosed_equilibrium(ExactModel.of(known.model), known.covariance, np.nan) is None
    assert np.allclose(values, known.covariance, rtol=1e-12)


def test_no_equilibrium_no_proof():
    identity = np.eye(2)
    drifting = gct.GaussianTransformer(-identity, identity, -identity)
    assert not prove_form(drifting, identity, NEAR)
    assert not prove_local(drifting, identity, np.eye(3), NEAR)
    # A line of equilibria: the linearisation has a kernel.
    still = gct.GaussianTransformer(np.zeros((2, 2)), identity, np.zeros((2, 2)))
    assert not prove_form(still, identity, NEAR)
    assert not prove_local(still, identity, np.eye(3), NEAR)


def test_unstable_equilibria_are_never_proved():
    known = cubic_factor()
    assert not prove_form(known.model, known.covariance, NEAR)
    for P in (np.eye(1), -np.eye(1)):
        assert not prove_local(known.model, known.covariance, P, NEAR)
    # Theory 4.3: V = diag(1, -5), B = diag(-1, 5) has the product of signs but not the signs.
    V, B = np.diag([1.0, -5.0]), np.diag([-1.0, 5.0])
    assert not prove_form(gct.GaussianTransformer(-V @ B, B, V), np.eye(2), NEAR)


def test_tampered_matrices_are_refused():
    model, Sigma = planted_problem(np.random.default_rng(4), 3, 1, 1.0)
    P = candidate(model, Sigma)
    assert prove_local(model, Sigma, P, NEAR)
    bad = P.copy()
    bad[0, 0] = -bad[0, 0]
    nan = P.copy()
    nan[1, 1] = np.nan
    for wrong in (bad, nan, np.zeros_like(P), -P, np.full_like(P, np.inf)):
        assert not prove_local(model, Sigma, wrong, NEAR)
    for wrong in (1.01 * Sigma, Sigma + 1e-5 * np.eye(3), np.full((3, 3), np.nan), -Sigma):
        assert not prove_form(model, wrong, 1e-9)
        assert not prove_local(model, wrong, P, 1e-9)
    assert not prove_form(model, Sigma, NEAR, rate=np.nan)
    assert not prove_form(model.replace(A=model.A + 1e-3 * np.eye(3)), Sigma, NEAR)


def riccati_model(gain):
    A = np.array([[1.0, 2.0], [-2.0, 1.0]])
    Sigma = gct.bernoulli(A, gain).solution
    return gct.GaussianTransformer(A, gain / 2, np.eye(2)), Sigma


def test_singular_riccati_gain_is_decided_exactly():
    gain = -np.array([[1.0, 3.0], [3.0, 9.0]])
    model, Sigma = riccati_model(gain)
    assert prove_riccati(model, Sigma, NEAR)
    assert not prove_form(model, Sigma, NEAR)
    # One ulp more and large covariances blow up.
    gain[1, 1] = np.nextafter(-9.0, 0.0)
    model, Sigma = riccati_model(gain)
    assert not prove_riccati(model, Sigma, NEAR)
    gain[1, 1] = np.nextafter(-9.0, -10.0)
    model, Sigma = riccati_model(gain)
    assert prove_riccati(model, Sigma, NEAR)


def test_riccati_needs_scalar_values_to_the_last_bit():
    model, Sigma = riccati_model(-np.eye(2))
    assert prove_riccati(model, Sigma, NEAR)
    V = np.eye(2)
    V[0, 1] = 5e-324
    assert not prove_riccati(model.replace(V=V), Sigma, NEAR)
    assert not prove_riccati(model.replace(dt=0.1), Sigma, NEAR)
    assert not prove_riccati(model.replace(A=-model.A), Sigma, NEAR)


def test_riccati_proof_covers_gauge_and_several_heads():
    A = np.array([[1.0, 2.0], [-2.0, 1.0]])
    gain = -np.array([[1.0, 3.0], [3.0, 9.0]])
    Sigma = gct.bernoulli(A, gain).solution
    V = np.stack([1024.0 * np.eye(2), -0.5 * np.eye(2)])
    skew = np.array([[0.0, 7.0], [-7.0, 0.0]])
    B = np.stack([gain / 2048.0, skew])
    assert prove_riccati(gct.GaussianTransformer(A, B, V), Sigma, NEAR)


def test_factored_heads_enter_as_the_exact_products():
    rng = np.random.default_rng(6)
    U = rng.standard_normal((2, 2, 3))
    W_O = -U.transpose(0, 2, 1)
    model = gct.GaussianTransformer.from_weights(U, U, U, W_O, A=np.eye(3), scale=1 / 3)
    with working(3):
        exact = ExactModel.of(model)
        for name in ("V", "B"):
            for ball, matrix in zip(getattr(exact, name), getattr(model, name), strict=True):
                assert np.allclose([[float(x) for x in row] for row in ball.table()], matrix)
        assert any(not x.is_exact() or x != float(x) for V in exact.V for x in V.entries())


@settings(FEW, max_examples=4)
@given(SEEDS, st.integers(1, 3), st.integers(1, 2))
def test_random_equilibria_are_proved_as_certified(seed, dim, heads):
    model = random_model(np.random.default_rng(seed), dim, heads)
    for found in gct.find_equilibria(model):
        if found.rank < dim:
            continue
        try:
            local = gct.certify_local_stability(model, found)
        except NotCertified:
            P = np.eye(dim * (dim + 1) // 2)
            assert not prove_local(model, found.covariance, P, NEAR)
            continue
        assert prove_local(model, local.covariance, local.lyapunov_matrix, local.radius)
