"""The state of a moment system: a mean and a covariance in one vector (Theory 1.1, 1.6).

    x = (mu, vech Sigma)

Arrays that users pass are read and validated here; the field of `moments` takes them as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import SYMMETRY_TOLERANCE, real_array, real_vector
from gausscontrol.linalg.bures import moment_pair
from gausscontrol.linalg.symmetric import covariance_matrix, unvech, vech

__all__ = ["pack", "read_moments", "state_dim", "unpack"]


def pack(mean: ArrayLike, covariance: ArrayLike) -> np.ndarray:
    """Pack a mean and a covariance into the state of a moment system.

    Parameters
    ----------
    mean : (d,) or (d, N) array_like
        [x]
    covariance : (d, d) or (d, d, N) array_like
        Symmetric to 1e-8 relative; need not be positive semidefinite. [x]^2

    Returns
    -------
    (d + d(d+1)/2,) or (d + d(d+1)/2, N) ndarray

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ParameterError
        If an entry is not a finite real number, or the covariance is not symmetric.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> print(gct.pack([1.0, 2.0], [[3.0, 4.0], [4.0, 5.0]]))
    [1. 2. 3. 4. 5.]
    """
    mean = np.atleast_1d(real_array(mean, "mean"))
    covariance = real_array(covariance, "covariance")
    if covariance.ndim == 0:
        covariance = covariance.reshape(1, 1)
    dim = mean.shape[0]
    if dim == 0:
        raise ShapeError("mean: expected at least one entry, found none; pass d numbers")
    if covariance.shape != (dim, dim, *mean.shape[1:]):
        raise ShapeError(
            f"covariance: expected shape {(dim, dim, *mean.shape[1:])} to agree with a mean of "
            f"shape {mean.shape}, found {covariance.shape}; put time on the last axis"
        )
    mirrored = covariance.swapaxes(0, 1)
    gap = np.abs(covariance - mirrored).max(axis=(0, 1))
    if (gap > SYMMETRY_TOLERANCE * np.abs(covariance).max(axis=(0, 1))).any():
        raise ParameterError(
            f"covariance: expected a symmetric matrix, found |X - X^T| = {gap.max():.2g}; "
            "pass (X + X.T) / 2 if the asymmetry is rounding"
        )
    return np.concatenate([mean, vech((covariance + mirrored) / 2)])


def unpack(x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Split the state of a moment system into mean and covariance.

    Parameters
    ----------
    x : (d + d(d+1)/2,) or (d + d(d+1)/2, N) array_like
        What `pack` returns.

    Returns
    -------
    mean : (d,) or (d, N) ndarray
        [x]
    covariance : (d, d) or (d, d, N) ndarray
        [x]^2

    Raises
    ------
    ShapeError
        If the length of the first axis belongs to no dimension.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> mean, covariance = gct.unpack([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> print(mean, covariance[1])
    [1. 2.] [4. 5.]
    """
    x = np.atleast_1d(real_array(x, "x"))
    dim = state_dim(x.shape[0])
    return x[:dim], unvech(x[dim:])


def state_dim(entries: int) -> int:
    """Return d such that d + d(d+1)/2 equals the number of entries of a packed state."""
    dim = (int(np.sqrt(8 * entries + 9)) - 3) // 2
    if dim < 1 or dim * (dim + 3) // 2 != entries:
        raise ShapeError(
            f"x: expected d + d(d+1)/2 entries (2, 5, 9, 14, ...), found {entries}; "
            "pack the mean and the lower triangle of the covariance"
        )
    return dim


def read_moments(value: ArrayLike | tuple, name: str, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Read (mean, covariance), what has both, or a packed state of dimension d, validated.

    Parameters
    ----------
    value : tuple, (d + d(d+1)/2,) array_like, or an object with mean and covariance
        What the user passed; an `Equilibrium`, for one.
    name : str
        The argument's name, for the message.
    dim : int
        The dimension d.

    Returns
    -------
    mean : (d,) ndarray
        [x]
    covariance : (d, d) ndarray
        Positive semidefinite. [x]^2

    Raises
    ------
    ShapeError, ParameterError
        If a shape is wrong or the covariance is none.
    """
    value = moment_pair(value, name)
    if isinstance(value, (tuple, list)) and len(value) == 2:
        mean, covariance = value  # at d = 1 a packed state (mu, sigma) reads the same
    else:
        state = np.atleast_1d(real_array(value, name))
        if state.shape != (dim + dim * (dim + 1) // 2,):
            raise ShapeError(
                f"{name}: expected (mean, covariance) or a packed state of "
                f"{dim + dim * (dim + 1) // 2} entries for d = {dim}, found shape "
                f"{state.shape}; use pack(mean, covariance)"
            )
        mean, covariance = state[:dim], unvech(state[dim:])
    mean = real_vector(mean, f"{name} mean", dim)
    return mean, covariance_matrix(covariance, f"{name} covariance", dim)
