"""Exact linearisation of interconnected systems, from that of their subsystems.

    x_i' = f_i(x_i, u_i)      y_i = h_i(x_i, u_i)      u = K y + M w      z = P (y, u)

K, M, P are the connection, input and output map of python-control, w and z the inputs and outputs
of the whole. With the block-diagonal matrices A, B, C, D of the subsystems' linearisations,

    du = (I - K D)^-1 (K C dx + M dw)      dx' = A dx + B du      dz = P (C dx + D du, du)

Each subsystem is linearised in its own way, at its own state and at the input that the
interconnection gives it; interconnections inside interconnections follow by recursion. An
algebraic loop, K D with a cycle, is solved; it must have a solution, and I - K D an inverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import control as ct
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.systems.arguments import point_of, signal_vector
from gausscontrol.systems.loops import shortened, solve_loop
from gausscontrol.systems.subsystems import (
    differenced_subsystems,
    has_own_linearize,
    is_composite,
    is_gain,
    is_linear,
    read_gain,
)

__all__ = ["exact_linearize"]

NEWTON_STEPS = 50
# Newton converges at least by a factor of 1e-6 a step (a differenced D is that good), so the step
# after one of this relative size is rounding.
NEWTON_TOLERANCE = 1e-10


def exact_linearize(
    sys: ct.InputOutputSystem,
    x0: Any,
    u0: ArrayLike | None = None,
    *,
    t: float = 0,
    params: Mapping[str, Any] | None = None,
    require_exact: bool = False,
    eps: float = 1e-6,
    copy_names: bool = True,
    **kwargs: Any,
) -> ct.StateSpace:
    """Linearise any python-control system, part by part.

    An interconnection, from `ct.interconnect`, ``+``, ``*``, ``-`` or ``feedback``, is made of the
    linearisations of its subsystems. A subsystem contributes

    - its matrices, if it is a state space system or was a transfer function;
    - what its own ``linearize`` returns, if its class defines one, as `MomentSystem` does;
    - the same again, if it is an interconnection itself;
    - a finite difference by `ct.linearize`, if it is a nonlinear system that knows no better.
      `differenced_subsystems` names these, and ``require_exact=True`` refuses them.

    Parameters
    ----------
    sys : ct.InputOutputSystem
        System to linearise.
    x0 : array_like or ct.OperatingPoint
        State; a number fills it, a list joins the states of the subsystems, and a list that ends
        in 0 leaves the remaining states of an interconnection at zero, all as in `ct.linearize`.
    u0 : array_like, optional
        Input, in the same forms. That of the operating point by default, otherwise zero.
    t : float, optional
        Time, for systems that vary with it.
    params : dict, optional
        Parameter values, handed to every subsystem as python-control does.
    require_exact : bool, optional
        Raise rather than difference a subsystem.
    eps : float, optional
        Step for the subsystems that are differenced.
    copy_names : bool, optional
        Keep the signal names, and name the result after the system. False gives generic names,
        which is the default of `ct.linearize`.
    **kwargs
        name, inputs, outputs, states, as in `ct.linearize`.

    Returns
    -------
    ct.StateSpace
        With the timebase of the system, and as many states as the system has.

    Raises
    ------
    ParameterError
        If sys is no input/output system with states, x0 is an operating point that was not found,
        a number is not finite, an algebraic loop has no solution or no unique linearisation, or
        require_exact is True and a subsystem has no exact linearisation.
    ShapeError
        If x0 or u0 has the wrong length, or a map or a subsystem's linearisation the wrong shape.
    TypeError
        If a keyword is unknown.

    See Also
    --------
    differenced_subsystems : Names of the subsystems that would be differenced.

    Notes
    -----
    Where `ct.linearize` works, both agree within the error of its finite difference. Algebraic
    loops, which python-control refuses to evaluate, are solved here by Newton's method from u = M w
    (one step if the loop is affine); of several solutions, the one that this finds is taken.

    Examples
    --------
    >>> import control as ct
    >>> import gausscontrol as gct
    >>> layer = gct.moment_system(gct.GaussianTransformer(0.5, 1, -0.25), inputs=("A",))
    >>> loop = layer.feedback(ct.ss([], [], [], [[0.0, 3.0]]))
    >>> linear = gct.exact_linearize(loop, [0, 2], 6)
    >>> print(linear.A[1])
    [  0. -13.]
    """
    if not (isinstance(sys, ct.TransferFunction) or hasattr(sys, "linearize")):
        raise ParameterError(
            f"sys: expected a python-control system with states, found {type(sys).__name__}; "
            "convert it with ct.ss or ct.nlsys"
        )
    if require_exact and (inexact := differenced_subsystems(sys)):
        raise ParameterError(
            "sys: expected only subsystems with an exact linearisation, found "
            f"{shortened(inexact)} to difference; give it a linearize method or drop require_exact"
        )
    x0, u0 = point_of(x0, u0)
    whole = ct.ss(sys) if isinstance(sys, ct.TransferFunction) else sys
    padded = is_composite(whole)
    x = signal_vector(x0, "x0", whole.nstates, padded=padded)
    u = signal_vector(u0, "u0", whole.ninputs, padded=padded)
    matrices = _linear(whole, x, u, _Setting(t, dict(params or {}), eps))
    names = _names(whole, matrices) if copy_names else {}
    return ct.StateSpace(*matrices, whole.dt, remove_useless_states=False, **names | kwargs)


# -- one system -----------------------------------------------------------------------------------


class _Matrices(NamedTuple):
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray


@dataclass(frozen=True)
class _Setting:
    """What all subsystems share at one operating point."""

    t: float
    params: dict[str, Any]
    eps: float

    def inside(self, system: ct.InterconnectedSystem) -> _Setting:
        """Return the setting for its subsystems: its own params stand behind those passed to it."""
        return replace(self, params=system.params | self.params)


def _linear(system, x: np.ndarray, u: np.ndarray, setting: _Setting) -> _Matrices:
    if is_composite(system):
        return _combined(system, x, u, setting)
    if is_linear(system):
        return _Matrices(system.A, system.B, system.C, system.D)
    if is_gain(system):
        gain = read_gain(system)
        rows, columns = gain.shape
        return _Matrices(np.zeros((0, 0)), np.zeros((0, columns)), np.zeros((rows, 0)), gain)
    step = {} if has_own_linearize(system) else {"eps": setting.eps}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # told in the error below
        linear = ct.linearize(system, x, u, t=setting.t, params=setting.params, **step)
    found, expected = (linear.nstates, *linear.shape), (x.size, *system.shape)
    if found != expected and None not in expected:
        raise ShapeError(
            f"{system.name}: expected a linearisation with {expected} states, outputs and inputs, "
            f"found {found}; its linearize method must keep the sizes"
        )
    return _finite(_Matrices(linear.A, linear.B, linear.C, linear.D), system)


def _finite(matrices: _Matrices, system) -> _Matrices:
    wrong = [key for key, X in zip("ABCD", matrices, strict=True) if not np.isfinite(X).all()]
    if wrong:
        advice = "choose an operating point where it is differentiable"
        if is_composite(system):
            advice = "its gains in series overflow, so scale them"
        raise ParameterError(
            f"sys: expected a finite linearisation of {system.name}, found NaN or infinite entries "
            f"in {', '.join(wrong)}; {advice}"
        )
    return matrices


def _output(system, x: np.ndarray, u: np.ndarray, setting: _Setting) -> np.ndarray:
    if is_composite(system):
        inner = setting.inside(system)
        inputs, outputs = _internal_signals(system, x, u, inner)
        return system.output_map @ np.concatenate([outputs, inputs])
    if is_linear(system):
        return system.C @ x + system.D @ u
    return np.asarray(system.output(setting.t, x, u, params=setting.params), dtype=float)


# -- the interconnection --------------------------------------------------------------------------


def _combined(system, x: np.ndarray, w: np.ndarray, setting: _Setting) -> _Matrices:
    inner = setting.inside(system)
    inputs, _ = _internal_signals(system, x, w, inner)
    A, B, C, D = _block_diagonal(system, x, inputs, inner)
    K, M, P = system.connect_map, system.input_map, system.output_map
    count = C.shape[0]
    # du = from_state dx + from_input dw, solved at once for both.
    solved = solve_loop(K @ D, np.hstack([K @ C, M]), system.name, _input_names(system))
    from_state, from_input = solved[:, : x.size], solved[:, x.size :]
    direct = P[:, :count] @ D + P[:, count:]
    with np.errstate(over="ignore", invalid="ignore"):  # told in the error of _finite
        matrices = _Matrices(
            A + B @ from_state,
            B @ from_input,
            P[:, :count] @ C + direct @ from_state,
            direct @ from_input,
        )
    return _finite(matrices, system)


def _parts(system, x: np.ndarray, inputs: np.ndarray) -> Iterator[tuple]:
    """Yield each subsystem with its state and its input."""
    states = np.cumsum([0, *(part.nstates for part in system.syslist)])
    signals = np.cumsum([0, *(part.ninputs for part in system.syslist)])
    for i, part in enumerate(system.syslist):
        yield part, x[states[i] : states[i + 1]], inputs[signals[i] : signals[i + 1]]


def _block_diagonal(system, x, inputs, inner: _Setting) -> list[np.ndarray]:
    parts = [_linear(*part, inner) for part in _parts(system, x, inputs)]
    return [block_diag(*blocks) for blocks in zip(*parts, strict=True)]


def _outputs(system, x, inputs, inner: _Setting) -> np.ndarray:
    return np.concatenate([_output(*part, inner) for part in _parts(system, x, inputs)])


def _internal_signals(system, x, w, inner: _Setting) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs u and outputs y of all subsystems, u = K y + M w, y = h(x, u)."""
    _check_maps(system)
    K, external = system.connect_map, system.input_map @ w
    # As python-control does it: without an algebraic loop, the outputs settle to the last bit.
    inputs = external
    for _ in range(len(system.syslist) + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # a loop may diverge
            outputs = _outputs(system, x, inputs, inner)
        updated = K @ outputs + external
        if np.array_equal(updated, inputs):
            return inputs, outputs
        inputs = updated
    return _solve_signals(system, x, external, inner)


def _solve_signals(system, x, external, inner: _Setting) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and outputs in an algebraic loop, by Newton's method from u = M w."""
    K, inputs = system.connect_map, external
    for _ in range(NEWTON_STEPS):
        D = _block_diagonal(system, x, inputs, inner)[3]
        residual = K @ _outputs(system, x, inputs, inner) + external - inputs
        if not np.isfinite(residual).all():
            raise ParameterError(
                f"sys: expected finite outputs of the subsystems of {system.name}, found NaN or "
                "infinite ones; choose another x0, u0"
            )
        step = solve_loop(K @ D, residual, system.name, _input_names(system))
        inputs = inputs + step
        size = np.linalg.norm(inputs) + np.linalg.norm(external)
        if np.linalg.norm(step) <= NEWTON_TOLERANCE * size:
            return inputs, _outputs(system, x, inputs, inner)
    raise ParameterError(
        f"sys: expected the algebraic loop of {system.name} to have a solution at x0, u0, found "
        f"none in {NEWTON_STEPS} Newton steps; break the loop with a state"
    )


def _input_names(system) -> list[str]:
    return [f"{part.name}.{label}" for part in system.syslist for label in part.input_labels]


def _check_maps(system) -> None:
    rows = sum(part.ninputs for part in system.syslist)
    columns = sum(part.noutputs for part in system.syslist)
    for name, expected in (
        ("connect_map", (rows, columns)),
        ("input_map", (rows, system.ninputs)),
        ("output_map", (system.noutputs, columns + rows)),
    ):
        found = np.shape(getattr(system, name))
        if found != expected:
            raise ShapeError(
                f"{name}: expected shape {expected} in {system.name}, found {found}; "
                "it maps between all signals of the subsystems"
            )


def _names(system, matrices: _Matrices) -> dict[str, Any]:
    prefix = ct.config.defaults["iosys.linearized_system_name_prefix"]
    suffix = ct.config.defaults["iosys.linearized_system_name_suffix"]
    labels = {
        "states": (system.state_labels, matrices.A.shape[0]),
        "inputs": (system.input_labels, matrices.B.shape[1]),
        "outputs": (system.output_labels, matrices.C.shape[0]),
    }
    # set_input_map and set_output_map can change the number of signals and leave the labels.
    fitting = {key: names for key, (names, size) in labels.items() if len(names) == size}
    return {"name": f"{prefix}{system.name}{suffix}"} | fitting
