"""Where many trajectories go: settled, singular, escaped or none of these (Theory 3.3).

    Sigma' = M Sigma + Sigma M^T  from I, while well conditioned;    L' = M L + L Omega  otherwise

The same two flows, thresholds and looks as `analysis.search.follow_flow` takes for one model, so
that both come to the same places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.analysis.search import (
    COLLAPSED,
    DEGENERATE,
    ESCAPED,
    ESCAPING,
    FLOW_STEPS,
    LOOK,
    OUTDONE,
    SINGULAR_RATIO,
    flow_rtol,
)
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.sweeps.batch import Field, Stack, chosen, mul, transposed
from gausscontrol.sweeps.flow import BOGACKI_SHAMPINE, Stepper
from gausscontrol.systems.forms import GAUGE_FLOOR

__all__ = [
    "ESCAPE",
    "SETTLED",
    "SINGULAR",
    "UNSETTLED",
    "Arrivals",
    "cholesky",
    "factor_rate",
    "follow",
    "horizontal_gauge",
]

UNSETTLED, SETTLED, SINGULAR, ESCAPE, DEGENERATED = range(5)


class Arrivals(NamedTuple):
    """Factors (N, d, r) that were reached, and a reason for each trajectory (N,)."""

    factor: np.ndarray
    reason: np.ndarray


def follow(
    models: Stack, factor: np.ndarray, tolerance: float, steps: int = FLOW_STEPS
) -> Arrivals:
    """Follow the flow of every model from a factor of its own.

    Parameters
    ----------
    models : Stack
    factor : (N, d, r) ndarray
        Of full column rank.
    tolerance : float
        Settled once |sym(L^+ M L)| is below this share of |L^+ A L| + |L^+ T L|; 0 for never.
    steps : int, optional
        Steps after which a trajectory counts as unsettled.

    Returns
    -------
    Arrivals
    """
    count, dim, rank = factor.shape
    if not count:
        return Arrivals(factor, np.zeros(0, dtype=int))
    with np.errstate(all="ignore"):
        if rank < dim:
            return _follow_factor(models, factor, tolerance, steps)
        white = models.transform(np.linalg.inv(factor), factor)
        arrivals = _follow_covariance(white, tolerance, steps)
        late = np.flatnonzero(arrivals.reason == DEGENERATED)
        if late.size:
            rest = _follow_factor(white.take(late), arrivals.factor[late], tolerance, steps)
            arrivals.factor[late], arrivals.reason[late] = rest
        return Arrivals(factor @ arrivals.factor, arrivals.reason)


def _follow_covariance(white: Stack, tolerance: float, steps: int) -> Arrivals:
    dim, index = white.dim, vech_index(white.dim)
    full = index.full.reshape(dim, dim)
    field, active = white.field(), np.arange(white.count)

    def rate(y: np.ndarray) -> np.ndarray:
        S = y[full]
        product = mul(field.A + field.attention(S), S)
        return product[index.rows, index.columns] + product[index.columns, index.rows]

    unit = np.eye(dim)[..., None]
    L = np.broadcast_to(unit, (dim, dim, white.count)).copy()
    result = Arrivals(np.moveaxis(L, -1, 0).copy(), np.full(white.count, UNSETTLED))
    start = L[index.rows, index.columns]
    stepper = Stepper(
        BOGACKI_SHAMPINE, rate, start, rtol=flow_rtol(tolerance), atol=1e-9, resting=dim
    )
    taken = np.zeros(white.count, dtype=int)
    while active.size:
        advanced = stepper.attempt()
        taken += advanced
        reason = np.full(active.size, -1)
        large = ~(np.abs(stepper.y).max(axis=0) < ESCAPED**2)
        reason[stepper.failed | (advanced & large)] = ESCAPE
        looking = np.flatnonzero(advanced & (taken % LOOK == 0) & (reason < 0))
        if looking.size:
            following, good = cholesky(chosen(stepper.y, looking)[full])
            reason[looking[~good]] = DEGENERATED
            looking, following = looking[good], chosen(following, np.flatnonzero(good))
            L[..., looking] = following
            unit = np.ones(looking.size)
            reason[looking] = _verdicts(field.keep(looking), following, tolerance, unit)
        reason[(reason < 0) & advanced & (taken >= steps)] = UNSETTLED
        done = reason >= 0
        if done.any():
            gone, kept = active[done], np.flatnonzero(~done)
            result.factor[gone] = np.moveaxis(L[..., done], -1, 0)
            result.reason[gone] = reason[done]
            active, taken, L = active[kept], taken[kept], chosen(L, kept)
            field = field.keep(kept)
            stepper.keep(kept)
    return result


def _follow_factor(models: Stack, factor: np.ndarray, tolerance: float, steps: int) -> Arrivals:
    count, dim, rank = factor.shape
    field, active = models.field(), np.arange(count)

    def rate(y: np.ndarray) -> np.ndarray:
        return factor_rate(field, y.reshape(dim, rank, -1)).reshape(y.shape)

    L = np.ascontiguousarray(np.moveaxis(factor, 0, -1))
    result = Arrivals(factor.copy(), np.full(count, UNSETTLED))
    size = np.abs(L).max(axis=(0, 1))
    stepper = Stepper(
        BOGACKI_SHAMPINE,
        rate,
        L.reshape(dim * rank, count),
        rtol=flow_rtol(tolerance),
        atol=1e-9 * size,
        resting=dim,
    )
    taken = np.zeros(count, dtype=int)
    while active.size:
        advanced = stepper.attempt()
        taken += advanced
        reason = np.full(active.size, -1)
        large = ~(np.abs(stepper.y).max(axis=0) < ESCAPED * size)
        reason[stepper.failed | (advanced & large)] = ESCAPE
        looking = np.flatnonzero(advanced & (taken % LOOK == 0) & (reason < 0))
        if looking.size:
            following = chosen(stepper.y, looking).reshape(dim, rank, -1)
            L[..., looking] = following
            reason[looking] = _verdicts(field.keep(looking), following, tolerance, size[looking])
        reason[(reason < 0) & advanced & (taken >= steps)] = UNSETTLED
        done = reason >= 0
        if done.any():
            gone, kept = active[done], np.flatnonzero(~done)
            result.factor[gone] = np.moveaxis(L[..., done], -1, 0)
            result.reason[gone] = reason[done]
            active, taken, L, size = active[kept], taken[kept], chosen(L, kept), size[kept]
            field = field.keep(kept)
            stepper.keep(kept)
    return result


def factor_rate(field: Field, L: np.ndarray) -> np.ndarray:
    """Return L' = M L + L Omega in the horizontal gauge, for L (d, r, N)."""
    rate = mul(field.A + field.attention(mul(L, L.swapaxes(0, 1))), L)
    return rate if L.shape[1] == 1 else rate + mul(L, horizontal_gauge(L, rate))


