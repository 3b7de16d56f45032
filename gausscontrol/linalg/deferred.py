"""Modules that take long to import and are seldom needed (no equation).

name -> an object that imports the module of that name when an attribute is first asked for
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Deferred"]


class Deferred:
    """A module that is imported when something of it is first asked for.

    Parameters
    ----------
    name : str
        Of the module.

    Examples
    --------
    >>> fractions = Deferred("fractions")
    >>> fractions.Fraction(1, 2) + 1
    Fraction(3, 2)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Return what the module has of this name."""
        return getattr(import_module(self._name), attribute)

    def __repr__(self) -> str:
        return f"<{self._name}, imported when it is needed>"
