"""File formats: the named values that a .npz, .mat or .json holds, as they were written.

    read_entries: bytes -> [Entry(name, value)],    Format.write: {name: value} -> bytes

One name may stand for a series, that is, for a sequence of records with named values of their own:

    .json   "series": [{"name": value, ...}, ...]       .npz   series/0/name, series/1/name, ...
    .mat    series(1).name = value (struct array) or series{1}.name = value (cell array of structs)

What the names mean is not known here. Only values that are asked for are read in full. Nothing is
unpickled, and a value that no reader should take for an array (a logical array, a cell, a nested
object) becomes an entry with a refusal, to be raised if its name turns out to matter.

The .mat files are those of `matfile`. `read_entries` alone knows what damage looks like.
"""

from __future__ import annotations

import errno
import json
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from scipy.io.matlab import MatReadError

from gausscontrol.errors import GausscontrolError, ParameterError
from gausscontrol.model.entries import Entry, Record, listed
from gausscontrol.model.matfile import read_mat, write_mat

__all__ = ["FORMATS", "Format", "read_entries"]

# What the readers raise on damaged files: SciPy stumbles over its own lookups, names and divisions;
# RuntimeError stands for a zip archive with a password and for JSON nested too deep.
DAMAGE = (ValueError, TypeError, LookupError, NameError, ArithmeticError, SyntaxError)
DAMAGE += (EOFError, OSError, RuntimeError, MemoryError)
DAMAGE += (MatReadError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError)


# How a zip archive, which may be empty, and a bare array begin.
ZIP, NPY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"


class _Unlike(ParameterError):
    """The file is no file of this format that holds named values."""


@dataclass(frozen=True)
class Format:
    """How files of one suffix are read and written.

    Parameters
    ----------
    label : str
        What such a file is called in a message.
    read : callable
        (stream, names asked for, name of the series) -> list of `Entry`.
    write : callable
        (stream, {name: array, float, str or, for a series, list of such dicts}).
    again : str
        How to obtain a sound file of this format.
    matlab : bool, optional
        MATLAB's habits: heads on the last axis, no vectors, other variables beside the model.
    """

    label: str
    read: Callable[[BinaryIO, Collection[str], str], list[Entry]]
    write: Callable[[BinaryIO, dict[str, Any]], None]
    again: str
    matlab: bool = False


def read_entries(
    stream: BinaryIO, form: Format, wanted: Collection[str], series: str
) -> list[Entry]:
    """Return what a file holds.

    Parameters
    ----------
    stream : binary file
        Open and at its start.
    form : Format
        One of `FORMATS`.
    wanted : collection of str
        The names whose values are needed, in the file and in each record.
    series : str
        The wanted name whose value is a sequence of records.

    Returns
    -------
    list of Entry
        In the order of the file; a name may occur twice.

    Raises
    ------
    ParameterError
        If the file is empty, damaged, of another format, pickled or a v7.3 .mat.
    OSError
        If the system fails to read it.
    """
    if not stream.read(1):
        raise ParameterError(f"expected {form.label}, found an empty file; {form.again}")
    stream.seek(0)
    try:
        return form.read(stream, wanted, series)
    except _Unlike as error:
        raise ParameterError(f"{error}; {form.again}") from None
    except GausscontrolError:
        raise
    except DAMAGE as error:
        # What the operating system says is not about the content, except that EINVAL is a jump to
        # a place that cannot be.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ParameterError(
            f"expected {form.label}, found damage or another format ({cause}); {form.again}"
        ) from error


# -- .npz ------------------------------------------------------------------------------------------


def _read_npz(stream: BinaryIO, wanted: Collection[str], series: str) -> list[Entry]:
    archive = _open_npz(stream)
    entries: list[Entry] = []
    records: dict[int, list[Entry]] = {}
    pattern = re.compile(re.escape(series) + "/(0|[1-9][0-9]*)/(.+)", re.DOTALL)
    with archive:
        for path in archive.files:
            match = pattern.fullmatch(path)
            name = match[2] if match else path
            entry = _npz_entry(archive, path, name) if name in wanted else Entry(name)
            (records.setdefault(int(match[1]), []) if match else entries).append(entry)
    if not records:
        return [_npz_no_series(entry) if entry.name == series else entry for entry in entries]
    return [*entries, _npz_series(series, records)]


def _open_npz(stream: BinaryIO) -> np.lib.npyio.NpzFile:
    # NumPy takes whatever does not begin as one of its files for a pickle, and advises to trust it.
    start = stream.read(len(NPY))
    stream.seek(0)
    expected = "expected a NumPy .npz archive, found"
    if start == NPY:
        raise _Unlike(f"{expected} one bare array")
    if not start.startswith(ZIP):
        raise _Unlike(f"{expected} damage or another format (it does not begin as an archive)")
    try:
        return np.load(stream, allow_pickle=False)
    except zipfile.BadZipFile as error:
        raise _Unlike(
            f"{expected} damage (it begins as an archive, and its end is lost)"
        ) from error


