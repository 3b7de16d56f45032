"""The point that a solver proposes, moved onto the equalities (Theory 7a, 9.1).

    minimise |x - x0|   subject to   rows x = target

A solver meets equalities to its tolerance only; certificates need them to rounding. Two steps of
least squares bring the rest of the first below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gausscontrol.linalg.lmi import equality_rows

__all__ = ["Candidate", "move_onto"]

# Steps of least squares.
STEPS = 2


@dataclass(frozen=True, eq=False)
class Candidate:
    """Matrices in whitened coordinates that a solver proposes, moved onto the equalities.

    `alpha` is what the solver claims.
    """

    A: np.ndarray
    V: np.ndarray
    B: np.ndarray
    alpha: float
    status: str
    problem: Any


def move_onto(
    variables: Sequence[Any], rows: np.ndarray, target: np.ndarray, conditions: Sequence[Any]
) -> None:
    """Change the values of variables by the least that meets the equalities.

    Parameters
    ----------
    variables : sequence of cvxpy variables
        With values, which are moved in place.
    rows : (m, n) ndarray
        On the row-major entries of the variables, one variable after the other.
    target : (m,) ndarray
    conditions : sequence of cvxpy constraints
        Of which the equalities count too.
    """
    point = np.concatenate([np.ravel(variable.value) for variable in variables])
    jacobian, values = equality_rows(conditions, variables)
    sizes = np.linalg.norm(jacobian, axis=1)
    sizes[sizes == 0] = 1.0
    jacobian, values = jacobian / sizes[:, None], values / sizes
    rows = np.vstack([rows, jacobian])
    target = np.concatenate([target, jacobian @ point - values])
    for _ in range(STEPS):
        point = point + np.linalg.lstsq(rows, target - rows @ point)[0]
    for variable in variables:
        variable.value = point[: variable.size].reshape(variable.shape)
        point = point[variable.size :]
