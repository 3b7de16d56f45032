"""One trajectory of the moment system, step by step, watched for finite escape.

    y' = f(t, y),    y a state of `forms`,    sampled at given depths

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

from gausscontrol.errors import IntegrationError
from gausscontrol.systems.escape import Escape, EscapeWatch
from gausscontrol.systems.forms import CovarianceFlow, FactorFlow

__all__ = ["Leg", "integrate"]

# States beyond this are about to overflow.
OVERFLOW = 1e140
MAX_STEPS = 50_000
# Those of Radau are dear, and few where it gets along: hundreds for a stiff trajectory.
MAX_STIFF_STEPS = 2_000
# Steps of DOP853 before Radau gets its first turn; each failed turn multiplies them by four.
PATIENCE = 100
# Steps of Radau in a turn, of which the second half is judged.
TURN = 20
# Beyond this many states the linear algebra of Radau costs more than small steps of DOP853.
RADAU_STATES = 600

SOLVERS: dict[str, type[OdeSolver]] = {"DOP853": DOP853, "RK23": RK23, "Radau": Radau}


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
        Steps after which the integration is given up; of a stiff solver 2,000 at most.

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
    samples, escape = _Samples(times, start, state), None
    while stepper.t < end:
        if stepper.steps >= max_steps or stepper.stiff_steps >= MAX_STIFF_STEPS:
            count = f"{stepper.steps} steps, {stepper.stiff_steps} of them of a stiff solver,"
            raise IntegrationError(
                f"timepts: the integration used up {count} at depth {stepper.t:.6g} of {end:.6g}; "
                "end the grid before that depth or loosen rtol"
            )
        before = stepper.t, stepper.y
        advanced = stepper.step()
        if advanced and stop_when_degenerate and flow.is_degenerate(stepper.y):
            return samples.leg("degenerate", *before)
        if escape is None:
            escape = watch.look(stepper.t, stepper.y, force=not advanced)
            if escape is None:
                _check_progress(stepper, advanced, end)
            else:
                samples.end_before(escape)
        if advanced:
            samples.take(stepper)
        if escape is not None and (samples.complete or not advanced):
            return samples.leg("escape", stepper.t, stepper.y, escape)
        if stop is not None and stop(stepper.t, stepper.y):
            break
        stepper.reconsider()
    return samples.leg("end", stepper.t, stepper.y, escape)


class _Samples:
    # States at the depths asked for, as far as the steps have come.

    def __init__(self, times: np.ndarray, start: float, state: np.ndarray) -> None:
        self._times, self._states = times, np.empty((state.size, times.size))
        self._done, self._wanted = int(np.searchsorted(times, start, side="right")), times.size
        self._states[:, : self._done] = state[:, None]

    @property
    def complete(self) -> bool:
        return self._done >= self._wanted

    def end_before(self, escape: Escape) -> None:
        self._wanted = int(np.searchsorted(self._times, escape.depth - escape.remaining))

    def take(self, stepper: _Stepper) -> None:
        done, times = self._done, self._times
        if not self.complete and stepper.t >= times[done]:
            passed = int(np.searchsorted(times, stepper.t, side="right"))
            reached = min(passed, self._wanted)
            self._states[:, done:reached] = stepper.interpolate(times[done:reached])
            self._done = max(done, reached)

    def leg(self, reason: str, t: float, y: np.ndarray, escape: Escape | None = None) -> Leg:
        done = self._done
        return Leg(self._times[:done], self._states[:, :done], t, y, reason, escape)


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
        self.steps = self.stiff_steps = 0
        self.t, self.y = start, np.array(state, dtype=float)
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
            self.stiff_steps += self._name == "Radau"
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
