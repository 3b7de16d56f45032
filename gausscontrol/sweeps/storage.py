"""Results as JSON, exact to the last bit, and back; nothing is ever unpickled.

    None, bool, int, str, finite float     as they are
    nan, inf, complex                      {"$float": "nan"}, {"$complex": [re, im]}
    list, dict with plain names            as they are
    tuple, any other dict                  {"$tuple": [...]}, {"$dict": [[key, value], ...]}
    NumPy arrays                           {"$array": [dtype, shape, base64 of the bytes]}
    NumPy scalars                          as Python's, which is what comes back
    models and stacks                      {"$model": what save_model writes}
    Classification                         {"$verdict": ...}, which comes back as a `Verdict`
    other dataclasses, namedtuples         their fields as a dict, which is what comes back

A float is written with the digits that read back as the same float. Arrays are little-endian and
hold numbers, booleans or text.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gausscontrol.certificates.classify import Classification
from gausscontrol.errors import ParameterError
from gausscontrol.model.entries import listed
from gausscontrol.model.formats import FORMATS, read_entries
from gausscontrol.model.keys import KEYS, LAYERS
from gausscontrol.model.layout import decoded, encoded
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.sweeps.verdict import Verdict

__all__ = ["STORABLE", "decode", "encode"]

# What messages and the manual say.
STORABLE = (
    "numbers, text, None, NumPy arrays, models, classifications, and lists, tuples, dicts and "
    "dataclasses of these"
)
# Kinds of NumPy's types, each with the largest size that is the same on every machine.
LARGEST = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16, "U": np.inf}
# Bits; Python refuses to read more than 4300 digits.
LONGEST_INTEGER = 14000
TAG = "$"


def encode(value: Any, where: str = "") -> Any:
    """Return what `json.dumps` writes of a value.

    Parameters
    ----------
    value : object
    where : str, optional
        Its place in what is being stored, for the message.

    Returns
    -------
    None, bool, int, float, str, list or dict

    Raises
    ------
    ParameterError
        If it is of a kind that the file does not hold.
    """
    if isinstance(value, np.generic) and value.dtype.itemsize <= LARGEST.get(value.dtype.kind, 0):
        value = value.item()
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int and value.bit_length() <= LONGEST_INTEGER:
        return value
    if isinstance(value, np.ndarray):
        return {"$array": _bytes_of(value, where)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, complex):
        return {"$complex": [encode(value.real), encode(value.imag)]}
    if isinstance(value, (GaussianTransformer, LayerStack)):
        return {"$model": _model_text(value)}
    if isinstance(value, Classification):
        value = Verdict.of(value)
    if isinstance(value, Verdict):
        return {"$verdict": _fields(value, where)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value, where)
    if isinstance(value, tuple):
        if hasattr(value, "_asdict"):
            return encode(value._asdict(), where)
        return {"$tuple": [encode(part, f"{where}[{i}]") for i, part in enumerate(value)]}
    if isinstance(value, list):
        return [encode(part, f"{where}[{i}]") for i, part in enumerate(value)]
    if isinstance(value, Mapping):
        return _mapping(value, where)
    raise _refused(value, where)


def decode(stored: Any) -> Any:
    """Return the value that `encode` was given, or what stands for it.

    Parameters
    ----------
    stored : None, bool, int, float, str, list or dict
        As `json.loads` returns it.

    Returns
    -------
    object

    Raises
    ------
    ParameterError
        If `encode` cannot have written it.
    """
    if isinstance(stored, list):
        return [decode(part) for part in stored]
    if not isinstance(stored, dict):
        return stored
    tags = [key for key in stored if key.startswith(TAG)]
    if not tags:
        return {key: decode(part) for key, part in stored.items()}
    if len(stored) > 1 or tags[0] not in READERS:
        raise ParameterError(
            f"expected one of {listed(READERS)} alone, found {listed(stored)}; "
            "the file is of another version, or damaged"
        )
    try:
        return READERS[tags[0]](stored[tags[0]])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ParameterError(
            f"{tags[0]}: expected what a sweep writes, found {type(error).__name__}: {error}; "
            "the file is damaged"
        ) from error


# -- writing --------------------------------------------------------------------------------------


def _refused(value: Any, where: str) -> ParameterError:
    place = f" at {where.lstrip('.')}" if where else ""
    return ParameterError(
        f"a file of results holds {STORABLE}; found {type(value).__name__}{place}; "
        "return what you need of it as one of these, or leave resume out"
    )


def _bytes_of(array: np.ndarray, where: str) -> list:
    if isinstance(array, np.ma.MaskedArray):
        raise _refused(array, where)
    if array.dtype.itemsize > LARGEST.get(array.dtype.kind, 0):
        raise ParameterError(
            f"a file of results holds arrays of numbers, booleans or text, found dtype "
            f"{array.dtype}{f' at {where}' if where else ''}; convert it, or leave resume out"
        )
    array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode("ascii")]


def _model_text(model: GaussianTransformer | LayerStack) -> Any:
    content = io.BytesIO()
    FORMATS[".json"].write(content, encoded(model, False))
    return json.loads(content.getvalue())


def _fields(value: Any, where: str) -> dict[str, Any]:
    parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return _mapping(parts, where)


def _mapping(value: Mapping, where: str) -> dict[str, Any]:
    parts = {key: encode(part, f"{where}.{key}") for key, part in value.items()}
    if all(type(key) is str and not key.startswith(TAG) for key in parts):
        return parts
    return {"$dict": [[encode(key, f"{where}.{key}"), part] for key, part in parts.items()]}


# -- reading --------------------------------------------------------------------------------------


def _array(stored: list) -> np.ndarray:
    name, shape, text = stored
    dtype = np.dtype(name)
    if dtype.itemsize > LARGEST.get(dtype.kind, 0):
        raise ValueError(f"dtype {name}")
    flat = np.frombuffer(base64.b64decode(text, validate=True), dtype)
    return flat.reshape(shape).astype(dtype.newbyteorder("="))  # a copy that can be written to


def _model(stored: dict) -> GaussianTransformer | LayerStack:
    form = FORMATS[".json"]
    entries = read_entries(io.BytesIO(json.dumps(stored).encode()), form, KEYS, LAYERS)
    return decoded(entries, form.matlab)


READERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$complex": lambda parts: complex(*map(decode, parts)),
    "$tuple": lambda parts: tuple(map(decode, parts)),
    "$dict": lambda pairs: {decode(key): decode(part) for key, part in pairs},
    "$array": _array,
    "$model": _model,
    "$verdict": lambda parts: Verdict(**{key: decode(part) for key, part in parts.items()}),
}
