"""Questions about floating-point matrices that rounding must not answer.

    M = N 2^e,   N a matrix of integers

Every finite floating-point number is an integer times a power of two, so the rank of a matrix, and
whether two products are equal, can be decided with integers, exactly. Conditions that are
equalities (a matrix is singular, an operator is self-adjoint) are decided here or not at all;
strict inequalities need no such care.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

__all__ = ["exact_rank", "integers", "tensor_sum"]

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
    pairs = [(*_product(v), *_product(b)) for v, b in zip(V, B, strict=True)]
    lowest = min(v_power + b_power for _, v_power, _, b_power in pairs)
    left = np.stack([(v * 2 ** (vp + bp - lowest)).ravel() for v, vp, _, bp in pairs])
    right = np.stack([b.ravel() for _, _, b, _ in pairs])
    dim = len(pairs[0][0])
    return np.dot(left.T, right).reshape((dim,) * 4)


def _product(factors: Sequence[np.ndarray]) -> tuple[np.ndarray, int]:
    """Multiply matrices as integers."""
    product, power = integers(factors[0])
    for factor in factors[1:]:
        numerators, exponent = integers(factor)
        product, power = np.dot(product, numerators), power + exponent
    return product, power


def _reduced(row: np.ndarray) -> np.ndarray:
    divisor = gcd(*(int(entry) for entry in row))
    return row // divisor if divisor > 1 else row
