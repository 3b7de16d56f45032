"""The Bures-Wasserstein geometry of covariances, singular ones included (Theory 6b).

    W2(P, Q)^2 = min over orthogonal U of |L1 U - L0|_F^2,     P = L0 L0^T,  Q = L1 L1^T

The best U makes L0^T L1 U symmetric positive semidefinite (Procrustes). Everything here is
computed from factors: no matrix is inverted, no root of a nearly singular product is taken, and a
small distance is a norm of small differences rather than a difference of large traces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError, UnreachableError
from gausscontrol.linalg.arrays import real_array, real_vector, symmetric_matrix
from gausscontrol.linalg.symmetric import (
    PSD_TOLERANCE,
    RANK_TOLERANCE,
    covariance_matrix,
    factor,
    symmetrise,
)

__all__ = [
    "align",
    "bures_wasserstein",
    "equilibrated_factor",
    "moment_pair",
    "optimal_transport_map",
    "ranked_factor",
    "read_covariance",
    "read_pair",
    "relative_spectrum",
]

# Eigenvalues of a correlation matrix up to this multiple of d eps are rounding of its entries.
ROUNDING = 8


def bures_wasserstein(P: ArrayLike | tuple, Q: ArrayLike | tuple) -> float:
    """Compute the Wasserstein distance W2 of two Gaussians.

    W2^2 = |m1 - m0|^2 + tr(P + Q - 2 (P^(1/2) Q P^(1/2))^(1/2)), the least mean square distance
    over which tokens must be moved to turn N(m0, P) into N(m1, Q).

    Parameters
    ----------
    P, Q : (d, d) array_like or tuple
        Covariances [x]^2, or pairs (mean [x], covariance [x]^2); both of one kind.

    Returns
    -------
    float
        The distance, not its square; exactly 0 for equal inputs. [x]

    Raises
    ------
    ParameterError
        If a matrix is no covariance, or one argument has a mean and the other has none.
    ShapeError
        If the dimensions differ.

    Notes
    -----
    Theory 6b. Singular covariances are welcome: the distance is |L1 U - L0|_F with factors aligned
    by Procrustes, so nothing is inverted. Eigenvalues that are rounding count as zero; their roots,
    of 1e-8, would otherwise be the distance between two roundings of one singular matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> print(gct.bures_wasserstein(([0.0], [[1.0]]), ([10.0], [[1.0]])))
    10.0
    >>> print(gct.bures_wasserstein(np.diag([4.0, 0.0]), np.diag([1.0, 0.0])))
    1.0
    """
    mean0, S0 = read_pair(P, "P")
    mean1, S1 = read_pair(Q, "Q")
    if (mean0 is None) != (mean1 is None):
        found = "one covariance and one pair (mean, covariance)"
        raise ParameterError(f"Q: expected the same kind as P, found {found}; pass both as pairs")
    if len(S0) != len(S1):
        raise ShapeError(
            f"Q: expected dimension {len(S0)} as in P, found {len(S1)}; "
            "compare Gaussians of one space"
        )
    shift = 0.0 if mean0 is None else float(np.linalg.norm(mean1 - mean0))
    return float(np.hypot(shift, _covariance_distance(S0, S1)))


def optimal_transport_map(S0: ArrayLike, S1: ArrayLike) -> np.ndarray:
    """Return the matrix that carries N(0, S0) to N(0, S1) cheapest.

    T S0 T^T = S1 with E |T x - x|^2 = W2^2. For S0 > 0 it is the symmetric matrix
    S0^(-1/2) (S0^(1/2) S1 S0^(1/2))^(1/2) S0^(-1/2).

    Parameters
    ----------
    S0, S1 : (d, d) array_like
        Covariances; the rank of S1 is at most that of S0. [x]^2

    Returns
    -------
    (d, d) ndarray
        For singular S0, zero on the complement of its range, where there are no tokens.

    Raises
    ------
    ParameterError
        If a matrix is no covariance.
    ShapeError
        If the dimensions differ.
    UnreachableError
        If S1 has the higher rank: no map raises a rank.

    Notes
    -----
    Theory 6b, 6f: T = L1 U L0^+, with factors of full column rank aligned by Procrustes. It is
    symmetric where S0 > 0 and where both ranges are the same; between different ranges a
    symmetric T need not exist. Ranks count eigenvalues of the correlation matrix above 1e-13 of
    the largest, whatever the units of the coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> print(gct.optimal_transport_map([[1.0]], [[4.0]]))
    [[2.]]
    >>> T = gct.optimal_transport_map(np.diag([4.0, 1.0, 0.0]), np.diag([1.0, 4.0, 0.0]))
    >>> bool(np.allclose(T, np.diag([0.5, 2.0, 0.0])))
    True
    """
    for name, value in (("S0", S0), ("S1", S1)):
        if _is_pair(value):
            raise ShapeError(
                f"{name}: expected a covariance (d x d), found a pair; the map of the deviations "
                "does not depend on means, so pass the covariances alone"
            )
    start = read_covariance(S0, "S0")
    goal = read_covariance(S1, "S1", len(start))
    L0, L1 = ranked_factor(start), ranked_factor(goal)
    if L0.shape[1] < L1.shape[1]:
        raise UnreachableError(
            f"S1: expected rank at most {L0.shape[1]}, that of S0, found rank {L1.shape[1]}; no "
            "map raises a rank, so swap the arguments or add covariance to S0"
        )
    if L0.shape[1] == len(start):
        # Rows of L0 in units of their own, so that the inverse is as accurate as L0.
        scale = np.linalg.norm(L0, axis=1)
        transport = np.linalg.solve((L0 / scale[:, None]).T, align(L0, L1).T).T / scale
        return _symmetric_part(transport, np.linalg.norm(L1, axis=1)[:, None] / scale)
    return align(L0, L1) @ np.linalg.pinv(L0, rcond=0)


def align(L0: np.ndarray, L1: np.ndarray) -> np.ndarray:
    """Return L1 U, as near to L0 as an orthogonal U can bring it.

    Parameters
    ----------
    L0 : (d, r) ndarray
        [x]
    L1 : (d, s) ndarray
        s <= r; columns of zeros are added. [x]

    Returns
    -------
    (d, r) ndarray
        L0^T L1 U is symmetric positive semidefinite.
    """
    missing = L0.shape[1] - L1.shape[1]
    if missing:
        L1 = np.hstack([L1, np.zeros((len(L1), missing))])
    left, _, right = np.linalg.svd(L0.T @ L1)
    return L1 @ (right.T @ left.T)


def equilibrated_factor(covariance: np.ndarray) -> np.ndarray:
    """Return L with L L^T equal to a covariance, at least as accurate as its entries.

    Parameters
    ----------
    covariance : (d, d) ndarray
        Symmetric positive semidefinite. [x]^2

    Returns
    -------
    (d, r) ndarray
        [x]

    Notes
    -----
    The correlation matrix is factored and scaled back, so that no unit of a coordinate matters
    and a diagonal matrix gives its exact roots. Eigenvalues of the correlation matrix below
    8 d times the machine precision are rounding of its entries; their roots would be errors of
    1e-8.
    """
    scale, values, vectors = _equilibrated(covariance)
    keep = values > ROUNDING * len(values) * np.finfo(float).eps * values[-1]
    return scale[:, None] * vectors[:, keep] * np.sqrt(values[keep])


def relative_spectrum(covariance: np.ndarray) -> np.ndarray:
    """Return the eigenvalues that count towards the rank, over the largest.

    Parameters
    ----------
    covariance : (d, d) ndarray
        Symmetric positive semidefinite. [x]^2

    Returns
    -------
    (d,) ndarray
        Those of the correlation matrix, largest first, so that the units of the coordinates do
        not decide; zeros for a zero covariance.
    """
    values = _counted(covariance)[1][::-1]
    return values / values[0] if values[0] else values


def ranked_factor(covariance: np.ndarray, rank: int | None = None) -> np.ndarray:
    """Return L of full column rank with L L^T equal to a covariance.

    Parameters
    ----------
    covariance : (d, d) ndarray
        Symmetric positive semidefinite. [x]^2
    rank : int, optional
        Number of columns; default: the number of eigenvalues of the correlation matrix above 1e-13
        of the largest.

    Returns
    -------
    (d, r) ndarray
        [x]

    Notes
    -----
    A rank that the correlation matrix does not have, to 1e-10, is taken from the covariance: what
    is left out is then small beside its largest eigenvalue.
    """
    scale, values, vectors = _counted(covariance)
    if rank is None:
        rank = int((values > RANK_TOLERANCE * values[-1]).sum())
    elif 0 < rank < values.size and values[-rank - 1] > PSD_TOLERANCE * values[-1]:
        return factor(covariance, rank)
    keep = slice(values.size - rank, None)
    return (scale[:, None] * vectors[:, keep] * np.sqrt(values[keep]))[:, ::-1]


def moment_pair(value: Any, name: str) -> Any:
    """Return (mean, covariance) of what has both as attributes, anything else as it is.

    Parameters
    ----------
    value : object
        What the user passed; an `Equilibrium`, for one.
    name : str
        The argument's name, for the message.

    Returns
    -------
    tuple or object

    Raises
    ------
    ParameterError
        If its mean is None, as that of an equilibrium whose mean equation has no solution.
    """
    # An array has a method called mean, and no covariance.
    if not (hasattr(value, "mean") and hasattr(value, "covariance")):
        return value
    if value.mean is None:
        raise ParameterError(
            f"{name} mean: expected d numbers, found None, since the mean has no equilibrium; "
            "pass (mean, covariance)"
        )
    return value.mean, value.covariance


def read_pair(
    value: ArrayLike | tuple, name: str, dim: int | None = None
) -> tuple[np.ndarray | None, np.ndarray]:
    """Read a covariance, or a pair (mean, covariance), validated.

    Parameters
    ----------
    value : (d, d) array_like, tuple, or an object with mean and covariance
        What the user passed.
    name : str
        The argument's name, for the message.
    dim : int, optional
        The dimension d it must have.

    Returns
    -------
    mean : (d,) ndarray or None
        None for a bare covariance. [x]
    covariance : (d, d) ndarray
        [x]^2

    Raises
    ------
    ShapeError, ParameterError
        If a shape is wrong or the covariance is none.
    """
    value = moment_pair(value, name)
    if not _is_pair(value):
        return None, read_covariance(value, name, dim)
    mean, covariance = value
    covariance = real_array(covariance, f"{name} covariance")
    if covariance.shape == (1,):
        covariance = covariance.reshape(1, 1)
    covariance = read_covariance(covariance, f"{name} covariance", dim)
    return real_vector(mean, f"{name} mean", len(covariance)), covariance


def read_covariance(value: ArrayLike, name: str, dim: int | None = None) -> np.ndarray:
    """Read a covariance as `covariance_matrix` does, but round relative to each entry.

    Parameters
    ----------
    value : (d, d) array_like
        What the user passed. [x]^2
    name : str
        The argument's name, for the message.
    dim : int, optional
        The dimension d it must have.

    Returns
    -------
    (d, d) ndarray
        Negative eigenvalues of the correlation matrix that are rounding are clipped there, so that
        no small variance drowns in the rounding of a large one.

    Raises
    ------
    ShapeError, ParameterError
        If the shape is wrong or it is no covariance.
    """
    clipped = covariance_matrix(value, name, dim)
    given = symmetric_matrix(value, name, dim)
    if np.array_equal(clipped, given):
        return given
    scale, values, vectors = _equilibrated(given)
    if values[0] < -PSD_TOLERANCE * values[-1]:
        return clipped
    correlation = symmetrise(vectors * np.maximum(values, 0.0) @ vectors.T)
    return scale[:, None] * correlation * scale


def _covariance_distance(S0: np.ndarray, S1: np.ndarray) -> float:
    if np.array_equal(S0, S1):
        return 0.0
    L0, L1 = equilibrated_factor(S0), equilibrated_factor(S1)
    if L0.shape[1] < L1.shape[1]:
        L0, L1 = L1, L0
    return float(np.linalg.norm(align(L0, L1) - L0))


def _symmetric_part(X: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the mean of X and X^T, the entry of the smaller error counting for more."""
    total = error + error.T
    weight = np.where(total > 0, error.T / np.where(total > 0, total, 1.0), 0.5)
    return weight * X + (weight * X).T


def _equilibrated(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standard deviations, and eigenvalues and vectors of the correlation matrix."""
    scale = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    safe = np.where(scale > 0, scale, np.inf)
    return scale, *np.linalg.eigh(covariance / safe[:, None] / safe)


def _counted(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a scale of the coordinates and the spectrum by which the rank counts."""
    scale, values, vectors = _equilibrated(covariance)
    if values[0] < -PSD_TOLERANCE * values[-1]:
        # No covariance has such correlations: some variances are nothing but rounding.
        scale = np.ones(len(values))
        values, vectors = np.linalg.eigh(covariance)
    return scale, np.maximum(values, 0.0), vectors


def _is_pair(value: Any) -> bool:
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        return False
    try:
        shapes = np.ndim(value[0]), np.ndim(value[1])
    except ValueError:  # ragged, which is refused where it is read
        return True
    # Two rows are a matrix, but [0], [1] are a mean and a variance, no 2 x 1 matrix.
    return shapes != (1, 1) or len(value[0]) == len(value[1]) == 1
