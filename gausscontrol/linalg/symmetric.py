"""Symmetric matrices as vectors, and positive semidefinite matrices as factors.

    vech(X)  = lower triangle of X column by column        (plain entries)
    svec(X)  = vech(X) with sqrt(2) on off-diagonal entries (<svec X, svec Y> = tr X Y)

Both have n = d(d+1)/2 entries. Extra trailing axes (time) are carried along. A covariance is read,
judged and factored by its eigenvalues, each relative to the largest.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array, symmetric_matrix

__all__ = [
    "covariance_matrix",
    "factor",
    "is_positive_definite",
    "positive_spectrum",
    "smat",
    "svec",
    "symmetric_size",
    "symmetrise",
    "unvech",
    "vech",
    "vech_index",
    "whitening",
]

# A negative eigenvalue up to this share of the largest is taken for rounding and clipped.
PSD_TOLERANCE = 1e-10
# Eigenvalues up to this share of the largest do not count towards the rank.
RANK_TOLERANCE = 1e-13


class VechIndex(NamedTuple):
    """Index arrays between a d x d matrix and its vech.

    `low` are flat positions of the lower triangle and `high` those mirrored, `full` sends vech to
    the whole matrix, `rows` and `columns` are the subscripts (i >= j), `weight` is 1 on and sqrt(2)
    off the diagonal, and `half` is 1/2 on and 1 off it.
    """

    low: np.ndarray
    high: np.ndarray
    full: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    weight: np.ndarray
    half: np.ndarray


@lru_cache(maxsize=64)
def vech_index(dim: int) -> VechIndex:
    """Return the index arrays for d x d matrices, made once per size."""
    columns, rows = np.triu_indices(dim)
    low = rows * dim + columns
    full = np.empty((dim, dim), dtype=np.intp)
    full[rows, columns] = full[columns, rows] = np.arange(low.size)
    weight = np.where(rows == columns, 1.0, np.sqrt(2.0))
    high, half = columns * dim + rows, np.where(rows == columns, 0.5, 1.0)
    index = VechIndex(low, high, full.reshape(-1), rows, columns, weight, half)
    for array in index:
        array.flags.writeable = False
    return index


def symmetric_size(entries: int, name: str = "vector") -> int:
    """Return d such that d(d+1)/2 equals the number of entries.

    Parameters
    ----------
    entries : int
        Length of a vech.
    name : str, optional
        The argument's name, for the message.

    Returns
    -------
    int

    Raises
    ------
    ShapeError
        If the length is not triangular.
    """
    dim = (int(np.sqrt(8 * entries + 1)) - 1) // 2
    if dim < 1 or dim * (dim + 1) // 2 != entries:
        raise ShapeError(
            f"{name}: expected d(d+1)/2 entries (1, 3, 6, 10, ...), found {entries}; "
            "pass the lower triangle column by column"
        )
    return dim


def vech(matrix: ArrayLike) -> np.ndarray:
    """Stack the lower triangle of a matrix column by column.

    Parameters
    ----------
    matrix : (d, d) or (d, d, N) array_like
        Symmetric matrices; the upper triangle is not read.

    Returns
    -------
    (d(d+1)/2,) or (d(d+1)/2, N) ndarray

    Raises
    ------
    ShapeError
        If the first two axes differ.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> print(gct.vech([[1.0, 2.0], [2.0, 3.0]]))
    [1. 2. 3.]
    """
    matrix = real_array(matrix, "matrix")
    if matrix.ndim < 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ShapeError(
            f"matrix: expected shape (d, d) or (d, d, N), found {matrix.shape}; "
            "put time on the last axis"
        )
    index = vech_index(matrix.shape[0])
    return matrix[index.rows, index.columns]


def unvech(vector: ArrayLike) -> np.ndarray:
    """Rebuild symmetric matrices from their lower triangles.

    Parameters
    ----------
    vector : (d(d+1)/2,) or (d(d+1)/2, N) array_like
        What `vech` returns.

    Returns
    -------
    (d, d) or (d, d, N) ndarray

    Raises
    ------
    ShapeError
        If the length of the first axis is not triangular.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> print(gct.unvech([1.0, 2.0, 3.0]))
    [[1. 2.]
     [2. 3.]]
    """
    vector = np.atleast_1d(real_array(vector, "vector"))
    dim = symmetric_size(vector.shape[0])
    return vector[vech_index(dim).full].reshape(dim, dim, *vector.shape[1:])


def svec(matrix: np.ndarray) -> np.ndarray:
    """Stack a symmetric matrix so that the Frobenius product becomes the dot product."""
    index = vech_index(matrix.shape[0])
    return (matrix[index.rows, index.columns].T * index.weight).T


def smat(vector: np.ndarray) -> np.ndarray:
    """Undo `svec`."""
    dim = symmetric_size(vector.shape[0])
    index = vech_index(dim)
    plain = (vector.T / index.weight).T
    return plain[index.full].reshape(dim, dim, *vector.shape[1:])


def symmetrise(matrix: np.ndarray) -> np.ndarray:
    """Return the symmetric part (X + X^T) / 2."""
    return matrix / 2 + matrix.T / 2  # where a sum would overflow, halves do not


def positive_spectrum(covariance: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues clipped at zero, and eigenvectors, of a covariance.

    Parameters
    ----------
    covariance : (d, d) ndarray
        Symmetric.
    name : str
        The argument's name, for the message.

    Returns
    -------
    (d,) ndarray, (d, d) ndarray
        Ascending, with an orthonormal basis in the columns.

    Raises
    ------
    ParameterError
        If the smallest eigenvalue is below -1e-10 of the largest.
    """
    values, vectors = np.linalg.eigh(covariance)
    if values[0] < -PSD_TOLERANCE * max(values[-1], 0.0) or values[-1] < 0:
        raise ParameterError(
            f"{name}: expected a positive semidefinite matrix, found smallest eigenvalue "
            f"{values[0]:.4g} beside largest {values[-1]:.4g}; pass a covariance"
        )
    return np.maximum(values, 0.0), vectors


