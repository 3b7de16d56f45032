"""What a sweep returns: values and errors by item, and arrays, labelled or plain."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from gausscontrol.certificates.classify import Classification
from gausscontrol.display import Report
from gausscontrol.errors import ParameterError
from gausscontrol.sweeps.items import ItemError
from gausscontrol.sweeps.verdict import Verdict

__all__ = ["SweepResult"]

# Errors and values named in the report.
LISTED = 3
# What a classification has to say as one row of a table.
VERDICT_FIELDS = ("regime", "certified", "scope", "margin")
# Types whose arrays can say "missing", and how.
MISSING = {"f": np.nan, "c": complex(np.nan, np.nan)}


@dataclass(frozen=True, eq=False)
class SweepResult(Report):
    """Values of a function over a grid, and what went wrong where.

    Attributes
    ----------
    function : str
        Its qualified name.
    grid : dict or None
        The values of each parameter; None for a list of points.
    points : tuple
        The arguments of each item: dicts, tuples or single arguments. The last parameter of a
        grid changes fastest.
    values : tuple
        What the function returned, item by item; None where it failed.
    errors : tuple of ItemError
        Of the items that have no value, in order.
    shape : tuple of int
        Of the grid; (N,) for a list of points.
    seed : int
    resumed : int
        How many values were read from the file and not computed.
    """

    function: str
    grid: dict[str, tuple] | None
    points: tuple
    values: tuple
    errors: tuple[ItemError, ...]
    shape: tuple[int, ...]
    seed: int
    resumed: int = 0

    @cached_property
    def failed(self) -> np.ndarray:
        """Which items have no value, an array of bool of the grid's shape."""
        failed = np.zeros(len(self.points), dtype=bool)
        failed[[error.index for error in self.errors]] = True
        failed.setflags(write=False)
        return failed.reshape(self.shape)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the parts that every value has; none for numbers, text and arrays."""
        names: dict[str, int] = {}
        rows = [_parts(value) for value in self._finished()]
        for row in rows:
            for name in row:
                names[name] = names.get(name, 0) + 1
        return tuple(name for name, count in names.items() if count == len(rows))

    def array(self, field: str | Callable[[Any], Any] | None = None) -> np.ndarray:
        """Return the values, or one part of each, as an array.

        Parameters
        ----------
        field : str or callable, optional
            A key, for dicts; an attribute, for anything else; or a function of a value. Default:
            the value itself.

        Returns
        -------
        ndarray
            Of the grid's shape, followed by that of the values where all are arrays of one shape.
            Items without a value, None, and masked entries are NaN among numbers (integers become
            floats then) and None among anything else, which makes an array of objects. So do
            integers that no float equals, where floats stand beside them.

        Raises
        ------
        ParameterError
            If a value has no such part.
        """
        failed = self.failed.reshape(-1)
        parts = [None if failed[i] else self._part(i, field) for i in range(failed.size)]
        return _stacked(parts, self.shape)

    @property
    def labelled(self) -> Any:
        """The values with names, by whatever is installed.

        A full grid is an xarray object if xarray is installed; otherwise, and for a list of
        points, a pandas DataFrame if pandas is; otherwise the plain array of `array()`.
        """
        order = (("xarray", self.to_xarray), ("pandas", self.to_pandas))
        for name, convert in order if self.grid is not None else order[::-1]:
            if find_spec(name) is not None:
                return convert()
        return self.array()

    def to_xarray(self) -> Any:
        """Return the values as an xarray object.

        Returns
        -------
        xarray.DataArray or xarray.Dataset
            A Dataset, one variable for each of `fields`, if there are any. Dimensions are the
            parameters, or "item" for a list of points; those of array values follow as "dim_0" and
            so on. The coordinate "failed" says where there is no value.

        Raises
        ------
        ParameterError
            If xarray is not installed.
        """
        xarray = _imported("xarray")
        dims = list(self.grid) if self.grid is not None else ["item"]
        axes = self.grid if self.grid is not None else {"item": range(len(self.points))}
        labels = {name: _labels(axes[name]) for name in dims}
        coords = {name: (name, part) for name, part in labels.items() if part is not None}
        coords[_free("failed", dims)] = (dims, self.failed)
        taken = [*dims, *coords]
        if not self.fields:
            array = self.array()
            names = dims + _further(array.ndim - len(dims), taken)
            return xarray.DataArray(array, coords, names, name=self.function.rsplit(".", 1)[-1])
        variables = {}
        for name in self.fields:
            array = self.array(name)
            variables[name] = (dims + _further(array.ndim - len(dims), taken), array)
        variables = _apart(variables)
        taken += [name for names, _ in variables.values() for name in names]
        named = {}
        for name, part in variables.items():
            named[_free(name, [*taken, *named])] = part
        return xarray.Dataset(named, coords)

    def to_pandas(self) -> Any:
        """Return the values as a pandas table, one row for each item.

        Returns
        -------
        pandas.DataFrame
            Parameters first (point, or point_0 and so on, where they have no names), then one
            column for each of `fields`, or "value"; last "error", None where there is none. A
            value that is an array stays one, in its cell.

        Raises
        ------
        ParameterError
            If pandas is not installed.
        """
        pandas = _imported("pandas")
        columns = _point_columns(self.points)
        count = len(self.points)
        for name, label in [(name, name) for name in self.fields] or [(None, "value")]:
            array = self.array(name)
            flat = array.reshape(count, *array.shape[len(self.shape) :])
            columns[_free(label, columns)] = flat if flat.ndim == 1 else list(flat)
        messages = {error.index: f"{error.type}: {error.message}" for error in self.errors}
        errors = [messages.get(i) for i in range(count)]
        columns[_free("error", columns)] = pandas.Series(errors, dtype=object)
        return pandas.DataFrame(columns)

    def __len__(self) -> int:
        return len(self.points)

    def __str__(self) -> str:
        over = f"{len(self)} points"
        if self.grid is not None:
            over = " x ".join(f"{name} ({len(axis)})" for name, axis in self.grid.items())
        read = f", of which {self.resumed} read from the file" if self.resumed else ""
        lines = [f"Sweep of {self.function} over {over}"]
        lines.append(f"  finished  {len(self) - len(self.errors)} of {len(self)}{read}")
        if self.errors:
            lines.append(f"  failed    {len(self.errors)}")
            lines += [f"    {error}" for error in self.errors[:LISTED]]
            if len(self.errors) > LISTED:
                lines.append(f"    and {len(self.errors) - LISTED} more in errors")
        lines.append(f"  seed      {self.seed}")
        return "\n".join(lines)

    def _finished(self) -> list:
        failed = self.failed.reshape(-1)
        return [value for value, gone in zip(self.values, failed, strict=True) if not gone]

    def _part(self, index: int, field: str | Callable[[Any], Any] | None) -> Any:
        value = self.values[index]
        if field is None:
            return value
        if callable(field):
            return field(value)
        parts = _parts(value)
        if field in parts:
            return parts[field]
        if not isinstance(value, Mapping) and hasattr(value, field):
            return getattr(value, field)
        known = f"its parts are {', '.join(parts)}" if parts else "it has no parts"
        raise ParameterError(
            f"field: expected a part of every value, found {field!r} at item {index}, a "
            f"{type(value).__name__}; {known}"
        )


# -- parts and arrays -----------------------------------------------------------------------------


def _parts(value: Any) -> dict[str, Any]:
    """Return what a value consists of by name."""
    if isinstance(value, Classification):
        value = Verdict.of(value)
    if isinstance(value, Verdict):
        return {name: getattr(value, name) for name in VERDICT_FIELDS}
    if isinstance(value, Mapping):
        return {key: part for key, part in value.items() if isinstance(key, str)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(value._asdict()) if hasattr(value, "_asdict") else {}


def _stacked(parts: list, shape: tuple[int, ...]) -> np.ndarray:
    parts = [_unmasked(part) for part in parts]
    missing = np.array([part is None for part in parts])
    present = [part for part in parts if part is not None]
    kinds = {type(part) for part in present}
    if kinds and all(issubclass(kind, (*NUMBERS, str, np.ndarray)) for kind in kinds):
        arrays = [np.asarray(part) for part in present]
        if _alike(arrays):
            return _filled(arrays, missing).reshape(shape + arrays[0].shape)
    array = np.empty(len(parts), dtype=object)
    for i, part in enumerate(parts):
        array[i] = part
    return array.reshape(shape)


NUMBERS = (bool, int, float, complex, np.generic)


def _alike(arrays: list[np.ndarray]) -> bool:
    """Whether arrays have one shape, and are all numbers, all booleans or all text."""
    kinds = {array.dtype.kind for array in arrays}
    one = kinds <= set("iufc") or kinds == {"b"} or kinds == {"U"}
    return one and len({array.shape for array in arrays}) == 1


def _unmasked(part: Any) -> Any:
    """Return an array with what is masked as NaN, or None among what is no number."""
    if not isinstance(part, np.ma.MaskedArray):
        return part
    if not np.ma.getmaskarray(part).any():
        return part.data
    if part.dtype.kind not in "iufc":
        return np.where(np.ma.getmaskarray(part), None, part.data.astype(object))
    return part.astype(np.result_type(part.dtype, np.float16)).filled(np.nan)


def _filled(arrays: list[np.ndarray], missing: np.ndarray) -> np.ndarray:
    dtype = np.result_type(*{array.dtype for array in arrays})
    if missing.any() and dtype.kind in "iuf":
        dtype = np.result_type(dtype, float)
    if not all(_is_exact(array, dtype) for array in arrays):
        dtype = np.dtype(object)
    values = np.stack([array.astype(dtype) for array in arrays])
    if not missing.any():
        return values
    fill = MISSING.get(dtype.kind)
    array = np.empty((missing.size, *values.shape[1:]), dtype=object if fill is None else dtype)
    array[...] = fill
    array[~missing] = values
    return array


def _is_exact(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether integers are the same numbers as floats of a type."""
    if array.dtype.kind not in "iu" or dtype.kind not in "fc":
        return True
    return bool((array.astype(dtype).astype(object) == array.astype(object)).all())


