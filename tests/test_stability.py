"""Global and local stability: reference cases, counterexamples, gauge, coordinates, tampering."""

import copy
from fractions import Fraction

import control as ct
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import (
    cubic_factor,
    lotka_volterra,
    lyapunov_globally_stable,
    mimetic_clean,
    plain_attention_form,
    planted_problem,
    random_model,
    reference_solution,
    two_attractors,
)

import gausscontrol as gct
from gausscontrol.errors import NotCertified, ParameterError
from gausscontrol.linalg.exact import exactly_nonpositive
from gausscontrol.model.structure import exact_riccati_gain

FEW = settings(derandomize=True, deadline=None, max_examples=10)
IDENTITY = np.eye(2)
LIMIT = gct.GaussianTransformer(IDENTITY, IDENTITY, -IDENTITY)


def tampered(certificate, **changes):
    twin = copy.copy(certificate)
    for name, value in changes.items():
        object.__setattr__(twin, name, value)
    return twin


def refused(model, Sigma, **options):
    with pytest.raises(NotCertified) as raised:
        gct.certify_global_stability(model, Sigma, **options)
    assert "\n" not in str(raised.value)
    return raised.value


# -- reference cases ------------------------------------------------------------------------------


def test_lyapunov_case_is_globally_stable():
    problem = lyapunov_globally_stable()
    certificate = gct.certify_global_stability(problem.model, problem.covariance)
    assert certificate.method == "form"
    assert certificate.rate == pytest.approx(2 * 1.838, abs=1e-3)
    assert certificate.optimal_rate == pytest.approx(6)
    assert certificate.scope == "covariance"  # M + I is not Hurwitz
    assert not certificate.mean_stable
    assert certificate.verify()
    _, path = reference_solution(problem.model, np.zeros(3), np.eye(3), [0.0, 10.0])
    assert np.allclose(path[:, :, -1], problem.covariance, rtol=1e-8)


def test_mimetic_case():
    problem = mimetic_clean()
    certificate = gct.certify_global_stability(problem.model, gct.find_equilibrium(problem.model))
    assert certificate.rate == pytest.approx(2, rel=1e-9)
    assert certificate.optimal_rate == pytest.approx(2)
    assert certificate.data["sign_condition"] > 0
    assert certificate.scope == "covariance and mean"


def test_full_mimetic_noise_spoils_the_form():
    scale = 1 / 8
    for seed in range(10):
        Z1, Z2 = np.random.default_rng(seed).standard_normal((2, 8, 8)) / np.sqrt(8)
        B = scale * (0.7 * Z1 + 0.7 * np.eye(8))
        V = 0.4 * Z2 - 0.4 * np.eye(8)
        assert np.linalg.eigvalsh(plain_attention_form(V[None], B[None]))[-1] > 0


def test_both_factors_must_be_definite():
    # The product V B is -I... yet q reaches 5.
    V, B = np.diag([1.0, -5.0]), np.diag([-1.0, 5.0])
    model = gct.GaussianTransformer(-V @ B, B, V)
    error = refused(model, IDENTITY)
    assert error.margin == pytest.approx(-5, rel=0.1)
    with pytest.raises(NotCertified):
        gct.certify_local_stability(model, IDENTITY)


def test_semidefinite_form_with_a_second_attractor():
    model, second = two_attractors()
    refused(model, IDENTITY)
    refused(model, IDENTITY, method="form")
    assert gct.certify_local_stability(model, IDENTITY).verify()
    found = gct.find_equilibria(model, rank=2)
    gaps = [np.linalg.norm(e.covariance - second) for e in found]
    assert min(gaps) < 1e-6  # a double root, so half the digits
    assert any(np.allclose(e.covariance, IDENTITY) for e in found)


def test_thresholds_are_not_certified():
    model = cubic_factor().model
    refused(model, 1.0)
    with pytest.raises(NotCertified):
        gct.certify_local_stability(model, 1.0)
    saddle = lotka_volterra((1.0, 1.0), ((-1.0, -2.0), (-2.0, -1.0))).model
    refused(saddle, IDENTITY / 3)
    with pytest.raises(NotCertified):
        gct.certify_local_stability(saddle, IDENTITY / 3)


def test_competition_is_not_certified_off_the_diagonal():
    # On diagonal covariances it is globally stable; q vanishes off the diagonal.
    problem = lotka_volterra()
    refused(problem.model, problem.covariance)


def test_trace_is_named_when_it_rules_the_form_out():
    assert "tr A" in str(refused(gct.GaussianTransformer(-1, 1, 1), 1.0, method="form"))