def covariance_matrix(
    value: ArrayLike, name: str = "covariance", size: int | None = None
) -> np.ndarray:
    """Validate a covariance: symmetric to 1e-8 and positive semidefinite.

    Parameters
    ----------
    value : (d, d) array_like
        What the user passed. [x]^2
    name : str, optional
        The argument's name, for the message.
    size : int, optional
        The dimension d it must have.

    Returns
    -------
    (d, d) ndarray
        Symmetrised; eigenvalues between -1e-10 of the largest and zero are clipped to zero.

    Raises
    ------
    ParameterError
        If it is not symmetric or not positive semidefinite.
    ShapeError
        If it is not square or has the wrong size.
    """
    covariance = symmetric_matrix(value, name, size)
    values, vectors = positive_spectrum(covariance, name)
    if np.linalg.eigvalsh(covariance)[0] < 0:
        return symmetrise(vectors * values @ vectors.T)
    return covariance


def factor(covariance: np.ndarray, rank: int | None = None) -> np.ndarray:
    """Return L of full column rank with L L^T equal to a covariance.

    Parameters
    ----------
    covariance : (d, d) ndarray
        Symmetric positive semidefinite. [x]^2
    rank : int, optional
        Number of columns; default: the number of eigenvalues above 1e-13 of the largest.

    Returns
    -------
    (d, r) ndarray
        Eigenvectors scaled by the square roots of the eigenvalues, largest first. [x]

    Raises
    ------
    ParameterError
        If the matrix is not positive semidefinite, or the rank is not between 0 and d.
    """
    values, vectors = positive_spectrum(covariance, "covariance")
    if rank is None:
        rank = int((values > RANK_TOLERANCE * values[-1]).sum())
    elif not 0 <= rank <= values.size:
        raise ParameterError(
            f"rank: expected an integer from 0 to {values.size}, found {rank}; "
            "a factor has at most as many columns as rows"
        )
    keep = slice(values.size - rank, None)
    return (vectors[:, keep] * np.sqrt(values[keep]))[:, ::-1]


def whitening(covariance: np.ndarray, name: str = "covariance") -> tuple[np.ndarray, np.ndarray]:
    """Return Sigma^(-1/2) and Sigma^(1/2), both symmetric.

    Parameters
    ----------
    covariance : (d, d) ndarray
        Positive definite. [x]^2
    name : str, optional
        The argument's name, for the message.

    Returns
    -------
    (d, d) ndarray, (d, d) ndarray
        Whitening matrix [1/x] and its inverse [x].

    Raises
    ------
    ParameterError
        If the matrix is not positive definite to working precision.
    """
    values, vectors = positive_spectrum(covariance, name)
    if values[0] <= RANK_TOLERANCE * values[-1]:
        raise ParameterError(
            f"{name}: expected a positive definite matrix, found smallest eigenvalue "
            f"{values[0]:.4g} beside largest {values[-1]:.4g};"
            " every direction needs some variance"
        )
    root = np.sqrt(values)
    return symmetrise(vectors / root @ vectors.T), symmetrise(vectors * root @ vectors.T)


def is_positive_definite(matrix: np.ndarray) -> bool:
    """Tell whether a symmetric matrix has a Cholesky factor with a positive diagonal."""
    if not np.isfinite(matrix).all():  # LAPACK would call a matrix of NaN definite
        return False
    try:
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True
