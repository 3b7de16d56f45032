"""Named arrays from files of weights, read with NumPy alone.

    .npz          NumPy's archive; nothing is ever unpickled
    .safetensors  an 8-byte length, a JSON header and the raw buffers; bfloat16 becomes float32
    .onnx         the constants of an exported graph, named as its layers are

A file of weights beside a config.json is read with it, and a folder with one such file stands for
it. What a file contains raises ParameterError; what the file system refuses stays the OSError that
it is. A file that says one thing twice, or leaves bytes unaccounted for, is refused.
"""

from __future__ import annotations

import json
import os
import tokenize
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError
from gausscontrol.tokens.onnxfile import onnx_tensors

__all__ = ["parse_config", "read_config", "read_tensors"]

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "<i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?",
}  # fmt: skip


def read_tensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Read the named arrays of a file of weights.

    Parameters
    ----------
    path : str or path-like
        A .npz, .safetensors or .onnx file, or a folder that holds one.

    Returns
    -------
    dict of ndarray
        In the precision of the file, bfloat16 as float32; those of .safetensors and .onnx files
        are read-only views of the file. Of an .onnx file only floating-point constants that lie
        in it are read, and a matrix that the exporter left without a name gets that of the
        layer that multiplies by it, transposed back to (out, in).

    Raises
    ------
    ParameterError
        If the file is not of the format its name says.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/weights.npz", W=np.eye(2))
    ...     print(gct.tokens.read_tensors(f"{folder}/weights.npz")["W"].tolist())
    [[1.0, 0.0], [0.0, 1.0]]
    """
    path = _weights_file(path)
    return READERS[path.suffix](path)


def _weights_file(path: str | os.PathLike) -> Path:
    path = Path(path)
    if path.is_dir():
        found = sorted(each.name for each in path.iterdir() if each.suffix in READERS)
        if len(found) != 1:
            raise ParameterError(
                f"path: expected one file of weights in {path}, found "
                f"{', '.join(found) or 'none'}; pass the file itself"
            )
        path = path / found[0]
    if path.suffix not in READERS:
        cure = "pass other weights as a dict of arrays"
        if path.suffix in (".pt", ".pth", ".bin", ".ckpt"):
            cure = (
                "pass a dict of arrays, with PyTorch {name: tensor.float().numpy() for name, "
                "tensor in torch.load(path, weights_only=True).items()}"
            )
        raise ParameterError(
            f"path: expected a name ending in {', '.join(READERS)}, found {path.name!r}; {cure}"
        )
    return path


def read_config(path: str | os.PathLike) -> dict[str, Any]:
    """Read the config.json beside a file of weights.

    Parameters
    ----------
    path : str or path-like
        The file of weights, or its folder.

    Returns
    -------
    dict
        Empty if there is no config.json.

    Raises
    ------
    ParameterError
        If it is not a JSON object.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    beside = folder / "config.json"
    if not beside.is_file():
        return {}
    return parse_config(beside.read_bytes(), str(beside))


