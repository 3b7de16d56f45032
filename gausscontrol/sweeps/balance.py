"""Many models in balanced coordinates, reached by powers of two (Theory 1.7).

    x -> D x,   V_h -> c_h V_h,   B_h -> B_h / c_h,   t -> tau t

D minimises the convex function of `certificates.balance`, here by Newton's method. The exponents
are rounded to whole numbers; where one is too close to a half to be sure that the single path
rounds the same way, the model is reported as unclear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.certificates.balance import FEED_FORWARD_WEIGHT, LARGEST_EXPONENT, RIDGE
from gausscontrol.sweeps.batch import Stack

__all__ = ["BalancedStack", "balanced"]

ITERATIONS = 60
# Distance of an exponent from a half that the two ways of minimising may not disagree by.
HALFWAY = 2e-3
# Distance of a norm from a power of two, relative, that rounding may not decide.
POWER = 1e-9


class BalancedStack(NamedTuple):
    """Balanced models, D (N, d), tau (N,), and for which models all exponents are sure."""

    models: Stack
    scale: np.ndarray
    depth: np.ndarray
    sure: np.ndarray


def balanced(models: Stack) -> BalancedStack:
    """Return balanced models.

    Parameters
    ----------
    models : Stack
        No A, B or V is zero.

    Returns
    -------
    BalancedStack
    """
    with np.errstate(all="ignore"):
        exponents, sure = _exponents(models)
        powers = exponents[:, :, None] - exponents[:, None]
        A = np.ldexp(models.A, powers)
        V = np.ldexp(models.V, powers[:, None])
        B = np.ldexp(models.B, -(exponents[:, :, None] + exponents[:, None])[:, None])
        size_A, sure_A = _power(np.linalg.norm(A, axis=(1, 2)))
        size_V, sure_V = _power(np.linalg.norm(V, axis=(2, 3)))
        size_B, sure_B = _power(np.linalg.norm(B, axis=(2, 3)))
        norms = np.linalg.norm(V, axis=(2, 3)) * np.linalg.norm(B, axis=(2, 3))
        size, sure_size = _power(np.linalg.norm(norms, axis=1))
        depth, gauge = -size_A, (size_B - size_V) // 2
        common = (size + depth) // 2
        A = np.ldexp(A, depth[:, None, None])
        V = np.ldexp(V, (gauge + depth[:, None])[:, :, None, None])
        B = np.ldexp(B, (-gauge - 2 * common[:, None])[:, :, None, None])
        stack = Stack(A, B, V, np.zeros_like(models.b))
        finite = np.all([np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in stack], axis=0)
        sure = sure & sure_A & sure_V.all(axis=1) & sure_B.all(axis=1) & sure_size & finite
        scale = np.ldexp(1.0, exponents + common[:, None])
    return BalancedStack(stack, scale, np.ldexp(1.0, depth), sure)


def _power(norms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mantissa, power = np.frexp(norms)
    return power, (mantissa > 0.5 * (1 + POWER)) & (mantissa < 1 - POWER)


def _exponents(models: Stack) -> tuple[np.ndarray, np.ndarray]:
    """Return log2 D rounded, and where that is sure."""
    count, dim, heads = models.count, models.dim, models.n_heads
    start = _least_squares(models)
    i, j = (x.reshape(-1) for x in np.indices((dim, dim)))
    unit = np.eye(dim)
    lines = 2 * (unit[i] - unit[j])
    feed = 2 * np.log(np.abs(models.A)).reshape(count, -1)
    # Every pair of an entry of V_h and one of B_h is a term of the larger sum.
    values = 2 * np.log(np.abs(models.V)).reshape(count, heads, -1, 1)
    keys = 2 * np.log(np.abs(models.B)).reshape(count, heads, 1, -1)
    terms = (values + keys).reshape(count, -1)
    slopes = (lines[:, None] - 2 * (unit[i] + unit[j])[None]).reshape(-1, dim)
    slopes = np.tile(slopes, (heads, 1))

    def parts(d: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first = _log_sum(feed, lines, d)
        second = _log_sum(terms, slopes, d)
        gap = d - start
        value = FEED_FORWARD_WEIGHT * first[0] + second[0] + 4 * d.mean(axis=1)
        value = value + RIDGE * (gap**2).sum(axis=1)
        slope = FEED_FORWARD_WEIGHT * first[1] + second[1] + 4 / dim + 2 * RIDGE * gap
        bend = FEED_FORWARD_WEIGHT * first[2] + second[2] + 2 * RIDGE * unit
        return value, slope, bend

    d = start
    value, slope, bend = parts(d)
    for _ in range(ITERATIONS):
        step = -np.linalg.solve(bend, slope[..., None])[..., 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step = step / np.maximum(longest, 1.0)
        if not longest.max(initial=0.0) > 1e-10:
            break
        for _ in range(30):
            trial = parts(d + step)
            worse = ~(trial[0] <= value + 1e-14 * np.abs(value))
            if not worse.any():
                break
            step[worse] /= 2
        d, (value, slope, bend) = d + step, trial
    curvature = np.linalg.eigvalsh(bend)
    # The sum of the exponents is removed, so the flat direction of the ridge does not count.
    weakest = curvature[:, 1] if dim > 1 else np.ones(count)
    exact = (d - d.mean(axis=1, keepdims=True)) / np.log(2)
    distance = np.abs(np.abs(exact - np.floor(exact)) - 0.5).min(axis=1)
    sure = (distance > HALFWAY + 1e-4 / weakest) & (np.abs(exact).max(axis=1) < LARGEST_EXPONENT)
    sure &= np.isfinite(exact).all(axis=1)
    return np.rint(np.nan_to_num(exact)).astype(int), sure


def _log_sum(
    terms: np.ndarray, slopes: np.ndarray, d: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log sum exp(terms + slopes d), its gradient and its Hessian."""
    exponent = terms + d @ slopes.T
    top = exponent.max(axis=1, keepdims=True)
    share = np.exp(exponent - top)
    total = share.sum(axis=1, keepdims=True)
    share = share / total
    slope = share @ slopes
    bend = np.einsum("nt,ti,tj->nij", share, slopes, slopes, optimize=True)
    return (top + np.log(total))[:, 0], slope, bend - slope[:, :, None] * slope[:, None]


def _least_squares(models: Stack) -> np.ndarray:
    """Return the start of the single path, which the ridge refers to."""
    count, dim, heads = models.count, models.dim, models.n_heads
    unit = np.eye(dim)
    i, j = (x.reshape(-1) for x in np.indices((dim, dim)))
    blocks, sides, present = [], [], []
    matrices = [(models.A, 1.0, dim + heads, -1.0)]
    matrices += [(models.V[:, h], 1.0, dim + h, -1.0) for h in range(heads)]
    matrices += [(models.B[:, h], -1.0, dim + h, 1.0) for h in range(heads)]
    for X, sign, unknown, weight in matrices:
        row = np.zeros((dim * dim, dim + heads + 1))
        row[:, :dim] = sign * unit[i] - unit[j]
        row[:, unknown] = weight
        blocks.append(row)
        flat = np.abs(X).reshape(count, -1)
        present.append(flat > 0)
        sides.append(-np.log(np.where(flat > 0, flat, 1.0)))
    rows, used = np.concatenate(blocks), np.concatenate(present, axis=1)
    side = np.concatenate(sides, axis=1)
    weighted = rows * used[..., None]
    solution = np.linalg.pinv(weighted) @ (side * used)[..., None]
    return solution[:, :dim, 0]
