"""The points of a sweep, how its function is called on each, and with which seed.

    {name: values}    every combination, the last name changing fastest: function(name=value, ...)
    [point, ...]      a mapping: function(**point); a tuple: function(*point); else function(point)

Item i draws from SeedSequence(seed, spawn_key=(i,)), which is the i-th child that
SeedSequence(seed).spawn gives: it depends on nothing but the seed and the item's place.
"""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError

__all__ = ["Grid", "item_keywords", "read_grid", "read_seed", "seeded_names"]

# Parameters of a function that ask for a generator, and for an integer.
SEEDED = ("rng", "seed")


@dataclass(frozen=True, eq=False)
class Grid:
    """Points, in order.

    Attributes
    ----------
    axes : dict or None
        The values of each parameter, for a full grid.
    points : tuple
        As the function receives them: dicts, tuples, or single arguments.
    shape : tuple of int
    """

    axes: dict[str, tuple] | None
    points: tuple
    shape: tuple[int, ...]

    def arguments(self, index: int) -> tuple[tuple, dict[str, Any]]:
        """Return what the function is called with, by position and by keyword."""
        point = self.points[index]
        if isinstance(point, dict):
            return (), point
        return (point if isinstance(point, tuple) else (point,)), {}


def read_grid(grid: Any) -> Grid:
    """Return the points of a mapping of values, or of a list of points.

    Parameters
    ----------
    grid : mapping or iterable

    Returns
    -------
    Grid

    Raises
    ------
    ParameterError
        If it is neither, is empty, or holds points of different kinds.
    """
    if isinstance(grid, Mapping):
        return _product(grid)
    if not _is_list(grid):
        raise ParameterError(
            f"grid: expected a mapping of names to values or a list of points, found "
            f"{type(grid).__name__}; write {{'a': [0.5, 1.0]}} or [0.5, 1.0]"
        )
    points = tuple(_plain(grid))
    if not points:
        raise ParameterError("grid: expected at least one point, found none; pass some")
    if any(isinstance(point, Mapping) for point in points):
        points = _mappings(points)
    elif len({len(point) if isinstance(point, tuple) else None for point in points}) > 1:
        raise ParameterError(
            "grid: expected points of one kind, found tuples of several lengths or tuples beside "
            "single arguments; make them tuples of one length"
        )
    return Grid(None, points, (len(points),))


def read_seed(seed: Any) -> int:
    """Return a seed as an int.

    Parameters
    ----------
    seed : int

    Returns
    -------
    int

    Raises
    ------
    ParameterError
        If it is not an integer of at least 0.
    """
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0 or isinstance(seed, (bool, np.bool_)):
        raise ParameterError(f"seed: expected an integer of at least 0, found {seed!r}; pass 0")
    return number


def seeded_names(function: Callable, grid: Grid) -> tuple[str, ...]:
    """Return which of `SEEDED` the function asks for, and check that it can be called.

    Parameters
    ----------
    function : callable
    grid : Grid

    Returns
    -------
    tuple of str
        Parameters of these names that the grid does not give.

    Raises
    ------
    ParameterError
        If its parameters are not those of the grid.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have none
        return ()
    args, keywords = grid.arguments(0)
    parameters = signature.parameters.values()
    fixed = set(function.keywords) if isinstance(function, partial) else set()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    # What earlier positions take is given by the point.
    taken = {p.name for p in itertools.islice(parameters, len(args)) if p.kind is by_name[0]}
    open_names = {p.name for p in parameters if p.kind in by_name} - taken - fixed - set(keywords)
    names = tuple(name for name in SEEDED if name in open_names)
    try:
        signature.bind(*args, **keywords, **dict.fromkeys(names))
    except TypeError as error:
        given = ", ".join(keywords) if keywords else f"{len(args)} by position"
        raise ParameterError(
            f"function: expected one that takes the parameters of the grid ({given}), found "
            f"{error} in its signature {signature}; rename them in one of the two"
        ) from error
    return names


def item_keywords(names: tuple[str, ...], seed: int, index: int) -> dict[str, Any]:
    """Return the generator or seed of one item, by the names that ask for it.

    Parameters
    ----------
    names : tuple of str
    seed : int
    index : int

    Returns
    -------
    dict
    """
    values: dict[str, Any] = {}
    if not names:
        return values
    sequence = np.random.SeedSequence(seed, spawn_key=(index,))
    if "rng" in names:
        values["rng"] = np.random.default_rng(sequence)
    if "seed" in names:
        values["seed"] = int(sequence.generate_state(1, np.uint64)[0])
    return values


# -- reading --------------------------------------------------------------------------------------


def _product(grid: Mapping) -> Grid:
    axes = {}
    for name, values in grid.items():
        if not isinstance(name, str):
            raise ParameterError(
                f"grid: expected names of parameters, found the key {name!r}; use strings"
            )
        if not _is_list(values):
            raise ParameterError(
                f"grid[{name!r}]: expected a list of values, found {type(values).__name__}; "
                "put a single value in a list"
            )
        axes[name] = tuple(_plain(values))
        if not axes[name]:
            raise ParameterError(
                f"grid[{name!r}]: expected at least one value, found none; pass some"
            )
    if not axes:
        raise ParameterError("grid: expected at least one parameter, found none; name some")
    points = tuple(dict(zip(axes, row, strict=True)) for row in itertools.product(*axes.values()))
    shape = tuple(len(values) for values in axes.values())
    return Grid(axes, points, shape)


def _is_list(values: Any) -> bool:
    if isinstance(values, (str, bytes, Mapping)):
        return False
    return isinstance(values, Iterable) and getattr(values, "ndim", 1) > 0


def _plain(values: Iterable) -> Iterable:
    """Return the entries of a sequence; those of a numerical array as Python numbers."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values.tolist()
    return (value.item() if isinstance(value, np.generic) else value for value in values)


def _mappings(points: tuple) -> tuple:
    first = points[0]
    for i, point in enumerate(points):
        if not isinstance(point, Mapping) or set(point) != set(first):
            found = sorted(map(str, point)) if isinstance(point, Mapping) else type(point).__name__
            raise ParameterError(
                f"grid[{i}]: expected a mapping with the names of the first point, found {found}; "
                "give every point the same names"
            )
    if not all(isinstance(name, str) for name in first):
        raise ParameterError(
            f"grid: expected names of parameters, found {list(first)}; use strings"
        )
    return tuple(dict(point) for point in points)
