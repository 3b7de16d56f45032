"""Questions about floating-point matrices that rounding must not answer.

    M = N 2^e,   N a matrix of integers

Every finite floating-point number is an integer times a power of two, so the rank of a matrix, the
sign of a semidefinite one, and whether two products are equal, can be decided with integers,
exactly. Conditions that are equalities (a matrix is singular, an operator is self-adjoint) are
decided here or not at all; strict inequalities need no such care.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

__all__ = [
    "exact_rank",
    "exactly_nonpositive",
    "integer_product",
    "integers",
    "nearest",
    "tensor_sum",
]

MANTISSA = 53


def integers(array: np.ndarray) -> tuple[np.ndarray, int]:
    """Write an array as integers times a power of two.

    Parameters
    ----------
    array : ndarray of float
        Finite.

    Returns
    -------
    ndarray of int objects, int
        N and e with array = N 2^e exactly.

    Examples
    --------
    >>> import numpy as np
    >>> N, e = integers(np.array([0.75, -2.0]))
    >>> [int(n) * 2.0**e for n in N]
    [0.75, -2.0]
    """
    mantissa, exponent = np.frexp(np.asarray(array, dtype=float))
    numerators = np.ldexp(mantissa, MANTISSA).astype(np.int64).astype(object)
    exponent = exponent.astype(int) - MANTISSA
    used = mantissa != 0
    if not used.any():
        return numerators, 0
    lowest = int(exponent[used].min())
    shifts = np.where(used, exponent - lowest, 0).astype(object)
    return numerators * 2**shifts, lowest


def exact_rank(matrix: np.ndarray) -> int:
    """Return the rank of a floating-point matrix, without rounding.

    Parameters
    ----------
    matrix : (m, n) ndarray of float
        Finite.

    Returns
    -------
    int

    Notes
    -----
    Gaussian elimination on integers; each row is divided by its greatest common divisor.

    Examples
    --------
    >>> import numpy as np
    >>> exact_rank(np.array([[1.0, 2.0], [2.0, 4.0]]))
    1
    >>> exact_rank(np.array([[1.0, 2.0], [2.0, np.nextafter(4.0, 5.0)]]))
    2
    """
    rows = [_reduced(integers(row)[0]) for row in np.atleast_2d(matrix)]
    rank = 0
    for column in range(matrix.shape[1]):
        waiting = [i for i in range(rank, len(rows)) if rows[i][column]]
        if not waiting:
            continue
        pivot = min(waiting, key=lambda i: abs(rows[i][column]))
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        lead = rows[rank]
        for i in range(rank + 1, len(rows)):
            if rows[i][column]:
                rows[i] = _reduced(lead[column] * rows[i] - rows[i][column] * lead)
        rank += 1
        # Rows that have become zero have nothing left to say.
        rows = rows[:rank] + [row for row in rows[rank:] if row.any()]
    return rank


def exactly_nonpositive(X: np.ndarray) -> bool:
    """Tell whether X + X^T <= 0 for a square matrix of integers, by elimination.

    Parameters
    ----------
    X : (d, d) ndarray of int objects

    Returns
    -------
    bool

    Notes
    -----
    A semidefinite matrix with a zero on its diagonal has a zero row there; otherwise a diagonal
    entry is a pivot, and the Schur complement decides.

    Examples
    --------
    >>> import numpy as np
    >>> exactly_nonpositive(np.array([[-1, 1], [1, -1]], dtype=object))
    True
    >>> exactly_nonpositive(np.array([[-1, 1], [1, 0]], dtype=object))
    False
    """
    M = -(X + X.T)
    while M.size:
        diagonal = M.diagonal()
        if any(entry < 0 for entry in diagonal):
            return False
        pivots = [i for i, entry in enumerate(diagonal) if entry > 0]
        if not pivots:
            return not M.any()
        at = pivots[0]
        row = np.delete(M[at], at)
        M = np.delete(np.delete(M, at, 0), at, 1) * M[at, at] - np.outer(row, row)
        divisor = gcd(*(int(entry) for entry in M.reshape(-1))) if M.size else 1
        if divisor > 1:
            M = M // divisor
    return True


def integer_product(factors: Sequence[np.ndarray]) -> tuple[np.ndarray, int]:
    """Multiply matrices without rounding.

    Parameters
    ----------
    factors : sequence of ndarray of float
        Finite.

    Returns
    -------
    ndarray of int objects, int
        N and e with the product N 2^e.

    Examples
    --------
    >>> import numpy as np
    >>> N, e = integer_product([np.array([[0.5]]), np.array([[3.0]])])
    >>> int(N[0, 0]) * 2.0**e
    1.5
    """
    product, power = integers(factors[0])
    for factor in factors[1:]:
        numerators, exponent = integers(factor)
        product, power = np.dot(product, numerators), power + exponent
    return product, power


def nearest(numerators: np.ndarray, exponent: int) -> np.ndarray:
    """Return the floats nearest N 2^e, within one unit in the last place.

    Parameters
    ----------
    numerators : ndarray of int objects
    exponent : int

    Returns
    -------
    ndarray of float
        Infinite where double precision ends.

    Examples
    --------
    >>> import numpy as np
    >>> nearest(np.array([3, -2**90], dtype=object), -1).tolist() == [1.5, -(2.0**89)]
    True
    """
    # Sixty-four leading bits are more than a float keeps, and never overflow.
    dropped = [max(int(n).bit_length() - 64, 0) for n in numerators.flat]
    leading = [float(int(n) >> k) for n, k in zip(numerators.flat, dropped, strict=True)]
    powers = np.clip(np.array(dropped, dtype=float) + exponent, -5000, 5000).astype(int)
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(leading, powers).reshape(numerators.shape)


def tensor_sum(V: Sequence[Sequence[np.ndarray]], B: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Return sum_h V_h (x) B_h as integers, up to a power of two.

    Parameters
    ----------
    V, B : sequence of sequences of ndarray of float
        For each head the factors of V_h, and those of B_h, in the order of their product.

    Returns
    -------
    (d, d, d, d) ndarray of int objects
        Entry (i, k, l, j) is sum_h V_h[i, k] B_h[l, j], times one power of two.

    Examples
    --------
    >>> import numpy as np
    >>> tensor_sum([[np.array([[0.5]])]], [[np.array([[3.0]]), np.array([[0.1]])]]).shape
    (1, 1, 1, 1)
    """
    heads = zip(V, B, strict=True)
    pairs = [(*integer_product(v), *integer_product(b)) for v, b in heads]
    lowest = min(v_power + b_power for _, v_power, _, b_power in pairs)
    left = np.stack([(v * 2 ** (vp + bp - lowest)).ravel() for v, vp, _, bp in pairs])
    right = np.stack([b.ravel() for _, _, b, _ in pairs])
    dim = len(pairs[0][0])
    return np.dot(left.T, right).reshape((dim,) * 4)


def _reduced(row: np.ndarray) -> np.ndarray:
    divisor = gcd(*(int(entry) for entry in row))
    return row // divisor if divisor > 1 else row
