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
from gausscontrol.systems.arguments import check_parameters, depth_grid, input_signal
from gausscontrol.systems.integrate import CovarianceFlow, FactorFlow, Leg, integrate
from gausscontrol.systems.iosys import MomentSystem, moment_system

__all__ = ["MomentResponse", "moment_response"]

METHODS = ("auto", "covariance", "factor")
# The covariance form is chosen when the start is at least this well conditioned.
COVARIANCE_RATIO = 1e-4
# Local tolerances are this much tighter than the tolerance asked for, which is meant globally and
# between steps: the interpolant of a long step was measured to err 150 times its local tolerance.
SAFETY = 0.003
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
        L with Sigma = L L^T; r is the rank, or the columns of a factor-form system. [x]
    rank : int
        Rank of the covariance, constant along the response (Theory 1.6).
    transition : (d, d, N) ndarray or None
        Psi with Psi' = M Psi, Psi(0) = I (Theory 1.5); None unless asked for.
    method : str
        How it was computed: "covariance" or "factor" (a run that changed over is "factor").
    blow_up_time : float or None
        Depth of the finite escape, None if there is none on the grid; in discrete depth, that of
        the first layer whose moments exceed the floating-point range. [t]
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
        """Factors L with Sigma = L L^T, (d, r, N). [x]."""
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
        (mean, covariance), or a packed state of the system (in the factor form an array).
    inputs : array_like, optional
        Offsets as in `ct.input_output_response`: a number, one value per input, (ninputs, N)
        interpolated linearly between the points of the grid, or a list that mixes these.
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
    Theory 1.1, 1.4 to 1.6. Local errors are held to 0.3% of the tolerance, so that global errors
    meet it on contracting and mildly expanding trajectories; no integrator promises more.

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
    times = depth_grid(timepts, system.dt)
    task = _Task(
        system,
        _field(system, params),
        times - times[0],
        input_signal(inputs, system.ninputs, times.size),
        *_initial_moments(system, initial),
        transition=bool(transition),
    )
    task.set_tolerances(rtol, atol)
    method = _check_method(method, task)
    solution = _iterate(task, method) if system.dt else _integrate(task, method)
    return _response(task, solution, times, params)


@dataclass
class _Task:
    # Everything that defines one response, validated. Depths are counted from the first point of
    # the grid, so that a grid far from zero costs no digits.
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

    def set_tolerances(self, rtol: float, atol: float | None) -> None:
        if not 0 < rtol < 1:
            raise ParameterError(f"rtol: expected a number between 0 and 1, found {rtol!r}")
        if atol is not None and not 0 < atol < np.inf:
            raise ParameterError(f"atol: expected a positive number, found {atol!r}")
        if atol is None:
            size = max(np.sqrt(np.trace(self.covariance)), np.linalg.norm(self.mean))
            atol = ABSOLUTE_SHARE * rtol * (size or 1.0)
        self.rtol, self.atol = rtol, atol

    @property
    def is_constant(self) -> bool:
        return bool((self.signal == self.signal[:, :1]).all())

    def field_at(self) -> Callable[[float], MomentField]:
        if self.is_constant:
            field = self.system.offset_field(self.field, self.signal[:, 0])
            return lambda t: field
        return lambda t: self.system.offset_field(self.field, self.input_at(t))

    def input_at(self, t: float) -> np.ndarray:
        # Linear between grid points, like ct.input_output_response, and constant beyond them.
        right = int(np.clip(np.searchsorted(self.depths, t), 1, self.depths.size - 1))
        left = right - 1
        share = (t - self.depths[left]) / (self.depths[right] - self.depths[left])
        share = min(max(share, 0.0), 1.0)
        return (1 - share) * self.signal[:, left] + share * self.signal[:, right]

    @property
    def follows_factor(self) -> bool:
        # The states of a factor-form system are those of L' = M L, without a gauge.
        return self.system.form == "factor"


@dataclass
class _Solution:
    # Moments at the first points of the grid; all of them unless the trajectory escapes.
    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray | None
    transition: np.ndarray | None
    method: str
    blow_up_time: float | None = None
    blow_up_error: float | None = None


# -- continuous depth -------------------------------------------------------------------------


def _integrate(task: _Task, method: str) -> _Solution:
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


def _run(task: _Task, method: str, rtol: float, depths: np.ndarray) -> list[tuple]:
    # The legs of one run, each with its flow.
    local = max(SAFETY * rtol, TIGHTEST)
    legs: list[tuple[CovarianceFlow | FactorFlow, Leg]] = []
    start, dim = 0.0, task.system.dim
    mean, L = task.mean, task.factor
    if method == "covariance":
        index = vech_index(dim)
        flow = CovarianceFlow(task.field_at(), dim, _covariance_tolerance(task))
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
        stop_when_degenerate=stop_when_degenerate,
    )


