"""A semidefinite form: kernels known from structure, readings, and everything that is refused."""

import numpy as np
import pytest
from problems import lotka_volterra, planted_problem, two_attractors
from test_soundness import converge

import gausscontrol as gct
from gausscontrol.certificates.evidence import riccati_stability
from gausscontrol.certificates.semidefinite import (
    common_kernel,
    rounded_kernel,
    semidefinite_shortfall,
    semidefinite_stability,
)


def unseen(rng, dim, seen, scale=1.0):
    """A model at Sigma = R^2, R diagonal, whose B sees the first coordinates only; V~ < 0."""
    W = rng.standard_normal((3, dim, dim))
    V = -(W[0] @ W[0].T / dim + 0.3 * np.eye(dim)) + 0.3 * (W[1] - W[1].T)
    B = np.zeros((dim, dim))
    F = rng.standard_normal((seen, seen))
    B[:seen, :seen] = F @ F.T / seen + 0.2 * np.eye(seen)
    A = (W[2] - W[2].T) - V @ B
    R = np.diag(10 ** rng.uniform(-scale, scale, dim))
    return gct.GaussianTransformer(A, B, V).transform(R), R @ R


def found(model, Sigma):
    return gct.find_equilibrium(model, Sigma).covariance


def refused(model, Sigma):
    evidence = semidefinite_stability(model, Sigma)
    assert not evidence.margin > 0
    message = semidefinite_shortfall(model, evidence)
    assert "\n" not in message
    return message


# -- what is certified ----------------------------------------------------------------------------


def test_unseen_directions_are_certified_without_any_reading():
    rng = np.random.default_rng(0)
    for _ in range(20):
        dim = int(rng.integers(2, 6))
        seen = int(rng.integers(1, dim))
        model, Sigma = unseen(rng, dim, seen)
        Sigma = found(model, Sigma)
        evidence = semidefinite_stability(model, Sigma)
        assert evidence.margin > 0
        assert evidence.data["exact"]
        assert evidence.data["reading"] == ""
        assert evidence.data["common_kernel"] == dim - seen
        assert evidence.rate > 0
        assert evidence.data["observability"] > 0
        # the form alone does not certify: it has a kernel
        with pytest.raises(gct.NotCertified):
            gct.certify_global_stability(model, Sigma, method="form")


def test_certificates_survive_an_attack():
    rng = np.random.default_rng(1)
    starts, cases = 4, []
    while len(cases) < 8:
        model, Sigma = unseen(rng, 3, int(rng.integers(1, 3)), scale=0.3)
        Sigma = found(model, Sigma)
        evidence = semidefinite_stability(model, Sigma)
        assert evidence.margin > 0
        if evidence.rate > 0.1:  # slow ones take too long to run
            cases.append(model.whiten(Sigma))
    axes = np.linalg.qr(rng.standard_normal((starts * len(cases), 3, 3)))[0]
    L = axes * 10 ** rng.uniform(-2, 2, (starts * len(cases), 1, 3))
    stack = [np.stack([getattr(m, key) for m in cases for _ in range(starts)]) for key in "AVB"]
    assert converge(*stack, L).all()


def test_narrow_heads_have_a_kernel_by_construction():
    rng = np.random.default_rng(2)
    dim, dk = 3, 1
    W_K = rng.standard_normal((1, dk, dim))
    W_V = np.eye(dim)[None] + 0.1 * rng.standard_normal((1, dim, dim))
    W_O = -np.eye(dim)[None]
    Z = rng.standard_normal((dim, dim))
    plain = gct.GaussianTransformer.from_weights(W_K, W_K, W_V, W_O)
    model = plain.replace(A=(Z - Z.T) - plain.attention(np.eye(dim)))
    assert common_kernel(model) == dim - dk
    dense = gct.GaussianTransformer(model.A, model.B, model.V)
    assert common_kernel(dense) <= dim - dk  # products were rounded
    assert rounded_kernel(dense) == dim - dk
    for each in (model, dense):
        evidence = semidefinite_stability(each, np.eye(dim))
        assert evidence.margin > 0
        assert evidence.data["common_kernel"] == dim - dk
    assert semidefinite_stability(model, np.eye(dim)).data["exact"]


def test_a_rounded_kernel_is_read_and_said_to_be():
    rng = np.random.default_rng(3)
    model, Sigma = unseen(rng, 3, 2, scale=0.1)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turned = model.transform(turn)
    assert common_kernel(turned) == 0
    evidence = semidefinite_stability(turned, found(turned, turn @ Sigma @ turn.T))
    assert evidence.margin > 0
    assert not evidence.data["exact"]
    assert "read up to rounding" in evidence.data["reading"]


