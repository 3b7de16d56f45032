"""Boundedness, collapse and blow-up: known answers, laws, and an attack by simulation."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from flows import integrate
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.certificates.balance import balanced
from gausscontrol.certificates.blow_up import certify_blow_up
from gausscontrol.certificates.regime import certify_boundedness, certify_collapse

CERTIFIERS = {
    "bounded": certify_boundedness,
    "collapse": certify_collapse,
    "blow-up": certify_blow_up,
}
LAWS = settings(derandomize=True, deadline=None, max_examples=15)


# -- models ---------------------------------------------------------------------------------------


def definite(rng, dim, condition=10.0):
    Q = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    values = np.exp(rng.uniform(0, np.log(condition), dim)) if dim > 1 else np.ones(1)
    return (Q * values) @ Q.T / 2 + (Q * values @ Q.T).T / 2


def spectrum_matrix(rng, dim, abscissa, skew=3.0):
    """A non-normal matrix with complex pairs whose largest real part is as given."""
    T = np.triu(skew * rng.standard_normal((dim, dim)), 1)
    parts = abscissa - 10 ** rng.uniform(-1.5, 1, dim)
    at = 0
    lead = True
    while at < dim:
        pair = at + 1 < dim and rng.integers(0, 2)
        value = abscissa if lead else parts[at]
        T[at, at] = value
        if pair:
            w = 10 ** rng.uniform(-1, 1)
            T[at + 1, at + 1] = value
            T[at, at + 1], T[at + 1, at] = w, -w
        lead = False
        at += 2 if pair else 1
    Q = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return Q @ T @ Q.T


def shared_key_model(rng, dim, sign):
    """One head with B = B^T > 0 and V of abscissa `sign` times something down to 1e-4."""
    V = spectrum_matrix(rng, dim, sign * 10 ** rng.uniform(-4, 0.5), skew=rng.choice([0.3, 3.0]))
    B = definite(rng, dim, 10 ** rng.uniform(0, 4))
    A = rng.standard_normal((dim, dim))
    return gct.GaussianTransformer(A, (B + B.T) / 2, V)


def random_model(rng, index):
    """Models of every sort, by turns; some of them within 1e-3 of a change of verdict."""
    dim, heads = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    A = rng.standard_normal((dim, dim)) - rng.uniform(-1, 3) * np.eye(dim)
    V, B = rng.standard_normal((2, heads, dim, dim))
    sort = index % 6
    if sort == 0:  # every sign of everything
        return gct.GaussianTransformer(A, B, V)
    if sort == 1:  # mostly dissipative
        P, Q = rng.standard_normal((2, heads, dim, dim))
        V = 0.3 * V - P @ P.swapaxes(1, 2) / dim
        return gct.GaussianTransformer(A, 0.3 * B + Q @ Q.swapaxes(1, 2) / dim, V)
    if sort == 2:  # mostly growing
        P, Q = rng.standard_normal((2, heads, dim, dim))
        V = 0.3 * V + P @ P.swapaxes(1, 2) / dim
        return gct.GaussianTransformer(A, 0.3 * B + Q @ Q.swapaxes(1, 2) / dim, V)
    if sort == 3:  # one key matrix, V near the axis at times
        model = shared_key_model(rng, dim, rng.choice([-1.0, 1.0]))
        return model.replace(A=A)
    if sort == 4:  # a key matrix that is not symmetric
        V = spectrum_matrix(rng, dim, rng.choice([-1, 1]) * 10 ** rng.uniform(-3, 0.5))
        Z = rng.standard_normal((dim, dim))
        B = definite(rng, dim) + rng.uniform(0, 2) * (Z - Z.T)
        return gct.GaussianTransformer(A, B, V)
    return near_marginal(rng, A, V, B)


def near_marginal(rng, A, V, B):
    """The shift of V at which the form of P = I changes sign on rank-one matrices, nearly."""
    dim = len(A)
    B = B @ B.swapaxes(1, 2) / dim + 0.1 * np.eye(dim)
    X = rng.standard_normal((400, dim))
    X /= np.linalg.norm(X, axis=1)[:, None]

    def worst(shift):
        moved = V - shift * np.eye(dim)
        forms = np.einsum("ni,hij,nj->nh", X, moved, X) * np.einsum("ni,hij,nj->nh", X, B, X)
        return forms.sum(axis=1).max()

    low, high = -20.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if worst(middle) > 0 else (low, middle)
    shift = high + rng.choice([-1e-1, -1e-3, 1e-3, 1e-2, 1e-1, 0.5])
    return gct.GaussianTransformer(A, B, rng.choice([1.0, -1.0]) * (V - shift * np.eye(dim)))


# -- attack ---------------------------------------------------------------------------------------


def certificates(model):
    """Yield what is certified; what one statement excludes is not tried."""
    bounded = attempt(certify_boundedness, model)
    if bounded is None:
        yield "blow-up", attempt(certify_blow_up, model)
        return
    yield "bounded", bounded
    yield "collapse", attempt(certify_collapse, model)


def attempt(certify, model, *arguments, **options):
    try:
        certificate = certify(model, *arguments, **options)
    except gct.NotCertified:
        return None
    assert certificate.verified
    return certificate


def random_factor(rng, dim, low, high):
    """A factor of random rank whose covariance has eigenvalues from 10^low to 10^high."""
    rank = int(rng.integers(1, dim + 1))
    axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    values = 10 ** rng.uniform(low, high, dim)
    values[rank:] = 0
    return axes * np.sqrt(values)


def threshold_factor(rng, certificate):
    """A start just beyond the threshold, with the least growth of twenty, and its time bound."""
    model = certificate.model
    best = None
    for _ in range(20):
        L = random_factor(rng, model.dim, -3, 1)
        S = L @ L.T
        level = certificate.level(S)
        if not level > 1e-12 * np.trace(S):
            continue
        limit = max(certificate._growth.level, 1e-3 / certificate.gain)
        L = L * np.sqrt(rng.choice([1.001, 1.1, 10.0]) * limit / level)
        growth = certificate_rate(certificate, L @ L.T)
        if certificate.contains(L @ L.T) and (best is None or growth < best[0]):
            best = growth, L
    if best is None:
        return None
    return best[1], certificate.time_bound(best[1] @ best[1].T)


def certificate_rate(certificate, S):
    """y' / y^2 at a covariance, for the y of the certificate."""
    model = certificate.model
    M = model.drift(S)
    P = model.B[0] if certificate.P is None else certificate.P
    return 2 * np.sum((P @ M) * S) / np.sum(P * S) ** 2


