"""Planes of covariances to draw in, and windows on them (Theory 1.6).

    Sigma = base + x E1 + y E2,   by default E = u u^T for two eigenvectors u of a covariance

An eigenvector has no sign of its own; the largest entry is made positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.symmetric import symmetrise

__all__ = ["eigen_plane", "read_limits", "read_plane"]


def eigen_plane(
    Sigma: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, tuple[str, str]]:
    """Return the plane in which the largest and the smallest eigenvalue change.

    Parameters
    ----------
    Sigma : (d, d) ndarray
        Positive definite. [x]^2

    Returns
    -------
    basis : (2, d, d) ndarray
        u u^T for both eigenvectors u; the first and the last coordinate for a multiple of the
        identity.
    values : (2,) ndarray
        The largest and the smallest eigenvalue. [x]^2
    names : tuple of str
        What the axes are called.
    """
    values, vectors = np.linalg.eigh(Sigma)
    if np.ptp(values) <= 1e-9 * values[-1]:
        vectors = np.eye(len(Sigma))[:, ::-1]
    chosen = vectors[:, [-1, 0]]
    chosen = chosen * np.sign(chosen[np.abs(chosen).argmax(axis=0), [0, 1]])
    basis = np.stack([np.outer(u, u) for u in chosen.T])
    names = [f"eigenvalue along {_direction(u)} [x]$^2$" for u in chosen.T]
    return basis, values[[-1, 0]], (names[0], names[1])


def _direction(u: np.ndarray) -> str:
    # Of long vectors the largest entry says enough for the label of an axis.
    if len(u) > 3:
        k = int(np.abs(u).argmax())
        return f"u, u[{k}] = {u[k]:.2g}"
    return f"({', '.join(f'{entry:.2g}' for entry in u + 0.0)})"


def read_plane(plane: ArrayLike, dim: int) -> np.ndarray:
    """Return two independent symmetric matrices.

    Parameters
    ----------
    plane : (2, d, d) array_like
    dim : int

    Returns
    -------
    (2, d, d) ndarray

    Raises
    ------
    ParameterError, ShapeError
        If they are of another shape, not symmetric, or dependent.
    """
    basis = real_array(plane, "plane")
    if basis.shape != (2, dim, dim):
        raise ShapeError(
            f"plane: expected two {dim} x {dim} matrices, found shape {basis.shape}; "
            "pass plane=(E1, E2)"
        )
    if not np.allclose(basis, basis.transpose(0, 2, 1), rtol=0, atol=1e-8 * np.abs(basis).max()):
        raise ParameterError(
            "plane: expected symmetric matrices, found one that is not; symmetrise"
        )
    if np.linalg.matrix_rank(basis.reshape(2, -1), tol=1e-8 * np.linalg.norm(basis)) < 2:
        raise ParameterError("plane: expected independent matrices, found multiples; pass others")
    return np.stack([symmetrise(E) for E in basis])


def read_limits(limits: ArrayLike) -> np.ndarray:
    """Return the limits of a window.

    Parameters
    ----------
    limits : (2, 2) array_like
        (lowest, highest) across, then upwards.

    Returns
    -------
    (2, 2) ndarray

    Raises
    ------
    ParameterError
        If they are no two increasing pairs.
    """
    window = real_array(limits, "limits")
    if window.shape != (2, 2) or not (window[:, 0] < window[:, 1]).all():
        raise ParameterError(
            f"limits: expected ((lowest, highest), (lowest, highest)), found {limits!r}; "
            "pass two increasing pairs"
        )
    return window
