"""Model files: the parameters (A, B, V, b, k, dt, name) of system (1) in .npz, .mat and .json.

One table, `DENSE`, says which keys a file has and how each is laid out; the formats themselves are
in `formats`. Values are exact to the last bit in all three.

Layout. In .npz and .json arrays are those of `GaussianTransformer`: heads on the first axis, B and
V (h, d, d) or (d, d), k (h, d). In .mat they follow MATLAB: heads on the last axis, B and V
d x d x h (d x d for one head; a row or column of h numbers for d = 1), k d x h with one column a
head, b a row or a column, dt 1 x 1, name a row of characters. Integers, single precision and sparse
matrices become float arrays; logical, complex, cell, struct and object variables are refused.

Names. A, B, V must be there; b, k, dt, name may be left out. Names are case-sensitive. A .npz or
.json holds a model and nothing else, so an unknown key is an error. A .mat is often a whole
workspace, so other variables are ignored; one whose name differs only by case from a key that is
absent is pointed at, in the error if the key is required and by a warning if it is optional.

Errors. What a file contains raises ParameterError or ShapeError, both GausscontrolError; what the
file system refuses (no such file, a directory, no permission) stays the OSError that it is. The
pair (GausscontrolError, OSError) therefore covers every failure. Nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, real_matrix
from gausscontrol.model.formats import FORMATS, Entry, Format, listed, read_entries
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["load_model", "save_model"]


def load_model(path: str | os.PathLike[str]) -> GaussianTransformer:
    """Read a model from a .npz, .mat or .json file.

    Keys A, B, V, and optionally b, k, dt, name, are the arguments of `GaussianTransformer`.

    Parameters
    ----------
    path : str or path-like
        The suffix says the format. In .mat (v4 to v7) heads lie on the last axis, B and V
        d x d x h and k d x h, elsewhere on the first.

    Returns
    -------
    GaussianTransformer

    Raises
    ------
    ParameterError
        If the suffix is none of the three, the file is damaged, empty, pickled or a v7.3 .mat, a
        key is missing or unknown, or a value is not what `GaussianTransformer` takes.
    ShapeError
        If the shapes do not agree.
    OSError
        If there is no such file, it is a directory, or the system refuses to read it.

    Warns
    -----
    UserWarning
        If an optional key is absent from a .mat that holds the same name in other case.

    Notes
    -----
    An unknown key in .npz or .json is an error; other variables of a .mat are ignored. Files are
    never unpickled. SciPy reads .mat files, so damage to one is diagnosed as far as SciPy survives
    it.

    Examples
    --------
    >>> import tempfile
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer([[0, 1], [-1, 0]], [[1, 0], [0, 1]], [[-1, 0], [0, -1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gct.save_model(f"{folder}/layer.mat", model)
    ...     gct.load_model(f"{folder}/layer.mat") == model
    True
    """
    path = Path(path)
    form = _format_of(path)
    _refuse_directory(path)
    if not path.exists():
        raise FileNotFoundError(
            errno.ENOENT, "expected a model file, found nothing there; check the path", str(path)
        )
    try:
        with path.open("rb") as stream:
            entries = read_entries(stream, form, DENSE)
        model = _model_from(entries, form)
    except (ParameterError, ShapeError) as error:
        raise type(error)(f"{path}: {error}") from error
    for key, twins in _optional_twins([entry.name for entry in entries]):
        warnings.warn(
            f"{path}: {key}: expected {key} for a value other than the default, found only "
            f"{listed(twins)}, which is ignored; rename it if it is meant, or store {key} too",
            UserWarning,
            stacklevel=2,
        )
    return model


def save_model(
    path: str | os.PathLike[str], model: GaussianTransformer, *, overwrite: bool = True
) -> None:
    """Write a model to a .npz, .mat or .json file.

    The file appears complete or not at all, and `load_model` gives back an equal model.

    Parameters
    ----------
    path : str or path-like
        The suffix says the format; the folder must exist.
    model : GaussianTransformer
        The model to write.
    overwrite : bool, optional
        Whether an existing file is replaced. Default: True.

    Raises
    ------
    ParameterError
        If the suffix is none of the three, `model` is not a model, or its name holds characters
        that files cannot keep.
    OSError
        If the folder does not exist, the path is a directory, the file exists and is not to be
        replaced, or the system refuses to write it.

    Notes
    -----
    All keys are written, name only if there is one. Equal models give equal bytes.

    Examples
    --------
    >>> import tempfile
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(1, 1, -1, name="scalar")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gct.save_model(f"{folder}/scalar.json", model)
    ...     gct.load_model(f"{folder}/scalar.json").name
    'scalar'
    """
    if not isinstance(model, GaussianTransformer):
        raise ParameterError(
            f"model: expected a GaussianTransformer, found {type(model).__name__}; "
            "call save_model(path, model)"
        )
    path = Path(path)
    form = _format_of(path)
    if model.name is not None:
        _check_storable(model.name)
    values = {key: getattr(model, key) for key in DENSE}
    if form.matlab:
        values = {key: DENSE[key].to_matlab(value) for key, value in values.items()}
    content = io.BytesIO()
    form.write(content, {key: value for key, value in values.items() if value is not None})
    _write_atomically(path, content.getvalue(), overwrite)


# Keys: how a value is decoded, given its key and the values decoded before it.

Decoder = Callable[[Any, str, dict[str, Any]], Any]


def _matrix(value: Any, key: str, _done: dict[str, Any]) -> np.ndarray:
    return real_matrix(value, key)


def _array(value: Any, key: str, _done: dict[str, Any]) -> np.ndarray | None:
    # None is JSON's null, "not given", which only an optional argument may be.
    return None if value is None and key not in REQUIRED else real_array(value, key)


def _number(value: Any, key: str, _done: dict[str, Any]) -> float:
    array = real_array(value, key)
    if array.size != 1:
        raise ShapeError(f"{key}: expected one number, found shape {array.shape}; store a scalar")
    return float(array.reshape(()))


def _text(value: Any, key: str, _done: dict[str, Any]) -> str | None:
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind != "U" or array.size > 1:
        raise _fault(
            key,
            "one row of text",
            f"an array of shape {array.shape} and type {array.dtype}",
            "store a single string, or leave it out",
        )
    return "".join(array.ravel().tolist())


def _heads_from_pages(value: Any, key: str, done: dict[str, Any]) -> np.ndarray:
    array, dim = real_array(value, key), len(done["A"])
    shape = array.shape
    if dim == 1 and array.ndim == 2 and 1 in shape:
        array = array.reshape(1, 1, -1)
    elif array.ndim == 2:
        array = array[:, :, None]  # MATLAB drops trailing axes of length one.
    if array.ndim != 3 or array.shape[:2] != (dim, dim) or array.size == 0:
        raise ShapeError(
            f"{key}: expected {dim} x {dim} or {dim} x {dim} x h to agree with A, found "
            f"{_size(shape)}; put heads on the last axis in .mat files"
        )
    return np.moveaxis(array, -1, 0)


def _pages_from_heads(value: np.ndarray) -> np.ndarray:
    return value[0] if len(value) == 1 else np.moveaxis(value, 0, -1)


def _tilts_from_columns(value: Any, key: str, done: dict[str, Any]) -> np.ndarray:
    array, wanted = real_array(value, key), (len(done["A"]), len(done["B"]))
    shape = array.shape
    if 1 in wanted and shape == wanted[::-1]:
        array = array.reshape(wanted)  # A vector, whose orientation carries no information.
    if array.shape != wanted:
        raise ShapeError(
            f"{key}: expected {_size(wanted)}, one column a head, found {_size(shape)}; "
            "put heads on the last axis in .mat files"
        )
    return array.T


@dataclass(frozen=True)
class Key:
    """How one parameter is laid out: decoders, and the way to MATLAB's layout.

    Parameters
    ----------
    decode, decode_matlab : callable
        (value, key, values decoded before) -> argument of `GaussianTransformer`.
    to_matlab : callable, optional
        attribute of `GaussianTransformer` -> value in a .mat file.
    """

    decode: Decoder
    decode_matlab: Decoder
    to_matlab: Callable[[Any], Any] = lambda value: value


# In decoding order, since the layout of a later key depends on the sizes of the earlier ones.
DENSE = {
    "A": Key(_matrix, _matrix),
    "B": Key(_array, _heads_from_pages, _pages_from_heads),
    "V": Key(_array, _heads_from_pages, _pages_from_heads),
    "b": Key(_array, _array, lambda b: b[:, None]),
    "k": Key(_array, _tilts_from_columns, np.transpose),
    "dt": Key(_number, _number),
    "name": Key(_text, _text),
}
REQUIRED = ("A", "B", "V")
WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")


def _model_from(entries: list[Entry], form: Format) -> GaussianTransformer:
    names = [entry.name for entry in entries]
    for key in DENSE:
        if names.count(key) > 1:
            raise _fault(key, "one value", f"{names.count(key)} of this name", "keep one of them")
    missing = [key for key in REQUIRED if key not in names]
    if missing:
        raise _missing(missing, entries)
    unknown = [name for name in names if name not in DENSE]
    if unknown and not form.matlab:
        raise _fault("keys", f"only {listed(DENSE)}", listed(unknown), "rename or remove these")
    by_name = {entry.name: entry for entry in entries}
    done: dict[str, Any] = {}
    for key in DENSE:
        if key in by_name:
            done[key] = _decoded(by_name[key], form, done)
    return GaussianTransformer(**done)


def _decoded(entry: Entry, form: Format, done: dict[str, Any]) -> Any:
    rule = DENSE[entry.name]
    if entry.refusal:
        expected = "text" if rule.decode is _text else "real numbers"
        raise _fault(entry.name, expected, entry.refusal, entry.advice)
    decode = rule.decode_matlab if form.matlab else rule.decode
    return decode(entry.value, entry.name, done)


def _missing(missing: list[str], entries: list[Entry]) -> ParameterError:
    names = [entry.name for entry in entries]
    twins = [twin for key in missing for twin in _twins(key, names) if twin not in DENSE]
    structs = [entry for entry in entries if entry.refusal and entry.refusal.endswith("struct")]
    if any(name in WEIGHTS for name in names):
        advice = "multiply weights out: V = W_O W_V and B = W_K^T W_Q / sqrt(dk) for each head"
    elif twins:
        advice = f"names are case-sensitive, rename {listed(twins)}"
    elif structs:
        advice = structs[0].advice
    else:
        advice = "store each matrix under its own name"
    found = listed(names) if names else "nothing"
    return _fault(listed(missing), f"{listed(REQUIRED)} in the file", found, advice)


def _twins(key: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name != key and name.lower() == key.lower()]


def _optional_twins(names: list[str]) -> Iterable[tuple[str, list[str]]]:
    others = [name for name in names if name not in DENSE]
    absent = [key for key in DENSE if key not in names]
    return [(key, _twins(key, others)) for key in absent if _twins(key, others)]


# The file system.


def _format_of(path: Path) -> Format:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ParameterError(
            f"path: expected a name ending in {listed(FORMATS)}, found {str(path)!r}; "
            "the suffix says the format"
        )
    return FORMATS[suffix]


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(
            errno.EISDIR, "expected a file, found a directory; name a file in it", str(path)
        )


def _check_storable(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise _fault("name", "Unicode text", repr(name), "remove the lone surrogates") from error
    if "\0" in name:
        raise _fault("name", "text without NUL", repr(name), "use model.replace(name=...)")


def _write_atomically(path: Path, content: bytes, overwrite: bool) -> None:
    target = Path(os.path.realpath(path))  # A link keeps pointing where it points.
    _refuse_directory(target)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "expected an existing folder, found none; create it", str(path.parent)
        )
    if target.exists() and not overwrite:
        raise FileExistsError(
            errno.EEXIST, "expected a new name, found a file; pass overwrite=True", str(path)
        )
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


# Messages.


def _fault(key: str, expected: str, found: str, advice: str) -> ParameterError:
    return ParameterError(f"{key}: expected {expected}, found {found}; {advice}")


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
