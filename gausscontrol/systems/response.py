"""Responses of the moment system, as python-control time responses (Theory 1).

`moment_response` reads the arguments as `ct.input_output_response` does, has the trajectory
computed by the method that fits, and returns the moments as matrices beside the signals. A
`LayerStack` is a trajectory in pieces, one per layer.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.display import Report
from gausscontrol.errors import BlowUpWarning, ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.symmetric import factor, vech_index
from gausscontrol.model.moments import MomentField
from gausscontrol.model.packing import read_moments
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.arguments import check_parameters, depth_grid, input_signal
from gausscontrol.systems.iosys import MomentSystem, moment_system
from gausscontrol.systems.stack import stack_trajectory
from gausscontrol.systems.trajectory import Solution, Task, solve

__all__ = ["MomentResponse", "build_response", "moment_response"]


class MomentResponse(Report, ct.TimeResponseData):
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
        How it was computed: "closed-form", "covariance" or "factor" (a run that changed over, or a
        stack whose layers differ in method, is "factor").
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
    system: GaussianTransformer | LayerStack | MomentSystem,
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
    system : GaussianTransformer, LayerStack or MomentSystem
        What moves the moments. A stack takes neither inputs nor params.
    timepts : (N,) array_like
        Increasing depths; with dt > 0 whole layers apart, and for a stack between 0 and its depth
        with residual layers whole. [t]
    initial : tuple or array_like
        (mean, covariance), anything with these as attributes such as an `Equilibrium`, or a packed
        state of the system (in the factor form an array).
    inputs : array_like, optional
        Offsets as in `ct.input_output_response`: a number, one value per input, (ninputs, N)
        interpolated linearly between the points of the grid, or a list that mixes these.
    method : {"auto", "closed-form", "covariance", "factor"}, optional
        "closed-form" is exact where every V_h is a multiple of I and the inputs are constant;
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
    Theory 1.1, 1.4 to 1.6, 3.2. Local errors are held well below the tolerance, so that global
    errors meet it on contracting and mildly expanding trajectories; no integrator promises more.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
    >>> response = gct.moment_response(model, [0, 40], ([1.0], [[0.1]]))
    >>> bool(np.allclose(response.covariance[0, 0, -1], 2))
    True
    """
    if isinstance(system, LayerStack):
        task = _stack_task(system, timepts, initial, inputs, params, transition)
        task.set_tolerances(rtol, atol)
        return build_response(task, stack_trajectory(system, task, method), task.depths, None)
    system = _as_system(system)
    times = depth_grid(timepts, system.dt)
    task = Task(
        system,
        _field(system, params),
        times - times[0],
        input_signal(inputs, system.ninputs, times.size),
        *_initial_moments(system, initial),
        transition=bool(transition),
    )
    task.set_tolerances(rtol, atol)
    return build_response(task, solve(task, method), times, params)


def _stack_task(stack: LayerStack, timepts, initial, inputs, params, transition) -> Task:
    if params is not None or np.any(real_array(inputs, "inputs")):
        raise ParameterError(
            "inputs: expected none for a LayerStack, whose parameters are its layers'; "
            "change the layers instead"
        )
    system = moment_system(stack[0], name="stack")
    times = depth_grid(timepts, 0)
    return Task(
        system,
        MomentField.of(stack[0]),
        times,
        np.zeros((system.ninputs, times.size)),
        *_initial_moments(system, initial),
        transition=bool(transition),
    )


# -- the result -----------------------------------------------------------------------------------


def build_response(task: Task, solution: Solution, times: np.ndarray, params) -> MomentResponse:
    """Return a solution as a response with the labels of its system; warn if it escapes."""
    system, count = task.system, solution.mean.shape[1]
    index = vech_index(system.dim)
    packed = np.concatenate([solution.mean, solution.covariance[index.rows, index.columns]])
    states = packed
    if task.follows_factor:
        states = np.concatenate([solution.mean, solution.factor.reshape(-1, count)])
    response = MomentResponse(
        times[:count],
        packed[system.output_rows],
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


def _blow_up_message(task: Task, solution: Solution, response: MomentResponse) -> str:
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