# -- laws -----------------------------------------------------------------------------------------


@FEW
@given(st.integers(1, 5), st.integers(0, 10**6), st.integers(-8, 8))
def test_head_gauge_changes_no_verdict(dim, seed, power):
    rng = np.random.default_rng(seed)
    heads = 1 + seed % 3
    model, S = planted_problem(rng, dim, heads, 1.0)
    gauge = 10.0 ** (power * rng.choice([-1, 1], heads))
    for verdict in (gct.certify_global_stability, gct.certify_local_stability):
        plain, moved = verdict(model, S), verdict(model.rescale_heads(gauge), S)
        assert moved.margin == pytest.approx(plain.margin, rel=1e-6)
    marginal = random_model(rng, dim, heads).replace(A=np.eye(dim))
    marginal = marginal.replace(A=-marginal.attention(np.eye(dim)))
    for verdict in (gct.certify_global_stability, gct.certify_local_stability):
        assert holds(verdict, marginal, np.eye(dim)) == holds(
            verdict, marginal.rescale_heads(gauge), np.eye(dim)
        )


def holds(verdict, model, Sigma):
    try:
        return verdict(model, Sigma).verified
    except NotCertified:
        return False


@FEW
@given(st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([1.0, 1e2, 1e4]))
def test_coordinates_change_no_verdict(dim, seed, condition):
    rng = np.random.default_rng(seed)
    model, S = planted_problem(rng, dim, 1 + seed % 3, 1.0)
    S = gct.find_equilibrium(model, S).covariance
    left, right = (np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(2))
    R = left * np.geomspace(1, condition, dim) @ right
    moved, image = model.transform(R), R @ S @ R.T
    image = gct.find_equilibrium(moved, (image + image.T) / 2)
    for verdict in (gct.certify_global_stability, gct.certify_local_stability):
        plain, there = verdict(model, S), verdict(moved, image)
        assert there.verify()
        assert there.mean_stable == plain.mean_stable
    assert there.margin > 0
    backwards = moved.reversed()
    assert not holds(gct.certify_local_stability, backwards, image)
    assert not holds(gct.certify_global_stability, backwards, image)


@FEW
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_rate_lies_between_zero_and_the_optimum(dim, seed):
    model, S = planted_problem(np.random.default_rng(seed), dim, 2, 1.0)
    certificate = gct.certify_global_stability(model, S)
    assert 0 < certificate.rate <= certificate.optimal_rate * (1 + 1e-9)
    assert certificate.rate <= -gct.find_equilibrium(model, S).covariance_abscissa * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_lyapunov_function_decreases(seed):
    rng = np.random.default_rng(seed)
    model, S = planted_problem(rng, 2, 2, 1.0)
    certificate = gct.certify_global_stability(model, S)
    depths = np.linspace(0, 3, 25)
    for scale in (1e-2, 1e2):
        _, path = reference_solution(model, np.zeros(2), scale * S, depths)
        values = [certificate.lyapunov_function(path[:, :, n]) for n in range(depths.size)]
        assert (np.diff(values) < 0).all()
    assert certificate.lyapunov_function(S) == pytest.approx(0, abs=1e-9)
    inverse = np.linalg.inv(S)
    T = 3 * S
    expected = np.trace(inverse @ T) - np.linalg.slogdet(inverse @ T)[1] - 2
    assert certificate.lyapunov_function(T) == pytest.approx(expected)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_lyapunov_matrix_belongs_to_the_linearisation(dim):
    model, S = planted_problem(np.random.default_rng(dim), dim, 2, 1.0)
    found = gct.find_equilibrium(model, S)
    certificate = gct.certify_local_stability(model, found)
    system = gct.moment_system(model)
    J = ct.linearize(system, found.operating_point(system)).A[dim:, dim:]
    P = certificate.lyapunov_matrix
    assert np.linalg.eigvalsh(P)[0] > 0
    assert np.linalg.eigvalsh(J.T @ P + P @ J)[-1] < 0


# -- soundness at the edges -----------------------------------------------------------------------


@pytest.mark.parametrize("margin", [1e-14, 1e-15, 0.0, -1e-14])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_near_marginal_forms_are_not_certified(dim, margin):
    V = -np.eye(dim)
    V[-1, -1] = -margin
    model = gct.GaussianTransformer(-V, np.eye(dim), V)
    if dim == 1:
        model = model.replace(A=1.0, V=[[[-1.0]], [[1 - margin]]], B=[[[1.0]], [[1.0]]])
        model = model.replace(A=margin)
    refused(model, np.eye(dim))
    with pytest.raises(NotCertified):
        gct.certify_local_stability(model, np.eye(dim))