# -- labels ---------------------------------------------------------------------------------------


def _imported(name: str) -> Any:
    if find_spec(name) is None:
        raise ParameterError(
            f"expected {name} to be installed, found it missing; install {name}, or use array()"
        )
    return import_module(name)


def _labels(values: Any) -> list | np.ndarray | None:
    """Return the values of an axis if they can stand on it."""
    values = list(values)
    if not all(isinstance(value, (bool, int, float, str)) for value in values):
        return None
    alike = _alike([np.asarray(value) for value in values])
    return values if alike else np.array(values, dtype=object)


def _further(count: int, taken: Collection[str]) -> list[str]:
    """Return names for the dimensions of array values."""
    return [_free(f"dim_{k}", taken) for k in range(count)]


def _apart(variables: dict[str, tuple[list[str], np.ndarray]]) -> dict:
    """Give the further dimensions of each variable names of their own where sizes differ."""
    sizes: dict[str, int] = {}
    renamed = {}
    for name, (dims, array) in variables.items():
        own = [
            dim if sizes.setdefault(dim, size) == size else f"{name}_{dim}"
            for dim, size in zip(dims, array.shape, strict=True)
        ]
        renamed[name] = (own, array)
    return renamed


def _point_columns(points: tuple) -> dict[str, Any]:
    first = points[0]
    if isinstance(first, dict):
        return {name: [point[name] for point in points] for name in first}
    if isinstance(first, tuple):
        return {f"point_{k}": [point[k] for point in points] for k in range(len(first))}
    return {"point": list(points)}


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: a field may be called as a parameter is."""
    while name in taken:
        name += "_"
    return name
