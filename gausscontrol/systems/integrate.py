"""One trajectory of the moment system, step by step, watched for finite escape.

    covariance form   y = (mu, vech Sigma)            fast; only while Sigma is well conditioned
    factor form       y = (mu, rows of L)             L' = M L + L Omega, Omega skew (Theory 1.6)

Omega does not change Sigma = L L^T. It is chosen so that |L'| is least, the horizontal lift of
the Bures-Wasserstein geometry: with G = L^T L and N = L^T M L, G Omega + Omega G = N^T - N. Then
L' vanishes at every equilibrium, where plain L' = M L rotates for ever if K != 0; and unlike
L' = L sym(L^-1 M L) it stays bounded by |M| |L| however ill-conditioned L is.

Near a finite escape tr Sigma grows like C / (t* - t), so its logarithmic growth rate g gives the
remaining depth 1/g. A trajectory is stopped there once 1/g is below 1e-10 of the depth travelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import DOP853, LSODA, RK23, OdeSolver

from gausscontrol.errors import IntegrationError
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.model.moments import MomentField

__all__ = ["CovarianceFlow", "FactorFlow", "Leg", "integrate"]

# The covariance form hands over to the factor form when lambda_min / lambda_max falls below this.
HANDOVER_RATIO = 1e-5
# The remaining depth 1/g, over the depth travelled, at which an escape counts as reached.
ESCAPE_RESOLUTION = 1e-10
# Share of the growth rate that the quadratic part must carry in an escape.
QUADRATIC_SHARE = 0.9
# The growth rate is looked at once tr Sigma exceeds this multiple of its smallest value so far.
GROWTH_WATCH = 1e3
# States beyond this are about to overflow.
OVERFLOW = 1e140
MAX_STEPS = 100_000
# Up to this many states LSODA, with the exact Jacobian in the covariance form, is fastest.
LSODA_STATES = 200
# DOP853 steps after which a problem counts as stiff and LSODA takes over.
STIFF_STEPS = 3_000

SOLVERS: dict[str, type[OdeSolver]] = {"LSODA": LSODA, "DOP853": DOP853, "RK23": RK23}


class CovarianceFlow:
    """Right side of (1) on y = (mu, vech Sigma).

    Parameters
    ----------
    field_at : callable
        t -> MomentField; constant for constant inputs.
    dim : int
        Token dimension d.
    """

    def __init__(self, field_at: Callable[[float], MomentField], dim: int) -> None:
        self.field_at, self.dim = field_at, dim
        self.size = dim + dim * (dim + 1) // 2
        self._full = vech_index(dim).full.reshape(dim, dim)

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return y'."""
        return self.field_at(t).covariance_form(y)

    def jacobian(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return the exact Jacobian of `rate`."""
        return self.field_at(t).jacobian(y)

    def covariance(self, y: np.ndarray) -> np.ndarray:
        """Return Sigma, (d, d)."""
        return y[self.dim : self.size].take(self._full)

    def trace(self, y: np.ndarray) -> float:
        """Return tr Sigma."""
        return float(y[self.dim : self.size].take(self._full.diagonal()).sum())

    def is_degenerate(self, y: np.ndarray) -> bool:
        """Tell whether Sigma is too close to singular for this form."""
        S = self.covariance(y)
        if not np.isfinite(S).all():
            return False
        values = np.linalg.eigvalsh(S)
        return bool(values[0] < HANDOVER_RATIO * values[-1])


class FactorFlow:
    """Right side of (2) on y = (mu, rows of L), optionally with the transition matrix.

    Parameters
    ----------
    field_at : callable
        t -> MomentField; constant for constant inputs.
    dim, rank : int
        L is d x r.
    gauge : bool, optional
        Use the horizontal gauge (default); False integrates L' = M L itself.
    transition : bool, optional
        Append the rows of Psi, Psi' = M Psi.
    """

    jacobian = None

    def __init__(
        self,
        field_at: Callable[[float], MomentField],
        dim: int,
        rank: int,
        *,
        gauge: bool = True,
        transition: bool = False,
    ) -> None:
        self.field_at, self.dim, self.rank = field_at, dim, rank
        self.size = dim + dim * rank
        self._gauge = gauge and rank > 1
        self._transition = transition

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return y'."""
        field, dim = self.field_at(t), self.dim
        mean, L = y[:dim], self.factor(y)
        S = L @ L.T
        M = field.drift(S)
        out = np.empty_like(y)
        out[:dim] = field.mean_rate(mean, S, M)
        out[dim : self.size] = self._factor_rate(M, L).reshape(-1)
        if self._transition:
            out[self.size :] = (M @ y[self.size :].reshape(dim, dim)).reshape(-1)
        return out

    def _factor_rate(self, M: np.ndarray, L: np.ndarray) -> np.ndarray:
        rate = M @ L
        if not self._gauge:
            return rate
        gram = L.T @ L
        if not np.isfinite(gram).all():
            return np.full_like(rate, np.nan)
        values, vectors = np.linalg.eigh(gram)
        product = vectors.T @ (L.T @ rate) @ vectors
        values = np.maximum(values, np.finfo(float).tiny)
        skew = (product.T - product) / (values[:, None] + values)
        return rate + L @ (vectors @ skew @ vectors.T)

    def factor(self, y: np.ndarray) -> np.ndarray:
        """Return L, (d, r)."""
        return y[self.dim : self.size].reshape(self.dim, self.rank)

    def covariance(self, y: np.ndarray) -> np.ndarray:
        """Return Sigma, (d, d)."""
        L = self.factor(y)
        return L @ L.T

    def trace(self, y: np.ndarray) -> float:
        """Return tr Sigma."""
        return float(np.square(y[self.dim : self.size]).sum())

    def is_degenerate(self, y: np.ndarray) -> bool:
        """Return False: a factor represents any rank."""
        return False


@dataclass
class Leg:
    """What one integration brought: samples, and where and why it ended."""

    times: np.ndarray
    states: np.ndarray  # (size, N)
    end_time: float
    end_state: np.ndarray
    reason: str  # "end", "degenerate" or "escape"
    remaining: float = 0.0  # 1/g, when the reason is "escape"


def integrate(
    flow: CovarianceFlow | FactorFlow,
    start: float,
    state: np.ndarray,
    end: float,
    times: np.ndarray,
    *,
    rtol: float,
    atol: float | np.ndarray,
    origin: float | None = None,
    solver: str | None = None,
    stop_when_degenerate: bool = False,
    stop: Callable[[float, np.ndarray], bool] | None = None,
    max_steps: int = MAX_STEPS,
) -> Leg:
    """Integrate a flow, sampling it on the way.

    Parameters
    ----------
    flow : CovarianceFlow or FactorFlow
    start, end : float
        Depths, start < end. [t]
    state : (n,) ndarray
        State at the start.
    times : (N,) ndarray
        Depths in [start, end] at which to sample.
    rtol : float
        Local relative tolerance of the solver.
    atol : float or (n,) ndarray
        Local absolute tolerance.
    origin : float, optional
        Depth from which an escape is measured, the start by default. [t]
    solver : {"LSODA", "DOP853", "RK23"}, optional
        By size by default.
    stop_when_degenerate : bool, optional
        End with reason "degenerate" when the covariance form loses conditioning.
    stop : callable, optional
        (t, y) -> bool after each step; True ends the leg.
    max_steps : int, optional
        Steps after which the integration is given up.

    Returns
    -------
    Leg

    Raises
    ------
    IntegrationError
        If the steps run out, or the state overflows without a finite escape.
    """
    stepper = _Stepper(flow, start, state, end, rtol, atol, solver)
    watch = _EscapeWatch(flow, start if origin is None else origin)
    times = np.asarray(times, dtype=float)
    samples = np.empty((state.size, times.size))
    done = int(np.searchsorted(times, start, side="right"))
    samples[:, :done] = state[:, None]

    def leg(reason: str, remaining: float = 0.0) -> Leg:
        return Leg(times[:done], samples[:, :done], stepper.t, stepper.y, reason, remaining)

    while stepper.t < end:
        if stepper.steps >= max_steps:
            raise IntegrationError(
                f"timepts: the integration used up {max_steps} steps at depth {stepper.t:.6g} of "
                f"{end:.6g}; shorten the grid or loosen rtol"
            )
        advanced = stepper.step()
        remaining = watch.remaining(stepper.t, stepper.y, force=not advanced)
        if remaining is not None:
            return leg("escape", remaining)
        _check_progress(stepper, advanced, end)
        reached = int(np.searchsorted(times, stepper.t, side="right"))
        if reached > done:
            samples[:, done:reached] = stepper.interpolate(times[done:reached])
            done = reached
        if stop_when_degenerate and flow.is_degenerate(stepper.y):
            return leg("degenerate")
        if stop is not None and stop(stepper.t, stepper.y):
            return leg("end")
    return leg("end")


class _Stepper:
    # A SciPy solver that switches from DOP853 to LSODA when the problem turns out stiff.

    def __init__(self, flow, start, state, end, rtol, atol, solver) -> None:
        self._flow, self._end, self._rtol, self._atol = flow, end, rtol, atol
        self._fixed = solver is not None
        name = solver or ("LSODA" if state.size <= LSODA_STATES else "DOP853")
        self.steps = 0
        self._open(name, start, np.array(state, dtype=float))

    def _open(self, name: str, t: float, y: np.ndarray) -> None:
        options = {"rtol": self._rtol, "atol": self._atol}
        if name == "LSODA" and self._flow.jacobian is not None:
            options["jac"] = self._flow.jacobian
        self._name = name
        self._solver = SOLVERS[name](self._flow.rate, t, y, self._end, **options)
        self.t, self.y = t, y

    def step(self) -> bool:
        if self._name == "DOP853" and not self._fixed and self.steps == STIFF_STEPS:
            self._open("LSODA", self.t, self.y)
        with np.errstate(all="ignore"):
            self._solver.step()
        self.steps += 1
        if self._solver.status == "failed" or not np.isfinite(self._solver.y).all():
            return False
        if self._solver.t == self.t:
            return False
        self.t, self.y = self._solver.t, self._solver.y.copy()
        return True

    def interpolate(self, times: np.ndarray) -> np.ndarray:
        return self._solver.dense_output()(times)


def _check_progress(stepper: _Stepper, advanced: bool, end: float) -> None:
    if advanced and np.abs(stepper.y).max() < OVERFLOW:
        return
    cause = (
        "the state exceeds 1e140, by growth that is not a finite escape"
        if advanced
        else "the solver could not take a further step"
    )
    raise IntegrationError(
        f"timepts: {cause} at depth {stepper.t:.6g} of {end:.6g}; end the grid before that depth"
    )


class _EscapeWatch:
    # Decides, from the growth rate of tr Sigma, whether a trajectory is about to escape.

    def __init__(self, flow: CovarianceFlow | FactorFlow, start: float) -> None:
        self._flow, self._start = flow, start
        self._least = np.inf

    def remaining(self, t: float, y: np.ndarray, *, force: bool) -> float | None:
        trace = self._flow.trace(y)
        self._least = min(self._least, trace)
        if t <= self._start or not (force or trace > GROWTH_WATCH * self._least):
            return None
        S = self._flow.covariance(y)
        quadratic = 2 * float(np.sum(self._flow.field_at(t).heads.attention(S) * S.T)) / trace
        total = 2 * float(np.sum(self._flow.field_at(t).A * S)) / trace + quadratic
        # A failed step near the escape is accepted on a coarser resolution than a clean arrival.
        resolution = 1e3 * ESCAPE_RESOLUTION if force else ESCAPE_RESOLUTION
        escapes = total * (t - self._start) * resolution > 1 and quadratic > QUADRATIC_SHARE * total
        return 1 / total if escapes else None
