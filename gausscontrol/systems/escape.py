"""Finite escape of a trajectory: how it is noticed, and at which depth it happens.

    g = (tr Sigma)' / tr Sigma,    dy/ds = y' / g,    dt/ds = 1 / g,    tr Sigma = e^s tr Sigma(0)

Near an escape at t* the quadratic part of (1) rules and tr Sigma grows like C / (t* - t), so that
g = 1 / (t* - t). In the variable s that singularity is at infinity and the flow is smooth: a
suspected escape is followed in s until 1/g is 1e-10 of the depth travelled, which takes a few
dozen steps. A growth that ends, because g or the quadratic share of it falls, is no escape; should
it resume, it is looked at again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.integrate import DOP853

from gausscontrol.systems.forms import CovarianceFlow, FactorFlow

__all__ = ["Escape", "EscapeWatch"]

# The growth is looked at once tr Sigma exceeds this multiple of its smallest value so far ...
GROWTH_WATCH = 100.0
# ... and again each time it has grown by this factor.
GROWTH_STEP = 10.0
# Share of the growth rate that the quadratic part must carry in an escape.
QUADRATIC_SHARE = 0.9
# The remaining depth 1/g, over the depth travelled, at which an escape counts as reached.
RESOLUTION = 1e-10
MAX_STEPS = 500


class Escape(NamedTuple):
    """A finite escape: its depth, and the part of that depth that is extrapolated."""

    depth: float
    remaining: float


class EscapeWatch:
    """Watches a trajectory for finite escape.

    Parameters
    ----------
    flow : CovarianceFlow or FactorFlow
    origin, end : float
        Depths where the trajectory starts and is to end. [t]
    rtol, atol : float or ndarray
        Tolerances of the integration.
    """

    def __init__(
        self,
        flow: CovarianceFlow | FactorFlow,
        origin: float,
        end: float,
        rtol: float,
        atol: float | np.ndarray,
    ) -> None:
        self._flow, self._origin, self._end = flow, origin, end
        self._rtol, self._atol = rtol, atol
        self._least = np.inf
        self._threshold = 0.0

    def look(self, t: float, y: np.ndarray, *, force: bool) -> Escape | None:
        """Return the escape that the trajectory is about to make before its end, if any.

        Parameters
        ----------
        t : float
            Depth reached. [t]
        y : (n,) ndarray
            State there.
        force : bool
            Look even if the growth so far gives no reason to, since the solver is stuck.

        Returns
        -------
        Escape or None
        """
        trace = self._flow.trace(y)
        self._least = min(self._least, trace)
        if not force and trace <= max(GROWTH_WATCH * self._least, self._threshold):
            return None
        self._threshold = GROWTH_STEP * trace
        with np.errstate(all="ignore"):
            return self._follow(t, y) if self._is_quadratic(t, y) else None

    def _is_quadratic(self, t: float, y: np.ndarray) -> bool:
        S = self._flow.covariance(y)
        field = self._flow.field_at(t)
        quadratic = float(np.sum(field.heads.attention(S) * S.T))
        total = float(np.sum(field.A * S)) + quadratic
        return 0 < QUADRATIC_SHARE * total < quadratic < np.inf

    def _follow(self, t: float, y: np.ndarray) -> Escape | None:
        # The last entry of the state is the depth since t, which keeps its own relative accuracy.
        def rate(_: float, z: np.ndarray) -> np.ndarray:
            slope = self._flow.rate(t + z[-1], z[:-1])
            growth = self._flow.trace_rate(z[:-1], slope) / self._flow.trace(z[:-1])
            # NaN makes the solver reject the step.
            return np.append(slope, 1.0) / growth if growth > 0 else np.full(z.size, np.nan)

        start = np.append(y, 0.0)
        scale = rate(0.0, start)[-1]
        if not np.isfinite(scale):
            return None
        atol = np.append(np.broadcast_to(self._atol, y.shape), self._rtol * scale)
        solver = DOP853(rate, 0.0, start, np.inf, rtol=self._rtol, atol=atol, first_step=0.01)
        least = scale
        for _ in range(MAX_STEPS):
            solver.step()
            depth, remaining = t + solver.y[-1], solver.f[-1]
            least = min(least, remaining)
            if solver.status == "failed" or depth > self._end or remaining > 2 * least:
                return None
            if remaining < RESOLUTION * (depth - self._origin):
                depth += remaining
                return Escape(depth, remaining) if depth <= self._end else None
            if not self._is_quadratic(depth, solver.y[:-1]):
                return None
        return None
