"""What a certificate stores: read-only copies, and whether each field is of its kind (Theory 9.1).

A field is of its declared type; a matrix is finite and, unless it is named among the general ones,
symmetric if it is square; a number is finite and, unless it may have either sign, not negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["is_well_formed", "kept"]

# Stored matrices that are not symmetric; every other square one is.
GENERAL = ("basis", "coordinates")
# Numbers that may have either sign.
SIGNED = ("rate", "optimal_rate")
# What a field must be, by its declared type.
KINDS: dict[str, Any] = {
    "GaussianTransformer": GaussianTransformer,
    "np.ndarray": np.ndarray,
    "float": float | int | np.floating,
    "str": str,
    "bool": bool | np.bool_,
    "tuple[GaussianTransformer, ...]": tuple,
}


def kept(value: Any) -> Any:
    """Return a read-only copy of an array, or of a witness that holds arrays."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.setflags(write=False)
    elif is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: kept(getattr(value, f.name)) for f in fields(value)})
    return value


def is_well_formed(certificate: Any) -> bool:
    """Tell whether fields have their types, matrices are symmetric and sizes not negative."""
    for name, declared, value in _contents(certificate):
        first, _, optional = declared.partition(" | ")
        if value is None and optional == "None":
            continue
        if not isinstance(value, KINDS.get(first, object)):
            return False
        if isinstance(value, np.ndarray):
            if value.ndim != 2 or not np.isfinite(value).all():
                return False
            square = value.shape[0] == value.shape[1]
            if square and name not in GENERAL and not np.array_equal(value, value.T):
                return False
        elif first == "float":
            finite = np.isfinite(value) or name == "radius"
            if not (finite and (name in SIGNED or value >= 0)):
                return False
    return True


def _contents(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield name, declared type and value of the fields of a certificate, and of its witness."""
    for item in fields(value):
        content = getattr(value, item.name)
        yield item.name, str(item.type), content
        if is_dataclass(content):
            yield from _contents(content)