def test_definite_forms_need_no_kernel():
    model, Sigma = planted_problem(np.random.default_rng(4), 3, 2, 1.0)
    evidence = semidefinite_stability(model, found(model, Sigma))
    assert evidence.margin > 0
    assert evidence.data["common_kernel"] == 0


def test_head_gauge_changes_no_verdict():
    rng = np.random.default_rng(5)
    for power in range(-8, 9, 2):
        model, Sigma = unseen(rng, 3, 2, scale=0.3)
        Sigma = found(model, Sigma)
        plain = semidefinite_stability(model, Sigma)
        moved = semidefinite_stability(model.rescale_heads(10.0**power), Sigma)
        assert moved.margin == pytest.approx(plain.margin, rel=1e-6)
        model, _ = two_attractors()
        refused(model.rescale_heads(10.0**power), np.eye(2))


# -- what is refused ------------------------------------------------------------------------------


def test_the_second_attractor_is_not_overlooked():
    model, _ = two_attractors()
    assert "common kernel" in refused(model, np.eye(2))


def test_indefinite_form_of_two_negative_products():
    V, B = np.diag([1.0, -5.0]), np.diag([-1.0, 5.0])
    assert "positive eigenvalue 5" in refused(gct.GaussianTransformer(-V @ B, B, V), np.eye(2))


def test_a_continuum_is_refused():
    problem = lotka_volterra()
    refused(problem.model, problem.covariance)


@pytest.mark.parametrize("trace", [0.0, -1.0])
def test_trace_is_necessary(trace):
    Z = np.array([[0.0, 1.0], [-1.0, 0.0]])
    A = Z + trace / 2 * np.eye(2)
    V = -np.eye(2) if trace else np.diag([-1.0, 1.0]) @ Z
    B = -trace / 2 * np.eye(2) * -1 if trace else np.diag([1.0, 1.0])
    model = gct.GaussianTransformer(A - (A + V @ B), B, V)
    assert "tr A" in refused(model, np.eye(2))


def test_an_unobservable_pair_is_refused():
    # Nothing couples the unseen coordinate, which keeps its variance.
    model = gct.GaussianTransformer(np.diag([1.0, 0.0]), np.diag([1.0, 0.0]), -np.eye(2) * 1.0)
    twin = model.replace(V=np.array([[-1.0, 0.0], [0.0, -2.0]]))
    assert "observable" in refused(twin, np.eye(2))


@pytest.mark.parametrize("tiny", [-1e-9, 1e-13, -1e-13, -1e-15])
def test_a_small_eigenvalue_is_not_zero(tiny):
    rng = np.random.default_rng(6)
    model, Sigma = unseen(rng, 2, 1, scale=0.0)
    B = model.B + np.diag([0.0, tiny])
    moved = model.replace(B=B)
    moved = moved.replace(A=model.A - (moved.attention(np.eye(2)) - model.attention(np.eye(2))))
    refused(moved, found(moved, Sigma))


def test_units_do_not_hide_an_eigenvalue():
    # In these units the last key counts as much as rounding of the first, not so in whitened ones.
    rng = np.random.default_rng(7)
    model, _ = unseen(rng, 2, 1, scale=0.0)
    B = model.B + np.diag([0.0, -1e-7])
    white = model.replace(B=B)
    white = white.replace(A=model.A - (white.attention(np.eye(2)) - model.attention(np.eye(2))))
    R = np.diag([1.0, 1e5])
    moved = white.transform(R)
    assert rounded_kernel(moved) == 1
    refused(moved, found(moved, R @ R))


def test_scalar_values_are_left_to_the_riccati_criterion():
    c = np.array([0.3, 0.7])
    A = np.array([[1.0, 0.5], [-0.5, 1.0]])
    for tiny in (0.0, 1e-15, -1e-15):
        B = np.outer(c, c) + np.diag([0.0, tiny])
        model = gct.GaussianTransformer(A, B, -np.eye(2))
        Sigma = found(model, None)
        if semidefinite_stability(model, Sigma).margin > 0:
            assert riccati_stability(model, Sigma).margin > 0


def test_rough_points_and_large_models_are_refused():
    model, Sigma = unseen(np.random.default_rng(8), 3, 2)
    with pytest.raises(gct.NotCertified, match="equilibrium"):
        semidefinite_stability(model, 1.1 * found(model, Sigma))
    identity = np.eye(33)
    with pytest.raises(gct.NotCertified, match="d <= 32"):
        semidefinite_stability(gct.GaussianTransformer(identity, identity, -identity), identity)


def test_no_attention_is_no_attraction():
    model = gct.GaussianTransformer(
        np.array([[0.0, 1.0], [-1.0, 0.0]]), np.zeros((2, 2)), np.eye(2)
    )
    refused(model, np.eye(2))
