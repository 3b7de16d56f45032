"""Matrix inequalities proved in ball arithmetic (Theory 9.3).

A ball is a number with a radius, a ball matrix has one in each entry, and every operation
encloses whatever the same operation gives on exact matrices inside::

    X > 0          elimination without exchanges has positive pivots
    X Hurwitz      Routh's table of the characteristic polynomial has a positive first column
    X >= 0         (exact rationals) the characteristic polynomial alternates in sign

A predicate that says True has proved its claim for EVERY matrix in the ball; False means only that
there is no proof at the precision in force. Floats enter as the dyadic rationals they are, without
rounding. A ball that holds NaN or infinity proves nothing.

This is the only module that imports python-flint, and it does so when first asked to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from gausscontrol.errors import GausscontrolError

if TYPE_CHECKING:
    import flint

    Ball = flint.arb
    BallMatrix = flint.arb_mat
    RationalMatrix = flint.fmpq_mat

__all__ = [
    "alternates",
    "block_matrix",
    "column",
    "congruence",
    "exact",
    "exact_matrix",
    "floats",
    "frobenius",
    "identity",
    "inverse",
    "is_hurwitz",
    "is_positive_definite",
    "is_schur",
    "is_zero",
    "kronecker",
    "midpoint",
    "precision",
    "rational_matrix",
    "require_balls",
    "reshaped",
    "solve",
    "spectral_bound",
    "symmetric_part",
    "widened",
]

# Bits of the midpoints; enough for conditions of 1e30 beside margins of 1e-15.
PRECISION = 320
EPS = float(np.finfo(float).eps)


def _flint() -> Any:
    try:
        import flint
    except ImportError as error:
        raise GausscontrolError(
            "rigorous: expected python-flint, found none; install it with "
            'pip install "gausscontrol[rigorous]"'
        ) from error
    return flint


def require_balls() -> None:
    """Refuse to go on without ball arithmetic.

    Raises
    ------
    GausscontrolError
        If python-flint is not installed.
    """
    _flint()


@contextmanager
def precision(bits: int = PRECISION) -> Iterator[None]:
    """Compute with midpoints of at least so many bits.

    Parameters
    ----------
    bits : int, optional
        The precision in force is never lowered.

    Raises
    ------
    GausscontrolError
        If python-flint is not installed.
    """
    context = _flint().ctx
    with context.workprec(max(bits, context.prec)):
        yield


# -- entering, leaving and rearranging ------------------------------------------------------------


def exact(value: float) -> Ball:
    """Return a float as a ball of radius zero."""
    return _flint().arb(float(value))


def exact_matrix(array: np.ndarray) -> BallMatrix:
    """Return a float matrix as a ball matrix of radius zero."""
    return _flint().arb_mat(np.asarray(array, dtype=float).tolist())


def rational_matrix(array: np.ndarray) -> RationalMatrix:
    """Return a finite float matrix as a matrix of rationals, without rounding."""
    flint = _flint()
    rows = np.asarray(array, dtype=float).tolist()
    return flint.fmpq_mat([[flint.fmpq(*x.as_integer_ratio()) for x in row] for row in rows])


def identity(size: int) -> BallMatrix:
    """Return the identity."""
    return exact_matrix(np.eye(size))


def midpoint(X: BallMatrix) -> BallMatrix:
    """Return the midpoints, with radius zero."""
    return X.mid()


def floats(X: BallMatrix) -> np.ndarray:
    """Return the midpoints rounded to floats, of which nothing is claimed."""
    return np.array([[float(x.mid()) for x in row] for row in X.table()])


def widened(X: BallMatrix, radius: Ball) -> BallMatrix:
    """Return a ball matrix that holds every matrix within a Frobenius distance of X."""
    flint = _flint()
    ball = flint.arb(0, radius.abs_upper())
    return X + flint.arb_mat(X.nrows(), X.ncols(), [ball] * (X.nrows() * X.ncols()))


def column(X: BallMatrix) -> BallMatrix:
    """Stack a matrix row by row, as a column."""
    return _flint().arb_mat(X.nrows() * X.ncols(), 1, X.entries())


def reshaped(vector: BallMatrix, columns: int) -> BallMatrix:
    """Undo `column`."""
    entries = vector.entries()
    return _flint().arb_mat(len(entries) // columns, columns, entries)


def block_matrix(blocks: Sequence[Sequence[BallMatrix]]) -> BallMatrix:
    """Return the matrix made of rows of blocks."""
    rows = []
    for line in blocks:
        tables = [block.table() for block in line]
        rows += [reduce(add, pieces) for pieces in zip(*tables, strict=True)]
    return type(blocks[0][0])(rows)


# -- products -------------------------------------------------------------------------------------


def symmetric_part(X: BallMatrix) -> BallMatrix:
    """Return (X + X^T) / 2."""
    return (X + X.transpose()) * exact(0.5)


def congruence(P: BallMatrix, X: BallMatrix) -> BallMatrix:
    """Return P X P^T."""
    return P * X * P.transpose()


def kronecker(P: BallMatrix, R: BallMatrix) -> BallMatrix:
    """Return the Kronecker product."""
    left, right = P.table(), R.table()
    return _flint().arb_mat([[x * y for x in row for y in line] for row in left for line in right])


def frobenius(X: BallMatrix) -> Ball:
    """Return an upper bound on the Frobenius norm, as an exact number."""
    arb = _flint().arb
    # The upper end first: a ball around zero has no real square root.
    return sum((x * x for x in X.entries()), arb(0)).abs_upper().sqrt().abs_upper()


def spectral_bound(X: BallMatrix) -> Ball:
    """Return an upper bound on the spectral norm, as an exact number.

    The largest singular value of the midpoints, rounded up, if X^T X <= its square is then proved;
    the Frobenius norm otherwise.
    """
    middle = floats(X)
    if np.isfinite(middle).all():
        bound = exact(np.linalg.norm(middle, 2) * (1 + 4 * len(middle) * EPS))
        if is_positive_definite(identity(X.ncols()) * (bound * bound) - X.transpose() * X):
            return bound
    return frobenius(X)


# -- what may fail --------------------------------------------------------------------------------


def inverse(X: BallMatrix) -> BallMatrix | None:
    """Return a ball matrix that holds all inverses, or None if X is not proved invertible."""
    try:
        return X.inv()
    except ZeroDivisionError:
        return None


def solve(X: BallMatrix, Y: BallMatrix) -> BallMatrix | None:
    """Return an APPROXIMATE solution of X Z = Y without bounds, or None if there is none."""
    try:
        return X.solve(Y, algorithm="approx")
    except ZeroDivisionError:
        return None


def is_positive_definite(X: BallMatrix) -> bool:
    """Prove that symmetric matrices are positive definite.

    Parameters
    ----------
    X : (n, n) ball matrix
        Only the lower triangle is read.

    Returns
    -------
    bool
        True if every symmetric matrix whose lower triangle lies in that of X is positive
        definite.

    Notes
    -----
    Gaussian elimination of each matrix in the ball has its pivots in the balls computed here, and
    a symmetric matrix is positive definite if and only if all pivots are positive.
    """
    if not _is_finite(X):
        return False
    rows = X.table()
    for k, pivots in enumerate(rows):
        pivot = pivots[k]
        if not pivot > 0:
            return False
        for i in range(k + 1, len(rows)):
            row, factor = rows[i], rows[i][k] / pivot
            for j in range(k + 1, i + 1):
                row[j] -= factor * rows[j][k]
    return True


def is_hurwitz(X: BallMatrix) -> bool:
    """Prove that all eigenvalues have negative real part.

    Parameters
    ----------
    X : (n, n) ball matrix

    Returns
    -------
    bool
        True if that holds for every matrix in the ball.

    Notes
    -----
    Routh's criterion: the first column of the table of a real polynomial with positive leading
    coefficient is positive if and only if all roots lie in the open left half-plane. It needs no
    Lyapunov matrix and does not depend on the coordinates, in which one may be hard to find.
    """
    if not _is_finite(X):
        return False
    coefficients = X.charpoly().coeffs()[::-1]
    if len(coefficients) != X.nrows() + 1:
        return False
    above, row = coefficients[::2], coefficients[1::2]
    while row:
        if not row[0] > 0:
            return False
        share = above[0] / row[0]
        shifted = row[1:] + [exact(0)] * (len(above) - len(row))
        below = [x - share * y for x, y in zip(above[1:], shifted, strict=True)]
        above, row = row, below
    return True


def is_schur(X: BallMatrix) -> bool:
    """Prove that all eigenvalues lie inside the unit circle.

    Parameters
    ----------
    X : (n, n) ball matrix

    Returns
    -------
    bool
        True if that holds for every matrix in the ball.

    Notes
    -----
    s = (z - 1) / (z + 1) takes the open unit disk onto the open left half-plane.
    """
    if not _is_finite(X):
        return False
    one = identity(X.nrows())
    shifted = inverse(X + one)
    return shifted is not None and is_hurwitz(shifted * (X - one))


def is_zero(X: BallMatrix | RationalMatrix) -> bool:
    """Tell whether every entry is exactly zero."""
    return all(x == 0 for x in X.entries())


def alternates(X: RationalMatrix) -> bool:
    """Decide whether a symmetric matrix of rationals is positive semidefinite.

    Parameters
    ----------
    X : (n, n) rational matrix
        Symmetric.

    Returns
    -------
    bool
        An exact answer both ways: as all roots are real, none is negative if and only if the
        coefficients of the characteristic polynomial alternate in sign, zeros allowed.
    """
    coefficients = X.charpoly().coeffs()[::-1]
    return all(c >= 0 if k % 2 == 0 else c <= 0 for k, c in enumerate(coefficients))


def _is_finite(X: BallMatrix) -> bool:
    return all(x.is_finite() for x in X.entries())