def parse_config(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the JSON object in a text.

    Parameters
    ----------
    text : str or bytes
        Bytes are UTF-8.
    where : str
        What to call it in a message.

    Returns
    -------
    dict

    Raises
    ------
    ParameterError
        If it is not a JSON object, or says one thing twice.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        config = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{where}: expected a JSON object, found {error}") from error
    if not isinstance(config, dict):
        raise ParameterError(f"{where}: expected a JSON object, found {type(config).__name__}")
    return config


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise ValueError(f"{name!r} twice")
        out[name] = value
    return out


# -- .npz and .onnx -------------------------------------------------------------------------------

# What NumPy and zipfile raise on bytes that are no archive of arrays.
DAMAGED = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    OverflowError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def _npz(path: Path) -> dict[str, np.ndarray]:
    with path.open("rb") as stream:
        if stream.read(2) != b"PK":  # NumPy would take it for an array or a pickle.
            found = "damage or another format (it does not begin as an archive)"
            raise _unreadable(path, "a .npz archive of plain arrays", found)
    try:
        with np.load(path, allow_pickle=False) as archive:
            members = archive.zip.namelist()
            if len(set(members)) < len(members) or not all(n.endswith(".npy") for n in members):
                raise ValueError("members that are no arrays, or one name twice")
            arrays = {name: archive[name] for name in archive.files}
    except DAMAGED as error:
        if "allow_pickle" in str(error):
            raise ParameterError(
                f"{path}: expected a .npz archive of plain arrays, found Python objects in it; "
                "save each array on its own, as in np.savez(path, **arrays)"
            ) from error
        raise _unreadable(path, "a .npz archive of plain arrays", error) from error
    for name, array in arrays.items():
        if array.dtype.kind == "V":
            raise ParameterError(
                f"{path}: {name}: expected numbers, found raw bytes ({array.dtype}), as bfloat16 "
                "is saved; convert it to float32 before saving"
            )
    return arrays


def _onnx(path: Path) -> dict[str, np.ndarray]:
    data = _mapped(path)
    try:
        return onnx_tensors(data)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise _unreadable(path, "an ONNX graph", error) from error


# -- .safetensors ---------------------------------------------------------------------------------


def _safetensors(path: Path) -> dict[str, np.ndarray]:
    data = _mapped(path)
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    if not 8 <= start <= data.size:
        raise _unreadable(path, "a safetensors header", f"a length of {start - 8} bytes")
    header = parse_config(data[8:start].tobytes(), str(path))
    buffer = data[start:]
    header.pop("__metadata__", None)
    entries = {name: _entry(value, f"{path}: {name}") for name, value in header.items()}
    end = 0
    for name, (_, _, first, last) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if first != end or last > buffer.size:
            raise _misplaced(f"{path}: {name}", last - first, buffer.size, first, last)
        end = last
    if end != buffer.size:
        raise _unreadable(path, f"{end} bytes of arrays", f"{buffer.size}")
    return {name: _tensor(buffer, *entry) for name, entry in entries.items()}


def _entry(value: Any, where: str) -> tuple[str, tuple[int, ...], int, int]:
    """Return dtype, shape and offsets of one array."""
    try:
        kind, shape, (first, last) = value["dtype"], value["shape"], value["data_offsets"]
        valid = isinstance(shape, list) and all(map(_natural, [*shape, first, last]))
    except (KeyError, TypeError, ValueError):
        valid = False
    if not valid:
        raise ParameterError(
            f"{where}: expected dtype, shape and data_offsets, found {value!r}; fetch the file "
            "again"
        )
    if not isinstance(kind, str) or kind not in DTYPES:
        raise ParameterError(
            f"{where}: expected one of {', '.join(DTYPES)}, found {kind!r}; store it as F32 first"
        )
    wanted = prod(shape) * np.dtype(DTYPES[kind]).itemsize
    if last - first != wanted:
        raise _misplaced(where, wanted, None, first, last)
    return kind, tuple(shape), first, last


def _natural(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _misplaced(where: str, wanted: int, size: int | None, first: int, last: int) -> ParameterError:
    within = "" if size is None else f" within {size}, each in the place after the one before"
    return ParameterError(
        f"{where}: expected {wanted} bytes{within}, found offsets {first} to {last}; the file is "
        "cut short or damaged"
    )


def _tensor(buffer: np.ndarray, kind: str, shape, first: int, last: int) -> np.ndarray:
    dtype = np.dtype(DTYPES[kind])
    array = np.frombuffer(buffer, dtype, (last - first) // dtype.itemsize, first).reshape(shape)
    if kind == "BF16":
        # The upper half of a float32.
        array = np.left_shift(array, 16, dtype=np.uint32, out=np.empty(shape, np.uint32))
        array = array.view(np.float32)
    return array


# -- files ----------------------------------------------------------------------------------------


def _mapped(path: Path) -> np.ndarray:
    if path.stat().st_size < 8:
        raise _unreadable(path, "a file of weights", f"{path.stat().st_size} bytes")
    return np.memmap(path, np.uint8, mode="r")


def _unreadable(path: Path, expected: str, found: Any) -> ParameterError:
    return ParameterError(f"{path}: expected {expected}, found {found}; fetch the file again")


READERS = {".npz": _npz, ".safetensors": _safetensors, ".onnx": _onnx}
