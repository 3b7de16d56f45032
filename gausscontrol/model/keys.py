"""How each value of a model file is laid out, and what it becomes (Theory 1.1, 1.3).

    .npz, .json   heads on the first axis, as in the constructors
    .mat          heads on the last axis: d x d x h, one column a head, no vectors

Weights in two dimensions beside n_heads = h have their heads side by side, as frameworks keep them:
W_Q, W_K, W_V in rows, W_O in columns, b_Q and b_V one after the other.

A table of keys stands for the arguments of `GaussianTransformer`, `from_weights` or `LayerStack`;
values are decoded in its order, since the layout of a later key depends on the sizes of earlier
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gausscontrol.errors import ShapeError
from gausscontrol.linalg.arrays import real_array, real_matrix
from gausscontrol.model.entries import fault
from gausscontrol.model.fused import FUSED
from gausscontrol.model.parameters import split_heads

__all__ = ["BIASES", "DENSE", "FACTORED", "KEYS", "LAYERS", "STACK", "WEIGHTS", "Key"]

# (value, its key, the values decoded before it) -> argument of the constructor.
Decoder = Callable[[Any, str, dict[str, Any]], Any]


@dataclass(frozen=True)
class Key:
    """How one value is laid out: decoders, and the way to MATLAB's layout.

    Parameters
    ----------
    decode, decode_matlab : callable
        (value, key, values decoded before) -> argument of the constructor.
    to_matlab : callable, optional
        attribute of the object -> value in a .mat file.
    holds : str, optional
        What a value should be, for the message where it cannot be.
    """

    decode: Decoder
    decode_matlab: Decoder
    to_matlab: Callable[[Any], Any] = lambda value: value
    holds: str = "real numbers"


def _matrix(value: Any, key: str, _done: dict[str, Any]) -> np.ndarray:
    return real_matrix(value, key)


def _array(value: Any, key: str, _done: dict[str, Any]) -> np.ndarray:
    return real_array(value, key)


def _array_or_none(value: Any, key: str, _done: dict[str, Any]) -> np.ndarray | None:
    # None is JSON's null, "not given", which only an optional argument may be.
    return None if value is None else real_array(value, key)


def _number(value: Any, key: str, _done: dict[str, Any]) -> float:
    array = real_array(value, key)
    if array.size != 1:
        raise ShapeError(f"{key}: expected one number, found shape {array.shape}; store a scalar")
    return float(array.reshape(()))


def _number_or_none(value: Any, key: str, done: dict[str, Any]) -> float | None:
    return None if value is None else _number(value, key, done)


def _count_or_none(value: Any, key: str, done: dict[str, Any]) -> int | None:
    number = _number_or_none(value, key, done)
    if number is not None and (number < 1 or number != int(number)):
        raise fault(key, "a positive integer", f"{number:g}", "store how many heads there are")
    return None if number is None else int(number)


def _text(value: Any, key: str, _done: dict[str, Any]) -> str | None:
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind != "U" or array.size > 1:
        raise fault(
            key,
            "one row of text",
            f"an array of shape {array.shape} and type {array.dtype}",
            "store a single string, or leave it out",
        )
    return "".join(array.ravel().tolist())


def _weights(value: Any, key: str, done: dict[str, Any]) -> np.ndarray:
    array = real_array(value, key)
    if array.ndim == 2 and done.get("n_heads"):
        return _side_by_side(array, key, done)
    _check_count(array.shape[0] if array.ndim == 3 else None, key, done)
    return array


def _side_by_side(array: np.ndarray, key: str, done: dict[str, Any]) -> np.ndarray:
    return split_heads(array, key, done["n_heads"], columns=key == "W_O")


def _check_count(heads: int | None, key: str, done: dict[str, Any]) -> None:
    # Heads with an axis of their own may be counted too, but not differently.
    count = done.get("n_heads")
    if None not in (heads, count) and heads != count:
        raise ShapeError(
            f"{key}: expected {count} heads as n_heads says, found {heads}; correct n_heads, or "
            "leave it out where heads have an axis of their own"
        )


def _head_biases(value: Any, key: str, done: dict[str, Any]) -> np.ndarray | None:
    array = _array_or_none(value, key, done)
    if array is not None and array.ndim == 1 and done.get("n_heads"):
        return split_heads(array, key, done["n_heads"])
    return array


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


def _weights_from_pages(value: Any, key: str, done: dict[str, Any]) -> np.ndarray:
    array = real_array(value, key)
    if array.ndim == 2 and done.get("n_heads"):
        return _side_by_side(array, key, done)
    shape = array.shape
    if array.ndim == 2:
        array = array[:, :, None]
    wanted = _weight_size(key, done)
    if (
        array.ndim != 3
        or array.size == 0
        or any(n not in (have, str(n)) for n, have in zip(wanted, array.shape, strict=True))
    ):
        raise ShapeError(
            f"{key}: expected {_size(wanted)}, found {_size(shape)}; put heads on the last axis in "
            ".mat files: W_Q and W_K are dk x d x h, W_V is dv x d x h, W_O is d x dv x h"
        )
    _check_count(array.shape[2], key, done)
    return np.moveaxis(array, -1, 0)


def _weight_size(key: str, done: dict[str, Any]) -> tuple[int | str, ...]:
    # A letter stands for a size that this weight decides.
    if key == "W_Q":
        return "dk", "d", "h"
    heads, width, dim = done["W_Q"].shape
    if key == "W_K":
        return width, dim, heads
    return ("dv", dim, heads) if key == "W_V" else (dim, done["W_V"].shape[1], heads)


def _pages_from_heads(value: np.ndarray) -> np.ndarray:
    return value[0] if len(value) == 1 else np.moveaxis(value, 0, -1)


def _tilts_from_columns(value: Any, key: str, done: dict[str, Any]) -> np.ndarray:
    array = real_array(value, key)
    heads, width = _tilt_size(key, done)
    wanted, shape = (width, heads), array.shape
    if 1 in wanted and shape == (heads, width):
        array = array.reshape(wanted)  # A vector, whose orientation carries no information.
    elif done.get("n_heads") and key != "k" and sorted(shape) == [1, heads * width]:
        array = array.reshape(heads, width).T  # One head after the other.
    if array.shape != wanted:
        raise ShapeError(
            f"{key}: expected {_size(wanted)}, one column a head, found {_size(shape)}; "
            "put heads on the last axis in .mat files"
        )
    return array.T


def _tilt_size(key: str, done: dict[str, Any]) -> tuple[int, int]:
    if "W_Q" not in done:
        return len(done["B"]), len(done["A"])
    heads, width, dim = done["W_Q"].shape
    return heads, {"k": dim, "b_Q": width, "b_V": done["W_V"].shape[1]}[key]


def _column(value: np.ndarray) -> np.ndarray:
    return value[:, None]


def _size(shape: Iterable[int | str]) -> str:
    return " x ".join(map(str, shape))


# The tables, in decoding order.
PAGES = Key(_array, _heads_from_pages, _pages_from_heads)
WEIGHT = Key(_weights, _weights_from_pages, _pages_from_heads)
VECTOR = Key(_array_or_none, _array, _column)
COLUMNS = Key(_array_or_none, _tilts_from_columns, np.transpose)
LABELS = {"dt": Key(_number, _number), "name": Key(_text, _text, holds="text")}

DENSE = {"A": Key(_matrix, _matrix), "B": PAGES, "V": PAGES, "b": VECTOR, "k": COLUMNS} | LABELS
WEIGHTS = dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), WEIGHT)
HEAD_BIASES = Key(_head_biases, _tilts_from_columns, np.transpose)
BIASES = {"b_Q": HEAD_BIASES, "b_V": HEAD_BIASES, "b_O": VECTOR}
FACTORED = {"n_heads": Key(_count_or_none, _count_or_none)} | WEIGHTS | BIASES
FACTORED |= {"A": Key(_array_or_none, _array), "b": VECTOR, "k": COLUMNS}
FACTORED |= {"scale": Key(_number_or_none, _number)} | LABELS
LAYERS = "layers"
STACK = {"durations": Key(_array_or_none, _array, lambda durations: durations[None, :])}

KEYS = frozenset({*DENSE, *FACTORED, *STACK, *FUSED, LAYERS})