class Attack:
    def __init__(self, seed, steps=3_000):
        self.rng = np.random.default_rng(seed)
        self.issued, self.trials, self.false = Counter(), {}, []
        self.steps, self.left, self.settled = steps, 0, 0

    def add(self, kind, certificate, starts=2):
        self.issued[f"{kind} ({certificate.method})"] += 1
        model = certificate.model
        for _ in range(starts):
            if kind == "blow-up":
                start = threshold_factor(self.rng, certificate)
                if start is None:
                    continue
                L, depth = start
            else:
                unit = 1 / model.heads.norm_bound() if model.heads.norm_bound() > 0 else 1.0
                L = np.sqrt(unit) * random_factor(self.rng, model.dim, -3, 4)
                # Deep enough to settle, not so deep that a decaying covariance underflows.
                decaying = kind == "collapse" or certificate.rate < 0
                depth = min(30 / abs(certificate.rate), 3000.0) if decaying else 300.0
            key = (kind, model.dim, model.n_heads)
            self.trials.setdefault(key, []).append((certificate, L, depth))

    def run(self):
        for (kind, *_), trials in self.trials.items():
            proofs, L, depth = zip(*trials, strict=True)
            arrays = [np.array([getattr(c.model, x) for c in proofs]) for x in ("A", "V", "B")]
            check = getattr(self, "_" + kind.replace("-", "_"))
            held = check(proofs, arrays, np.array(L), np.array(depth))
            self.false += [(kind, c) for c, fine in zip(proofs, held, strict=True) if not fine]
        return self.false

    # Stiff trajectories are left after a number of steps; the certified comparison is then checked
    # at the depth reached, so that slow is not taken for wrong.

    def _blow_up(self, proofs, arrays, L, depth):
        flow = integrate(*arrays, L, depth * (1 + 1e-3), Steps(self.steps), rtol=1e-8)
        held = flow.escaped.copy()
        for at in np.flatnonzero(flow.stopped):
            self.left += 1
            remaining = proofs[at].time_bound(flow.L[at] @ flow.L[at].T)
            held[at] = flow.t[at] + remaining <= depth[at] * (1 + 1e-3)
        return held

    def _bounded(self, proofs, arrays, L, depth):
        flow = integrate(*arrays, L, depth, Steps(self.steps))
        held = ~flow.escaped
        for at, (proof, start, end) in enumerate(zip(proofs, L, flow.L, strict=True)):
            self.left += flow.stopped[at]
            most = logistic(proof, measure(proof, start), flow.t[at])
            held[at] &= measure(proof, end) <= 1.001 * most
            if flow.t[at] >= depth[at] and most * proof.gain < 1.001 * proof.rate:
                held[at] &= np.sum(end**2) <= 1.001 * proof.bound
                self.settled += 1
        return held

    def _collapse(self, proofs, arrays, L, depth):
        flow = integrate(*arrays, L, depth, Steps(self.steps))
        held = ~flow.escaped
        for at, (proof, start, end) in enumerate(zip(proofs, L, flow.L, strict=True)):
            self.left += flow.stopped[at]
            most = measure(proof, start) * np.exp(-proof.rate * flow.t[at])
            held[at] &= measure(proof, end) <= 1.01 * most
        return held


