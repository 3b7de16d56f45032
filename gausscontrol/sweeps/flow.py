"""Embedded Runge-Kutta pairs for many trajectories at once, each with its own step.

    y_i' = f_i(y_i),     |error_i| <= 1 in the norm of  atol_i + rtol |y_i|

States are (n, N) arrays, trajectories last. Steps are chosen as SciPy's RK23 and RK45 choose them
for one trajectory, so that many take the same steps as each would alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["DORMAND_PRINCE", "BOGACKI_SHAMPINE", "Pair", "Stepper"]

SAFETY, LEAST_FACTOR, MOST_FACTOR = 0.9, 0.2, 10.0


class Pair(NamedTuple):
    """An embedded pair whose last stage is the first of the next step."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    errors: tuple[float, ...]
    order: int  # of the error estimate


BOGACKI_SHAMPINE = Pair(
    ((1 / 2,), (0.0, 3 / 4)),
    (2 / 9, 1 / 3, 4 / 9),
    (5 / 72, -1 / 12, -1 / 9, 1 / 8),
    2,
)
DORMAND_PRINCE = Pair(
    (
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    (-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40),
    4,
)


class Stepper:
    """Trajectories in progress.

    Parameters
    ----------
    pair : Pair
    rate : callable
        y -> y', (n, N) to (n, N), for the trajectories in progress.
    state : (n, N) ndarray
    rtol : float
    atol : float or ndarray
        Broadcast against (n, N).
    resting : int, optional
        Further entries of every state that are zero and stay so; they count in the norms.
    bound : (N,) ndarray, optional
        Depths that no step passes.

    Attributes
    ----------
    t, y : (N,) and (n, N) ndarray
        Depths and states.
    h : (N,) ndarray
        Steps that are tried next.
    failed : (N,) ndarray of bool
        Trajectories whose step has become too small to take.
    """

    def __init__(
        self,
        pair: Pair,
        rate: Callable[[np.ndarray], np.ndarray],
        state: np.ndarray,
        *,
        rtol: float,
        atol: float | np.ndarray,
        resting: int = 0,
        bound: np.ndarray | None = None,
    ) -> None:
        self.pair, self.rate, self.rtol = pair, rate, rtol
        self.y = np.array(state, dtype=float, order="C")
        count = self.y.shape[1]
        self._atol = np.ascontiguousarray(np.broadcast_to(atol, self.y.shape))
        self._size = self.y.shape[0] + resting
        self.t = np.zeros(count)
        self.bound = np.full(count, np.inf) if bound is None else np.array(bound, dtype=float)
        self._slopes = self._room(rate(self.y))
        self.h = self._first()
        self._rejected = np.zeros(count, dtype=bool)
        self.failed = np.zeros(count, dtype=bool)

    @property
    def f(self) -> np.ndarray:
        """Rates at the states."""
        return self._slopes[0]

    def attempt(self) -> np.ndarray:
        """Try one step for every trajectory; tell which advanced."""
        pair = self.pair
        least = 10 * np.spacing(np.maximum(self.t, np.finfo(float).tiny))
        h = np.where(self._rejected, self.h, np.maximum(self.h, least))
        self.failed |= h < least
        target, meant = np.minimum(self.t + h, self.bound), h
        h = target - self.t
        slopes = self._slopes
        for stage, row in enumerate((*pair.stages, pair.weights), start=1):
            new = _combined(row, slopes)
            new *= h
            new += self.y
            slopes[stage] = self.rate(new)
        scale = np.maximum(np.abs(self.y), np.abs(new))
        scale *= self.rtol
        scale += self._atol
        gap = _combined(pair.errors, slopes)
        gap /= scale
        error = np.abs(h) * self._norm(gap)
        good = error < 1
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = SAFETY * error ** (-1 / (pair.order + 1))
        most = np.where(self._rejected, 1.0, MOST_FACTOR)
        grown = np.where(error == 0, most, np.minimum(most, factor))
        shrunk = np.where(factor > LEAST_FACTOR, factor, LEAST_FACTOR)
        proposed = h * np.where(good, grown, shrunk)
        # A step cut short by a bound says nothing against the step that was meant.
        cut = good & (target >= self.bound)
        self.h = np.where(cut, np.maximum(proposed, meant), proposed)
        self._rejected = ~good
        good = good & ~self.failed
        if good.all():
            self.t, self.y, slopes[0] = target, new, slopes[-1]
        else:
            self.t = np.where(good, target, self.t)
            self.y = np.where(good, new, self.y)
            slopes[0] = np.where(good, slopes[-1], slopes[0])
        return good

    def keep(self, kept: np.ndarray) -> None:
        """Go on with some of the trajectories; `rate` must have been told already."""
        f = np.take(self.f, kept, axis=1)
        for name in ("y", "_atol"):
            setattr(self, name, np.take(getattr(self, name), kept, axis=1))
        self._slopes = self._room(f)
        for name in ("t", "h", "bound", "_rejected", "failed"):
            setattr(self, name, getattr(self, name)[kept])

    def _room(self, f: np.ndarray) -> np.ndarray:
        # Rates at all stages, of which the first is known.
        slopes = np.empty((len(self.pair.errors), *f.shape))
        slopes[0] = f
        return slopes

    def _norm(self, x: np.ndarray) -> np.ndarray:
        return np.sqrt(np.einsum("in,in->n", x, x) / self._size)

    def _first(self) -> np.ndarray:
        # SciPy's choice, from the size of the second derivative.
        scale = self._atol + np.abs(self.y) * self.rtol
        d0, d1 = self._norm(self.y / scale), self._norm(self.f / scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            h0 = np.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
            h0 = np.minimum(h0, self.bound)
            d2 = self._norm((self.rate(self.y + h0 * self.f) - self.f) / scale) / h0
            h1 = (0.01 / np.maximum(d1, d2)) ** (1 / (self.pair.order + 1))
        h1 = np.where((d1 <= 1e-15) & (d2 <= 1e-15), np.maximum(1e-6, h0 * 1e-3), h1)
        return np.minimum(np.minimum(100 * h0, h1), self.bound)


def _combined(weights: tuple[float, ...], slopes: np.ndarray) -> np.ndarray:
    # One matrix-vector product passes over memory once, where a sum of multiples does so twice
    # for every term.
    count = len(weights)
    total = np.array(weights) @ slopes[:count].reshape(count, -1)
    return total.reshape(slopes.shape[1:])