def _absolute_tolerances(task: _Task, flow, state: np.ndarray) -> np.ndarray:
    atol = np.full(state.size, SAFETY * task.atol)
    if isinstance(flow, CovarianceFlow):
        atol[task.system.dim :] = _covariance_tolerance(task)
    elif task.transition:
        atol[flow.size :] = SAFETY * ABSOLUTE_SHARE * task.rtol
    return atol


def _covariance_tolerance(task: _Task) -> float:
    return SAFETY * task.atol * float(np.sqrt(np.trace(task.covariance)) or 1.0)


def _gather(task: _Task, legs: list[tuple]) -> _Solution:
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
    return _Solution(
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


def _iterate(task: _Task, method: str) -> _Solution:
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
    return _Solution(
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


# -- the result -----------------------------------------------------------------------------------


def _response(task: _Task, solution: _Solution, times: np.ndarray, params) -> MomentResponse:
    system, count = task.system, solution.mean.shape[1]
    index = vech_index(system.dim)
    packed = np.concatenate([solution.mean, solution.covariance[index.rows, index.columns]])
    states = packed
    if task.follows_factor:
        states = np.concatenate([solution.mean, solution.factor.reshape(-1, count)])
    response = MomentResponse(
        times[:count],
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
    response._factor, response.rank = solution.factor, task.rank
    response.transition, response.method = solution.transition, solution.method
    response.blow_up_time = response.blow_up_error = None
    if solution.blow_up_time is not None:
        response.blow_up_time = float(times[0] + solution.blow_up_time)
        response.blow_up_error = float(
            solution.blow_up_error + 10 * np.spacing(abs(response.blow_up_time))
        )
        warnings.warn(_blow_up_message(task, solution, response), BlowUpWarning, stacklevel=3)
    return response


def _blow_up_message(task: _Task, solution: _Solution, response: MomentResponse) -> str:
    kept = f"the response ends at depth {response.t[-1]:.6g}"
    if task.system.dt:
        layer = round(solution.blow_up_time / task.system.dt)
        return (
            f"the moments exceed the floating-point range at depth {response.blow_up_time:.6g} "
            f"(layer {layer}); {kept}"
        )
    return (
        f"the covariance escapes to infinity at depth {response.blow_up_time:.10g} "
        f"(estimated error {response.blow_up_error:.1g}); {kept}"
    )


# -- reading arguments ----------------------------------------------------------------------------


def _as_system(system) -> MomentSystem:
    if isinstance(system, GaussianTransformer):
        return moment_system(system)
    if isinstance(system, MomentSystem):
        return system
    raise ParameterError(
        f"system: expected a GaussianTransformer or a MomentSystem, found "
        f"{type(system).__name__}; use ct.input_output_response for other systems"
    )


def _field(system: MomentSystem, params: Mapping[str, Any] | None) -> MomentField:
    check_parameters(params)
    return system.field(params)


def _check_method(method: str, task: _Task) -> str:
    if method not in METHODS:
        raise ParameterError(f"method: expected one of {', '.join(METHODS)}, found {method!r}")
    needs_factor = task.transition or task.follows_factor
    if method == "covariance" and needs_factor:
        raise ParameterError(
            "method: expected 'factor' for a transition matrix or a factor-form system, found "
            "'covariance'; drop method or use the covariance form"
        )
    if method != "auto":
        return method
    if needs_factor or task.system.dt:
        return "factor"
    values = np.linalg.eigvalsh(task.covariance)
    return "covariance" if values[0] > COVARIANCE_RATIO * values[-1] else "factor"


def _initial_moments(system: MomentSystem, initial) -> tuple:
    # mean, covariance, a factor of it, and its rank
    dim = system.dim
    if system.form == "factor" and isinstance(initial, np.ndarray):
        state = real_array(initial, "initial").reshape(-1)
        if state.size != system.nstates:
            raise ShapeError(
                f"initial: expected (mean, covariance) or a packed state of {system.nstates} "
                f"entries, found shape {initial.shape}; use system.state_vector(mean, covariance)"
            )
        L = state[dim:].reshape(dim, system.rank)
        return state[:dim], L @ L.T, L, factor(L @ L.T).shape[1]
    mean, covariance = read_moments(initial, "initial", dim)
    L = factor(covariance)
    rank = L.shape[1]
    if system.form == "factor":
        L = system.state_vector(mean, covariance)[dim:].reshape(dim, system.rank)
    return mean, covariance, L, rank
