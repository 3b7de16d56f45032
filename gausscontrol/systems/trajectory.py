"""Trajectories: the flow of (1) sampled on a grid, by whichever method fits (Theory 1.4 to 1.6).

    closed form    where every V_h is a multiple of I and parameters are constant (3.2)
    covariance     while Sigma is well conditioned
    factor         otherwise, and wherever rank, Psi or the state L itself matters
    layers         dt > 0: the map, applied

A trajectory may start in the covariance form and end in the factor form. On finite escape it ends
before it; where it was integrated, the error of the escape depth is estimated by a second run at
another tolerance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gausscontrol.errors import IntegrationError, ParameterError
from gausscontrol.linalg.symmetric import factor, vech_index
from gausscontrol.model.closed_form import ScalarValueModel, closed_form_flow, mean_moves
from gausscontrol.model.moments import MomentField
from gausscontrol.systems.arguments import check_tolerances, choice
from gausscontrol.systems.forms import CovarianceFlow, FactorFlow
from gausscontrol.systems.integrate import Leg, integrate
from gausscontrol.systems.iosys import MomentSystem

__all__ = ["METHODS", "Solution", "Task", "solve"]

METHODS = ("auto", "closed-form", "covariance", "factor")
# The covariance form is chosen when the start is at least this well conditioned.
COVARIANCE_RATIO = 1e-4
# Local tolerances are this much tighter than the tolerance asked for, which is meant globally:
# where steps end at the samples, and where samples are interpolated, for the interpolant of a long
# step was measured to err 150 times its local tolerance.
LANDED, INTERPOLATED = 0.1, 0.003
# Up to this many samples steps end at each of them.
MOST_LANDINGS = 40
TIGHTEST = 1e-13
# Default absolute tolerance, over rtol times the size of the start.
ABSOLUTE_SHARE = 1e-3
# Strides of the closed form beyond which "auto" integrates, with a mean that moves.
MOST_STRIDES = 1_000
# Distinct gaps of the grid beyond which it integrates too.
MOST_GAPS = 100


@dataclass
class Task:
    """Everything that defines one trajectory, validated.

    Depths are counted from the first point of the grid, so that a grid far from zero costs no
    digits; `signal` holds the input offsets at its points.
    """

    system: MomentSystem
    field: MomentField
    depths: np.ndarray
    signal: np.ndarray  # (ninputs, N)
    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray
    rank: int
    transition: bool
    rtol: float = 0.0
    atol: float = 0.0

    @property
    def lands(self) -> bool:
        """Whether steps end at the samples."""
        return self.depths.size <= MOST_LANDINGS

    @property
    def safety(self) -> float:
        """Local tolerance over the tolerance asked for."""
        return LANDED if self.lands else INTERPOLATED

    def set_tolerances(self, rtol: float, atol: float | None) -> None:
        """Set rtol and atol; the default atol is in proportion to the size of the start."""
        check_tolerances(rtol, atol)
        if atol is None:
            size = max(np.sqrt(np.trace(self.covariance)), np.linalg.norm(self.mean))
            atol = ABSOLUTE_SHARE * rtol * (size or 1.0)
        self.rtol, self.atol = rtol, atol

    @property
    def is_constant(self) -> bool:
        """Whether the input is the same at every point of the grid."""
        return bool((self.signal == self.signal[:, :1]).all())

    def field_at(self) -> Callable[[float], MomentField]:
        """Return the function that gives the right side at a depth."""
        if self.is_constant:
            field = self.system.offset_field(self.field, self.signal[:, 0])
            return lambda t: field
        return lambda t: self.system.offset_field(self.field, self.input_at(t))

    def input_at(self, t: float) -> np.ndarray:
        """Interpolate the input linearly, as ct.input_output_response does; constant outside."""
        right = int(np.clip(np.searchsorted(self.depths, t), 1, self.depths.size - 1))
        left = right - 1
        share = (t - self.depths[left]) / (self.depths[right] - self.depths[left])
        share = min(max(share, 0.0), 1.0)
        return (1 - share) * self.signal[:, left] + share * self.signal[:, right]

    @property
    def follows_factor(self) -> bool:
        """Whether the states wanted are those of L' = M L, without a gauge."""
        return self.system.form == "factor"


@dataclass
class Solution:
    """Moments at the first points of the grid; at all of them unless the trajectory escapes.

    `blow_up_time` counts from the first point of the grid.
    """

    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray | None
    transition: np.ndarray | None
    method: str
    blow_up_time: float | None = None
    blow_up_error: float | None = None


