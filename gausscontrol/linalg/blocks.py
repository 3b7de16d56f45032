"""Semidefinite programmes in standard form (Theory 4.8).

    minimise c^T x   subject to   A x = b,   x = (svec X_1, svec X_2, ...),   X_k >= 0

x stacks Gram matrices and numbers, as in `sos`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gausscontrol.linalg.lmi import Program, linear_image, stacked
from gausscontrol.linalg.operators import symmetric_basis

__all__ = ["block_solution"]


def block_solution(
    matrix: Any, target: np.ndarray, cost: np.ndarray, sizes: Sequence[int]
) -> np.ndarray:
    """Solve a programme in semidefinite blocks with equalities on their svecs.

    Parameters
    ----------
    matrix : (m, N) sparse array
        A.
    target : (m,) ndarray
        b.
    cost : (N,) ndarray
        c.
    sizes : sequence of int
        Of the blocks; size 1 is a number that is not negative.

    Returns
    -------
    (N,) ndarray
        x; equalities and semidefiniteness hold up to the solver's tolerance and are for the
        caller to correct and check.

    Raises
    ------
    SolverError
        If there is no point, or none that can be used.
    """
    program, blocks = Program("Gram programme"), []
    for size in sizes:
        # Vectors of entries compile faster than symmetric matrix variables.
        block = program.vector(size * (size + 1) // 2)
        program.above(linear_image(symmetric_basis(size), block, (size, size)))
        blocks.append(block)
    x = stacked(blocks)
    program.equal(matrix @ x, target)
    solution = program.solve(minimise=cost @ x)
    return np.concatenate([solution[block] for block in blocks])
