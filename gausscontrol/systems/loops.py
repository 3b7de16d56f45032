"""Algebraic loops: the linear equations u = G u + r between the signals of an interconnection.

    G = K D,    K the connection map,    D the feedthrough of the subsystems

The signals of a strongly connected part of G depend on one another at the same instant, an
algebraic loop. Such a part has one solution where I - G is invertible on it. Everything else is
substitution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import matrix_balance
from scipy.sparse.csgraph import connected_components

from gausscontrol.errors import ParameterError

__all__ = ["shortened", "solve_loop"]


def solve_loop(
    loop: np.ndarray, right: np.ndarray, owner: str, labels: Sequence[str]
) -> np.ndarray:
    """Solve u = G u + r for signals that feed each other.

    Parameters
    ----------
    loop : (n, n) ndarray
        G.
    right : (n,) or (n, m) ndarray
        r, one or several.
    owner : str
        Name of the interconnection, for the message.
    labels : sequence of str
        Names of the n signals, for the message.

    Returns
    -------
    (n,) or (n, m) ndarray

    Raises
    ------
    ParameterError
        If I - G is singular to working precision on an algebraic loop, or a signal overflows.

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.systems.loops import solve_loop
    >>> print(solve_loop(np.array([[0.5]]), np.array([3.0]), "loop", ["u"]))
    [6.]
    """
    if not _has_cycle(loop, owner, labels):
        # Substitution ends, in at most as many sweeps as there are signals, and rounds each signal
        # as the simulation does.
        solution = right
        for _ in range(len(loop) + 1):
            with np.errstate(over="ignore", invalid="ignore"):  # told in the error below
                updated = loop @ solution + right
            if np.array_equal(updated, solution):
                return solution
            solution = updated
            if not np.isfinite(solution).all():
                break
        raise ParameterError(_not_finite(solution, owner, labels))
    matrix = np.eye(len(loop)) - loop
    solution = np.linalg.solve(matrix, right)
    # One step of refinement makes the residual small row by row, whatever the signals' units.
    return solution + np.linalg.solve(matrix, right - matrix @ solution)


def _has_cycle(loop: np.ndarray, owner: str, labels: Sequence[str]) -> bool:
    """Return whether there is an algebraic loop; raise if one is singular."""
    _, components = connected_components(loop != 0, directed=True, connection="strong")
    found = False
    for component in np.unique(components):
        members = np.flatnonzero(components == component)
        block = loop[np.ix_(members, members)]
        if not block.any():
            continue
        found = True
        # Balancing takes the units of the signals out of the test.
        balanced = np.eye(len(block)) - matrix_balance(block, permute=False)[0]
        values = np.linalg.svd(balanced, compute_uv=False)
        if values[-1] <= len(block) * np.finfo(float).eps * max(1.0, values[0]):
            raise ParameterError(
                f"sys: expected a well-posed algebraic loop in {owner}, found I - K D singular at "
                f"{shortened([labels[member] for member in members])}; change a gain or break the "
                "loop with a state"
            )
    return found


def _not_finite(solution: np.ndarray, owner: str, labels: Sequence[str]) -> str:
    finite = np.isfinite(solution.reshape(len(labels), -1)).all(axis=1)
    wrong = [label for label, good in zip(labels, finite, strict=True) if not good]
    return (
        f"sys: expected finite signals in {owner}, found NaN or infinite ones at "
        f"{shortened(wrong)}; scale the gains in front of them"
    )


def shortened(names: Sequence[str]) -> str:
    """Return at most five names in a row, and how many more there are."""
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