def solve(task: Task, method: str) -> Solution:
    """Compute the trajectory that a task describes.

    Parameters
    ----------
    task : Task
    method : {"auto", "closed-form", "covariance", "factor"}

    Returns
    -------
    Solution

    Raises
    ------
    ParameterError
        If the method is unknown or does not apply to this task.
    IntegrationError
        If the grid cannot be reached although there is no finite escape.
    """
    method = choice(method, "method", METHODS)
    riccati = _scalar_values(task) if method in ("auto", "closed-form") else None
    if riccati is not None and method == "closed-form":
        return _evaluate(task, riccati)
    if riccati is not None and _is_short(task, riccati):
        # Where the guard makes steps too short for it, an integrator goes on.
        with contextlib.suppress(IntegrationError):
            return _evaluate(task, riccati)
    if method == "closed-form":
        raise ParameterError(
            "method: 'closed-form' needs continuous depth, every V_h a multiple of I, constant "
            "inputs, and no transition matrix or factor-form system; drop method"
        )
    needs_factor = task.transition or task.follows_factor
    if method == "covariance" and needs_factor:
        raise ParameterError(
            "method: expected 'factor' for a transition matrix or a factor-form system, found "
            "'covariance'; drop method or use the covariance form"
        )
    if task.system.dt:
        return _iterate(task, "factor" if method == "auto" else method)
    if method == "auto":
        return _integrate_either(task, "factor" if needs_factor else _better_form(task))
    return _integrate(task, method)


def _integrate_either(task: Task, method: str) -> Solution:
    try:
        return _integrate(task, method)
    except IntegrationError:
        # The covariance form can run aground where the factor form goes on; never the reverse.
        if method == "factor":
            raise
        return _integrate(task, "factor")


def _better_form(task: Task) -> str:
    values = np.linalg.eigvalsh(task.covariance)
    return "covariance" if values[0] > COVARIANCE_RATIO * values[-1] else "factor"


# -- closed form --------------------------------------------------------------------------------


def _scalar_values(task: Task) -> ScalarValueModel | None:
    if task.system.dt or task.transition or task.follows_factor or not task.is_constant:
        return None
    return ScalarValueModel.of(task.field_at()(0.0))


def _is_short(task: Task, riccati: ScalarValueModel) -> bool:
    # Over many short steps an integrator is faster; a moving mean makes each step dearer.
    most = MOST_STRIDES if mean_moves(riccati, task.mean) else 10 * MOST_STRIDES
    # Every distinct gap costs exponentials of its own.
    gaps = np.unique(np.round(np.diff(task.depths) / task.depths[-1], 10)).size
    return riccati.strides(task.depths[-1]) < most and gaps < MOST_GAPS


def _evaluate(task: Task, riccati: ScalarValueModel) -> Solution:
    flow = closed_form_flow(riccati, task.mean, task.factor, task.depths)
    return Solution(
        flow.mean,
        _products(flow.factor),
        flow.factor,
        None,
        "closed-form",
        flow.blow_up_time,
        flow.blow_up_error,
    )


# -- continuous depth -------------------------------------------------------------------------


def _integrate(task: Task, method: str) -> Solution:
    legs = _run(task, method, task.rtol, task.depths)
    solution = _gather(task, legs)
    escape = legs[-1][1].escape
    if escape is not None:
        # A run at ten times the tolerance errs more than this one, so that their distance bounds
        # the error in practice; the remainder 1/g is itself extrapolated.
        rough = _run(task, method, 10 * task.rtol, np.empty(0))[-1][1]
        rough_depth = rough.end_time if rough.escape is None else rough.escape.depth
        solution.blow_up_time = escape.depth
        solution.blow_up_error = abs(escape.depth - rough_depth) + escape.remaining
    return solution


def _run(task: Task, method: str, rtol: float, depths: np.ndarray) -> list[tuple]:
    # The legs of one run, each with its flow.
    local = max(task.safety * rtol, TIGHTEST)
    legs: list[tuple[CovarianceFlow | FactorFlow, Leg]] = []
    start, dim = 0.0, task.system.dim
    mean, L = task.mean, task.factor
    if method == "covariance":
        index = vech_index(dim)
        flow = CovarianceFlow(
            task.field_at(), dim, _covariance_tolerance(task), constant=task.is_constant
        )
        state = np.concatenate([mean, task.covariance[index.rows, index.columns]])
        leg = _march(task, flow, start, state, depths, local, stop_when_degenerate=True)
        legs.append((flow, leg))
        if leg.reason != "degenerate":
            return legs
        start, mean = leg.end_time, leg.end_state[:dim]
        L = task.factor if start == 0 else factor(flow.covariance(leg.end_state), dim)
    flow = FactorFlow(
        task.field_at(),
        dim,
        L.shape[1],
        gauge=not task.follows_factor,
        transition=task.transition,
    )
    parts = [mean, L.reshape(-1)] + ([np.eye(dim).reshape(-1)] if task.transition else [])
    leg = _march(task, flow, start, np.concatenate(parts), depths, local)
    legs.append((flow, leg))
    return legs


