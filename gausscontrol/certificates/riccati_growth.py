"""Escape where every value matrix is a multiple of the identity (Theory 3.2, 4.7, 5.3).

    V_h = v_h I,   G = sum_h v_h (B_h + B_h^T),   W(t) = int_0^t e^{A^T s} G e^{A s} ds
    P <= W(t),   lambda_max(P Sigma_0) >= 1   =>   Sigma escapes no later than t

since Sigma(s) = e^{As} L (I - L^T W(s) L)^-1 L^T e^{A^T s} for Sigma_0 = L L^T, and L^T W(t) L has
an eigenvalue of at least 1, so that one has reached 1 by then. P need not be definite. Nothing is
lost but the distance from P to W(t): the covariances that escape are those with
lambda_max(W(t) Sigma_0) >= 1 for some t.

For A = a I, W(t) is G times a scalar, and lambda_max(G Sigma) obeys a scalar equation. Otherwise
W comes from Taylor series on a short step, which is then doubled, with a bound on every error.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial
from typing import NamedTuple

import numpy as np
import scipy.linalg

from gausscontrol.certificates.balance import Balanced
from gausscontrol.certificates.comparison import EPS
from gausscontrol.linalg.exact import nearest
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.structure import exact_riccati_gain

__all__ = [
    "RiccatiFlow",
    "doublings",
    "escape_depth",
    "escape_level",
    "escape_witness",
    "riccati_flow",
    "uniform_margin",
    "uniform_witness",
    "witness_margin",
]

# Terms of the Taylor series: 2^-TERMS / TERMS! is far below rounding.
TERMS = 18
# Share of a step over |A|, in which e^{As} hardly turns.
FINE = 0.125
# Steps of the search for the best depth, and doublings of the depth after them.
STEPS, LARGE_STEPS, DOUBLINGS = 256, 64, 40
LARGE_DIM = 16
# Nothing is added to W once |e^{At}| is below the first; no start needs more than the second.
FADED, AMPLE = 1e-9, 1e4
# Shares of the largest level at which an earlier depth, where W is smaller, may serve.
SHARES = (1 - 1e-6, 1 - 1e-3, 0.9, 0.5)
# Of W, as a share of its size, in the search.
NOISE = 1e-12
# Level of a start beyond which there is no need to look for a later depth.
BEYOND = 2.0
BISECTIONS, SECTIONS = 30, 25
# Doublings of a step beyond which double precision has nothing left.
MOST_DOUBLINGS = 50


class RiccatiFlow(NamedTuple):
    """A and G in the coordinates D x, D = diag(scale), and per unit of balanced depth.

    `error` bounds the rounding of G in the spectral norm.
    """

    A: np.ndarray
    G: np.ndarray
    error: float
    scale: np.ndarray

    def covariance(self, Sigma: np.ndarray) -> np.ndarray:
        """Return D Sigma D."""
        return self.scale[:, None] * Sigma * self.scale

    def to_original(self, P: np.ndarray) -> np.ndarray:
        """Return D P D, so that P_original Sigma and P D Sigma D have the same eigenvalues."""
        return self.covariance(P)

    def from_original(self, P: np.ndarray) -> np.ndarray:
        """Undo `to_original`."""
        return P / self.scale[:, None] / self.scale

    def gramian(self, depth: float) -> tuple[np.ndarray, float]:
        """Return W(depth) and a spectral-norm bound on its error, infinite beyond range.

        Parameters
        ----------
        depth : float
            In balanced units.
        """
        size = float(np.linalg.norm(self.A))
        count = doublings(size, depth)
        if not 0 < depth < np.inf or count > MOST_DOUBLINGS:
            return np.full_like(self.A, np.nan), np.inf
        E, e, W, w = self._short(np.ldexp(depth, -count))
        unit = 4 * len(E) * EPS
        for _ in range(count):
            # Spectral norms, in which a rotation does not grow, for what is carried on.
            n, m = np.linalg.norm(E, 2) * (1 + unit), np.linalg.norm(W)
            square = np.linalg.norm(E) ** 2
            w += (n + e) ** 2 * w + (2 * n + e) * e * m + unit * (square + 1) * m
            e = (2 * n + e) * e + unit * square
            W, E = symmetrise(W + E.T @ W @ E), E @ E
        return W, float(w)

    def _short(self, h: float) -> tuple[np.ndarray, float, np.ndarray, float]:
        """Return e^{Ah} and W(h) with error bounds, for h |A| <= 1/2."""
        X, one = self.A * h, np.eye(len(self.A))
        # E = sum X^k / k!,  W = h sum C_k / (k + 1)!,  C_k = X^T C_{k-1} + C_{k-1} X,  C_0 = G.
        E, power, W, C = one, one, self.G, self.G
        for k in range(1, TERMS + 1):
            power = power @ X / k
            C = X.T @ C + C @ X
            E, W = E + power, W + C / factorial(k + 1)
        unit = 64 * len(X) * EPS
        error = h * (unit * float(np.linalg.norm(self.G)) + 3 * self.error)
        return E, unit, symmetrise(h * W), error


def doublings(size: float, depth: float) -> int:
    """Return k with depth |A| / 2^k <= 1/2, for |A| = size."""
    turns = 2 * size * depth
    return max(int(np.ceil(np.log2(turns))), 0) if 0 < turns < np.inf else 0


def riccati_flow(found: Balanced) -> RiccatiFlow | None:
    """Return the data of the Riccati case, or None unless every V_h is exactly v_h I.

    G is summed without rounding, since heads may cancel.
    """
    gain = exact_riccati_gain(found.original)
    if gain is None:
        return None
    # What matters for e^{At} is that A is balanced by itself.
    _, (factors, _) = scipy.linalg.matrix_balance(found.model.A, permute=False, separate=True)
    factors = np.ldexp(1.0, -np.frexp(factors)[1] + 1)
    scale = found.scale * factors
    A = factors[:, None] * found.model.A / factors
    numerators, exponent = gain[0] + gain[0].T, gain[1]
    powers = np.frexp(scale)[1].astype(int) - 1
    sums = powers[:, None] + powers
    highest = int(sums.max())
    numerators = numerators * 2 ** (highest - sums).astype(object)
    G = nearest(numerators, exponent + int(np.frexp(found.depth)[1]) - 1 - highest)
    exact = np.array_equal(A / factors[:, None] * factors, found.model.A)
    if not (exact and np.isfinite(G).all() and np.isfinite(scale).all() and (scale > 0).all()):
        return None
    return RiccatiFlow(A, G, 2 * EPS * float(np.linalg.norm(G)), scale)


def escape_level(P: np.ndarray, Sigma: np.ndarray) -> float:
    """Return a lower bound of lambda_max(P Sigma), or zero.

    Parameters
    ----------
    P, Sigma : (d, d) ndarray
        Symmetric, Sigma positive semidefinite up to rounding.

    Notes
    -----
    With Sigma = L L^T, L^T P L x = l x and r = P L x, a change D of Sigma moves l by r^T D r / l.
    """
    values, vectors = np.linalg.eigh(Sigma)
    L = vectors * np.sqrt(np.maximum(values, 0.0))
    levels, directions = np.linalg.eigh(symmetrise(L.T @ P @ L))
    level = float(levels[-1])
    if not level > 0:
        return 0.0
    unit, size = 16 * len(P) * EPS, max(float(values[-1]), 0.0)
    residue = P @ (L @ directions[:, -1])
    rounding = unit * size * (float(residue @ residue) / level + float(np.linalg.norm(P)))
    return max(level - 2 * rounding, 0.0)


def uniform_witness(flow: RiccatiFlow) -> tuple[np.ndarray, float] | None:
    """Return P < G and a where A = a I, or None.

    Then W(t) = G (e^{2 a t} - 1) / (2 a), and y = lambda_max(P Sigma) obeys
    y' >= 2 (a y + y^2 / 2).
    """
    size = float(np.linalg.norm(flow.G))
    room = 2 * flow.error + 32 * len(flow.G) * EPS * size
    P = flow.G - room * np.eye(len(flow.G))
    return (P, float(flow.A[0, 0])) if uniform_margin(flow, P) > 0 else None


def uniform_margin(flow: RiccatiFlow, P: np.ndarray) -> float:
    """Return what `witness_margin` does for P <= G, where A is exactly a multiple of I."""
    if not np.array_equal(flow.A, flow.A[0, 0] * np.eye(len(flow.A))):
        return -np.inf
    return _positive_share(flow.G, flow.error, P)


def witness_margin(flow: RiccatiFlow, P: np.ndarray, depth: float) -> float:
    """Return by how much P has a positive direction as a share of its size, if P <= W(depth).

    Parameters
    ----------
    flow : RiccatiFlow
    P : (d, d) ndarray
        Symmetric, in the coordinates of the flow.
    depth : float
        In balanced units.

    Returns
    -------
    float
        Minus infinity if P <= W(depth) is not verified.
    """
    W, error = flow.gramian(depth)
    if not np.isfinite(error):
        return -np.inf
    return _positive_share(W, error, P)


def _positive_share(bound: np.ndarray, error: float, P: np.ndarray) -> float:
    """Return lambda_max(P) / |P| if P is below every matrix within an error of a bound."""
    unit = 8 * len(P) * EPS
    rounding = unit * (np.linalg.norm(bound) + np.linalg.norm(P))
    if not np.linalg.eigvalsh(bound - P)[0] - rounding > error:
        return -np.inf
    values = np.linalg.eigvalsh(P)
    size = max(float(values[-1]), -float(values[0]))
    return float(values[-1] / size) - unit if size > 0 else -np.inf


def escape_depth(flow: RiccatiFlow, P: np.ndarray, depth: float, Sigma: np.ndarray) -> float:
    """Return a depth by which a covariance escapes, as early as can be verified.

    Parameters
    ----------
    flow : RiccatiFlow
    P : (d, d) ndarray
        In the coordinates of the flow, P <= W(depth).
    depth : float
    Sigma : (d, d) ndarray
        In the coordinates of the flow.

    Returns
    -------
    float
        Infinite if lambda_max(P Sigma) is not above 1.
    """
    if not escape_level(P, Sigma) > 1:
        return np.inf
    late, early = depth, 0.0
    for _ in range(BISECTIONS):
        middle = (early + late) / 2
        W, error = flow.gramian(middle)
        if np.isfinite(error) and escape_level(W - error * np.eye(len(W)), Sigma) > 1:
            late = middle
        else:
            early = middle
    return late * (1 + 4 * EPS)


def escape_witness(
    flow: RiccatiFlow, Sigma: np.ndarray, *, given: bool
) -> tuple[np.ndarray, float, float] | None:
    """Return P and a depth with P <= W(depth) verified, and the margin, or None.

    Parameters
    ----------
    flow : RiccatiFlow
    Sigma : (d, d) ndarray
        In the coordinates of the flow: the covariance that is to escape or, unless `given`, a
        reference, of which a small multiple should.
    given : bool

    Returns
    -------
    P : (d, d) ndarray
    depth, margin : float
    """
    if not np.linalg.eigvalsh(flow.G)[-1] > 0:
        return None
    best, reached = None, -np.inf
    for depth in _depths(flow, Sigma, given):
        W, error = flow.gramian(depth)
        if not np.isfinite(error):
            continue
        room = 2 * error + 32 * len(W) * EPS * float(np.linalg.norm(W))
        P = W - room * np.eye(len(W))
        margin = witness_margin(flow, P, depth)
        if margin > 0:
            level = escape_level(P, Sigma)
            if level > reached:
                best, reached = (P, depth, margin), level
            if not given or level > 1:
                break
    return best


def _depths(flow: RiccatiFlow, Sigma: np.ndarray, given: bool) -> list[float]:
    """Return depths to try: where lambda_max(W Sigma) is about largest; then early ones.

    At early depths W is nearly a multiple of G and has a positive direction if G has one.
    """
    values, vectors = np.linalg.eigh(Sigma)
    L = vectors * np.sqrt(np.maximum(values, 0.0))
    size = float(np.linalg.norm(flow.A))
    positive, turned = np.linalg.eigh(flow.G)
    crest = float(np.linalg.norm((L.T @ turned) * np.sqrt(np.maximum(positive, 0.0)), 2)) ** 2
    pace = max(size, crest / 4 if given else 0.0) or crest
    if not 0 < pace < np.inf:
        return []
    step = FINE / pace
    enough = BEYOND if given else AMPLE * crest / pace
    samples = list(_samples(flow, L, step, enough))
    if not samples:
        return []
    best = max(range(len(samples)), key=lambda i: samples[i][1])
    top = samples[best][1]
    depths = []
    if given and 0 < best < len(samples) - 1:
        depths.append(_peak(flow, L, samples[best - 1][0], samples[best + 1][0]))
    # The earliest depths that reach these shares of the largest level.
    if top > 0:
        depths += [next(t for t, level in samples if level >= share * top) for share in SHARES]
    return [*depths, step / 4, step / 64]


def _samples(
    flow: RiccatiFlow, L: np.ndarray, step: float, enough: float
) -> Iterator[tuple[float, float]]:
    """Yield depths and lambda_max(L^T W L), at even steps and then at doubled depths."""
    E, _, W, _ = flow._short(step)
    move, added, depth = E, W, step
    size = float(np.linalg.norm(L)) ** 2
    steps = STEPS if len(E) <= LARGE_DIM else LARGE_STEPS
    for count in range(steps + DOUBLINGS):
        if not np.isfinite(W).all():
            return
        level = float(np.linalg.eigvalsh(symmetrise(L.T @ W @ L))[-1])
        level -= NOISE * float(np.linalg.norm(W)) * size
        yield depth, level
        if level >= enough or np.linalg.norm(E) < FADED:
            return
        if count < steps:
            W, E, depth = W + E.T @ added @ E, move @ E, depth + step
        else:
            W, E, depth = W + E.T @ W @ E, E @ E, 2 * depth


def _peak(flow: RiccatiFlow, L: np.ndarray, low: float, high: float) -> float:
    """Return a depth near the largest lambda_max(L^T W L) in an interval, by golden sections."""

    def level(depth: float) -> float:
        W, error = flow.gramian(depth)
        found = np.linalg.eigvalsh(symmetrise(L.T @ W @ L))[-1] if np.isfinite(error) else -np.inf
        return float(found)

    ratio = (np.sqrt(5.0) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = level(a), level(b)
    for _ in range(SECTIONS):
        if at_a > at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = level(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = level(b)
    return (low + high) / 2
