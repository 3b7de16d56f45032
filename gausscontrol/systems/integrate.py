"""One trajectory of the moment system, step by step, watched for finite escape.

    covariance form   y = (mu, vech Sigma)            fast; only while Sigma is well conditioned
    factor form       y = (mu, rows of L)             L' = M L + L Omega, Omega skew (Theory 1.6)

Omega does not change Sigma = L L^T. It is chosen so that |L'| is least, the horizontal lift of
the Bures-Wasserstein geometry: with G = L^T L and N = L^T M L, G Omega + Omega G = N^T - N. Then
L' vanishes at every equilibrium, where plain L' = M L rotates for ever if K != 0; and unlike
L' = L sym(L^-1 M L) it stays bounded by |M| |L| however ill-conditioned L is.

The solver is DOP853, which was fastest on everything that is not stiff, oscillations included.
Whether a problem is stiff is found by trying: after a hundred steps Radau has a turn, and keeps
going if it travels further for the same work. (LSODA, which promises to tell by itself, did not
always, and its restarts at kinks of the input begin at order one.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import DOP853, RK23, OdeSolver, Radau
from scipy.linalg.lapack import dpotrf

from gausscontrol.errors import IntegrationError
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.model.moments import MomentField
from gausscontrol.systems.escape import Escape, EscapeWatch

__all__ = ["CovarianceFlow", "FactorFlow", "Leg", "integrate"]

# The covariance form hands over to the factor form when lambda_min / lambda_max falls below this.
HANDOVER_RATIO = 1e-5
# It also hands over when lambda_min falls below this multiple of the absolute tolerance, where
# rounding could make Sigma indefinite.
HANDOVER_FLOOR = 1e3
# States beyond this are about to overflow.
OVERFLOW = 1e140
MAX_STEPS = 50_000
# Eigenvalues of L^T L below this share of the largest carry no digits of N = L^T M L.
GAUGE_FLOOR = 1e-12
# Up to this dimension the right side is evaluated as an expanded polynomial.
POLYNOMIAL_DIM = 4
# Steps of DOP853 before Radau gets its first turn; each failed turn multiplies them by four.
PATIENCE = 100
# Steps of Radau in a turn, of which the second half is judged.
TURN = 20
# Beyond this many states the linear algebra of Radau costs more than small steps of DOP853.
RADAU_STATES = 600

SOLVERS: dict[str, type[OdeSolver]] = {"DOP853": DOP853, "RK23": RK23, "Radau": Radau}


class CovarianceFlow:
    """Right side of (1) on y = (mu, vech Sigma).

    Parameters
    ----------
    field_at : callable
        t -> MomentField; constant for constant inputs.
    dim : int
        Token dimension d.
    floor : float, optional
        Absolute tolerance on Sigma; eigenvalues near it are not told from zero. [x]^2
    constant : bool, optional
        Whether the field never changes, so that a small one is worth expanding.
    """

    def __init__(
        self,
        field_at: Callable[[float], MomentField],
        dim: int,
        floor: float = 0.0,
        constant: bool = False,
    ) -> None:
        self.field_at, self.dim, self._floor = field_at, dim, HANDOVER_FLOOR * floor
        self.size = dim + dim * (dim + 1) // 2
        self._full = vech_index(dim).full.reshape(dim, dim)
        self._diagonal = dim + self._full.diagonal()
        self._constant = None
        if constant:
            field = field_at(0.0)
            small = dim <= POLYNOMIAL_DIM
            self._constant = field.polynomial() if small else field.covariance_form

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return y'."""
        if self._constant is not None:
            return self._constant(y)
        return self.field_at(t).covariance_form(y)

    def jacobian(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return the exact Jacobian of `rate`."""
        return self.field_at(t).jacobian(y)

    def covariance(self, y: np.ndarray) -> np.ndarray:
        """Return Sigma, (d, d)."""
        return y[self.dim : self.size].take(self._full)

    def trace(self, y: np.ndarray) -> float:
        """Return tr Sigma."""
        return float(y.take(self._diagonal).sum())

    def trace_rate(self, y: np.ndarray, rate: np.ndarray) -> float:
        """Return (tr Sigma)', given y'."""
        return self.trace(rate)

    def is_degenerate(self, y: np.ndarray) -> bool:
        """Tell whether Sigma is too close to singular for this form."""
        S = self.covariance(y)
        # A Cholesky factor of what exceeds a stricter bound is had for a tenth of eigenvalues.
        excess = S.copy()
        excess.reshape(-1)[:: self.dim + 1] -= max(HANDOVER_RATIO * S.trace(), self._floor)
        if dpotrf(excess)[1] == 0:
            return False
        if not np.isfinite(S).all():
            return False
        values = np.linalg.eigvalsh(S)
        return bool(values[0] < max(HANDOVER_RATIO * values[-1], self._floor))


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
        # With a gauge the right side has no short derivative; Radau differences it.
        self.jacobian = None if self._gauge or transition else self._plain_jacobian

    def _plain_jacobian(self, t: float, y: np.ndarray) -> np.ndarray:
        return self.field_at(t).factor_jacobian(y)

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
        # Any skew matrix is a gauge: below the floor N is rounding, which must not be magnified.
        floor = max(GAUGE_FLOOR * values[-1], np.finfo(float).tiny)
        values = np.maximum(values, floor)
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

    def trace_rate(self, y: np.ndarray, rate: np.ndarray) -> float:
        """Return (tr Sigma)' = 2 <L, L'>, given y'."""
        return 2 * float(y[self.dim : self.size] @ rate[self.dim : self.size])

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
    escape: Escape | None = None


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
    knots: np.ndarray | None = None,
    land: bool = False,
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
    knots : ndarray, optional
        Depths where the right side has kinks, which no step may cross. [t]
    land : bool, optional
        End a step at every sample, which then carries no error of interpolation; for grids with
        fewer points than the solver takes steps.
    solver : {"DOP853", "RK23", "Radau"}, optional
        Chosen, and changed when the problem turns out stiff, by default.
    stop_when_degenerate : bool, optional
        End with reason "degenerate" before the covariance form loses conditioning.
    stop : callable, optional
        (t, y) -> bool after each step; True ends the leg.
    max_steps : int, optional
        Steps after which the integration is given up.

    Returns
    -------
    Leg
        With samples before the escape if there is one.

    Raises
    ------
    IntegrationError
        If the steps run out, or the state overflows without a finite escape.
    """
    times = np.asarray(times, dtype=float)
    landings = times if land else np.empty(0)
    stepper = _Stepper(flow, start, state, end, knots, landings, rtol, atol, solver)
    watch = EscapeWatch(flow, start if origin is None else origin, end, rtol, atol)
    samples = np.empty((state.size, times.size))
    done, wanted = int(np.searchsorted(times, start, side="right")), times.size
    samples[:, :done] = state[:, None]
    escape = None

    def leg(reason: str, t: float, y: np.ndarray) -> Leg:
        return Leg(times[:done], samples[:, :done], t, y, reason, escape)

    while stepper.t < end:
        if stepper.steps >= max_steps:
            raise IntegrationError(
                f"timepts: the integration used up {max_steps} steps at depth {stepper.t:.6g} of "
                f"{end:.6g}; shorten the grid or loosen rtol"
            )
        before = stepper.t, stepper.y
        advanced = stepper.step()
        if advanced and stop_when_degenerate and flow.is_degenerate(stepper.y):
            return leg("degenerate", *before)
        if escape is None:
            escape = watch.look(stepper.t, stepper.y, force=not advanced)
            if escape is not None:
                wanted = int(np.searchsorted(times, escape.depth - escape.remaining))
        if escape is None:
            _check_progress(stepper, advanced, end)
        if advanced and done < times.size and stepper.t >= times[done]:
            reached = min(int(np.searchsorted(times, stepper.t, side="right")), wanted)
            samples[:, done:reached] = stepper.interpolate(times[done:reached])
            done = max(done, reached)
        if escape is not None and (done >= wanted or not advanced):
            return leg("escape", stepper.t, stepper.y)
        if stop is not None and stop(stepper.t, stepper.y):
            break
        stepper.reconsider()
    return leg("end", stepper.t, stepper.y)


class _Stepper:
    # A SciPy solver that restarts at knots, and changes to Radau when the problem is stiff.

    def __init__(self, flow, start, state, end, knots, landings, rtol, atol, solver) -> None:
        self._flow, self._options = flow, {"rtol": rtol, "atol": atol}
        inner = np.empty(0) if knots is None else knots[(knots > start) & (knots < end)]
        self._bounds = iter([*inner, end])
        self._landings = landings.tolist()
        self._name = solver or "DOP853"
        self._trial = _Trial() if solver is None and state.size <= RADAU_STATES else None
        self._spent = 0  # work of the solvers closed so far
        self.steps, self.t, self.y = 0, start, np.array(state, dtype=float)
        self.largest = 0.0  # entry of the last step, in size
        with np.errstate(all="ignore"):
            if not np.isfinite(flow.rate(start, self.y)).all():
                raise IntegrationError(
                    f"initial: the right side overflows at depth {start:.6g}; "
                    "choose units in which the start is closer to 1"
                )
            self._open(next(self._bounds))

    def _open(self, bound: float, first_step: float | None = None) -> None:
        options = dict(self._options)
        options["first_step"] = min(first_step, bound - self.t) if first_step else None
        if self._name == "Radau":
            options["jac"] = self._flow.jacobian
        self._bound = bound
        self._solver = SOLVERS[self._name](self._flow.rate, self.t, self.y, bound, **options)

    def step(self) -> bool:
        with np.errstate(all="ignore"):
            if self.t == self._bound:
                self._spent = self._work()
                self._open(next(self._bounds), self._solver.h_abs)
            self._aim()
            self._solver.step()
            self.steps += 1
            moved = self._solver.t > self.t and self._solver.status != "failed"
            self.largest = np.abs(self._solver.y).max()
            if not (moved and self.largest < np.inf):  # NaN is not
                return False
            self.t, self.y = self._solver.t, self._solver.y.copy()
            return True

    def _aim(self) -> None:
        # Make the solver land on the next sample, in equal steps no longer than it proposes.
        solver, position = self._solver, bisect_right(self._landings, self.t)
        if position == len(self._landings):
            return
        solver.t_bound = min(self._landings[position], self._bound)
        solver.status = "running"
        gap = solver.t_bound - self.t
        solver.h_abs = gap / np.ceil(gap / solver.h_abs) if solver.h_abs < gap else gap

    def interpolate(self, times: np.ndarray) -> np.ndarray:
        if times[0] == self.t:
            return np.repeat(self.y[:, None], times.size, axis=1)
        return self._solver.dense_output()(times)

    def reconsider(self) -> None:
        """Let the solver take turns until it is clear which of them is faster here."""
        if self._trial is None:
            return
        name = self._trial.next_solver(self.t, self._work())
        if name == self._name:
            return
        self._name = name
        if self.t < self._bound:
            self._spent = self._work()
            self._open(self._bound)

    def _work(self) -> int:
        # Evaluations; a Jacobian, and its factors, cost about as much as one for every state.
        solver = self._solver
        return self._spent + solver.nfev + self.y.size * (solver.njev + solver.nlu)


class _Trial:
    # Compares depth per work of DOP853 with that of Radau in turns.

    def __init__(self) -> None:
        self._patience, self._decided = PATIENCE, False
        self._name, self._step = "DOP853", 0
        self._mark, self._pace = (0.0, 0), 0.0

    def next_solver(self, t: float, work: int) -> str:
        """Take note of a step and name the solver of the next one."""
        if self._decided:
            return self._name
        self._step += 1
        length = self._patience if self._name == "DOP853" else TURN
        if self._step == length - TURN // 2:
            self._mark = t, work
        if self._step < length:
            return self._name
        pace = (t - self._mark[0]) / max(work - self._mark[1], 1)
        self._step = 0
        if self._name == "DOP853":
            self._name, self._pace = "Radau", pace
        elif pace > self._pace:
            self._decided = True
        else:
            self._name, self._patience = "DOP853", 4 * self._patience
        return self._name


def _check_progress(stepper: _Stepper, advanced: bool, end: float) -> None:
    if advanced and stepper.largest < OVERFLOW:
        return
    cause = (
        f"the state exceeds {OVERFLOW:g}, by growth that is not a finite escape"
        if advanced
        else "the solver could not take a further step"
    )
    raise IntegrationError(
        f"timepts: {cause} at depth {stepper.t:.6g} of {end:.6g}; end the grid before that depth"
    )
