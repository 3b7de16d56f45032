"""Marching a state through layers: whole residual steps, and adaptive ones between them.

    x' = f_i(x) for the depth of layer i,     or    x+ = x + dt f_i(x) in a residual layer

Tokens and closed moments march alike; nothing but the state at the depths asked for is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import DOP853, RK45

from gausscontrol.errors import IntegrationError
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.arguments import depth_grid
from gausscontrol.systems.stack import snap_to_boundaries

__all__ = ["LARGEST", "Piece", "Stopped", "layers_of", "march", "pieces_of"]

# Below this many entries evaluations are cheap and a method of high order pays.
SMALL = 2_000
# States beyond this are about to overflow where they are squared.
LARGEST = 1e140
# Steps after which a piece of continuous depth is given up.
MOST_STEPS = 10_000


class Piece(NamedTuple):
    """A stretch of depth with one field; `steps` residual layers of equal dt, or 0 for a flow."""

    layer: int
    start: float
    stop: float
    steps: int


class Stopped(IntegrationError):
    """A march that cannot go on; `depth` says from where."""

    def __init__(self, message: str, depth: float) -> None:
        super().__init__(message)
        self.depth = depth


def layers_of(model: GaussianTransformer | LayerStack) -> tuple[GaussianTransformer, ...]:
    """Return the layers of a stack, or a model as the only one."""
    return model.models if isinstance(model, LayerStack) else (model,)


def pieces_of(
    model: GaussianTransformer | LayerStack, timepts: ArrayLike
) -> tuple[np.ndarray, list[Piece]]:
    """Return the depths, validated, and the pieces between them.

    Parameters
    ----------
    model : GaussianTransformer or LayerStack
    timepts : (T,) array_like
        As for `moment_response`. [t]

    Returns
    -------
    (T,) ndarray, list of Piece
        No piece ends inside another; every depth of a residual layer is the end of a piece.

    Raises
    ------
    ShapeError, ParameterError
        If the depths are not increasing, or not at whole layers.
    """
    if isinstance(model, GaussianTransformer):
        depths = depth_grid(timepts, model.dt)
        if not model.dt:
            return depths, [Piece(0, depths[0], depths[-1], 0)]
        return depths, [
            Piece(0, start, stop, round((stop - start) / model.dt))
            for start, stop in pairwise(depths)
        ]
    depths = snap_to_boundaries(model, depth_grid(timepts, 0))
    out = []
    for i, layer in enumerate(model):
        start, stop = max(model.boundaries[i], depths[0]), min(model.boundaries[i + 1], depths[-1])
        if start < stop:
            out.append(Piece(i, start, stop, 1 if layer.dt else 0))
    return depths, out


def march(
    pieces: list[Piece],
    depths: np.ndarray,
    state: np.ndarray,
    field: Callable[[int, np.ndarray], np.ndarray],
    *,
    rtol: float,
    atol: float,
) -> Iterator[np.ndarray]:
    """Yield the state at every depth.

    Parameters
    ----------
    pieces : list of Piece
    depths : (T,) ndarray
        [t]
    state : ndarray
        At the first depth.
    field : callable
        (layer, state) -> rate of change per unit depth, of the shape of the state.
    rtol, atol : float
        Local tolerances of the adaptive steps.

    Yields
    ------
    ndarray
        A fresh array for each depth.

    Raises
    ------
    Stopped
        If a state exceeds 1e140 or is not finite, or no step is short enough.
    IntegrationError
        If the field is not finite at the start of a piece, or 10,000 steps do not pass it.
    """
    yield state.copy()
    for piece in pieces:
        inside = depths[(depths > piece.start) & (depths <= piece.stop)]
        if piece.steps:
            state = _residual(piece, state, field)
            yield from [state.copy() for _ in inside]
            continue
        for wanted, reached in _flow(piece, inside, state, field, rtol, atol):
            state = reached
            if wanted:
                yield reached


def _residual(piece: Piece, state: np.ndarray, field) -> np.ndarray:
    step = (piece.stop - piece.start) / piece.steps
    for n in range(piece.steps):
        with np.errstate(over="ignore", invalid="ignore"):
            state = state + step * field(piece.layer, state)
        if not np.abs(state).max() <= LARGEST:
            depth = piece.start + (n + 1) * step
            raise Stopped(_overflow(depth), depth)
    return state


def _flow(piece, inside, state, field, rtol, atol) -> Iterator[tuple[bool, np.ndarray]]:
    # (True, state) at each depth asked for, and (False, state) at the end of the piece.
    shape = state.shape

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        out = field(piece.layer, y.reshape(shape)).reshape(-1)
        if t == piece.start and not np.isfinite(out).all():
            # No step size can be chosen from it.
            raise IntegrationError(
                f"timepts: expected a finite rate of change at depth {t:.6g}, found NaN or "
                "infinite ones; scale tokens or matrices down"
            )
        return out

    method = DOP853 if state.size < SMALL else RK45
    with np.errstate(over="ignore", invalid="ignore"):
        solver = method(rate, piece.start, state.reshape(-1), piece.stop, rtol=rtol, atol=atol)
        n = steps = 0
        while solver.status == "running":
            if steps == MOST_STEPS:
                raise IntegrationError(
                    f"timepts: {steps} steps from depth {piece.start:.6g} got to {solver.t:.6g} "
                    f"only, short of {piece.stop:.6g}: the field changes too fast, as sharp "
                    "attention does; raise rtol, scale tokens down, or use residual layers"
                )
            solver.step()
            steps += 1
            if solver.status == "failed" or not np.abs(solver.y).max() <= LARGEST:
                raise Stopped(_overflow(solver.t), float(solver.t))
            if n < inside.size and inside[n] <= solver.t:
                between = solver.dense_output()
                while n < inside.size and inside[n] <= solver.t:
                    y = solver.y if inside[n] == solver.t else between(inside[n])
                    yield True, y.reshape(shape).copy()
                    n += 1
    yield False, solver.y.reshape(shape)


def _overflow(depth: float) -> str:
    return (
        f"timepts: the state grows beyond what can be followed at depth {depth:.6g}; "
        "end the depths before it"
    )
