"""The gradient case: the one candidate for P, exact and rounded structure, attacks, refusals."""

import numpy as np
import pytest
from problems import planted_problem, two_attractors
from test_soundness import converge

import gausscontrol as gct
from gausscontrol.certificates.evidence import form_stability
from gausscontrol.certificates.gradient import (
    gradient_check,
    gradient_matrix,
    gradient_shortfall,
    gradient_stability,
    has_symmetric_parts,
)


def definite(rng, dim):
    W = rng.standard_normal((dim, dim + 1))
    M = W @ W.T + 0.05 * np.eye(dim)
    return (M + M.T) / 2


def ascent(rng, dim):
    """A > 0, V = -B, B > 0, and its equilibrium B^-1 A B^-1."""
    A, B = definite(rng, dim), definite(rng, dim)
    inverse = np.linalg.inv(B)
    Sigma = inverse @ A @ inverse
    return gct.GaussianTransformer(A, B, -B), (Sigma + Sigma.T) / 2


def refused(model, Sigma):
    evidence = gradient_stability(model, Sigma)
    assert not evidence.margin > 0
    message = gradient_shortfall(evidence)
    assert "\n" not in message
    return message


# -- what is certified ----------------------------------------------------------------------------


def test_all_of_the_ascents_are_certified_and_less_than_half_by_the_form():
    rng = np.random.default_rng(0)
    gradient = form = 0
    for _ in range(200):
        model, Sigma = ascent(rng, int(rng.integers(2, 5)))
        evidence = gradient_stability(model, Sigma)
        assert evidence.data["exact"]
        assert evidence.data["reading"] == ""
        assert evidence.rate > 0
        gradient += evidence.margin > 0
        form += form_stability(model, Sigma).margin > 0
    assert gradient == 200
    assert 50 < form < 120


def test_certificates_survive_an_attack_where_the_form_is_indefinite():
    rng = np.random.default_rng(1)
    cases = []
    while len(cases) < 8:
        model, Sigma = ascent(rng, 3)
        evidence = gradient_stability(model, Sigma)
        assert evidence.margin > 0
        if form_stability(model, Sigma).margin < 0 and evidence.rate > 0.3:
            cases.append(model.whiten(Sigma))
    starts = 4
    axes = np.linalg.qr(rng.standard_normal((starts * len(cases), 3, 3)))[0]
    L = axes * 10 ** rng.uniform(-2, 1, (starts * len(cases), 1, 3))
    stack = [np.stack([getattr(m, key) for m in cases for _ in range(starts)]) for key in "AVB"]
    assert converge(*stack, L).all()


