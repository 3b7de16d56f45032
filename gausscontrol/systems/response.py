"""Responses of the moment system: tolerances met, rank kept, blow-up located (Theory 1.4 to 1.6).

The covariance form is integrated while Sigma is well conditioned and the factor form otherwise;
a trajectory may start in the first and end in the second. On finite escape the response ends
before it and says where it is, with an error estimate from a second run at another tolerance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import BlowUpWarning, ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.symmetric import factor, vech_index
from gausscontrol.model.moments import MomentField, read_moments
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.integrate import CovarianceFlow, FactorFlow, Leg, integrate
from gausscontrol.systems.iosys import MomentSystem, moment_system

__all__ = ["MomentResponse", "moment_response"]

METHODS = ("auto", "covariance", "factor")
# The covariance form is chosen when the start is at least this well conditioned.
COVARIANCE_RATIO = 1e-4
# Local tolerances are this much tighter than the tolerance asked for, which is meant globally.
SAFETY = 0.03
TIGHTEST = 1e-13
# Default absolute tolerance, over rtol times the size of the start.
ABSOLUTE_SHARE = 1e-3


class MomentResponse(ct.TimeResponseData):
    """Response of a moment system, with the moments as matrices.

    A `ct.TimeResponseData`, so it plots, slices and unpacks like any other, with more attributes.
    Made by `moment_response`.

    Attributes
    ----------
    mean : (d, N) ndarray
        [x]
    covariance : (d, d, N) ndarray
        [x]^2
    factor : (d, r, N) ndarray
        L with Sigma = L L^T. [x]
    rank : int
        Rank of the covariance, constant along the response (Theory 1.6).
    transition : (d, d, N) ndarray or None
        Psi with Psi' = M Psi, Psi(0) = I (Theory 1.5); None unless asked for.
    method : str
        How it was computed: "covariance" or "factor" (a run that changed over is "factor").
    blow_up_time : float or None
        Depth of the finite escape, None if there is none on the grid. [t]
    blow_up_error : float or None
        Estimated error of `blow_up_time`. [t]
    """

    mean: np.ndarray
    covariance: np.ndarray
    rank: int
    transition: np.ndarray | None
    method: str
    blow_up_time: float | None
    blow_up_error: float | None

    @cached_property
    def factor(self) -> np.ndarray:
        """Factors L with Sigma = L L^T, (d, r, N). [x]"""
        if self._factor is not None:
            return self._factor
        slices = [factor(S, self.rank) for S in np.moveaxis(self.covariance, -1, 0)]
        return np.stack(slices, axis=-1)

    def __str__(self) -> str:
        head = (
            f"Moment response of {self.sysname}: d = {self.mean.shape[0]}, rank {self.rank}, "
            f"{self.t.size} depths from {self.t[0]:.6g} to {self.t[-1]:.6g}, method {self.method}"
        )
        if self.blow_up_time is None:
            return head
        return (
            f"{head}\nBlow-up at depth {self.blow_up_time:.10g} "
            f"(estimated error {self.blow_up_error:.1g})"
        )


def moment_response(
    system: GaussianTransformer | MomentSystem,
    timepts: ArrayLike,
    initial: Any,
    inputs: ArrayLike = 0,
    *,
    method: str = "auto",
    rtol: float = 1e-8,
    atol: float | None = None,
    params: Mapping[str, Any] | None = None,
    transition: bool = False,
) -> MomentResponse:
    """Compute the mean and covariance along the depth.

    Parameters
    ----------
    system : GaussianTransformer or MomentSystem
        What moves the moments.
    timepts : (N,) array_like
        Increasing depths; with dt > 0 whole layers apart. [t]
    initial : tuple or array_like
        (mean, covariance), or a packed state of the system.
    inputs : array_like, optional
        Offsets as in `ct.input_output_response`: a number, one value per input, or (ninputs, N)
        interpolated linearly between the points of the grid.
    method : {"auto", "covariance", "factor"}, optional
        "factor" keeps rank and positive semidefiniteness by construction; "covariance" is faster
        for well-conditioned starts; "auto" chooses, and changes over when it must.
    rtol : float, optional
        Relative tolerance on the moments.
    atol : float, optional
        Absolute tolerance in the unit of a token coordinate; 1e-3 rtol times the size of the
        start by default. [x]
    params : dict, optional
        Parameter values that override the model's.
    transition : bool, optional
        Also compute the transition matrix Psi of Theory 1.5.

    Returns
    -------
    MomentResponse

    Raises
    ------
    ShapeError, ParameterError
        If an argument is invalid.
    IntegrationError
        If the grid cannot be reached although there is no finite escape.

    Warns
    -----
    BlowUpWarning
        If the covariance escapes to infinity on the grid. The response then ends before that
        depth; every number in it is finite.

    Notes
    -----
    Theory 1.1, 1.4 to 1.6. Local errors are held to 3% of the tolerance, so that global errors meet it
    on contracting and mildly expanding trajectories; no integrator promises more.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
    >>> response = gct.moment_response(model, [0, 40], ([1.0], [[0.1]]))
    >>> bool(np.allclose(response.covariance[0, 0, -1], 2))
    True
    """
    system = _as_system(system)
    if method not in METHODS:
        raise ParameterError(f"method: expected one of {', '.join(METHODS)}, found {method!r}")
    system._update_params(params)
    times = _depths(timepts, system.dt)
    signal = _input_signal(inputs, system, times)
    task = _Task.read(system, times, signal, initial, rtol, atol, transition)
    solution = _iterate(task, method) if system.dt else _integrate(task, method)
    return _response(task, solution, params)


@dataclass
class _Task:
    # Everything that defines one response, validated.
    system: MomentSystem
    times: np.ndarray
    signal: np.ndarray  # (ninputs, N)
    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray
    rtol: float
    atol: float
    transition: bool

    @classmethod
    def read(cls, system, times, signal, initial, rtol, atol, transition) -> _Task:
        mean, covariance, L = _initial_moments(system, initial)
        if not 0 < rtol < 1:
            raise ParameterError(f"rtol: expected a number between 0 and 1, found {rtol!r}")
        if atol is not None and not 0 < atol < np.inf:
            raise ParameterError(f"atol: expected a positive number, found {atol!r}")
        if atol is None:
            size = max(np.sqrt(np.trace(covariance)), np.linalg.norm(mean))
            atol = ABSOLUTE_SHARE * rtol * (size or 1.0)
        return cls(system, times, signal, mean, covariance, L, rtol, atol, transition)

    @property
    def is_constant(self) -> bool:
        return bool((self.signal == self.signal[:, :1]).all())

    def field_at(self) -> Callable[[float], MomentField]:
        if self.is_constant:
            field = self.system._field_at(self.signal[:, 0])
            return lambda t: field
        return lambda t: self.system._field_at(self.input_at(t))

    def input_at(self, t: float) -> np.ndarray:
        # Linear between grid points, like ct.input_output_response.
        right = int(np.clip(np.searchsorted(self.times, t), 1, self.times.size - 1))
        left = right - 1
        share = (t - self.times[left]) / (self.times[right] - self.times[left])
        return (1 - share) * self.signal[:, left] + share * self.signal[:, right]

    @property
    def follows_factor(self) -> bool:
        # The states of a factor-form system are those of L' = M L, without a gauge.
        return self.system.form == "factor"


@dataclass
class _Solution:
    times: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray | None
    transition: np.ndarray | None
    method: str
    blow_up_time: float | None = None
    blow_up_error: float | None = None


# -- continuous depth -------------------------------------------------------------------------


def _integrate(task: _Task, method: str) -> _Solution:
    solution, leg = _run(task, method, task.rtol)
    if leg.reason != "escape":
        return solution
    rough_leg = _run(task, method, 10 * task.rtol)[1]
    solution.blow_up_time = leg.end_time + leg.remaining
    rough_time = rough_leg.end_time + rough_leg.remaining
    # The rough run errs more than the fine one, so their distance bounds the fine error in
    # practice; the remainder 1/g is itself extrapolated.
    solution.blow_up_error = (
        abs(solution.blow_up_time - rough_time)
        + leg.remaining
        + np.spacing(solution.blow_up_time) * 10
    )
    return solution


def _run(task: _Task, method: str, rtol: float) -> tuple[_Solution, Leg]:
    if method == "auto":
        method = "covariance" if _prefers_covariance(task) else "factor"
    elif method == "covariance" and (task.transition or task.follows_factor):
        raise ParameterError(
            "method: expected 'factor' for a transition matrix or a factor-form system, found "
            "'covariance'; drop method or use the covariance form"
        )
    local = max(SAFETY * rtol, TIGHTEST)
    legs: list[tuple[CovarianceFlow | FactorFlow, Leg]] = []
    start, dim = task.times[0], task.system.dim
    mean, L = task.mean, task.factor
    if method == "covariance":
        index = vech_index(dim)
        flow = CovarianceFlow(task.field_at(), dim)
        state = np.concatenate([mean, task.covariance[index.rows, index.columns]])
        leg = _march(task, flow, start, state, local, stop_when_degenerate=True)
        legs.append((flow, leg))
        if leg.reason == "degenerate":
            method, start = "factor", leg.end_time
            mean, L = leg.end_state[:dim], factor(flow.covariance(leg.end_state), dim)
    if method == "factor":
        gauge = not task.follows_factor
        flow = FactorFlow(
            task.field_at(), dim, L.shape[1], gauge=gauge, transition=task.transition
        )
        parts = [mean, L.reshape(-1)] + ([np.eye(dim).reshape(-1)] if task.transition else [])
        leg = _march(task, flow, start, np.concatenate(parts), local)
        legs.append((flow, leg))
    return _gather(task, legs, method), legs[-1][1]


def _prefers_covariance(task: _Task) -> bool:
    if task.transition or task.follows_factor:
        return False
    values = np.linalg.eigvalsh(task.covariance)
    return bool(values[0] > COVARIANCE_RATIO * values[-1])


def _march(task, flow, start, state, rtol, stop_when_degenerate=False) -> Leg:
    # Inputs have kinks at grid points: integrate from one to the next, so that none is crossed.
    end = task.times[-1]
    atol = _absolute_tolerances(task, flow, state)
    options = {
        "rtol": rtol,
        "atol": atol,
        "origin": task.times[0],
        "stop_when_degenerate": stop_when_degenerate,
    }
    if task.is_constant:
        return integrate(flow, start, state, end, _after(task.times, start), **options)
    times, states, leg = [], [], None
    for knot in task.times[task.times > start]:
        samples = task.times[(task.times >= start) & (task.times <= knot)]
        leg = integrate(flow, start, state, knot, samples, solver="DOP853", **options)
        fresh = slice(1 if times and times[-1][-1:] == leg.times[:1] else 0, None)
        times.append(leg.times[fresh])
        states.append(leg.states[:, fresh])
        start, state = leg.end_time, leg.end_state
        if leg.reason != "end":
            break
    return Leg(
        np.concatenate(times),
        np.concatenate(states, axis=1),
        leg.end_time,
        leg.end_state,
        leg.reason,
        leg.remaining,
    )


def _after(times: np.ndarray, start: float) -> np.ndarray:
    return times[times >= start]


def _absolute_tolerances(task: _Task, flow, state: np.ndarray) -> np.ndarray:
    atol = np.full(state.size, SAFETY * task.atol)
    if isinstance(flow, CovarianceFlow):
        size = np.sqrt(np.trace(task.covariance)) or 1.0
        atol[task.system.dim :] *= size
    elif task.transition:
        atol[flow.size :] = SAFETY * ABSOLUTE_SHARE * task.rtol
    return atol


def _gather(task: _Task, legs, method: str) -> _Solution:
    dim, times, means, covariances, factors = task.system.dim, [], [], [], []
    last = -np.inf
    for flow, leg in legs:
        fresh = leg.times > last
        last = leg.times[-1] if leg.times.size else last
        states = leg.states[:, fresh]
        times.append(leg.times[fresh])
        means.append(states[:dim])
        if isinstance(flow, CovarianceFlow):
            full = vech_index(dim).full
            covariances.append(states[dim:][full].reshape(dim, dim, -1))
        else:
            L = states[dim : flow.size].reshape(dim, flow.rank, -1)
            factors.append(L)
            covariances.append(_products(L))
    transition = None
    if task.transition:
        transition = states[flow.size :].reshape(dim, dim, -1)
    return _Solution(
        np.concatenate(times),
        np.concatenate(means, axis=1),
        np.concatenate(covariances, axis=2),
        factors[0] if len(legs) == 1 and factors else None,
        transition,
        method,
    )


def _products(L: np.ndarray) -> np.ndarray:
    return np.einsum("irn,jrn->ijn", L, L, optimize=True)


# -- discrete depth -----------------------------------------------------------------------------


def _iterate(task: _Task, method: str) -> _Solution:
    dim, dt = task.system.dim, task.system.dt
    layers = np.rint((task.times - task.times[0]) / dt).astype(int)
    in_factor = method != "covariance"
    index = vech_index(dim)
    state = np.concatenate(
        [
            task.mean,
            task.factor.reshape(-1) if in_factor else task.covariance[index.rows, index.columns],
        ]
    )
    Psi = np.eye(dim)
    kept_states, kept_transitions = [], []
    layer, overflow = 0, None
    field_at = task.field_at()
    with np.errstate(over="ignore", invalid="ignore"):
        for wanted in layers:
            while layer < wanted and overflow is None:
                field = field_at(task.times[0] + layer * dt)
                Psi = Psi + dt * field.drift(_covariance_of(state, dim, in_factor)) @ Psi
                state = field.factor_form(state) if in_factor else field.covariance_form(state)
                layer += 1
                if not np.isfinite(_covariance_of(state, dim, in_factor)).all():
                    overflow = layer
            if overflow is not None:
                break
            kept_states.append(state)
            kept_transitions.append(Psi)
    states = np.stack(kept_states, axis=1)
    L = states[dim:].reshape(dim, -1, states.shape[1]) if in_factor else None
    covariance = _products(L) if in_factor else states[dim:][index.full].reshape(dim, dim, -1)
    return _Solution(
        task.times[: states.shape[1]],
        states[:dim],
        covariance,
        L,
        np.stack(kept_transitions, axis=2) if task.transition else None,
        "factor" if in_factor else "covariance",
        None if overflow is None else float(task.times[0] + overflow * dt),
        None if overflow is None else float(dt),
    )


def _covariance_of(state: np.ndarray, dim: int, in_factor: bool) -> np.ndarray:
    if in_factor:
        L = state[dim:].reshape(dim, -1)
        return L @ L.T
    return state[dim:].take(vech_index(dim).full.reshape(dim, dim))


# -- the result -----------------------------------------------------------------------------------


def _response(task: _Task, solution: _Solution, params) -> MomentResponse:
    system, count = task.system, solution.times.size
    index = vech_index(system.dim)
    packed = np.concatenate([solution.mean, solution.covariance[index.rows, index.columns]])
    states = packed
    if task.follows_factor:
        L = solution.factor
        states = np.concatenate([solution.mean, L.reshape(-1, count)])
    response = MomentResponse(
        solution.times,
        packed[system._rows],
        states,
        task.signal[:, :count],
        issiso=system.issiso(),
        output_labels=system.output_labels,
        state_labels=system.state_labels,
        input_labels=system.input_labels,
        title=f"Moment response of {system.name}",
        sysname=system.name,
        params=params,
    )
    response.mean, response.covariance = solution.mean, solution.covariance
    response._factor, response.rank = solution.factor, task.factor.shape[1]
    response.transition, response.method = solution.transition, solution.method
    response.blow_up_time = solution.blow_up_time
    response.blow_up_error = solution.blow_up_error
    if solution.blow_up_time is not None:
        warnings.warn(_blow_up_message(task, solution), BlowUpWarning, stacklevel=3)
    return response


def _blow_up_message(task: _Task, solution: _Solution) -> str:
    kept = f"the response ends at depth {solution.times[-1]:.6g}"
    if task.system.dt:
        return (
            f"the moments exceed the floating-point range at depth {solution.blow_up_time:.6g} "
            f"(layer {round((solution.blow_up_time - task.times[0]) / task.system.dt)}); {kept}"
        )
    return (
        f"the covariance escapes to infinity at depth {solution.blow_up_time:.10g} "
        f"(estimated error {solution.blow_up_error:.1g}); {kept}"
    )


# -- reading arguments ------------------------------------------------------------------------------


def _as_system(system) -> MomentSystem:
    if isinstance(system, GaussianTransformer):
        return moment_system(system)
    if isinstance(system, MomentSystem):
        return system
    raise ParameterError(
        f"system: expected a GaussianTransformer or a MomentSystem, found "
        f"{type(system).__name__}; use ct.input_output_response for other systems"
    )


def _depths(timepts: ArrayLike, dt: float) -> np.ndarray:
    times = real_array(timepts, "timepts")
    if times.ndim != 1 or times.size < 2:
        raise ShapeError(
            f"timepts: expected at least two depths in a vector, found shape {times.shape}; "
            "use for example numpy.linspace(0, 10, 101)"
        )
    gaps = np.diff(times)
    if not (gaps > 0).all():
        raise ParameterError(
            f"timepts: expected increasing depths, found a step of {gaps.min():.6g}; sort them"
        )
    layers = gaps / dt if dt else None
    if dt and not np.allclose(layers, np.maximum(np.rint(layers), 1), rtol=1e-6, atol=1e-6):
        raise ParameterError(
            f"timepts: expected depths a whole number of layers (dt = {dt:g}) apart, found a "
            f"step of {gaps[np.abs(layers - np.rint(layers)).argmax()]:.6g}; use "
            "dt * numpy.arange(n)"
        )
    return times


def _input_signal(inputs: ArrayLike, system: MomentSystem, times: np.ndarray) -> np.ndarray:
    if isinstance(inputs, (list, tuple)) and len(inputs) == system.ninputs and system.ninputs:
        rows = [np.atleast_1d(real_array(row, "inputs")) for row in inputs]
        if {row.size for row in rows} <= {1, times.size}:
            return np.stack([np.broadcast_to(row.reshape(-1), times.shape) for row in rows])
    array = real_array(inputs, "inputs")
    shape = (system.ninputs, times.size)
    if array.ndim == 1 and array.size == system.ninputs:
        array = array[:, None]
    if array.ndim == 0 or array.shape in (shape, (system.ninputs, 1)):
        return np.array(np.broadcast_to(array, shape))
    if system.ninputs == 1 and array.shape == times.shape:
        return array[None]
    raise ShapeError(
        f"inputs: expected a number, {system.ninputs} values, or shape {shape}, found "
        f"{array.shape}; put time on the last axis"
    )


def _initial_moments(system: MomentSystem, initial) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dim = system.dim
    if system.form == "factor" and not isinstance(initial, (tuple, list)):
        state = real_array(initial, "initial")
        if state.shape == (system.nstates,):
            L = state[dim:].reshape(dim, system.rank)
            return state[:dim], L @ L.T, L
    mean, covariance = read_moments(initial, "initial", dim)
    L = factor(covariance)
    if system.form == "factor":
        state = system.state_vector(mean, covariance)
        L = state[dim:].reshape(dim, system.rank)
    return mean, covariance, L