def _npz_no_series(entry: Entry) -> Entry:
    advice = f"name the arrays {entry.name}/0/..., {entry.name}/1/... and so on"
    return Entry(entry.name, refusal="one array", advice=advice)


def _npz_series(series: str, records: dict[int, list[Entry]]) -> Entry:
    numbers = sorted(records)
    if numbers[-1] != len(numbers) - 1:
        found = "only numbers " + listed(map(str, numbers))
        return Entry(series, refusal=found, advice="number from 0 without gaps", records=())
    return Entry(series, records=tuple(Record(f"{series}/{i}", records[i]) for i in numbers))


def _npz_entry(archive: np.lib.npyio.NpzFile, path: str, name: str) -> Entry:
    try:
        return Entry(name, archive[path])
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        advice = "files are never unpickled, store an array of numbers"
        return Entry(name, refusal="an object array (pickled)", advice=advice)


def _write_npz(stream: BinaryIO, values: dict[str, Any]) -> None:
    arrays = {}
    for name, value in values.items():
        if isinstance(value, list):
            for i, record in enumerate(value):
                arrays |= {f"{name}/{i}/{key}": part for key, part in record.items()}
        else:
            arrays[name] = value
    np.savez(stream, **arrays)


# -- .json -----------------------------------------------------------------------------------------


def _read_json(stream: BinaryIO, wanted: Collection[str], series: str) -> list[Entry]:
    # Objects become tuples of pairs, so that a repeated key is seen and none passes for an array.
    pairs = json.load(stream, object_pairs_hook=tuple, parse_int=float)
    if not isinstance(pairs, tuple):
        raise _Unlike(f"expected a JSON object with named values, found {_json_kind(type(pairs))}")
    return [
        _json_series(name, value, wanted) if name == series else _json_entry(name, value, wanted)
        for name, value in pairs
    ]


def _json_series(name: str, value: Any, wanted: Collection[str]) -> Entry:
    kinds = {type(item) for item in value} if isinstance(value, list) else {type(value)}
    if not isinstance(value, list) or kinds - {tuple}:
        found = listed(sorted(map(_json_kind, kinds)))
        return Entry(name, refusal=found, advice="write a list of objects, [{...}, {...}]")
    records = (
        Record(f"{name}[{i}]", [_json_entry(key, part, wanted) for key, part in pairs])
        for i, pairs in enumerate(value)
    )
    return Entry(name, records=tuple(records))


def _json_entry(name: str, value: Any, wanted: Collection[str]) -> Entry:
    if value is None or name not in wanted:
        return Entry(name)
    # NumPy would take true for 1, null for NaN and an object for a list.
    strange = _leaf_types(value) - {float, str}
    if strange:
        found = listed(sorted(map(_json_kind, strange)))
        return Entry(name, refusal=found, advice="store nested lists of numbers")
    return Entry(name, value)


def _leaf_types(value: Any) -> set[type]:
    if not isinstance(value, list):
        return {type(value)}
    types = set(map(type, value))
    if list in types:
        types.discard(list)
        types.update(*(_leaf_types(item) for item in value if isinstance(item, list)))
    return types


def _json_kind(kind: type) -> str:
    names = {tuple: "an object", list: "a list", bool: "true or false", float: "a number"}
    return names.get(kind, "text" if kind is str else "null")


def _write_json(stream: BinaryIO, values: dict[str, Any]) -> None:
    stream.write((_json_text(values, "") + "\n").encode())


def _json_text(value: Any, indent: str) -> str:
    """Return objects over several lines and anything else on one."""
    inner = indent + "  "
    if isinstance(value, dict):
        lines = (f'{inner}"{key}": {_json_text(part, inner)}' for key, part in value.items())
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list):
        lines = (inner + _json_text(record, inner) for record in value)
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    plain = value.tolist() if isinstance(value, np.ndarray) else value
    return json.dumps(plain, allow_nan=False, ensure_ascii=False)


FORMATS = {
    ".npz": Format(
        "a NumPy .npz archive",
        _read_npz,
        _write_npz,
        "write it with save_model, or with numpy.savez(file, A=A, ...)",
    ),
    ".mat": Format(
        "a MATLAB .mat file",
        read_mat,
        write_mat,
        "write it with save_model, or in MATLAB or Octave with save(..., '-v7')",
        matlab=True,
    ),
    ".json": Format(
        "a JSON file",
        _read_json,
        _write_json,
        'write it with save_model, or write {"A": ..., "B": ..., "V": ...}',
    ),
}
