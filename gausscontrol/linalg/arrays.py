"""Validation of arrays that users pass in: real, finite, of the right shape, and copied.

Each function returns a fresh float array and never touches its argument. Integers are accepted
and become floats; booleans, strings, objects and complex numbers are refused, since each of them
is nearly always a mistake made further up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError

__all__ = [
    "EXTREME",
    "check_scale",
    "real_array",
    "real_matrix",
    "real_vector",
    "symmetric_matrix",
]

SYMMETRY_TOLERANCE = 1e-8
# Norms beyond this or below its inverse overflow or vanish when they are squared and multiplied.
EXTREME = 1e100


def real_array(value: ArrayLike, name: str) -> np.ndarray:
    """Return a finite float copy of any array of real numbers.

    Parameters
    ----------
    value : array_like
        What the user passed.
    name : str
        The argument's name, for the message.

    Returns
    -------
    ndarray of float

    Raises
    ------
    ParameterError
        If the entries are not finite real numbers.
    ShapeError
        If the nested sequences are ragged.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(
            f"{name}: expected a rectangular array, found rows of different lengths; "
            "pass rows of one length"
        ) from error
    if array.dtype.kind not in "iuf":
        found = {"c": "complex numbers", "b": "booleans", "O": "objects"}.get(
            array.dtype.kind, f"entries of type {array.dtype}"
        )
        found = "None" if value is None else found
        raise ParameterError(f"{name}: expected real numbers, found {found}; pass a float array")
    hidden = np.ma.getmaskarray(value) if isinstance(value, np.ma.MaskedArray) else None
    if hidden is not None and hidden.any():
        raise ParameterError(
            f"{name}: expected every entry, found {int(hidden.sum())} of {array.size} masked; "
            "fill or remove them first"
        )
    with np.errstate(over="ignore"):  # what no float holds becomes infinite, and is refused
        array = np.array(array, dtype=float)
    if not np.isfinite(array).all():
        count = int(np.size(array) - np.isfinite(array).sum())
        raise ParameterError(
            f"{name}: expected finite numbers, found {count} NaN or infinite of {array.size} "
            "entries; remove or replace them first"
        )
    return array


def check_scale(array: np.ndarray, name: str) -> None:
    """Refuse a matrix whose norm is so large or small that its squares overflow or vanish.

    Parameters
    ----------
    array : ndarray
    name : str
        The argument's name, for the message.

    Raises
    ------
    ParameterError
        If the largest entry is beyond 1e100, or below 1e-100 and not zero.
    """
    largest = np.abs(array).max(initial=0.0)
    if largest and not 1 / EXTREME <= largest <= EXTREME:
        raise ParameterError(
            f"{name}: expected entries between {1 / EXTREME:g} and {EXTREME:g} in size, or zeros, "
            f"found up to {largest:.3g}; measure tokens and depth in other units"
        )


def real_matrix(
    value: ArrayLike, name: str, shape: tuple[int | None, int | None] | None = None
) -> np.ndarray:
    """Return a finite float copy of a matrix; a scalar counts as 1 x 1.

    Parameters
    ----------
    value : array_like
        What the user passed.
    name : str
        The argument's name, for the message.
    shape : tuple, optional
        The shape it must have; None in a place accepts any size there. Default: any square matrix.

    Returns
    -------
    (m, n) ndarray

    Raises
    ------
    ParameterError
        If the entries are not finite real numbers.
    ShapeError
        If the shape is not the expected one.
    """
    array = real_array(value, name)
    if array.ndim == 0:
        array = array.reshape(1, 1)
    if array.ndim != 2 or array.size == 0:
        raise ShapeError(f"{name}: expected a matrix, found shape {array.shape}; pass a 2-D array")
    if shape is None:
        if array.shape[0] != array.shape[1]:
            raise ShapeError(
                f"{name}: expected a square matrix, found shape {array.shape}; "
                "pass as many rows as columns"
            )
    elif any(want not in (None, have) for want, have in zip(shape, array.shape, strict=True)):
        wanted = " x ".join("any" if n is None else str(n) for n in shape)
        raise ShapeError(
            f"{name}: expected a {wanted} matrix, found shape {array.shape}; "
            "make it agree with the other arguments"
        )
    return array


def real_vector(value: ArrayLike, name: str, size: int | None = None) -> np.ndarray:
    """Return a finite float copy of a vector; row and column matrices are flattened.

    Parameters
    ----------
    value : array_like
        What the user passed; a scalar counts as one entry.
    name : str
        The argument's name, for the message.
    size : int, optional
        The number of entries it must have.

    Returns
    -------
    (n,) ndarray

    Raises
    ------
    ParameterError
        If the entries are not finite real numbers.
    ShapeError
        If the size is not the expected one.
    """
    array = real_array(value, name)
    found = f"shape {array.shape}" if array.ndim else "one number"
    if (array.ndim == 2 and 1 in array.shape) or array.ndim == 0:
        array = array.reshape(-1)
    if array.ndim != 1 or array.size == 0 or size not in (None, array.size):
        wanted = "a vector" if size is None else f"a vector of {size} entries"
        raise ShapeError(
            f"{name}: expected {wanted}, found {found}; make it agree with the other arguments"
        )
    return array


def symmetric_matrix(value: ArrayLike, name: str, size: int | None = None) -> np.ndarray:
    """Return a symmetrised float copy of a matrix that is symmetric to 1e-8 relative.

    Parameters
    ----------
    value : array_like
        What the user passed.
    name : str
        The argument's name, for the message.
    size : int, optional
        The number of rows it must have.

    Returns
    -------
    (n, n) ndarray

    Raises
    ------
    ParameterError
        If it is not symmetric, or its entries are not finite real numbers.
    ShapeError
        If it is not square or has the wrong size.
    """
    array = real_matrix(value, name, None if size is None else (size, size))
    gap = np.abs(array - array.T).max()
    scale = np.abs(array).max()
    if gap > SYMMETRY_TOLERANCE * scale:
        raise ParameterError(
            f"{name}: expected a symmetric matrix, found |X - X^T| = {gap:.2g} at |X| = "
            f"{scale:.2g}; pass (X + X.T) / 2 if the asymmetry is rounding"
        )
    return (array + array.T) / 2