class Steps:
    """Stops every trajectory after a number of steps."""

    def __init__(self, count):
        self.left = count

    def __call__(self, L):
        self.left -= 1
        return np.full(len(L), self.left < 0)


def logistic(proof, y, t):
    """The solution of y' = 2 (rate y - gain y^2)."""
    a, k = proof.rate, proof.gain
    if a > 0:
        decay = np.exp(-2 * a * t)
        return y / (decay - k * y * np.expm1(-2 * a * t) / a)
    growth = np.expm1(2 * a * t) / a if a else 2 * t
    return y * np.exp(2 * a * t) / (1 + k * y * growth)


def measure(certificate, L):
    """The quantity that a collapse certificate says decays."""
    if certificate.P is not None:
        return np.sum(certificate.P * (L @ L.T))
    B = certificate.model.B[0]
    B = B * np.sign(np.trace(B))
    return np.linalg.norm(np.linalg.cholesky((B + B.T) / 2).T @ L, 2) ** 2


def attack(count, seed, starts=2, first=0, steps=3_000):
    rng = np.random.default_rng(seed)
    campaign = Attack(seed + 1, steps)
    for index in range(first, first + count):
        for kind, certificate in certificates(random_model(rng, index)):
            if certificate is not None:
                campaign.add(kind, certificate, starts)
    return campaign.issued, campaign.run()


# -- known answers --------------------------------------------------------------------------------


@LAWS
@given(
    a=st.sampled_from([-2.0, -0.3, 0.4, 3.0]),
    gain=st.sampled_from([-5.0, -0.01, 0.02, 1.0]),
    key=st.sampled_from([-1e6, -0.5, 2.0, 1e-7]),
)
def test_one_dimension_agrees_with_the_scalar_equation(a, gain, key):
    # S' = 2 a S + 2 gain S^2, classified by signs.
    model = gct.GaussianTransformer(a, key, gain / key)
    verdicts = {kind: attempt(certify, model, sdp=False) for kind, certify in CERTIFIERS.items()}
    assert (verdicts["blow-up"] is not None) == (gain > 0)
    assert (verdicts["bounded"] is not None) == (gain < 0)
    assert (verdicts["collapse"] is not None) == (gain < 0 and a < 0)
    if gain > 0:
        start = 2 * max(-a / gain, 1.0)
        exact = np.log(1 + a / (gain * start)) / (2 * a)
        bound = certify_blow_up(model, [[start]]).time_bound([[start]])
        assert exact <= bound <= exact * (1 + 1e-6)
    elif a > 0:
        np.testing.assert_allclose(verdicts["bounded"].bound, -a / gain, rtol=1e-5)
    else:
        np.testing.assert_allclose(verdicts["collapse"].rate, -2 * a, rtol=1e-9)


@pytest.mark.parametrize(
    "dim", [1, 2, 3, *(pytest.param(dim, marks=pytest.mark.slow) for dim in (4, 5, 6))]
)
def test_a_shared_key_is_decided_by_the_spectrum_of_v(dim):
    rng = np.random.default_rng(dim)
    for _ in range(2 if dim < 4 else 6):
        growing = shared_key_model(rng, dim, 1.0)
        certificate = certify_blow_up(growing, sdp=False)
        Z = rng.standard_normal((dim, dim))
        S = Z @ Z.T
        S = S * (2 * certificate._growth.level / certificate.level(S) + 1)
        assert certify_blow_up(growing, S, sdp=False).contains(S)
        with pytest.raises(gct.NotCertified):
            certify_boundedness(growing, sdp=dim < 4)
        settling = shared_key_model(rng, dim, -1.0)
        assert certify_boundedness(settling, sdp=False).verify()