def test_other_coordinates_are_read_up_to_rounding():
    rng = np.random.default_rng(2)
    for _ in range(20):
        dim = int(rng.integers(2, 5))
        model, Sigma = ascent(rng, dim)
        R = np.linalg.qr(rng.standard_normal((dim, dim)))[0] * 10 ** rng.uniform(-0.5, 0.5, dim)
        moved, image = model.transform(R), R @ Sigma @ R.T
        image = gct.find_equilibrium(moved, (image + image.T) / 2).covariance
        evidence = gradient_stability(moved, image)
        assert evidence.margin > 0
        assert not evidence.data["exact"]
        assert "read up to rounding" in evidence.data["reading"]
        # The P there is that of the first coordinates, P = I, carried over: R^-T R^-1.
        inverse = np.linalg.inv(R)
        expected = inverse.T @ inverse
        P = evidence.witness * np.trace(expected) / np.trace(evidence.witness)
        np.testing.assert_allclose(P, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_many_heads_and_factors():
    rng = np.random.default_rng(3)
    B = np.stack([definite(rng, 3) for _ in range(3)])
    Sigma = definite(rng, 3)
    A = (B @ Sigma @ B).sum(axis=0)
    model = gct.GaussianTransformer((A + A.T) / 2, B, -B)
    evidence = gradient_stability(model, Sigma)
    assert evidence.margin > 0
    assert evidence.data["exact"]
    W_K, W_Q = rng.standard_normal((2, 1, 3, 3))
    factors = gct.GaussianTransformer.from_weights(
        W_K, W_K, -W_K, W_K.transpose(0, 2, 1), A=np.eye(3), scale=0.5
    )
    assert has_symmetric_parts(factors)
    assert gradient_stability(factors, gct.find_equilibrium(factors).covariance).margin > 0
    assert not has_symmetric_parts(
        gct.GaussianTransformer.from_weights(W_Q, W_K, W_K, -W_K.transpose(0, 2, 1))
    )


def test_one_dimension():
    evidence = gradient_stability(gct.GaussianTransformer(0.5, 1, -0.25), np.array([[2.0]]))
    assert evidence.margin > 0
    assert evidence.rate == pytest.approx(1.0)


def test_head_gauge_changes_no_verdict():
    rng = np.random.default_rng(4)
    for power in range(-8, 9, 2):
        model, Sigma = ascent(rng, 3)
        plain = gradient_stability(model, Sigma)
        moved = gradient_stability(model.rescale_heads(10.0**power), Sigma)
        assert plain.margin > 0
        assert moved.margin > 0
        assert moved.rate == pytest.approx(plain.rate, rel=1e-6)


def test_the_witness_is_checked_again():
    rng = np.random.default_rng(5)
    model, Sigma = ascent(rng, 3)
    P = gradient_matrix(model, Sigma)
    np.testing.assert_array_equal(P, np.eye(3))
    assert gradient_check(model, Sigma, P).margin > 0
    assert gradient_check(model, Sigma, 3 * P).margin > 0
    for wrong in (-P, 0 * P, np.diag([1.0, 2.0, 3.0]), P + 1e-6 * np.ones((3, 3))):
        assert not gradient_check(model, Sigma, wrong).margin > 0
    assert not gradient_check(model.reversed(), Sigma, P).margin > 0
    with pytest.raises(gct.NotCertified, match="equilibrium"):
        gradient_check(model, 1.1 * Sigma, P)


# -- what is refused ------------------------------------------------------------------------------


def test_one_digit_of_asymmetry_is_read_and_more_is_refused():
    model, Sigma = ascent(np.random.default_rng(6), 2)
    A = model.A.copy()
    A[0, 1] = np.nextafter(A[0, 1], 9.0)
    evidence = gradient_stability(model.replace(A=A), Sigma)
    assert evidence.margin > 0
    assert not evidence.data["exact"]
    A[0, 1] += 1e-9
    assert "symmetric" in refused(model.replace(A=A), Sigma)


def test_rotating_equilibria_are_refused():
    rng = np.random.default_rng(7)
    for _ in range(10):
        model, Sigma = planted_problem(rng, 3, 2, 1.0)
        assert "symmetric" in refused(model, gct.find_equilibrium(model, Sigma).covariance)


def test_symmetry_without_concavity_is_refused():
    # V = B climbs a convex function: escape.
    model = gct.GaussianTransformer(-np.eye(2), np.eye(2), np.eye(2))
    assert "negative definite" in refused(model, np.eye(2))
    # T(E) = -E_11 e1 e1^T - ... with one direction missing: zero, not negative.
    B = np.diag([1.0, 0.0])
    refused(gct.GaussianTransformer(np.diag([1.0, 0.0]), B, -B), np.eye(2))


def test_counterexamples_are_refused():
    model, _ = two_attractors()
    refused(model, np.eye(2))
    V, B = np.diag([1.0, -5.0]), np.diag([-1.0, 5.0])
    refused(gct.GaussianTransformer(-V @ B, B, V), np.eye(2))


def test_an_indefinite_P_is_refused():
    # With P = diag(1, -1): P A and P T(E) are symmetric and P T is definite, but P is not.
    P, B = np.diag([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    model = gct.GaussianTransformer(P @ B @ B, B, -P @ B)
    evidence = gradient_stability(model, np.eye(2))
    assert not evidence.margin > 0


def test_large_models_are_refused():
    identity = np.eye(33)
    with pytest.raises(gct.NotCertified, match="d <= 32"):
        gradient_stability(gct.GaussianTransformer(identity, identity, -identity), identity)
