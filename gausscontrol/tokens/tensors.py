"""Named arrays from files of weights, read with NumPy alone.

    .npz          NumPy's archive; nothing is ever unpickled
    .safetensors  an 8-byte length, a JSON header and the raw buffers; bfloat16 becomes float32
    .onnx         the constants of an exported graph, named as its layers are

A file of weights beside a config.json is read with it. What a file contains raises ParameterError;
what the file system refuses stays the OSError that it is.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError
from gausscontrol.tokens.onnxfile import onnx_tensors

__all__ = ["read_config", "read_tensors"]

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "<i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?",
}  # fmt: skip


def read_tensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Read the named arrays of a file of weights.

    Parameters
    ----------
    path : str or path-like
        A .npz, .safetensors or .onnx file.

    Returns
    -------
    dict of ndarray
        In the precision of the file, bfloat16 as float32; those of .safetensors and .onnx files
        are read-only views of the file. In an .onnx file only plain float32, float64 and float16
        constants are read, and a matrix that the exporter left without a name gets that of the
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
    path = Path(path)
    readers = {".npz": _npz, ".safetensors": _safetensors, ".onnx": _onnx}
    if path.suffix not in readers:
        raise ParameterError(
            f"path: expected a name ending in {', '.join(readers)}, found {path.name!r}; "
            "pass other weights as a dict of arrays"
        )
    return readers[path.suffix](path)


def read_config(path: str | os.PathLike) -> dict[str, Any]:
    """Read the config.json beside a file of weights.

    Parameters
    ----------
    path : str or path-like
        The file of weights.

    Returns
    -------
    dict
        Empty if there is no config.json.

    Raises
    ------
    ParameterError
        If it is not a JSON object.
    """
    beside = Path(path).with_name("config.json")
    if not beside.is_file():
        return {}
    return parse_config(beside.read_text("utf-8"), str(beside))


def parse_config(text: str, where: str) -> dict[str, Any]:
    """Return the JSON object in a text.

    Parameters
    ----------
    text : str
    where : str
        What to call it in a message.

    Returns
    -------
    dict

    Raises
    ------
    ParameterError
        If it is not a JSON object.
    """
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ParameterError(f"{where}: expected a JSON object, found {error}") from error
    if not isinstance(config, dict):
        raise ParameterError(f"{where}: expected a JSON object, found {type(config).__name__}")
    return config


def _npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, AttributeError, EOFError) as error:
        raise _unreadable(path, "a .npz archive of plain arrays", error) from error


def _onnx(path: Path) -> dict[str, np.ndarray]:
    try:
        return onnx_tensors(_mapped(path))
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise _unreadable(path, "an ONNX graph", error) from error


def _safetensors(path: Path) -> dict[str, np.ndarray]:
    data = _mapped(path)
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    if not 8 <= start <= data.size:
        raise _unreadable(path, "a safetensors header", f"a length of {start - 8} bytes")
    header = parse_config(data[8:start].tobytes().decode("utf-8", "replace"), str(path))
    buffer = data[start:]
    return {
        name: _tensor(buffer, entry, f"{path}: {name}")
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _tensor(buffer: np.ndarray, entry: Any, where: str) -> np.ndarray:
    try:
        kind, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise ParameterError(
            f"{where}: expected dtype, shape and data_offsets, found {entry!r}"
        ) from error
    if kind not in DTYPES:
        raise ParameterError(
            f"{where}: expected one of {', '.join(DTYPES)}, found {kind}; store it as F32 first"
        )
    dtype = np.dtype(DTYPES[kind])
    wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not (0 <= first <= last <= buffer.size and last - first == wanted):
        raise ParameterError(
            f"{where}: expected {wanted} bytes within {buffer.size}, found offsets {first} to "
            f"{last}; the file is cut short or damaged"
        )
    array = np.frombuffer(buffer, dtype, wanted // dtype.itemsize, first).reshape(shape)
    if kind == "BF16":
        # The upper half of a float32.
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array


def _mapped(path: Path) -> np.ndarray:
    if path.stat().st_size < 8:
        raise _unreadable(path, "a file of weights", f"{path.stat().st_size} bytes")
    return np.memmap(path, np.uint8, mode="r")


def _unreadable(path: Path, expected: str, found: Any) -> ParameterError:
    return ParameterError(f"{path}: expected {expected}, found {found}; fetch the file again")
