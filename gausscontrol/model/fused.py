"""Attention weights as torch.nn.MultiheadAttention names them, taken apart (Theory 1.3).

    in_proj_weight = [W_Q; W_K; W_V],    in_proj_bias = [b_Q; b_K; b_V],
    out_proj.weight = W_O,               out_proj.bias = b_O

Heads stand side by side, and the arrays do not say how many there are: a key n_heads must. The key
bias b_K drops out of the softmax.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gausscontrol.errors import ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.model.entries import Entry, fault, listed

__all__ = ["FUSED", "separated"]

WEIGHT, BIAS = "in_proj_weight", "in_proj_bias"
# The names of the thirds; the third of a key bias is not needed.
PARTS = {WEIGHT: ("W_Q", "W_K", "W_V"), BIAS: ("b_Q", None, "b_V")}
RENAMED = {"out_proj.weight": "W_O", "out_proj.bias": "b_O"}
FUSED = (*PARTS, *RENAMED)


def separated(entries: list[Entry]) -> list[Entry]:
    """Return entries with fused projections in three and every name as `from_weights` has it.

    Parameters
    ----------
    entries : list of Entry
        Those of a file or of one layer.

    Returns
    -------
    list of Entry
        The same where no projections are fused.

    Raises
    ------
    ParameterError, ShapeError
        If n_heads is missing, a name is repeated, or a fused array is not three of one size.
    """
    names = [entry.name for entry in entries]
    if WEIGHT not in names:
        return entries
    repeated = [name for name in FUSED if names.count(name) > 1]
    if repeated:
        raise fault(repeated[0], "one value", "several of this name", "keep one of them")
    if "n_heads" not in names:
        raise fault(
            "n_heads",
            f"the number of heads beside {WEIGHT}",
            listed(names),
            "store n_heads=attn.num_heads too",
        )
    return [part for entry in entries for part in _parts(entry)]


def _parts(entry: Entry) -> list[Entry]:
    if entry.name in RENAMED:
        return [replace(entry, name=RENAMED[entry.name])]
    if entry.name not in PARTS:
        return [entry]
    if entry.refusal:
        raise fault(entry.name, "real numbers", entry.refusal, entry.advice)
    thirds = zip(PARTS[entry.name], _thirds(entry.value, entry.name), strict=True)
    return [Entry(name, third) for name, third in thirds if name is not None]


def _thirds(value: Any, name: str) -> np.ndarray:
    array = real_array(value, name)
    shape = array.shape
    wanted, agrees = "(3 d,)", array.ndim == 1
    if name == WEIGHT:
        wanted, agrees = "(3 d, d)", array.ndim == 2 and shape[0] == 3 * shape[1]
    if not agrees or array.size == 0 or shape[0] % 3:
        raise ShapeError(
            f"{name}: expected shape {wanted}, that of query, key and value below each other, "
            f"found {shape}; store the array of the state_dict as it is"
        )
    return array.reshape(3, -1, *shape[1:])
