"""Between the samples of a plan: where an actuator is singular, and how large parameters get.

    g(t) = smallest singular value of what must be invertible, or a determinant, along the path
    found singular at    min g <= tolerance

Samples see neither a double crossing of zero nor a spike between two of them. Where the samples
dip, the margin is therefore minimised over depth; and where the range of the path turns fast, more
samples are put in first, so that dips are seen. Assumption: between two samples that differ by a
turn of less than about 6 degrees, g has at most one dip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.optimize import minimize_scalar

__all__ = ["dips", "highest", "resolved"]

# Neighbouring samples of the range of the factor differ by less than the angle of this cosine.
TURN = 0.995
HALVINGS = 40
# Depth is resolved to this share of the bracket.
RESOLUTION = 1e-12
# A dip counts if the margin is below this share of a neighbour's; less is rounding.
DIP = 1 - 1e-6
# How many local peaks are refined.
PEAKS = 3


def resolved(
    factor_at: Callable[[float], np.ndarray], depths: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return depths, more of them where the range of the factor turns, and the factors.

    Parameters
    ----------
    factor_at : callable
        t -> L (d, r).
    depths : (N,) ndarray
        Increasing. [t]

    Returns
    -------
    depths : (M,) ndarray
        [t]
    factors : list of (d, r) ndarray
        [x]
    """
    found = [(float(depths[0]), factor_at(float(depths[0])))]
    for stop in depths[1:]:
        pending = [(float(stop), factor_at(float(stop)), 0)]
        while pending:
            t, L, level = pending[-1]
            before, L_before = found[-1]
            if level < HALVINGS and _turns(L_before, L):
                middle = (before + t) / 2
                pending[-1] = (t, L, level + 1)
                pending.append((middle, factor_at(middle), level + 1))
            else:
                found.append((t, L))
                pending.pop()
    return np.array([t for t, _ in found]), [L for _, L in found]


def _turns(L: np.ndarray, other: np.ndarray) -> bool:
    if L.shape[1] in (0, L.shape[0]):
        return False  # the range is everything, or nothing
    U, W = (np.linalg.svd(X, full_matrices=False)[0] for X in (L, other))
    return bool(np.linalg.svd(U.T @ W, compute_uv=False)[-1] < TURN)


def dips(
    function: Callable[[float], float], depths: np.ndarray, values: np.ndarray
) -> Iterator[tuple[float, float]]:
    """Yield depth and value of the least of a function around each local minimum of its samples.

    Parameters
    ----------
    function : callable
        t -> value.
    depths, values : (N,) ndarray
        Samples.

    Yields
    ------
    (float, float)
        Depth and value, not above the sample.
    """
    last = len(values) - 1
    for i, value in enumerate(values):
        left, right = max(i - 1, 0), min(i + 1, last)
        around = values[left], values[right]
        if value <= min(around) and value < DIP * max(around):
            yield _least(function, depths[i], value, (depths[left], depths[right]))


def highest(function: Callable[[float], float], depths: np.ndarray, values: np.ndarray) -> float:
    """Return the largest value of a function, refined around the highest of its samples.

    Parameters
    ----------
    function : callable
        t -> value, which may jump at a sample.
    depths, values : (N,) ndarray
        Samples.

    Returns
    -------
    float
        At least the largest sample.
    """
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = np.flatnonzero((values >= padded[:-2]) & (values >= padded[2:]))
    largest = float(values.max())
    for i in peaks[np.argsort(values[peaks])[::-1][:PEAKS]]:
        for left, right in ((i - 1, i), (i, i + 1)):
            if left < 0 or right == len(values):
                continue
            if values[left] == values[right]:
                continue
            bracket = depths[left], depths[right]
            _, found = _least(lambda t: -function(t), depths[i], -values[i], bracket, 1e-6)
            largest = max(largest, -found)
    return largest


def _least(
    function: Callable[[float], float],
    t: float,
    value: float,
    bracket: tuple[float, float],
    resolution: float = RESOLUTION,
) -> tuple[float, float]:
    width = bracket[1] - bracket[0]
    options = {"xatol": resolution * width, "maxiter": 100}
    found = minimize_scalar(function, bounds=bracket, method="bounded", options=options)
    return (float(found.x), float(found.fun)) if found.fun < value else (float(t), float(value))
