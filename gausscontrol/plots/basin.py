"""Which starts converge, by simulation: what a certified region is compared with (Theory 1.6).

    L' = (A + T(L L^T)) L,   Sigma = L L^T,   whitened at Sigma*

All starts are integrated at once, each with a step of its own, by Dormand and Prince's pair at a
tolerance that is good for a picture. A trajectory that enters the certified region converges; one
that outgrows every bound, or whose step shrinks to nothing, escapes. Continuous depth.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.certificates.region import RegionOfAttraction
from gausscontrol.linalg.symmetric import whitening

__all__ = ["CONVERGES", "ESCAPES", "UNDECIDED", "sampled_basin"]

CONVERGES, UNDECIDED, ESCAPES = 1, 0, -1

NODES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
RTOL = 1e-4
STEPS = 2_000
# Bounds on |Sigma|, against |Sigma*| = 1, and on a step, against 1/|J|.
OUTGROWN = 1e8
LEAST_STEP = 1e-10


def sampled_basin(region: RegionOfAttraction, starts: np.ndarray) -> np.ndarray:
    """Tell which covariances reach a certified region.

    Parameters
    ----------
    region : RegionOfAttraction
    starts : (N, d, d) ndarray
        Symmetric. [x]^2

    Returns
    -------
    (N,) ndarray
        1 where the region is reached, -1 where the trajectory escapes or the start is no positive
        definite matrix, 0 where neither happened in the steps allowed (another equilibrium, say).
    """
    R, _ = whitening(region.covariance)
    white = region.model.whiten(region.covariance)
    verdict = np.full(len(starts), ESCAPES)
    values, vectors = np.linalg.eigh(R @ starts @ R)
    (active,) = np.nonzero(values[:, 0] > 0)
    L = vectors[active] * np.sqrt(values[active])[:, None, :]
    dim = white.dim
    operator = np.einsum("hik,hlj->ijkl", white.V, white.B).reshape(dim**2, dim**2)
    start = 1e-2 / (np.linalg.norm(white.A) + np.linalg.norm(operator))
    step, least = np.full(active.size, start), LEAST_STEP * start

    def slope(L: np.ndarray) -> np.ndarray:
        S = L @ L.swapaxes(1, 2)
        return (white.A + (S.reshape(-1, dim**2) @ operator.T).reshape(S.shape)) @ L

    verdict[active] = UNDECIDED
    for _ in range(STEPS):
        L, step, size = _advance(slope, L, step)
        inside = region.level_of(L @ L.swapaxes(1, 2) - np.eye(dim)) < region.level
        gone = (size > OUTGROWN) | (step < least)
        verdict[active[inside]] = CONVERGES
        verdict[active[gone & ~inside]] = ESCAPES
        keep = ~(inside | gone)
        active, L, step = active[keep], L[keep], step[keep]
        if not active.size:
            break
    return verdict


def _advance(slope, L: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the factors and steps after one attempt each, and |Sigma|."""
    h = step[:, None, None]
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = [slope(L)]
        for row in NODES:
            new = L + h * sum(c * k for c, k in zip(row, slopes, strict=True))
            slopes.append(slope(new))
        gap = h * sum(c * k for c, k in zip(ERROR, slopes, strict=True))
        error = np.linalg.norm(gap, axis=(1, 2)) / (RTOL * np.linalg.norm(L, axis=(1, 2)))
    error = np.where(np.isfinite(error), error, np.inf)
    L = np.where((error <= 1)[:, None, None], new, L)
    step = step * np.clip(0.9 * np.maximum(error, 1e-10) ** -0.2, 0.2, 5.0)
    return L, step, np.linalg.norm(L, axis=(1, 2)) ** 2
