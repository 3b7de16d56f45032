"""File formats: the named values that a .npz, .mat or .json holds, as they were written.

    read_entries: bytes -> [Entry(name, value)],    Format.write: {name: value} -> bytes

What the names mean is not known here. Only values that are asked for are read in full. Nothing is
unpickled, and a value that no reader should take for an array (a logical array, a cell, a nested
object) becomes an entry with a refusal, to be raised if its name turns out to matter.

A .mat of version 4 to 7 is read by `matfile` and written by SciPy; version 7.3 is HDF5 and refused.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.io

from gausscontrol.errors import GausscontrolError, ParameterError
from gausscontrol.model.matfile import Variable, read_variables

__all__ = ["FORMATS", "Entry", "Format", "listed", "read_entries"]


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
    except Exception as error:
        # Readers fail on damaged files with whatever the damage leads to. Only what the operating
        # system says is not about the content; EINVAL is a jump to a place that cannot be.
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
    stream.seek(0)
    return [_mat_entry(variable) for variable in read_variables(stream, wanted)]


def _mat_entry(variable: Variable) -> Entry:
    name, kind = variable.name, variable.kind
    if variable.is_decodable:
        return Entry(name, variable.value)
    found = "complex numbers" if kind == "complex" else f"a variable of MATLAB class {kind}"
    advice = CLASS_ADVICE.get(kind, "store a plain numeric array").format(name=name)
    return Entry(name, refusal=found, advice=advice)


def _write_mat(stream: BinaryIO, values: dict[str, Any]) -> None:
    scipy.io.savemat(stream, values)
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
