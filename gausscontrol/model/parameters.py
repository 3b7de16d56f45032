"""Reading the parameters of a model (Theory 1.1, 1.3).

Weights of an attention block become heads, tilts and a bias:

    V_h = W_O W_V,  B_h = s W_K^T W_Q,  k_h = s W_K^T b_Q,  b = b + b_O + sum_h W_O b_V
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, real_vector
from gausscontrol.model.heads import FactoredHeads

__all__ = [
    "read_heads",
    "read_label",
    "read_layer_depth",
    "read_tilts",
    "read_weights",
    "split_heads",
]


def read_heads(value: ArrayLike, name: str, dim: int) -> np.ndarray:
    """Return the matrices of one or many heads as (h, d, d)."""
    array = real_array(value, name)
    if array.ndim == 0:
        array = array.reshape(1, 1, 1)
    elif array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] == 0 or array.shape[1:] != (dim, dim):
        raise ShapeError(
            f"{name}: expected shape ({dim}, {dim}) or (h, {dim}, {dim}) to agree with A, found "
            f"{np.shape(value)}; put heads on the first axis"
        )
    return np.ascontiguousarray(array)


def read_tilts(value: ArrayLike | None, n_heads: int, dim: int) -> np.ndarray:
    """Return the tilts as (h, d), zero by default."""
    if value is None:
        return np.zeros((n_heads, dim))
    if n_heads == 1:
        return real_vector(value, "k", dim).reshape(1, dim)
    array = real_array(value, "k")
    if array.shape != (n_heads, dim):
        raise ShapeError(
            f"k: expected shape ({n_heads}, {dim}), one tilt per head, found {array.shape}; "
            "put heads on the first axis"
        )
    return array


def read_layer_depth(value: Any) -> float:
    """Return dt, 0 for continuous depth."""
    if isinstance(value, (bool, str)) or value is None or np.ndim(value) != 0:
        raise ParameterError(
            f"dt: expected 0 or a positive number, found {value!r}; use 0 for continuous depth"
        )
    depth = float(real_array(value, "dt"))
    if depth < 0:
        raise ParameterError(
            f"dt: expected 0 or a positive number, found {depth:g}; use 0 for continuous depth"
        )
    return depth


def read_label(value: Any) -> str | None:
    """Return a name, or None."""
    if value is not None and not isinstance(value, str):
        raise ParameterError(f"name: expected a string, found {value!r}; pass text or nothing")
    return value


def read_weights(
    W_Q: ArrayLike,
    W_K: ArrayLike,
    W_V: ArrayLike,
    W_O: ArrayLike,
    *,
    b_Q: ArrayLike | None,
    b_V: ArrayLike | None,
    b_O: ArrayLike | None,
    scale: float | None,
) -> tuple[FactoredHeads, np.ndarray, np.ndarray]:
    """Return the factored heads, the tilts k (h, d) and the bias (d,) that weights amount to."""
    Q = _weight(W_Q, "W_Q", (None, None, None))
    heads, width, dim = Q.shape
    K = _weight(W_K, "W_K", (heads, width, dim))
    U = _weight(W_V, "W_V", (heads, None, dim))
    O = _weight(W_O, "W_O", (heads, dim, U.shape[1]))
    logit_scale = 1 / np.sqrt(width) if scale is None else _scale(scale)
    query = _bias(b_Q, "b_Q", (heads, width))
    value = _bias(b_V, "b_V", (heads, U.shape[1]))
    output = np.zeros(dim) if b_O is None else real_vector(b_O, "b_O", dim)
    with np.errstate(over="ignore", invalid="ignore"):
        Q = logit_scale * Q
        k = logit_scale * np.einsum("hkd,hk->hd", K, query)
        bias = output + np.einsum("hdv,hv->d", O, value)
    for name, product in (("W_Q", Q), ("b_Q", k), ("b_V", bias)):
        if not np.isfinite(product).all():
            raise ParameterError(
                f"{name}: expected finite products with scale, W_K and W_O, found overflow; "
                "scale the weights down"
            )
    return FactoredHeads(O, U, K, Q), k, bias


def split_heads(value: ArrayLike | None, name: str, n_heads: Any, *, columns: bool = False):
    """Return weights or biases of heads that stand side by side, as frameworks store them.

    The rows (the columns, for an output projection) of one head come after those of another.
    """
    if value is None:
        return None
    if not isinstance(n_heads, Integral) or isinstance(n_heads, bool) or n_heads < 1:
        raise ParameterError(
            f"n_heads: expected a positive integer, found {n_heads!r}; it is the number of heads "
            "that stand side by side"
        )
    array = real_array(value, name)
    wanted = 1 if name.startswith("b_") else 2
    axis = 1 if columns else 0
    if array.ndim != wanted or array.shape[axis] % n_heads:
        shape = "(h dk,)" if wanted == 1 else "(d, h dv)" if columns else "(h dk, d)"
        raise ShapeError(
            f"{name}: expected shape {shape} with h = {n_heads}, found shape {array.shape}; "
            "leave n_heads out if heads have an axis of their own"
        )
    if columns:
        return array.reshape(len(array), n_heads, -1).transpose(1, 0, 2)
    return array.reshape(n_heads, -1, *array.shape[1:])


def _scale(value: Any) -> float:
    array = real_array(value, "scale")
    if array.ndim:
        raise ShapeError(
            f"scale: expected one number for all heads, found shape {array.shape}; "
            "fold a scale of each head into W_Q"
        )
    return float(array)


def _weight(value: ArrayLike, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    array = real_array(value, name)
    if array.ndim == 2:
        array = array[None]
    agrees = array.ndim == 3 and array.size > 0
    if agrees:
        agrees = all(w is None or w == n for w, n in zip(shape, array.shape, strict=True))
    if not agrees:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ShapeError(
            f"{name}: expected shape ({wanted}), heads first, found {np.shape(value)}; "
            "W_Q and W_K are (h, dk, d), W_V is (h, dv, d), W_O is (h, d, dv)"
        )
    return np.ascontiguousarray(array)


def _bias(value: ArrayLike | None, name: str, shape: tuple[int, int]) -> np.ndarray:
    if value is None:
        return np.zeros(shape)
    array = real_array(value, name)
    if array.ndim == 1 and shape[0] == 1:
        array = array[None]
    if array.shape != shape:
        raise ShapeError(
            f"{name}: expected shape {shape}, one row per head, found {np.shape(value)}; "
            "reshape a flat bias to (h, width)"
        )
    return array
