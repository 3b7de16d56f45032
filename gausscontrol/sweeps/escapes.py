"""Finite escape of many trajectories: noticed, and followed to its depth (Theory 5.3).

    g = (tr Sigma)' / tr Sigma,    dy/ds = y' / g,    dt/ds = 1 / g

as `systems.escape` follows one: in the variable s the singularity is at infinity, and 1/g is the
depth that remains.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.sweeps.arrival import horizontal_gauge
from gausscontrol.sweeps.batch import Field, chosen, mul
from gausscontrol.sweeps.flow import DORMAND_PRINCE, Stepper
from gausscontrol.systems.escape import QUADRATIC_SHARE, RESOLUTION

__all__ = ["FactorFlows", "follow_escapes"]

MAX_STEPS = 2000


class FactorFlows:
    """Right sides of L' = M L and of the mean, on states (mean, rows of L), (n, N).

    Parameters
    ----------
    field : Field
    b : (d, N) ndarray
    """

    def __init__(self, field: Field, b: np.ndarray) -> None:
        self._field, self._b, self._dim = field, b, len(b)
        self._total = field.V.sum(axis=0)

    def copy(self, kept: np.ndarray) -> FactorFlows:
        """Return the flows of some trajectories."""
        return FactorFlows(self._field.keep(kept), chosen(self._b, kept))

    def keep(self, kept: np.ndarray) -> None:
        """Go on with some of the trajectories."""
        self._field, self._b = self._field.keep(kept), chosen(self._b, kept)
        self._total = chosen(self._total, kept)

    def factor(self, y: np.ndarray) -> np.ndarray:
        """Return L, (d, r, N)."""
        return y[self._dim :].reshape(self._dim, -1, y.shape[1])

    def rate(self, y: np.ndarray, gauge: bool = False) -> np.ndarray:
        """Return y', in the horizontal gauge if asked for, which keeps L from rotating."""
        L, out = self.factor(y), np.empty_like(y)
        M = self._field.A + self._field.attention(mul(L, L.swapaxes(0, 1)))
        rate = mul(M, L)
        if gauge and L.shape[1] > 1:
            rate = rate + mul(L, horizontal_gauge(L, rate))
        out[self._dim :] = rate.reshape(-1, y.shape[1])
        out[: self._dim] = np.einsum("ijn,jn->in", M + self._total, y[: self._dim]) + self._b
        return out

    def trace(self, y: np.ndarray) -> np.ndarray:
        """Return tr Sigma, (N,)."""
        return np.einsum("in,in->n", y[self._dim :], y[self._dim :])

    def trace_rate(self, y: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """Return (tr Sigma)', given y'."""
        return 2 * np.einsum("in,in->n", y[self._dim :], rate[self._dim :])

    def quadratic(self, y: np.ndarray) -> np.ndarray:
        """Return the share of the quadratic part in (tr Sigma)'; NaN unless both are positive."""
        L = self.factor(y)
        S = mul(L, L.swapaxes(0, 1))
        quadratic = np.einsum("ijn,jin->n", self._field.attention(S), S)
        total = quadratic + np.einsum("ijn,jin->n", self._field.A, S)
        return np.where((total > 0) & (quadratic < np.inf), quadratic / total, np.nan)


def follow_escapes(
    flow: FactorFlows, t: np.ndarray, y: np.ndarray, atol: np.ndarray, end: float, rtol: float
) -> np.ndarray:
    """Return the depths of the escapes of some trajectories, and what is extrapolated of them.

    Parameters
    ----------
    flow : FactorFlows
        Of these trajectories; used up.
    t, y, atol : (N,), (n, N), (n, N) ndarray
        Depths reached, states there, and absolute tolerances.
    end : float
        Depth at which they are to end. [t]
    rtol : float

    Returns
    -------
    (2, N) ndarray
        NaN where there is no escape before the end.
    """
    result = np.full((2, t.size), np.nan)
    active = np.flatnonzero(flow.quadratic(y) > QUADRATIC_SHARE)
    flow.keep(active)
    t, y, atol = t[active], y[:, active], atol[:, active]
    if not active.size:
        return result

    def rate(z: np.ndarray) -> np.ndarray:
        slope = flow.rate(z[:-1], gauge=True)
        growth = flow.trace_rate(z[:-1], slope) / flow.trace(z[:-1])
        # NaN makes the stepper reject the step.
        growth = np.where(growth > 0, growth, np.nan)
        return np.concatenate([slope, np.ones((1, growth.size))]) / growth

    start = np.concatenate([y, np.zeros((1, t.size))])
    scale = rate(start)[-1:]
    stepper = Stepper(
        DORMAND_PRINCE,
        rate,
        start,
        rtol=rtol,
        atol=np.concatenate([atol, rtol * scale]),
    )
    least = scale[0]
    for _ in range(MAX_STEPS):
        advanced = stepper.attempt()
        depth, remaining = t + stepper.y[-1], stepper.f[-1]
        least = np.minimum(least, remaining)
        lost = stepper.failed | (depth > end) | ~(remaining <= 2 * least)
        arrived = ~lost & (remaining < RESOLUTION * depth)
        lost |= advanced & ~arrived & ~(flow.quadratic(stepper.y[:-1]) > QUADRATIC_SHARE)
        arrived &= depth + remaining <= end
        result[:, active[arrived]] = (depth + remaining)[arrived], remaining[arrived]
        kept = np.flatnonzero(~(lost | arrived) & ~(remaining < RESOLUTION * depth))
        if kept.size < active.size:
            active, t, least = active[kept], t[kept], least[kept]
            flow.keep(kept)
            stepper.keep(kept)
        if not active.size:
            break
    return result
