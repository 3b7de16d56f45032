"""How each part of a python-control system is linearised, and which parts have no exact way.

    interconnection   from its parts            state space    its own matrices
    own linearize     asked                     gain           read off
    otherwise         differenced

python-control wraps numbers in functions and stores differenced matrices with interconnections;
both are seen through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import control as ct
import numpy as np

__all__ = [
    "differenced_subsystems",
    "has_own_linearize",
    "is_composite",
    "is_gain",
    "is_linear",
    "read_gain",
]


def differenced_subsystems(sys: ct.InputOutputSystem) -> tuple[str, ...]:
    """Name the subsystems that have no exact linearisation.

    These are nonlinear systems whose class inherits the finite difference of python-control.
    Constant gains that python-control itself makes in ``2 * sys`` or ``sys.feedback(K)`` are exact.

    Parameters
    ----------
    sys : ct.InputOutputSystem

    Returns
    -------
    tuple of str
        Names, joined by dots through nested interconnections; empty if all is exact.

    See Also
    --------
    exact_linearize : Differences these subsystems, and only these.

    Examples
    --------
    >>> import control as ct
    >>> import gausscontrol as gct
    >>> layer = gct.moment_system(gct.GaussianTransformer(0.5, 1, -0.25), name="layer")
    >>> clip = ct.nlsys(None, lambda t, x, u, params: u, inputs=1, outputs=1, name="clip")
    >>> gct.differenced_subsystems(layer * clip)
    ('clip',)
    """
    return tuple(_differenced(sys))


def has_own_linearize(system: Any) -> bool:
    """Tell whether a system does not inherit the finite difference of python-control."""
    own = getattr(system, "linearize", None)
    return getattr(own, "__func__", own) is not ct.NonlinearIOSystem.linearize


def is_composite(system: Any) -> bool:
    """Tell whether a system is to be linearised part by part."""
    # Also where python-control stores matrices with it: it differenced those.
    return isinstance(system, ct.InterconnectedSystem) and not has_own_linearize(system)


def is_linear(system: Any) -> bool:
    """Tell whether a system is its own linearisation."""
    return isinstance(system, ct.StateSpace) and not has_own_linearize(system)


def is_gain(system: Any) -> bool:
    """Tell whether a system is a number or matrix that python-control has wrapped in a function."""
    # It does so in one place. Should that place move, gains are differenced, and
    # differenced_subsystems says so.
    function = getattr(system, "outfcn", None)
    return (
        system.nstates == 0
        and getattr(function, "__module__", "") == ct.NonlinearIOSystem.__module__
        and getattr(function, "__qualname__", "") == "_convert_to_iosystem.<locals>.<lambda>"
    )


def read_gain(system: Any) -> np.ndarray:
    """Return the matrix of what `is_gain` recognises."""
    columns = [system.outfcn(0, np.zeros(0), unit, {}) for unit in np.eye(system.ninputs)]
    return np.array(columns, dtype=float).reshape(system.ninputs, system.noutputs).T


def _differenced(system, path: str = "") -> Iterator[str]:
    if is_composite(system):
        names = {place: name for name, place in system.syslist_index.items()}
        for place, part in enumerate(system.syslist):
            name = names.get(place, part.name)
            yield from _differenced(part, f"{path}.{name}" if path else name)
    elif isinstance(system, ct.NonlinearIOSystem) and not (
        has_own_linearize(system) or is_linear(system) or is_gain(system)
    ):
        yield path or system.name