def _march(task, flow, start, state, depths, rtol, stop_when_degenerate=False) -> Leg:
    return integrate(
        flow,
        start,
        state,
        task.depths[-1],
        depths[depths >= start],
        rtol=rtol,
        atol=_absolute_tolerances(task, flow, state),
        origin=0.0,
        knots=None if task.is_constant else task.depths,
        land=task.lands,
        stop_when_degenerate=stop_when_degenerate,
    )


def _absolute_tolerances(task: Task, flow, state: np.ndarray) -> np.ndarray:
    atol = np.full(state.size, task.safety * task.atol)
    if isinstance(flow, CovarianceFlow):
        atol[task.system.dim :] = _covariance_tolerance(task)
    elif task.transition:
        atol[flow.size :] = task.safety * ABSOLUTE_SHARE * task.rtol
    return atol


def _covariance_tolerance(task: Task) -> float:
    return task.safety * task.atol * float(np.sqrt(np.trace(task.covariance)) or 1.0)


def _gather(task: Task, legs: list[tuple]) -> Solution:
    dim, last, means, covariances, factors = task.system.dim, -np.inf, [], [], []
    for flow, leg in legs:
        states = leg.states[:, leg.times > last]
        last = max([last, *leg.times[-1:]])
        means.append(states[:dim])
        if isinstance(flow, CovarianceFlow):
            covariances.append(_unpacked(states[dim:], dim))
        else:
            factors.append(states[dim : flow.size].reshape(dim, flow.rank, states.shape[1]))
            covariances.append(_products(factors[-1]))
    return Solution(
        np.concatenate(means, axis=1),
        np.concatenate(covariances, axis=2),
        factors[0] if len(legs) == 1 and factors else None,
        states[flow.size :].reshape(dim, dim, -1) if task.transition else None,
        "factor" if factors else "covariance",
    )


def _unpacked(vech: np.ndarray, dim: int) -> np.ndarray:
    return vech[vech_index(dim).full].reshape(dim, dim, *vech.shape[1:])


def _products(L: np.ndarray) -> np.ndarray:
    return np.einsum("irn,jrn->ijn", L, L, optimize=True)


# -- discrete depth -----------------------------------------------------------------------------


def _iterate(task: Task, method: str) -> Solution:
    dim, dt = task.system.dim, task.system.dt
    in_factor = method != "covariance"
    index = vech_index(dim)
    packed = task.factor.reshape(-1) if in_factor else task.covariance[index.rows, index.columns]
    state, Psi = np.concatenate([task.mean, packed]), np.eye(dim)
    kept, transitions = [state], [Psi]
    layer, overflow, field_at = 0, None, task.field_at()
    with np.errstate(over="ignore", invalid="ignore"):
        for wanted in np.rint(task.depths[1:] / dt).astype(int):
            while layer < wanted and overflow is None:
                field = field_at(layer * dt)
                if task.transition:
                    Psi = Psi + dt * field.drift(_covariance_of(state, dim, in_factor)) @ Psi
                state = field.factor_form(state) if in_factor else field.covariance_form(state)
                layer += 1
                moments = (state, Psi, _covariance_of(state, dim, in_factor))
                if not all(np.isfinite(array).all() for array in moments):
                    overflow = layer
            if overflow is not None:
                break
            kept.append(state)
            transitions.append(Psi)
    states = np.stack(kept, axis=1)
    L = states[dim:].reshape(*task.factor.shape, len(kept)) if in_factor else None
    return Solution(
        states[:dim],
        _products(L) if in_factor else _unpacked(states[dim:], dim),
        L,
        np.stack(transitions, axis=2) if task.transition else None,
        "factor" if in_factor else "covariance",
        None if overflow is None else float(overflow * dt),
        None if overflow is None else float(dt),
    )


def _covariance_of(state: np.ndarray, dim: int, in_factor: bool) -> np.ndarray:
    if not in_factor:
        return _unpacked(state[dim:], dim)
    L = state[dim:].reshape(dim, state.size // dim - 1)
    return L @ L.T
