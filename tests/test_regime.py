"""Boundedness, collapse and blow-up: known answers, laws, and an attack by simulation."""

from collections import Counter

import numpy as np
import pytest
from flows import integrate
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.certificates.balance import balanced
from gausscontrol.certificates.regime import (
    certify_blow_up,
    certify_boundedness,
    certify_collapse,
)

CERTIFIERS = {
    "bounded": certify_boundedness,
    "collapse": certify_collapse,
    "blow-up": certify_blow_up,
}
LAWS = settings(derandomize=True, deadline=None, max_examples=40)


# -- models ---------------------------------------------------------------------------------------


def definite(rng, dim, condition=10.0):
    Q = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    values = np.exp(rng.uniform(0, np.log(condition), dim)) if dim > 1 else np.ones(1)
    return (Q * values) @ Q.T / 2 + (Q * values @ Q.T).T / 2


def spectrum_matrix(rng, dim, abscissa, skew=3.0):
    """A non-normal matrix with complex pairs whose largest real part is as given."""
    T = np.triu(skew * rng.standard_normal((dim, dim)), 1)
    parts = abscissa - 10 ** rng.uniform(-3, 1, dim)
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


def attack(count, seed, starts=2, first=0):
    rng = np.random.default_rng(seed)
    campaign = Attack(seed + 1)
    for index in range(first, first + count):
        for kind, certificate in certificates(random_model(rng, index)):
            if certificate is not None:
                campaign.add(kind, certificate, starts)
    return campaign.issued, campaign.run()


def test_no_certificate_is_refuted():
    issued, false = attack(240, seed=1)
    for kind in CERTIFIERS:
        assert sum(n for name, n in issued.items() if name.startswith(kind)) >= 10
    assert false == []


@pytest.mark.slow
def test_no_certificate_of_three_thousand_models_is_refuted():
    issued, false = attack(3_000, seed=2)
    for kind in ("bounded (sdp)", "collapse (sdp)", "blow-up (sdp)", "blow-up (subspace)"):
        assert issued[kind] > 0
    assert false == []