def horizontal_gauge(L: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return the skew Omega (r, r, N) that makes |rate + L Omega| least."""
    Lt = L.swapaxes(0, 1)
    gram, product = mul(Lt, L), mul(Lt, rate)
    return _gauge(gram, product.swapaxes(0, 1) - product)


def _gauge(gram: np.ndarray, skew: np.ndarray) -> np.ndarray:
    """Solve G Omega + Omega G = skew, all (r, r, N)."""
    rank = len(gram)
    if rank == 2:
        return skew / (gram[0, 0] + gram[1, 1])
    if rank == 3:
        return _gauge_of_three(gram, skew)
    finite = np.isfinite(gram).all(axis=(0, 1))
    G = np.where(finite, gram, np.eye(rank)[..., None])
    values, vectors = np.linalg.eigh(np.moveaxis(G, -1, 0))
    floor = np.maximum(GAUGE_FLOOR * values[:, -1:], np.finfo(float).tiny)
    values = np.maximum(values, floor)
    inner = transposed(vectors) @ np.moveaxis(skew, -1, 0) @ vectors
    inner = inner / (values[:, :, None] + values[:, None])
    return np.where(finite, np.moveaxis(vectors @ inner @ transposed(vectors), 0, -1), np.nan)


def _gauge_of_three(gram: np.ndarray, skew: np.ndarray) -> np.ndarray:
    # For the vector w of Omega, G Omega + Omega G belongs to (tr G I - G) w. Any skew matrix is a
    # gauge: below the floor the right side is rounding, which must not be magnified.
    first, second, third = gram[0, 0], gram[1, 1], gram[2, 2]
    floor = GAUGE_FLOOR * (first + second + third) + np.finfo(float).tiny
    a, b, c = second + third + floor, first + third + floor, first + second + floor
    p, q, r = -gram[0, 1], -gram[0, 2], -gram[1, 2]
    x, y, z = skew[2, 1], skew[0, 2], skew[1, 0]
    aa, bb, cc = b * c - r * r, a * c - q * q, a * b - p * p
    ab, ac, bc = q * r - p * c, p * r - q * b, p * q - a * r
    determinant = a * aa + p * ab + q * ac
    u = (aa * x + ab * y + ac * z) / determinant
    v = (ab * x + bb * y + bc * z) / determinant
    w = (ac * x + bc * y + cc * z) / determinant
    zero = np.zeros_like(u)
    return np.stack([np.stack([zero, -w, v]), np.stack([w, zero, -u]), np.stack([-v, u, zero])])


def cholesky(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Cholesky factors (d, d, N), and which exist and are well conditioned."""
    dim = len(S)
    L = np.zeros_like(S)
    good = np.ones(S.shape[-1], dtype=bool)
    for j in range(dim):
        pivot = S[j, j] - np.einsum("kn,kn->n", L[j, :j], L[j, :j])
        good &= pivot > 0
        L[j, j] = np.sqrt(pivot)
        for i in range(j + 1, dim):
            L[i, j] = (S[i, j] - np.einsum("kn,kn->n", L[i, :j], L[j, :j])) / L[j, j]
    diagonal = L[np.arange(dim), np.arange(dim)]
    return L, good & (diagonal.min(axis=0) > DEGENERATE * diagonal.max(axis=0))


def _verdicts(field: Field, L: np.ndarray, tolerance: float, size: np.ndarray) -> np.ndarray:
    """Return SETTLED, SINGULAR, ESCAPE or -1 for factors (d, r, N) that had entries up to size."""
    Q, R, inverse = _triangular(L)
    Qt = Q.swapaxes(0, 1)

    # L^+ X L = R^-1 Q^T X Q R.
    def seen(X: np.ndarray) -> np.ndarray:
        return mul(inverse, mul(mul(Qt, X), mul(Q, R)))

    drift, attention = seen(field.A), seen(field.attention(mul(L, L.swapaxes(0, 1))))
    total = drift + attention
    rate = _norms(total + total.swapaxes(0, 1))
    linear, nonlinear = _norms(drift), _norms(attention)
    trace = np.einsum("iin->n", total)
    verdicts = np.full(size.shape, -1)
    balance = _norms(attention + attention.swapaxes(0, 1)) / _norms(drift + drift.swapaxes(0, 1))
    far = np.flatnonzero((balance > OUTDONE) & (trace > 0))
    largest = np.linalg.norm(np.moveaxis(L[..., far], -1, 0), 2, axis=(1, 2))
    verdicts[far[largest > ESCAPING * size[far]]] = ESCAPE
    verdicts[(nonlinear < COLLAPSED * linear) & ~(trace > 0)] = SINGULAR
    verdicts[rate <= 2 * tolerance * (linear + nonlinear)] = SETTLED
    # The ratio of the singular values, between these two.
    least = 1 / (_norms(R) * _norms(inverse))
    flat = ~(least * len(R) > SINGULAR_RATIO)
    unsure = np.flatnonzero(~flat & ~(least > SINGULAR_RATIO))
    if unsure.size:
        values = np.linalg.svd(np.moveaxis(L[..., unsure], -1, 0), compute_uv=False)
        flat[unsure] = ~(values[:, -1] > SINGULAR_RATIO * values[:, 0])
    return np.where(flat, SINGULAR, verdicts)


def _triangular(L: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Q (d, r, N), R and R^-1 (r, r, N) of L = Q R, R upper triangular."""
    rank = L.shape[1]
    Q, R = np.array(L), np.zeros((rank, rank, L.shape[2]))
    for j in range(rank):
        # Orthogonalised twice, which is enough.
        for _ in range(2 if j else 0):
            share = np.einsum("ikn,in->kn", Q[:, :j], Q[:, j])
            Q[:, j] -= np.einsum("ikn,kn->in", Q[:, :j], share)
            R[:j, j] += share
        R[j, j] = np.sqrt(np.einsum("in,in->n", Q[:, j], Q[:, j]))
        Q[:, j] /= R[j, j]
    inverse = np.zeros_like(R)
    for j in range(rank):
        inverse[j, j] = 1 / R[j, j]
        for i in range(j - 1, -1, -1):
            known = np.einsum("kn,kn->n", R[i, i + 1 : j + 1], inverse[i + 1 : j + 1, j])
            inverse[i, j] = -known / R[i, i]
    return Q, R, inverse


def _norms(X: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("ijn,ijn->n", X, X))