def test_spectral_numbers_are_those_of_the_symmetric_parts():
    A, V = np.diag([-1.0, -3.0]), np.diag([0.5, 2.0])
    certificate = certify_blow_up(gct.GaussianTransformer(A, np.eye(2), V))
    assert certificate.method == "spectral"
    np.testing.assert_allclose(certificate.threshold, 6.0, rtol=1e-9)  # |a-| / v- = 6 / 1
    heavier = certify_blow_up(gct.GaussianTransformer(A, 50 * np.eye(2), V))
    np.testing.assert_allclose(heavier.threshold, 6.0, rtol=1e-9)
    np.testing.assert_allclose(heavier.level(np.diag([1.0, 0.5])), 50.0, rtol=1e-9)
    bounded = certify_boundedness(gct.GaussianTransformer(-A, np.eye(2), -V))
    assert bounded.bound <= 12.0 * (1 + 1e-9)  # (a+ / |v+|) tr I


def test_escape_is_no_later_than_the_bound_and_not_far_from_it():
    V = np.array([[1.0, 4.0], [0.0, -2.0]])
    model = gct.GaussianTransformer(-np.eye(2), np.eye(2), V)
    S = np.array([[1.0, 2.0], [2.0, 4.0]])  # singular
    certificate = certify_blow_up(model, S)
    with pytest.warns(gct.BlowUpWarning):
        found = gct.moment_response(model, np.linspace(0, 5, 51), (np.zeros(2), S))
    assert found.blow_up_time <= certificate.time_bound(S) * (1 + 1e-6)
    assert certificate.time_bound(np.zeros((2, 2))) == np.inf


def test_the_shortfall_is_said():
    model = gct.GaussianTransformer(-np.eye(2), np.eye(2), np.eye(2))
    with pytest.raises(gct.NotCertified, match=r"reaches 0\.25 of the threshold") as caught:
        certify_blow_up(model, 0.25 * np.eye(2))
    np.testing.assert_allclose(caught.value.margin, -0.75, atol=1e-6)


def test_equality_is_decided_with_integers_only():
    # q_P <= 0 with a kernel: exactly semidefinite, and one unit in the last place beyond.
    A, ones = -np.eye(2), np.ones((2, 2))
    assert certify_collapse(gct.GaussianTransformer(A, ones, -np.eye(2)), sdp=False).verify()
    above = ones.copy()
    above[0, 1] = above[1, 0] = np.nextafter(1.0, 2.0)
    with pytest.raises(gct.NotCertified):
        certify_collapse(gct.GaussianTransformer(A, above, -np.eye(2)))
    assert certify_collapse(gct.GaussianTransformer(A, np.eye(2), -ones)).method == "spectral"
    assert certify_collapse(gct.GaussianTransformer(A, 0 * ones, ones)).verify()
    skew = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert certify_collapse(gct.GaussianTransformer(A, np.eye(2), skew)).verify()


def test_scope_says_whether_the_mean_stays_bounded():
    settling = gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2))
    assert certify_boundedness(settling).scope == "covariance and mean"
    # Vbar = 2 I - I: the second head does not act on the covariance.
    V = np.array([-np.eye(2), 3 * np.eye(2)])
    B = np.array([np.eye(2), np.zeros((2, 2))])
    drifting = gct.GaussianTransformer(-np.eye(2), B, V)
    assert certify_boundedness(drifting).scope == "covariance"
    assert certify_collapse(drifting).scope == "covariance"


@pytest.mark.parametrize("certify", CERTIFIERS.values())
def test_refusals(certify):
    identity = np.eye(2)
    with pytest.raises(gct.NotCertified, match="dt: expected continuous depth"):
        certify(gct.GaussianTransformer(-identity, identity, -identity, dt=0.1))
    with pytest.raises(gct.ParameterError, match="model"):
        certify(identity)


def test_the_known_counterexample_is_not_bounded():
    # V = diag(1, -5), B = diag(-1, 5): with any diagonal P, q_P reaches 0 on the cone.
    model = gct.GaussianTransformer(np.eye(2), np.diag([-1.0, 5.0]), np.diag([1.0, -5.0]))
    assert attempt(certify_boundedness, model) is None
    assert attempt(certify_collapse, model.replace(A=-model.A)) is None