@pytest.mark.parametrize("wrong", [1.01, 1.1, 2.0, 0.6])
def test_what_is_no_equilibrium_is_not_certified(wrong):
    refused(LIMIT, wrong * IDENTITY)
    with pytest.raises(NotCertified, match="expected an exact one"):
        gct.certify_local_stability(LIMIT, wrong * IDENTITY)
    skewed = np.array([[1.0, 0.2], [0.2, 1.0]])
    assert not holds(gct.certify_global_stability, LIMIT, skewed)


def test_the_radius_holds_the_exact_equilibrium():
    rough = gct.certify_global_stability(LIMIT, (1 + 1e-4) * IDENTITY)
    assert 0.999e-4 * np.sqrt(2) <= rough.radius < 3e-4
    assert rough.rate < gct.certify_global_stability(LIMIT, IDENTITY).rate


def test_a_continuum_is_not_certified():
    rotation = gct.GaussianTransformer([[0.0, 1.0], [-1.0, 0.0]], 0 * IDENTITY, 0 * IDENTITY)
    refused(rotation, IDENTITY)
    with pytest.raises(NotCertified, match="no unique solution"):
        gct.certify_local_stability(rotation, IDENTITY)


@pytest.mark.parametrize("condition", [1e6, 1e8])
def test_ill_conditioned_equilibria(condition):
    rng = np.random.default_rng(6)
    model, S = planted_problem(rng, 3, 2, 1.0)
    axes = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    root = axes * np.sqrt(np.geomspace(1, condition, 3)) @ axes.T
    wide = model.whiten(S).transform(root)
    found = gct.find_equilibrium(wide, root @ root)
    for verdict in (gct.certify_global_stability, gct.certify_local_stability):
        assert verdict(wide, found).verify()
        assert not holds(verdict, wide.reversed(), found)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_do_not_matter(unit):
    model, S = planted_problem(np.random.default_rng(7), 3, 2, 1.0)
    slow = model.replace(A=unit * model.A, V=unit * model.V)
    plain, other = (gct.certify_global_stability(m, S) for m in (model, slow))
    assert other.rate == pytest.approx(unit * plain.rate, rel=1e-6)
    wide = gct.certify_global_stability(model.replace(B=unit * model.B), S / unit)
    assert wide.rate == pytest.approx(plain.rate, rel=1e-6)


@pytest.mark.parametrize("dim", [36, pytest.param(64, marks=pytest.mark.slow)])
def test_large_models_are_certified_matrix_free(dim):
    model, S = planted_problem(np.random.default_rng(8), dim, 1, 1.0)
    certificate = gct.certify_global_stability(model, S)
    white = model.whiten(S)
    Z = np.random.default_rng(9).standard_normal((50, dim, dim))
    E = Z + Z.transpose(0, 2, 1)
    q = np.einsum("nij,nij->n", E, white.V[0] @ E @ white.B[0]) / np.square(E).sum(axis=(1, 2))
    assert (q < -certificate.margin).all()
    local = gct.certify_local_stability(model, S)
    assert local.margin > 0
    assert local.lyapunov_matrix is None


# -- the Riccati criterion ------------------------------------------------------------------------


def test_semidefinite_gain_is_decided_by_the_riccati_criterion():
    c = np.array([1.0, 1.0])
    model = gct.GaussianTransformer(np.diag([1.0, 2.0]), -np.outer(c, c) / 2, IDENTITY)
    certificate = gct.certify_global_stability(model, gct.find_equilibrium(model))
    assert certificate.method == "riccati"
    assert certificate.reading == ""  # decided with integers
    assert certificate.optimal_rate is None
    assert certificate.verify()
    refused(model, gct.find_equilibrium(model), method="form")


