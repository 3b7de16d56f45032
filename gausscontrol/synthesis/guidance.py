"""Trajectories under a plan, in open and in closed loop (Theory 6e).

    open     parameters of the plan, whatever the moments are
    closed   M L^ = L' + c (L - L^) + L^ Omega,   m^' = m' + c (m - m^),   c >= 0 the gain

L^ is the current factor, aligned to the plan's L by Procrustes, so that the law depends on the
current covariance only; with it L^' - L' = c (L - L^) up to gauge, and errors decay like e^(-c t).
Both are integrated in the factor form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import IntegrationError, ParameterError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.bures import align, ranked_factor
from gausscontrol.model.moments import MomentField
from gausscontrol.model.packing import unpack
from gausscontrol.synthesis.planned_path import depths_within
from gausscontrol.synthesis.reach import lacks_rank, numerical_rank, read_gaussian
from gausscontrol.systems.arguments import depth_grid
from gausscontrol.systems.forms import FactorFlow
from gausscontrol.systems.integrate import integrate
from gausscontrol.systems.iosys import moment_system
from gausscontrol.systems.response import MomentResponse, build_response
from gausscontrol.systems.trajectory import Solution, Task, solve

if TYPE_CHECKING:
    from gausscontrol.synthesis.plan import SteeringPlan

__all__ = ["controller", "corrected", "read_current", "read_gain", "response"]

# Default gain times duration: errors made at the start are e^-10 of their size at the goal.
GAIN = 10.0
TIGHTEST = 1e-13
MAX_STEPS = 1_000
# An explicit step can be no longer than about this over the gain.
STIFF = 6.0


def read_gain(plan: SteeringPlan, gain: float | None) -> float:
    """Return the gain, 10 / duration by default."""
    if gain is None:
        return GAIN / plan.duration
    value = real_array(gain, "gain")
    if value.ndim or value < 0:
        raise ParameterError(f"gain: expected a rate of at least 0, found {gain!r}; pass a number")
    return float(value)


def corrected(
    plan: SteeringPlan, t: float, mean: np.ndarray, L: np.ndarray, gain: float
) -> dict[str, np.ndarray]:
    """Return offsets that bring the current moments back to the plan.

    Parameters
    ----------
    plan : SteeringPlan
    t : float
        [t]
    mean : (d,) ndarray
        [x]
    L : (d, r) ndarray
        Any factor of the current covariance. [x]
    gain : float
        [1/t]

    Returns
    -------
    dict
        As `Actuation.offsets` gives them.
    """
    point = plan.path.point(min(max(t, 0.0), plan.duration))
    current = align(point.factor, L)
    moving = 1.0 if t <= plan.duration else 0.0
    return plan.actuation.offsets(
        mean,
        current,
        moving * point.mean_rate + gain * (point.mean - mean),
        moving * point.factor_rate + gain * (point.factor - current),
    )


def controller(plan: SteeringPlan, gain: float, name: str) -> ct.NonlinearIOSystem:
    """Return the closed-loop law as a static system."""
    system = moment_system(plan.model, inputs=plan.channels)

    def law(t, x, u, params):
        mean, covariance = unpack(u)
        if lacks_rank(covariance, plan.rank):
            # python-control probes an interconnection at zero to find algebraic loops; there is
            # nothing to correct at a covariance that has lost its rank.
            return plan.inputs(min(t, plan.duration))[:, 0]
        L = ranked_factor(covariance, plan.rank)
        return plan.actuation.signal(corrected(plan, t, mean, L, gain))

    return ct.nlsys(None, law, inputs=system.output_labels, outputs=system.input_labels, name=name)


def response(
    plan: SteeringPlan, timepts: ArrayLike, initial: Any, gain: float | None, *, rtol: float
) -> MomentResponse:
    """Return the moments under a plan; gain None for the open loop."""
    times = depth_grid(timepts, 0)
    depths_within(times, plan.duration)
    mean, L = _initial(plan, float(times[0]), initial)
    # Steps end at the knots too, where the parameters jump.
    inner = [t for t in plan.knots if times[0] < t < times[-1]]
    grid = np.union1d(times, inner)
    system = moment_system(plan.model, inputs=plan.channels, name="plan")
    nominal = MomentField.of(plan.model)
    task = _PlannedTask(
        system,
        nominal,
        grid - grid[0],
        np.zeros((system.ninputs, grid.size)),
        mean,
        L @ L.T,
        L,
        plan.rank,
        transition=False,
        law=lambda t: nominal.offset(**_planned(plan, t + grid[0])),
    )
    task.set_tolerances(rtol, None)
    solution = solve(task, "factor") if gain is None else _guided(plan, task, grid[0], gain)
    count = solution.mean.shape[1]
    kept = np.isin(grid[:count], times)
    solution = replace(
        solution,
        mean=solution.mean[:, kept],
        covariance=solution.covariance[:, :, kept],
        factor=solution.factor[:, :, kept],
    )
    reached = times[: int(kept.sum())]
    signal = np.zeros((system.ninputs, times.size))
    signal[:, : reached.size] = _applied(plan, reached, solution, gain)
    return build_response(replace(task, signal=signal), solution, times, None)


def _planned(plan: SteeringPlan, t: float) -> dict[str, np.ndarray]:
    return plan.actuation.along(plan.path.point(min(t, plan.duration)))


def _initial(plan: SteeringPlan, t: float, initial: Any) -> tuple[np.ndarray, np.ndarray]:
    if initial is None:
        point = plan.path.point(t)
        return point.mean, point.factor
    mean, covariance = read_gaussian(initial, "initial", plan.dim)
    L = ranked_factor(covariance)
    if L.shape[1] != plan.rank:
        raise _other_rank("initial", plan.rank, L.shape[1])
    return mean, L


def read_current(
    plan: SteeringPlan, mean: ArrayLike, covariance: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the current mean and a factor of the plan's rank, or refuse a lower one."""
    mean, covariance = read_gaussian((mean, covariance), "current", plan.dim)
    if lacks_rank(covariance, plan.rank):
        raise _other_rank("covariance", plan.rank, numerical_rank(covariance))
    return mean, ranked_factor(covariance, plan.rank)