# -- laws -----------------------------------------------------------------------------------------


def verdicts(model):
    found = [attempt(certify, model) for certify in CERTIFIERS.values()]
    return [None if c is None else c.method for c in found]


@pytest.mark.parametrize(
    "index", [0, 1, 3, 4, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 5, *range(6, 12)))]
)
def test_head_gauge_and_units_change_no_verdict(index):
    rng = np.random.default_rng(100 + index)
    model = random_model(rng, index)
    expected = verdicts(model)
    c = 10.0 ** rng.uniform(-8, 8, (model.n_heads, 1, 1))
    assert verdicts(model.replace(V=c * model.V, B=model.B / c)) == expected
    units = np.diag(10.0 ** rng.uniform(-6, 6, model.dim))
    assert verdicts(model.transform(units)) == expected
    slower = model.replace(A=1e-7 * model.A, V=1e-7 * model.V)
    assert verdicts(slower) == expected


def test_stored_numbers_are_in_the_units_of_the_model():
    rng = np.random.default_rng(7)
    model = shared_key_model(rng, 3, 1.0)
    units = np.diag(2.0 ** np.array(rng.integers(-20, 20, model.dim)))
    plain, scaled = certify_blow_up(model), certify_blow_up(model.transform(units))
    L = rng.standard_normal((model.dim, model.dim))
    S = 1e4 * L @ L.T
    bounds = plain.time_bound(S), scaled.time_bound(units @ S @ units)
    assert np.isfinite(bounds).all()
    np.testing.assert_allclose(*bounds, rtol=1e-4)
    faster = certify_blow_up(model.replace(A=8 * model.A, V=8 * model.V))
    np.testing.assert_allclose(8 * faster.time_bound(S), bounds[0], rtol=1e-4)


def test_balancing_is_exact():
    rng = np.random.default_rng(3)
    for index in range(12):
        model = random_model(rng, index)
        found = balanced(model)
        D, tau = found.scale, found.depth
        np.testing.assert_array_equal(np.log2(D), np.rint(np.log2(D)))
        S = rng.standard_normal((model.dim, model.dim))
        inside = found.model.attention(D[:, None] * S * D)
        np.testing.assert_allclose(inside / tau / D[:, None] * D, model.attention(S), rtol=1e-12)
        np.testing.assert_array_equal(found.model.A / tau / D[:, None] * D, model.A)


def test_a_tampered_certificate_does_not_verify():
    rng = np.random.default_rng(11)
    model = shared_key_model(rng, 3, -1.0)
    bounded = certify_boundedness(model)
    assert not replace(bounded, bound=0.5 * bounded.bound).verify()
    growing = certify_blow_up(shared_key_model(rng, 3, 1.0))
    assert not replace(growing, gain=2 * growing.gain).verify()
    assert not replace(growing, model=model).verify()


# -- attack ---------------------------------------------------------------------------------------


def test_no_certificate_is_refuted():
    issued, false = attack(24, seed=1, starts=1, steps=400)
    for kind in CERTIFIERS:
        assert sum(n for name, n in issued.items() if name.startswith(kind)) >= 1
    assert false == []


@pytest.mark.slow
def test_no_certificate_of_sixty_models_is_refuted():
    _, false = attack(60, seed=1, starts=1, steps=800)
    assert false == []


@pytest.mark.slow
def test_no_certificate_of_three_thousand_models_is_refuted():
    issued, false = attack(3_000, seed=2)
    for kind in ("bounded (sdp)", "collapse (sdp)", "blow-up (sdp)", "blow-up (subspace)"):
        assert issued[kind] > 0
    assert false == []


# -- extremes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(150, 0, 150), (-150, -150, 0), (0, 150, 150), (100, 0, -150)])
def test_extreme_entries_are_certified_or_refused_without_a_warning(sizes):
    a, b, v = (10.0**size for size in sizes)
    model = gct.GaussianTransformer(a * np.eye(2), b * np.eye(2), -v * np.eye(2))
    for certify in CERTIFIERS.values():
        attempt(certify, model, sdp=False)
    for certify in (gct.certify_global_stability, gct.certify_local_stability):
        attempt(certify, model, np.eye(2))