def test_heads_that_cancel_are_summed_without_rounding():
    # In floats G22 cancels to zero; exactly it is 1e-11, and large covariances blow up.
    v = np.array([0.9, -0.3, 0.7, -0.1])
    for seed in range(200):
        K = np.round(np.random.default_rng(seed).uniform(1, 9, 4), 1) * 1e4
        K[3] = -(v[:3] @ K[:3]) / v[3]
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(v, K, strict=True))
        if exact > 1e-13 and np.tensordot(v, K, axes=1) <= 0:
            break
    B = np.zeros((5, 2, 2))
    B[:4, 1, 1], B[4, 0, 0] = K, -1.0
    V = np.append(v, 1.0)[:, None, None] * IDENTITY
    A = np.array([[2.0, 1.0], [-1.0, 2.0]])
    model = gct.GaussianTransformer(A, B, V)
    Sigma = np.linalg.inv(gct.lyapunov(A.T, np.diag([-2.0, 2 * float(exact)])).solution)
    assert "positive eigenvalue" in str(refused(model, Sigma))
    # With the sign turned G is negative by as little, which is enough.
    turned = B * np.array([-1, -1, -1, -1, 1])[:, None, None]
    for keys, holds_exactly in ((B, False), (turned, True)):
        gain = exact_riccati_gain(gct.GaussianTransformer(A, keys, V))
        assert exactly_nonpositive(gain[0]) is holds_exactly


def test_riccati_needs_scalars_to_the_last_digit():
    c = np.array([1.0, 1.0])
    A, B = np.diag([1.0, 2.0]), -np.outer(c, c) / 2
    model = gct.GaussianTransformer(A, B, np.diag([1.0, 1 + 1e-14]))
    found = gct.find_equilibrium(model)
    # The kernel of B B^T is exact, so that another criterion applies.
    assert gct.certify_global_stability(model, found).method == "semidefinite"
    refused(model, found, method="form")
    assert "multiple of the identity" in str(refused(model, found, method="riccati"))


def test_indefinite_gain_is_refused():
    # X > 0 and -A Hurwitz, but G has a positive eigenvalue: large covariances blow up.
    A = np.array([[1.0, 4.0], [0.0, 1.0]])
    G = np.diag([-1.0, 0.05])
    model = gct.GaussianTransformer(A, G / 2, IDENTITY)
    found = gct.find_equilibrium(model)
    assert found.covariance_is_stable
    assert "positive eigenvalue" in str(refused(model, found))


# -- repeating the check --------------------------------------------------------------------------


def test_tampering_is_noticed():
    model, S = planted_problem(np.random.default_rng(10), 3, 2, 1.0)
    certificate = gct.certify_global_stability(model, S)
    assert certificate.verified
    assert certificate.verify()
    assert not tampered(certificate, covariance=1.1 * S).verify()
    assert not tampered(certificate, covariance=np.eye(3)).verify()
    assert not tampered(certificate, model=model.reversed()).verify()
    assert not tampered(certificate, rate=2 * certificate.rate).verify()
    assert not tampered(certificate, radius=0.0).verify()
    local = gct.certify_local_stability(model, S)
    assert local.verify()
    assert not tampered(local, covariance=1.1 * S).verify()
    assert not tampered(local, lyapunov_matrix=-local.lyapunov_matrix).verify()
    assert not tampered(local, lyapunov_matrix=0 * local.lyapunov_matrix).verify()
    assert not tampered(local, model=model.reversed()).verify()


def test_scope_is_part_of_what_is_verified():
    problem = lyapunov_globally_stable()
    for certify in (gct.certify_global_stability, gct.certify_local_stability):
        certificate = certify(problem.model, problem.covariance)
        assert not certificate.mean_stable
        assert "covariance" in certificate.statement
        assert not tampered(certificate, mean_stable=True).verify()


def test_gauge_moves_the_mean_only():
    model, S = planted_problem(np.random.default_rng(11), 2, 1, 0.5)
    white = model.whiten(S)
    Vbar = white.V[0] + white.V[0].T
    assert np.linalg.eigvalsh(Vbar)[-1] < 0
    assert gct.certify_global_stability(model, S).scope == "covariance and mean"
    turned = gct.certify_global_stability(model.rescale_heads(-1.0), S)
    assert turned.scope == "covariance"


def test_results_are_frozen_and_say_what_they_mean():
    certificate = gct.certify_global_stability(LIMIT, IDENTITY)
    with pytest.raises(AttributeError):
        certificate.rate = 5.0
    for words in ("Certified", "scope", "rate", "per unit depth", "optimum", "margin"):
        assert words in str(certificate)
    local = str(gct.certify_local_stability(LIMIT, IDENTITY))
    assert "exponentially" in local


# -- arguments ------------------------------------------------------------------------------------


def test_no_equilibrium_of_layers_attracts_globally():
    error = refused(LIMIT.replace(dt=0.1), IDENTITY)
    assert "dt" in str(error)