def _other_rank(name: str, expected: int, found: int) -> ParameterError:
    return ParameterError(
        f"{name}: expected rank {expected}, that of the plan, found rank {found}; rank is "
        "invariant along (1)"
    )


def _applied(plan, times, solution: Solution, gain: float | None) -> np.ndarray:
    if gain is None:
        return plan.inputs(times)
    offsets = [
        corrected(plan, float(t), solution.mean[:, n], solution.factor[:, :, n], gain)
        for n, t in enumerate(times)
    ]
    return np.stack([plan.actuation.signal(offset) for offset in offsets], axis=1)


@dataclass
class _PlannedTask(Task):
    """A task whose right side follows a law of depth instead of a sampled signal."""

    law: Callable[[float], MomentField] | None = None

    @property
    def is_constant(self) -> bool:
        """Return False: the law is not examined."""
        return False

    def field_at(self) -> Callable[[float], MomentField]:
        """Return the law."""
        return self.law


def _stiff(gain: float, span: float, advice: str) -> ParameterError:
    return ParameterError(
        f"gain: expected a rate that the integration can follow, found {gain:.3g} over a depth of "
        f"{span:.3g}, which is too stiff; pass {advice}"
    )


class _GuidedFlow(FactorFlow):
    """Right side of (2) with parameters recomputed from the state."""

    def __init__(self, plan: SteeringPlan, task: _PlannedTask, origin: float, gain: float) -> None:
        super().__init__(task.law, plan.dim, plan.rank)
        self._plan, self._origin, self._gain = plan, origin, gain
        self._nominal = task.field

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """Return y'."""
        plan, depth = self._plan, min(t + self._origin, self._plan.duration)
        offsets = corrected(plan, depth, y[: self.dim], self.factor(y), self._gain)
        field = self._nominal.offset(**offsets)
        return FactorFlow(lambda _: field, self.dim, self.rank).rate(t, y)


def _guided(plan: SteeringPlan, task: _PlannedTask, origin: float, gain: float) -> Solution:
    state = np.concatenate([task.mean, task.factor.reshape(-1)])
    # Parameters that almost cancel make the right side noisy, and no step can be finer than that.
    local = max(task.safety * task.rtol, TIGHTEST, plan.residual)
    max_steps, span = MAX_STEPS + 2 * task.depths.size, task.depths[-1]
    if gain * span > STIFF * max_steps:
        raise _stiff(gain, span, f"at most {STIFF * max_steps / span:.3g}")
    try:
        leg = integrate(
            _GuidedFlow(plan, task, origin, gain),
            0.0,
            state,
            span,
            task.depths,
            rtol=local,
            atol=task.atol * local / task.rtol,
            knots=np.array(plan.knots) - origin,
            land=task.lands,
            solver="DOP853",
            max_steps=max_steps,
        )
    except IntegrationError as error:
        if gain * span <= GAIN * STIFF:
            raise
        raise _stiff(gain, span, "a smaller one") from error
    dim, count = plan.dim, leg.times.size
    factors = leg.states[dim:].reshape(dim, plan.rank, count)
    covariance = np.einsum("irn,jrn->ijn", factors, factors)
    return Solution(leg.states[:dim], covariance, factors, None, "factor")
