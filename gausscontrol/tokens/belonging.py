"""Whether a response is that of a closure, as far as its samples tell (Theory 8.1).

    defect_n = |x_(n+1) - Phi(x_n)|,    Phi the closed moment system from one depth to the next

A response carries neither its model nor its timebase. Layers reproduce their samples exactly. A
flow does so to the tolerance of whoever integrated it, so its defects are compared with how far the
moments moved.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from gausscontrol.errors import ParameterError
from gausscontrol.model.packing import pack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.tokens.closure import ClosureSystem, closure_system
from gausscontrol.tokens.feedforward import FeedForward

__all__ = ["check_response"]

# Defect of a layer over the size of the moments.
EXACT = 1e-6
# Defect of a flow between two samples, over its path there and over the size of the moments: ten
# times what python-control's default tolerances leave.
OF_PATH, OF_SIZE = 0.05, 0.005
RTOL, ATOL = 1e-6, 1e-9
CURE = "pass the response of closure_system(model, feedforward) with these two"


def check_response(
    model: GaussianTransformer,
    feedforward: FeedForward,
    response: Any,
    depths: np.ndarray,
    means: np.ndarray,
    covariances: np.ndarray,
) -> None:
    """Raise if samples are not those of the closure of a model and a part.

    Parameters
    ----------
    model : GaussianTransformer
    feedforward : FeedForward
    response : ct.TimeResponseData
        What they came from; its inputs are offsets of b.
    depths : (N,) ndarray
        [t]
    means : (N, d) ndarray
        [x]
    covariances : (N, d, d) ndarray
        [x]^2

    Raises
    ------
    ParameterError
        If the depths are not whole layers apart, or the moments move otherwise.
    """
    inputs = _offsets(response, model.dim, depths.size)
    if depths.size < 2 or inputs is None:
        return
    states = np.array([pack(mean, S) for mean, S in zip(means, covariances, strict=True)])
    size = np.linalg.norm(states, axis=1).max()
    system = closure_system(model, feedforward)
    if model.dt:
        _check_layers(system, depths, states, inputs, size)
    else:
        _check_flow(system, depths, states, inputs, size)


def _offsets(response: Any, dim: int, count: int) -> np.ndarray | None:
    # Offsets of b at every depth; None where there are others, which the response does not tell.
    inputs = getattr(response, "inputs", None)
    if inputs is None or not np.any(inputs):
        return np.zeros((count, dim))
    inputs = np.asarray(inputs, dtype=float).reshape(-1, count)
    return inputs.T if len(inputs) == dim else None


def _check_layers(system: ClosureSystem, depths, states, inputs, size: float) -> None:
    dt = system.dt
    layers = np.diff(depths) / dt
    if (np.abs(layers - np.round(layers)) > 1e-6 * np.maximum(1, layers)).any():
        raise ParameterError(
            f"response: expected depths whole layers of dt = {dt:g} apart, found "
            f"{np.diff(depths)[np.abs(layers - np.round(layers)).argmax()]:.6g}; {CURE}"
        )
    for n, count in enumerate(np.round(layers).astype(int)):
        x = states[n]
        for _ in range(count):
            x = system.dynamics(0.0, x, inputs[n])
        if not np.linalg.norm(x - states[n + 1]) <= EXACT * size:
            raise _stranger(depths[n], system)


def _check_flow(system: ClosureSystem, depths, states, inputs, size: float) -> None:
    steps, path = np.diff(depths), np.linalg.norm(np.diff(states, axis=0), axis=1)
    defects = np.empty(steps.size)
    for n, (x, wanted) in enumerate(pairwise(states)):
        reached = _flow(system, x, inputs[n : n + 2], steps[n])
        if reached is not None:
            defects[n] = np.linalg.norm(reached - wanted)
        else:
            # Only next to an escape may a tolerance decide on which side of it a sample lies.
            defects[n] = 0.0 if n == steps.size - 1 else np.inf
    _refuse_layers(system, steps, states, inputs, defects.sum(), size)
    strange = ~(defects <= OF_PATH * path + OF_SIZE * size)
    if strange.any():
        raise _stranger(depths[strange.argmax()], system)


def _refuse_layers(system, steps, states, inputs, defect: float, size: float) -> None:
    # Residual layers imitate a flow well enough to pass for a rough integration of it.
    h = float(steps[0])
    if np.ptp(steps) > 1e-6 * h or defect <= 1e-9 * size:
        return
    layers = closure_system(system.model.replace(dt=h), system.feedforward)
    moved = [layers.dynamics(0.0, x, u) for x, u in zip(states[:-1], inputs[:-1], strict=True)]
    if np.linalg.norm(moved - states[1:], axis=1).sum() <= EXACT * defect:
        raise ParameterError(
            f"response: expected that of continuous depth, found residual layers of dt = {h:.6g}; "
            f"pass model.replace(dt={h:.6g})"
        )


def _flow(system: ClosureSystem, x: np.ndarray, inputs: np.ndarray, step: float):
    def rate(t: float, y: np.ndarray) -> np.ndarray:
        return system.dynamics(t, y, inputs[0] + (t / step) * (inputs[1] - inputs[0]))

    with np.errstate(over="ignore", invalid="ignore"):
        found = solve_ivp(
            rate, (0.0, step), x, method="DOP853", rtol=RTOL, atol=ATOL * np.linalg.norm(x)
        )
    return found.y[:, -1] if found.success and np.isfinite(found.y[:, -1]).all() else None


def _stranger(depth: float, system: ClosureSystem) -> ParameterError:
    kind = f"layers of dt = {system.dt:g}" if system.dt else "continuous depth"
    return ParameterError(
        f"response: expected moments that move as the closure of this model does, in {kind}, found "
        f"others from depth {depth:.6g} on; {CURE}"
    )
