"""Blow-up where every value matrix is a multiple of I: exact thresholds, no false verdict."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.certificates.balance import balanced
from gausscontrol.certificates.riccati_growth import (
    escape_level,
    riccati_flow,
    witness_margin,
)
from gausscontrol.model.structure import riccati_gain

LAWS = settings(derandomize=True, deadline=None, max_examples=12)
SEEDS = st.integers(0, 10_000)
SADDLE = np.diag([1.0, -1.0])


def random_model(rng):
    """d = 1 to 5, 1 to 3 heads on one B or on several, definite, singular or indefinite."""
    dim, heads = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    A = rng.standard_normal((dim, dim)) + rng.choice([-3.0, -1.0, 0.0, 1.0]) * np.eye(dim)
    sort = rng.integers(0, 5)
    if sort == 0:
        A = rng.choice([-1.0, 0.0, 1.0]) * np.eye(dim)
    elif sort == 1:
        A = 3 * (A - A.T)
    elif sort == 2:
        A = np.diag(A.diagonal())
    B = rng.standard_normal((heads, dim, dim))
    kind = rng.integers(0, 4)
    if kind == 0:
        B = B @ B.transpose(0, 2, 1)
    elif kind == 1:
        B = rng.standard_normal((heads, 1, 1)) * B[0]
    elif kind == 2:
        B = rng.integers(1, 4, (heads, 1, 1)) * np.diag(rng.integers(-2, 3, dim)).astype(float)
    v = rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 2.0, heads)
    return gct.GaussianTransformer(A, B, v[:, None, None] * np.eye(dim))


def levels(model, L, depths):
    """lambda_max(L^T W(t) L) at depths, from a block exponential and doubling (Theory 3.2)."""
    A, G, dim = model.A, riccati_gain(model), model.dim
    block = np.block([[-A.T, G], [np.zeros_like(A), A]])
    found = []
    for t in depths:
        halvings = max(int(np.ceil(np.log2(max(t * np.linalg.norm(A), 1e-9)))) + 1, 0)
        flow = scipy.linalg.expm(t / 2**halvings * block)
        E, W = flow[dim:, dim:], flow[dim:, dim:].T @ flow[:dim, dim:]
        for _ in range(halvings):
            W, E = W + E.T @ W @ E, E @ E
        found.append(np.linalg.eigvalsh(L.T @ (W + W.T) @ L / 2)[-1])
    return np.array(found)


def attempt(model, *start):
    try:
        return gct.certify_blow_up(model, *start, sdp=False)
    except gct.NotCertified:
        return None


def attack(count, seed, rigorous=50):
    """Return how many claims were tried, and those that the closed form refutes."""
    rng = np.random.default_rng(seed)
    tried, wrong = {"beyond": 0, "escapes": 0, "stays": 0}, []
    for index in range(count):
        model = random_model(rng)
        G = riccati_gain(model)
        top, size = np.linalg.eigvalsh(G)[-1], np.linalg.norm(G)
        certificate = attempt(model)
        if (certificate is None) != (top <= 1e-10 * size):
            wrong.append((index, "verdict"))
        if certificate is None:
            continue
        if index % rigorous == 0 and not certificate.verify(rigorous=True):
            wrong.append((index, "proof"))
        L = rng.standard_normal((model.dim, int(rng.integers(1, model.dim + 1))))
        y = certificate.level(L @ L.T)
        if y > 0:
            least = certificate._least_level or 0.1
            L = L * np.sqrt(least / y * (1 + 10 ** rng.uniform(-6, 0)))
            depth = certificate.time_bound(L @ L.T)
            tried["beyond"] += 1
            if not (np.isfinite(depth) and levels(model, L, [depth])[0] > 1 - 1e-7):
                wrong.append((index, "beyond"))
        # A start of any size: what escapes on a fine grid is certified, and nothing else is.
        L = rng.standard_normal(L.shape) * np.sqrt(10 ** rng.uniform(-1.5, 1.5) / size)
        horizon = 6 / max(np.linalg.norm(model.A), 1.0)
        grid = levels(model, L, np.linspace(0, horizon, 60)[1:])
        found = attempt(model, L @ L.T)
        if found is not None:
            tried["escapes"] += 1
            depth = found.time_bound(L @ L.T)
            if not levels(model, L, [depth])[0] > 1 - 1e-7:
                wrong.append((index, "given"))
        else:
            tried["stays"] += 1
            if grid.max() > 1 + 1e-6:
                wrong.append((index, "missed"))
    return tried, wrong


# -- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [-1.0, 0.0, 0.5])
def test_multiples_of_the_identity_are_decided_exactly(a):
    model = gct.GaussianTransformer(a * np.eye(2), SADDLE / 2, np.eye(2))
    certificate = gct.certify_blow_up(model)
    assert certificate.method == "riccati"
    assert certificate.threshold == pytest.approx(max(0.0, -2 * a))
    # Along the first axis s' = 2 a s + s^2.
    start = np.diag([4.0, 1.0])
    exact = np.log1p(2 * a / 4) / (2 * a) if a else 1 / 4
    assert certificate.time_bound(start) == pytest.approx(exact)
    with pytest.warns(gct.BlowUpWarning):
        response = gct.moment_response(model, [0.0, 1.0], (np.zeros(2), start))
    assert response.blow_up_time == pytest.approx(exact)
    assert certificate.verify(rigorous=True)


def test_the_threshold_of_a_contracting_layer_is_that_of_the_whole_depth():
    # W(t) tends to G/2 for A = -I; with a rotation it does so along the trace.
    turning = np.array([[-1.0, 3.0], [-3.0, -1.0]])
    model = gct.GaussianTransformer(turning, np.eye(2) / 2, [np.eye(2)])
    model = model.replace(B=np.diag([0.75, 0.25])[None])
    certificate = gct.certify_blow_up(model, 100 * np.eye(2), sdp=False)
    W = scipy.linalg.solve_continuous_lyapunov(turning.T, -riccati_gain(model))
    least = 1 / np.linalg.eigvalsh(W)[-1]
    for size, escapes in ((1.001, True), (0.999, False)):
        found = attempt(model, size * least * np.eye(2))
        assert (found is not None) == escapes
    assert certificate.contains(100 * np.eye(2))


def test_levels_that_rise_and_return():
    """A rotation at 20 and G = 60 diag(1, -1): up to 4.86 and back within a period."""
    model = gct.GaussianTransformer([[0, 20], [-20, 0]], 30 * SADDLE, np.eye(2))
    start = np.full((2, 2), 0.81)
    certificate = gct.certify_blow_up(model, start, rigorous=True)
    depths = np.linspace(0, np.pi / 20, 4001)[1:]
    heights = levels(model, np.full((2, 1), 0.9), depths)
    assert heights.max() == pytest.approx(4.86, abs=0.01)
    first = depths[np.argmax(heights >= 1)]
    assert certificate.time_bound(start) == pytest.approx(first, rel=1e-2)
    small = start / 4.87
    with pytest.raises(gct.NotCertified, match="of the threshold of method 'riccati'"):
        gct.certify_blow_up(model, small)


def test_negative_directions_do_not_hide_positive_ones():
    # Expansion where G is negative, contraction where it is positive.
    model = gct.GaussianTransformer(SADDLE, -SADDLE / 2, np.eye(2))
    certificate = gct.certify_blow_up(model)
    assert certificate.contains(np.diag([1.0, 2.01]))
    assert not certificate.contains(np.diag([1.0, 1.99]))
    assert not certificate.contains(np.diag([100.0, 0.0]))
    with pytest.raises(gct.NotCertified, match="is not positive beyond rounding"):
        gct.certify_blow_up(model, np.diag([1.0, 0.0]))


def test_the_regime_and_the_report():
    model = gct.GaussianTransformer([[0.0, 2.0], [-2.0, -0.1]], SADDLE, np.eye(2))
    found = gct.classify(model, sdp=False)
    assert found.satisfies("blow-up")
    certificate = found.certificates["blow-up"]
    assert "lambda_max(P Sigma_0) > 1 escapes to infinity no later than depth" in str(certificate)
    with pytest.raises(gct.NotCertified, match="expected continuous depth"):
        gct.certify_blow_up(model.replace(dt=0.1))


def test_the_sign_of_the_gain_is_exact():
    heads = np.array([0.1, 0.2, -0.3]).reshape(3, 1, 1) * np.eye(2)
    B = np.stack([np.diag([1.0, -1.0])] * 3)
    assert attempt(gct.GaussianTransformer(-np.eye(2), B, heads)) is not None
    assert attempt(gct.GaussianTransformer(-np.eye(2), -B[:1] @ B[:1], np.eye(2))) is None
    # Nearly a multiple of the identity is none.
    V = np.diag([1.0, np.nextafter(1.0, 2.0)])
    assert attempt(gct.GaussianTransformer(-np.eye(2), SADDLE, V)) is None


# -- laws -----------------------------------------------------------------------------------------


@LAWS
@given(SEEDS)
def test_gramians_are_within_their_bounds(seed):
    rng = np.random.default_rng(seed)
    flow = riccati_flow(balanced(random_model(rng)))
    depth = 10 ** rng.uniform(-3, 0.5) / max(np.linalg.norm(flow.A), 1.0)
    W, error = flow.gramian(depth)
    twice, wider = flow.gramian(2 * depth)
    E = scipy.linalg.expm(depth * flow.A)
    assert np.linalg.norm(twice - W - E.T @ W @ E) <= 4 * (wider + error) + 1e-12
    slope = (flow.gramian(1e-6 * depth)[0]) / (1e-6 * depth)
    np.testing.assert_allclose(slope, flow.G, atol=1e-5 * np.linalg.norm(flow.G) + 1e-300)
    assert witness_margin(flow, W + 2 * error * np.eye(len(W)), depth) == -np.inf


@LAWS
@given(SEEDS)
def test_levels_grow_with_the_covariance_and_in_proportion(seed):
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 6))
    P, L = rng.standard_normal((2, dim, dim))
    P, Sigma = P + P.T, L @ L.T
    level = escape_level(P, Sigma)
    exact = max(float(np.linalg.eigvals(P @ Sigma).real.max()), 0.0)
    assert level <= exact * (1 + 1e-9)
    assert level >= exact - 1e-9 * np.linalg.norm(P) * np.linalg.norm(Sigma)
    assert escape_level(P, 3 * Sigma) == pytest.approx(3 * level)
    if level > 0:
        assert escape_level(P, Sigma + np.eye(dim)) >= level * (1 - 1e-9)


@LAWS
@given(SEEDS)
def test_coordinates_and_gauge_change_nothing(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    certificate = attempt(model)
    if certificate is None:
        return
    scale = 2.0 ** rng.integers(-8, 9, model.dim)
    moved = model.transform(np.diag(scale))
    again = attempt(moved)
    L = rng.standard_normal((model.dim, model.dim))
    Sigma = L @ L.T
    found, other = attempt(model, Sigma), attempt(moved, scale[:, None] * Sigma * scale)
    assert (found is None) == (other is None)
    gauge = 2.0 ** rng.integers(-30, 31)
    gauged = attempt(model.replace(V=model.V * gauge, B=model.B / gauge))
    assert again is not None
    assert gauged.time_bound(Sigma) == pytest.approx(certificate.time_bound(Sigma))


def test_no_verdict_is_false():
    tried, wrong = attack(60, seed=1)
    assert not wrong
    assert min(tried.values()) >= 10


@pytest.mark.slow
def test_no_verdict_of_two_thousand_models_is_false():
    tried, wrong = attack(2_000, seed=2)
    assert not wrong
    assert min(tried.values()) >= 300


# -- proofs ---------------------------------------------------------------------------------------


@LAWS
@given(SEEDS)
def test_what_is_certified_is_proved(seed):
    pytest.importorskip("flint")
    certificate = attempt(random_model(np.random.default_rng(seed)))
    if certificate is None or certificate.method != "riccati":
        return
    assert certificate.verify(rigorous=True)
    room = np.eye(certificate.model.dim) * 1e-6 * np.linalg.norm(certificate.P)
    for changes in ({"P": certificate.P + room}, {"depth": 0.5}, {"threshold": 0.0}):
        if changes == {"threshold": certificate.threshold}:
            continue
        altered = replace(certificate, **changes)
        assert not altered.verify()
        assert not altered._prove() or changes == {"depth": 0.5}
