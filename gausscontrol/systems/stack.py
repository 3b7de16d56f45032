"""The trajectory through a stack of layers, piece by piece (Theory 1.4).

Each layer is a task of its own, from where the previous one ended; factors are handed on, so that
rank is kept, and a transition matrix is the product of those of the layers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gausscontrol.errors import ParameterError
from gausscontrol.linalg.symmetric import factor
from gausscontrol.model.moments import MomentField
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.iosys import moment_system
from gausscontrol.systems.trajectory import Solution, Task, solve

__all__ = ["snap_to_boundaries", "stack_trajectory"]

# Depths this close to a boundary, relative to the depth of the stack, lie on it.
BOUNDARY = 1e-9


def stack_trajectory(stack: LayerStack, task: Task, method: str) -> Solution:
    """Compute the moments at depths of a stack.

    Parameters
    ----------
    stack : LayerStack
    task : Task
        `depths` are those of the stack, the first one where the initial moments hold.
    method : str
        As in `trajectory.solve`, for every layer.

    Returns
    -------
    Solution
        With `blow_up_time` counted from the first depth.

    Raises
    ------
    ParameterError
        If a depth lies outside the stack or inside a residual layer.
    """
    depths = snap_to_boundaries(stack, task.depths)
    pieces: list[Solution] = []
    current, Psi = task, np.eye(stack.dim)
    reached = depths[0]
    for layer, start, stop in zip(stack, stack.boundaries[:-1], stack.boundaries[1:], strict=True):
        if stop <= reached or start >= depths[-1]:
            continue
        inside = depths[(depths > reached) & (depths <= stop)]
        end = min(stop, depths[-1])
        grid = np.unique(np.concatenate([[reached], inside, [end]])) - reached
        solution = solve(_layer_task(current, layer, grid), method)
        count = solution.mean.shape[1]
        kept = np.isin(grid[:count] + reached, depths) | np.isin(grid[:count], inside - reached)
        kept[0] = not pieces
        if solution.transition is not None:
            solution.transition = np.einsum("ijn,jk->ikn", solution.transition, Psi)
            Psi = solution.transition[:, :, -1]
        pieces.append(_select(solution, kept))
        if solution.blow_up_time is not None:
            pieces[-1].blow_up_time = reached - depths[0] + solution.blow_up_time
            break
        current, reached = _continued(current, solution), end
    return _joined(pieces)


def snap_to_boundaries(stack: LayerStack, depths: np.ndarray) -> np.ndarray:
    """Return depths with those within rounding of a boundary put on it; refuse what is no depth."""
    boundaries, slack = stack.boundaries, BOUNDARY * stack.depth
    if depths[0] < -slack or depths[-1] > stack.depth + slack:
        raise ParameterError(
            f"timepts: expected depths from 0 to {stack.depth:.6g}, the depth of the stack, found "
            f"{depths[0]:.6g} to {depths[-1]:.6g}; end at stack.depth"
        )
    nearest = np.abs(depths[:, None] - boundaries).argmin(axis=1)
    on_boundary = np.abs(depths - boundaries[nearest]) <= slack
    snapped = np.where(on_boundary, boundaries[nearest], depths)
    for depth in snapped[~on_boundary]:
        i = int(np.searchsorted(boundaries, depth)) - 1
        if stack[i].dt:
            raise ParameterError(
                f"timepts: expected whole layers, found depth {depth:.6g} inside residual layer "
                f"{i}; use stack.boundaries"
            )
    return snapped


def _layer_task(task: Task, layer: GaussianTransformer, grid: np.ndarray) -> Task:
    system = moment_system(layer.replace(name=None))
    signal = np.zeros((system.ninputs, grid.size))
    return replace(task, system=system, field=MomentField.of(layer), depths=grid, signal=signal)


def _continued(task: Task, solution: Solution) -> Task:
    covariance = solution.covariance[:, :, -1]
    L = (
        factor(covariance, task.rank)
        if solution.factor is None
        else np.ascontiguousarray(solution.factor[:, :, -1])
    )
    return replace(task, mean=solution.mean[:, -1], covariance=covariance, factor=L)


def _select(solution: Solution, kept: np.ndarray) -> Solution:
    def some(array):
        return None if array is None else array[..., kept]

    return replace(
        solution,
        mean=some(solution.mean),
        covariance=some(solution.covariance),
        factor=some(solution.factor),
        transition=some(solution.transition),
    )


def _joined(pieces: list[Solution]) -> Solution:
    def together(arrays):
        return None if any(a is None for a in arrays) else np.concatenate(arrays, axis=-1)

    methods = {piece.method for piece in pieces}
    return Solution(
        together([piece.mean for piece in pieces]),
        together([piece.covariance for piece in pieces]),
        together([piece.factor for piece in pieces]),
        together([piece.transition for piece in pieces]),
        methods.pop() if len(methods) == 1 else "factor",
        pieces[-1].blow_up_time,
        pieces[-1].blow_up_error,
    )
