"""What the user adds to a design problem: convex constraints and an objective (Theory 7a).

    variables -> [constraint, ...],     variables -> expression to minimise

Both are functions of the matrices by name, as cvxpy expressions in original coordinates. What they
return is checked before a solver sees it, and the constraints again at the point that was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError

__all__ = ["Variables", "convex_constraints", "convex_objective", "violated"]

# How far a constraint may be violated, relative to its largest term.
TOLERANCE = 1e-6
# Letters of a constraint that are shown.
SHOWN = 60


class Variables(dict):
    """The matrices that the user's constraints and objective speak of, by name."""

    def __missing__(self, name: Any) -> Any:
        """Say which names there are."""
        raise ParameterError(
            f"variables: expected one of {', '.join(self)}, found {name!r}; these are what "
            "constraints and objective may speak of"
        )


def convex_constraints(listed: Any) -> list[Any]:
    """Return the constraints that speak of unknown matrices, or refuse what is none.

    Parameters
    ----------
    listed : iterable of cvxpy constraints
        What the user's function returned.

    Raises
    ------
    ParameterError
        If it is no list, or holds a constraint that is not convex.
    """
    if not isinstance(listed, Iterable):
        raise ParameterError(
            f"constraints: expected a list of cvxpy constraints, found "
            f"{type(listed).__name__}; return a list such as [variables['V'] >= -1]"
        )
    # What speaks of given matrices alone is no matter of the problem.
    conditions = [c for c in listed if not hasattr(c, "variables") or c.variables()]
    for condition in conditions:
        if hasattr(condition, "is_dcp") and not condition.is_dcp():
            raise ParameterError(
                "constraints: expected convex ones (disciplined convex, in the words of "
                f"cvxpy), found one that is not: {_in_one_line(condition)}; write convex <= "
                "concave, or affine == affine"
            )
    return conditions


def convex_objective(objective: Any) -> Any:
    """Return an objective to minimise, or refuse what is none.

    Raises
    ------
    ParameterError
        If it is no scalar expression of cvxpy, or not convex.
    """
    if not hasattr(objective, "is_convex") or objective.size != 1:
        raise ParameterError(
            f"objective: expected a scalar cvxpy expression, found "
            f"{type(objective).__name__}; return one such as "
            "cvxpy.norm(variables['V'], 'fro')"
        )
    if not objective.is_convex():
        raise ParameterError(
            "objective: expected a convex expression to minimise, found one that is not; "
            "minimise -f instead of f if f is concave"
        )
    return objective


def violated(conditions: Iterable[Any]) -> str | None:
    """Say which constraint the current point violates, and by how much; None if it meets all."""
    for condition in conditions:
        size = max((float(np.abs(a.value).max()) for a in condition.args), default=0.0)
        violation = float(np.max(condition.violation()))
        if not violation <= TOLERANCE * (1 + size):
            return f"{_in_one_line(condition)} is violated by {violation:.3g}"
    return None


def _in_one_line(condition: Any) -> str:
    """Return the beginning of a constraint as cvxpy prints it, without line breaks."""
    text = " ".join(str(condition).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