@pytest.mark.parametrize("method", ["Form", "", None, 4, "sdp"])
def test_unknown_methods(method):
    with pytest.raises(ParameterError, match=r"^method") as raised:
        gct.certify_global_stability(LIMIT, IDENTITY, method=method)
    assert "\n" not in str(raised.value)


def test_unknown_keywords():
    with pytest.raises(TypeError):
        gct.certify_global_stability(LIMIT, IDENTITY, tolerance=1)


@pytest.mark.parametrize("Sigma", [np.eye(3), -np.eye(2), np.zeros((2, 2)), None])
def test_lyapunov_function_wants_a_covariance(Sigma):
    certificate = gct.certify_global_stability(LIMIT, IDENTITY)
    with pytest.raises(ParameterError if np.shape(Sigma) != (3, 3) else ValueError, match="Sigma"):
        certificate.lyapunov_function(Sigma)


def test_a_gain_beyond_the_last_digit_is_no_rounding():
    # G22 = 1e-10 is left when large heads cancel; G22 = 1e-15 with one head.
    A, big = np.array([[1, -0.3], [4, 1.0]]), 2.0**10
    two = np.stack([big * np.eye(2), np.diag([-0.5, 0.5e-10]) - big * np.eye(2)])
    for B in (two, np.diag([-0.5, 0.5e-15])[None]):
        model = gct.GaussianTransformer(A, B, np.stack([np.eye(2)] * len(B)))
        G = 2 * B.sum(axis=0)
        Sigma = np.linalg.inv(scipy.linalg.solve_continuous_lyapunov(A.T, -G))
        with pytest.raises(gct.NotCertified):
            gct.certify_global_stability(model, Sigma)


@pytest.mark.parametrize(("condition", "dt"), [(1e4, 0.1), (1e8, 0)])
def test_ill_conditioned_certificates_verify(condition, dt):
    c, s = np.cos(0.5), np.sin(0.5)
    turn = np.array([[c, -s], [s, c]])
    Sigma = turn @ np.diag([1, 1 / condition]) @ turn.T
    model = gct.GaussianTransformer(np.eye(2), np.linalg.inv(Sigma), -np.eye(2), dt=dt)
    certificate = gct.certify_local_stability(model, gct.find_equilibrium(model, Sigma))
    assert certificate.verify()


def test_singular_equilibria_are_not_certified():
    model = gct.GaussianTransformer(np.diag([-1.0, 2.0]), np.eye(2), -np.eye(2))
    singular = gct.find_equilibria(model, rank=1)[0]
    for certify in (gct.certify_local_stability, gct.certify_global_stability):
        with pytest.raises(gct.NotCertified, match="rank 1 of 2"):
            certify(model, singular)


def test_an_identity_is_taken_for_p_only_with_a_margin():
    # J + J^T is semidefinite: eigvalsh says -1e-15, where the Lyapunov equation has a solution.
    model = gct.GaussianTransformer([[1, 0.5], [-0.5, 1]], np.diag([0.5, 0.0]), -np.eye(2))
    certificate = gct.certify_local_stability(model, gct.find_equilibrium(model))
    assert certificate.verify()


def test_your_own_lyapunov_matrix_comes_back_as_it_was():
    P = 7.0 * np.diag([1.0, 2.0, 1.0])
    certificate = gct.certify_local_stability(LIMIT, IDENTITY, lyapunov_matrix=P)
    assert np.array_equal(certificate.lyapunov_matrix, P)
    halved = gct.certify_local_stability(LIMIT, IDENTITY, lyapunov_matrix=P / 2)
    assert halved.margin == pytest.approx(certificate.margin)
    assert certificate.verify()


def test_what_the_layer_moves_is_no_fixed_point():
    layers = LIMIT.replace(dt=0.1)
    with pytest.raises(NotCertified, match="expected a fixed point of the layer"):
        gct.certify_local_stability(layers, 1.5 * IDENTITY)


def test_an_unstable_equilibrium_gets_no_hope_of_local_stability():
    eye = np.eye(2)
    model = gct.GaussianTransformer(-eye, eye, 0.5 * eye)
    point = next(e for e in gct.find_equilibria(model) if e.rank == 2)
    for method in ("auto", "form"):
        with pytest.raises(NotCertified) as caught:
            gct.certify_global_stability(model, point, method=method)
        assert "local stability may still hold" not in str(caught.value)
    assert "unstable, with covariance abscissa" in str(caught.value)
    with pytest.raises(NotCertified, match="local stability may still hold"):
        gct.certify_global_stability(model, point.covariance, method="form")
