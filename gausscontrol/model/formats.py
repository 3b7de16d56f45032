"""File formats: the named values that a .npz, .mat or .json holds, as they were written.

    read_entries: bytes -> [Entry(name, value)],    Format.write: {name: value} -> bytes

What the names mean is not known here. Only values that are asked for are read in full. Nothing is
unpickled, and a value that no reader should take for an array (a logical array, a cell, a nested
object) becomes an entry with a refusal, to be raised if its name turns out to matter.

A .mat of version 4 to 7 is read and written by SciPy; version 7.3 is HDF5 and refused. Damage to a
.mat is diagnosed as far as SciPy survives it: SciPy 1.17 ends the process on some damaged files.
"""

from __future__ import annotations

import errno
import json
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.io
import scipy.sparse
from scipy.io.matlab import MatReadError, MatReadWarning, varmats_from_mat

from gausscontrol.errors import GausscontrolError, ParameterError

__all__ = ["FORMATS", "Entry", "Format", "listed", "read_entries"]

# What the readers raise on damaged files: SciPy stumbles over its own lookups, names and divisions;
# RuntimeError stands for a zip archive with a password and for JSON nested too deep.
DAMAGE = (ValueError, TypeError, LookupError, NameError, ArithmeticError, SyntaxError)
DAMAGE += (EOFError, OSError, RuntimeError, MemoryError)
DAMAGE += (MatReadError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError)


@dataclass(frozen=True)
class Entry:
    """One named value of a file.

    Parameters
    ----------
    name : str
        Its name in the file.
    value : optional
        The value, None if it was not asked for or is refused.
    refusal : str, optional
        What the value is, where it can be neither numbers nor text.
    advice : str, optional
        What to do about a refusal.
    """

    name: str
    value: Any = None
    refusal: str | None = None
    advice: str = "store an array of real numbers"


@dataclass(frozen=True)
class Format:
    """How files of one suffix are read and written.

    Parameters
    ----------
    label : str
        What such a file is called in a message.
    read : callable
        (stream, names asked for) -> list of `Entry`.
    write : callable
        (stream, {name: array, float or str}).
    again : str
        How to obtain a sound file of this format.
    matlab : bool, optional
        MATLAB's habits: heads on the last axis, no vectors, other variables beside the model.
    """

    label: str
    read: Callable[[BinaryIO, Collection[str]], list[Entry]]
    write: Callable[[BinaryIO, dict[str, Any]], None]
    again: str
    matlab: bool = False


def read_entries(stream: BinaryIO, form: Format, wanted: Collection[str]) -> list[Entry]:
    """Return what a file holds.

    Parameters
    ----------
    stream : binary file
        Open and at its start.
    form : Format
        One of `FORMATS`.
    wanted : collection of str
        The names whose values are needed.

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
        return form.read(stream, wanted)
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


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Return names as one short line.

    Parameters
    ----------
    names : iterable of str
        What to list.
    limit : int, optional
        How many are spelled out.

    Returns
    -------
    str
    """
    names = list(names)
    return ", ".join(names[:limit]) + (" and others" if len(names) > limit else "")


# .npz


def _read_npz(stream: BinaryIO, wanted: Collection[str]) -> list[Entry]:
    archive = np.load(stream, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ParameterError(
            "expected a NumPy .npz archive, found one bare array; use numpy.savez(file, A=A, ...)"
        )
    with archive:
        return [
            _npz_entry(archive, name) if name in wanted else Entry(name) for name in archive.files
        ]


def _npz_entry(archive: np.lib.npyio.NpzFile, name: str) -> Entry:
    try:
        return Entry(name, archive[name])
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        advice = "files are never unpickled, store an array of numbers"
        return Entry(name, refusal="an object array (pickled)", advice=advice)


def _write_npz(stream: BinaryIO, values: dict[str, Any]) -> None:
    np.savez(stream, **values)


# .json


def _read_json(stream: BinaryIO, wanted: Collection[str]) -> list[Entry]:
    # Objects become tuples of pairs, so that a repeated key is seen and none passes for an array.
    pairs = json.load(stream, object_pairs_hook=tuple, parse_int=float)
    if not isinstance(pairs, tuple):
        raise ParameterError(
            f"expected a JSON object with named values, found {_json_kind(type(pairs))}; "
            'write {"A": ..., "B": ..., "V": ...}'
        )
    return [_json_entry(name, value) if name in wanted else Entry(name) for name, value in pairs]


def _json_entry(name: str, value: Any) -> Entry:
    if value is None:
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
    plain = {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in values.items()}
    lines = (
        f'  "{key}": {json.dumps(value, allow_nan=False, ensure_ascii=False)}'
        for key, value in plain.items()
    )
    stream.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())


# .mat

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
}


def _read_mat(stream: BinaryIO, wanted: Collection[str]) -> list[Entry]:
    head = stream.read(MAT_HEADER_BYTES + len(HDF5_SIGNATURE))
    if head.startswith(HDF5_SIGNATURE) or head[MAT_HEADER_BYTES:] == HDF5_SIGNATURE:
        name = Path(stream.name).name
        raise ParameterError(
            "expected a .mat file of version 7 or older, found version 7.3 (HDF5); in MATLAB: "
            f"m = load('{name}'); save('{name}', '-struct', 'm', '-v7')"
        )
    return _mat_entries(stream, wanted)


def _mat_entries(stream: BinaryIO, wanted: Collection[str]) -> list[Entry]:
    try:
        listing = scipy.io.whosmat(stream)
    except TypeError:
        # whosmat needs the dimensions of each variable, and MATLAB's strings and tables have none.
        return _mat_entries_one_by_one(stream, wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatReadWarning)  # Of a repeated name; the listing has it.
        # mat_dtype=True would drop imaginary parts.
        values = scipy.io.loadmat(stream, variable_names=wanted, mat_dtype=False, spmatrix=False)
    return [
        _mat_entry(name, kind, values.get(name) if name in wanted else None)
        for name, _, kind in listing
        if name != MAT_INNER_WORKINGS
    ]


def _mat_entries_one_by_one(stream: BinaryIO, wanted: Collection[str]) -> list[Entry]:
    parts = [part for _, part in varmats_from_mat(stream)]
    if len(parts) > 1:
        return [entry for part in parts for entry in _mat_entries(part, wanted)]
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


def _dense(matrix: scipy.sparse.sparray) -> np.ndarray:
    matrix = scipy.sparse.csc_array(matrix)
    matrix.check_format(full_check=True)  # SciPy would follow a damaged index out of the array.
    return matrix.toarray()


def _write_mat(stream: BinaryIO, values: dict[str, Any]) -> None:
    # Compressed variables carry a checksum, so that damage is seen before SciPy runs into it.
    scipy.io.savemat(stream, values, do_compression=True)
    # The text tells the time of writing by default; equal models shall give equal files.
    stream.seek(0)
    stream.write(b"MATLAB 5.0 MAT-file, written by gausscontrol".ljust(MAT_TEXT_BYTES))


FORMATS = {
    ".npz": Format(
        "a NumPy .npz archive", _read_npz, _write_npz, "write it with save_model or numpy.savez"
    ),
    ".mat": Format(
        "a MATLAB .mat file",
        _read_mat,
        _write_mat,
        "write it with save_model, or in MATLAB or Octave with save(..., '-v7')",
        matlab=True,
    ),
    ".json": Format("a JSON file", _read_json, _write_json, "write it with save_model"),
}