def test_without_a_feed_forward_term():
    # A = 0: y' <= -2 k y^2, so that covariances tend to zero, though not exponentially.
    model = gct.GaussianTransformer(np.zeros((2, 2)), np.eye(2), -np.eye(2))
    certificate = certify_boundedness(model)
    assert certificate.bound == 0
    assert certificate.verify()
    fading = certify_collapse(model)
    assert (fading.rate, fading.scope) == (0.0, "covariance and mean")
    assert fading.tail == pytest.approx(1.0)  # each eigenvalue obeys s' = -2 s^2
    assert "tr Sigma at most 1/t" in fading.statement
    for stronger in ({"tail": 0.99}, {"gain": 1.01 * fading.gain}, {"rate": 0.1}, {"margin": 2.0}):
        assert not replace(fading, **stronger).verify()


@pytest.mark.parametrize(
    ("A", "B", "V"),
    [
        ([[0, 3], [-3, 0]], np.eye(2), -np.eye(2)),
        (np.diag([0, -1]), np.diag([1, 3]), [[-1, 0.5], [-0.5, -1]]),
        ([[0, 2.0**10], [-(2.0**-10), 0]], np.diag([2.0**-20, 1]), -np.eye(2)),
        (np.zeros((2, 2)), [np.diag([1, 2]), np.diag([2, 1])], [-np.eye(2), -2 * np.eye(2)]),
    ],
)
def test_algebraic_collapse_is_what_flows_do(A, B, V):
    model = gct.GaussianTransformer(A, B, V)
    certificate = certify_collapse(model, sdp=False)
    assert certificate.rate == 0
    assert certificate.verify()
    unit = np.diag([1 / model.B[0, 0, 0], 1 / model.B[0, 1, 1]])
    depths = np.array([0.0, 1.0, 10.0, 100.0])
    for size in (0.01, 100.0):
        flow = gct.moment_response(model, depths, (np.zeros(2), size * unit))
        traces = np.trace(flow.covariance, axis1=0, axis2=1)
        assert (traces[1:] <= certificate.tail / depths[1:] * (1 + 1e-9)).all()
    with pytest.raises(gct.NotCertified):  # the axis is left, to the right
        certify_collapse(model.replace(A=model.A + 1e-9 * np.eye(2)), sdp=False)


@pytest.mark.parametrize(
    ("A", "B", "V", "factor"),
    [
        (np.zeros((2, 2)), np.zeros((2, 2)), np.eye(2), 1),
        ([[0, 1], [-1, 0]], np.zeros((2, 2)), np.eye(2), 1),
        (np.zeros((2, 2)), np.eye(2), [[0, 1], [-1, 0]], 2),  # lambda_max is what never grows
        (np.zeros((2, 2)), np.diag([-1, 0]), np.eye(2), 1),
    ],
)
def test_bounds_that_depend_on_the_start(A, B, V, factor):
    certificate = certify_boundedness(gct.GaussianTransformer(A, B, V))
    assert certificate.relative
    assert certificate.bound == pytest.approx(factor)
    assert "tr Sigma_0" in str(certificate)
    assert certificate.verify()
    assert not replace(certificate, bound=0.99 * factor).verify()
    assert not replace(certificate, relative=False).verify()
    with pytest.raises(gct.NotCertified):
        certify_collapse(certificate.model)


def test_coordinates_that_no_key_sees_are_balanced():
    model = gct.GaussianTransformer([[-1, 1], [-1, -1]], np.diag([-1, 0]), np.eye(2))
    assert certify_collapse(model, sdp=False).verify()
    assert 0.01 < balanced(model).scale.min() <= balanced(model).scale.max() < 100


def test_stored_multipliers_are_per_unit_depth():
    rng = np.random.default_rng(8)
    V = 0.3 * rng.standard_normal((2, 2, 2)) - np.eye(2)
    B = 0.3 * rng.standard_normal((2, 2, 2)) + np.eye(2)
    model = gct.GaussianTransformer(64 * np.eye(2), B, 64 * V)
    found = balanced(model)
    assert found.depth != 1
    G = np.eye(4)
    back = found.multiplier_to_balanced(found.multiplier_to_original(G))
    np.testing.assert_array_equal(back, G)
    S = np.array([[2.0, 1.0], [1.0, 3.0]])
    # <G, S (x) S> is a rate, as q_P is.
    inside = found.covariance(S)
    stored = np.sum(found.multiplier_to_original(G) * np.kron(S, S))
    np.testing.assert_allclose(stored * found.depth, np.sum(G * np.kron(inside, inside)))
