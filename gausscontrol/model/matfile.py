"""MATLAB files: the variables of a .mat of version 4 to 7, read and written by SciPy.

    series(1).name = value (a struct array)  or  series{1}.name = value (a cell array of structs)

is a series, whose records are named as MATLAB counts, from 1. A field that is [] is not there: this
is what a struct array has where it was not set. Version 7.3 is HDF5 and refused.

Damage is diagnosed as far as SciPy survives it: SciPy 1.17 ends the process on some damaged files.
Nor does SciPy say whether a sparse matrix inside a struct is logical: there it counts as numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.io
import scipy.sparse
from scipy.io.matlab import (
    MatlabFunction,
    MatlabObject,
    MatlabOpaque,
    MatReadWarning,
    varmats_from_mat,
)

from gausscontrol.errors import ParameterError
from gausscontrol.model.entries import Entry, Record

__all__ = ["read_mat", "write_mat"]

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
MAT_HEADER_BYTES = 512  # What MATLAB puts before the HDF5 content of a v7.3 file.
MAT_TEXT_BYTES = 116  # The free text at the start of a v5 file.

# Classes that can be numbers or text; the others are refused by name.
MAT_CLASSES = {"char", "sparse", "double", "single", "int8", "uint8", "int16", "uint16"}
MAT_CLASSES |= {"int32", "uint32", "int64", "uint64"}
MAT_INNER_WORKINGS = "__function_workspace__"  # Of objects: MATLAB stores them under no name.

CLASS_ADVICE = {
    "logical": "store double({name})",
    "complex": "store real({name}) if the imaginary part is rounding",
    "cell": "for heads in a cell, store cat(3, {name}{{:}})",
    "struct": "store its fields with save(file, '-struct', '{name}')",
    "string": "store char({name})",
    "nested": "store a plain numeric array",
}


def read_mat(stream: BinaryIO, wanted: Collection[str], series: str) -> list[Entry]:
    """Return what a .mat file holds.

    Parameters
    ----------
    stream : binary file
        Open and at its start.
    wanted : collection of str
        The names whose values are needed, among the variables and in each record.
    series : str
        The wanted variable that is a struct array or a cell array of structs.

    Returns
    -------
    list of Entry

    Raises
    ------
    ParameterError
        If the file is of version 7.3. Damage raises what SciPy raises.
    """
    head = stream.read(MAT_HEADER_BYTES + len(HDF5_SIGNATURE))
    if head.startswith(HDF5_SIGNATURE) or head[MAT_HEADER_BYTES:] == HDF5_SIGNATURE:
        name = Path(stream.name).name
        raise ParameterError(
            "expected a .mat file of version 7 or older, found version 7.3 (HDF5); in MATLAB: "
            f"m = load('{name}'); save('{name}', '-struct', 'm', '-v7')"
        )
    return _mat_entries(stream, wanted, series)


def write_mat(stream: BinaryIO, values: dict[str, Any]) -> None:
    """Write a .mat file of version 5.

    Parameters
    ----------
    stream : binary file
        Where to.
    values : dict
        Arrays, numbers or text by name; a list of such dicts becomes a struct array.
    """
    # Compressed variables carry a checksum, so that damage is seen before SciPy runs into it.
    variables = {k: _struct_array(v) if isinstance(v, list) else v for k, v in values.items()}
    scipy.io.savemat(stream, variables, do_compression=True)
    # The text tells the time of writing by default; equal models shall give equal files.
    stream.seek(0)
    stream.write(b"MATLAB 5.0 MAT-file, written by gausscontrol".ljust(MAT_TEXT_BYTES))


def _mat_entries(stream: BinaryIO, wanted: Collection[str], series: str) -> list[Entry]:
    try:
        listing = scipy.io.whosmat(stream)
    except TypeError:
        # whosmat needs the dimensions of each variable, and MATLAB's strings and tables have none.
        return _mat_entries_one_by_one(stream, wanted, series)
    values = _mat_values(stream, wanted, mat_dtype=False)
    entries = []
    for name, _, kind in listing:
        if name == series:
            typed = _mat_values(stream, [series], mat_dtype=True)
            entries.append(_mat_series(name, kind, values[name], typed[name], wanted))
        elif name != MAT_INNER_WORKINGS:
            entries.append(_mat_entry(name, kind, values.get(name) if name in wanted else None))
    return entries


def _mat_values(stream: BinaryIO, names: Collection[str], mat_dtype: bool) -> dict[str, Any]:
    # mat_dtype=True tells what is logical, but drops imaginary parts.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatReadWarning)  # Of a repeated name; the listing has it.
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        return scipy.io.loadmat(stream, variable_names=names, mat_dtype=mat_dtype, spmatrix=False)


def _mat_entries_one_by_one(stream: BinaryIO, wanted: Collection[str], series: str) -> list[Entry]:
    parts = [part for _, part in varmats_from_mat(stream)]
    if len(parts) > 1:
        return [entry for part in parts for entry in _mat_entries(part, wanted, series)]
    # An object alone: SciPy knows it as "None", and keeps its name and class inside.
    name, _, kind, _ = scipy.io.loadmat(stream)["None"].item()
    return [_mat_entry(name.decode("latin1"), kind.decode("latin1"), None)]


def _mat_entry(name: str, kind: str, value: Any) -> Entry:
    if np.iscomplexobj(value):
        kind = "complex"
    if kind in MAT_CLASSES:
        return Entry(name, _dense(value) if scipy.sparse.issparse(value) else value)
    found = "complex numbers" if kind == "complex" else f"a variable of MATLAB class {kind}"
    advice = CLASS_ADVICE.get(kind, "store a plain numeric array").format(name=name)
    return Entry(name, refusal=found, advice=advice)


def _mat_series(
    name: str, kind: str, value: np.ndarray, typed: np.ndarray, wanted: Collection[str]
) -> Entry:
    if kind not in ("struct", "cell"):
        advice = f"store a struct array, {name}(1).key = ..., {name}(2).key = ..."
        return Entry(name, refusal=f"a variable of MATLAB class {kind}", advice=advice)
    if value.size not in (0, *value.shape):
        found = f"a {' x '.join(map(str, value.shape))} {kind} array"
        return Entry(name, refusal=found, advice="make it 1 x n", records=())
    items, twins, brackets = value.ravel(), typed.ravel(), "()"
    if kind == "cell":
        if not all(_mat_class(item, item) == "struct" and item.size == 1 for item in items):
            advice = f"put one struct in each, {name}{{1}} = struct(...)"
            return Entry(name, refusal="a cell with other things than structs", advice=advice)
        items, twins = [c.ravel()[0] for c in items], [c.ravel()[0] for c in twins]
        brackets = "{}"
    records = (
        Record(f"{name}{brackets[0]}{i}{brackets[1]}", _mat_record(item, twin, wanted))
        for i, (item, twin) in enumerate(zip(items, twins, strict=True), 1)
    )
    return Entry(name, records=tuple(records))


def _mat_record(item: np.void, typed: np.void, wanted: Collection[str]) -> list[Entry]:
    entries = []
    for name in item.dtype.names or ():
        value, kind = item[name], _mat_class(item[name], typed[name])
        if kind == "double" and value.shape == (0, 0):
            continue  # [], which is what a struct array has in a field that was not set.
        entry = _mat_entry(name, kind, value if name in wanted else None)
        advice = CLASS_ADVICE["nested"] if kind == "struct" else entry.advice
        entries.append(replace(entry, advice=advice))
    return entries


def _mat_class(value: Any, typed: Any) -> str:
    """Return the MATLAB class of a value inside another, as far as it matters."""
    if isinstance(value, MatlabOpaque):
        return value.item()[2].decode("latin1")
    if isinstance(value, MatlabObject):
        return str(value.classname)
    if isinstance(value, MatlabFunction):
        return "function_handle"
    if scipy.sparse.issparse(value):
        return "sparse"
    if value.dtype.names is not None:
        return "struct"
    if typed.dtype == bool:
        return "logical"
    return {"O": "cell", "U": "char"}.get(value.dtype.kind, "double")


def _dense(matrix: scipy.sparse.sparray) -> np.ndarray:
    matrix = scipy.sparse.csc_array(matrix)
    matrix.check_format(full_check=True)  # SciPy would follow a damaged index out of the array.
    return matrix.toarray()


def _struct_array(records: list[dict[str, Any]]) -> np.ndarray:
    names = dict.fromkeys(name for record in records for name in record)
    array = np.empty((1, len(records)), dtype=[(name, object) for name in names])
    for i, record in enumerate(records):
        array[0, i] = tuple(record.get(name, np.zeros((0, 0))) for name in names)
    return array
