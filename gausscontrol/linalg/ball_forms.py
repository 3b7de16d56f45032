"""Linear maps and quadratic forms on symmetric matrices, in ball arithmetic (Theory 2, 4, 5).

    E -> sum_m P_m E R_m + transpose,     E -> <E, operator(E)>,     S -> <G, S (x) S>

in plain entries of vech, so that no square root of two comes in; |E|^2 is then x^T W x with 1 on
and 2 off the diagonal of E. Every result encloses what exact matrices inside give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.linalg.balls import (
    EPS,
    exact,
    exact_matrix,
    floats,
    is_positive_definite,
    symmetric_part,
)
from gausscontrol.linalg.symmetric import symmetric_size, vech_index

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = [
    "form_bounds",
    "form_matrix",
    "pair_form",
    "symmetric_map",
    "unvech",
    "vech",
]


def vech(X: BallMatrix) -> BallMatrix:
    """Stack the lower triangle of a matrix column by column, as a column."""
    entries = X.entries()
    low = vech_index(X.nrows()).low.tolist()
    return type(X)([[entries[position]] for position in low])


def unvech(vector: BallMatrix, dim: int) -> BallMatrix:
    """Undo `vech`."""
    entries, full = vector.entries(), vech_index(dim).full.reshape(dim, dim).tolist()
    return type(vector)([[entries[k] for k in row] for row in full])


def symmetric_map(P: Sequence[BallMatrix], R: Sequence[BallMatrix]) -> BallMatrix:
    """Return E -> sum_m P_m E R_m + transpose as a matrix on vech.

    Parameters
    ----------
    P, R : sequences of (d, d) ball matrices

    Returns
    -------
    (n, n) ball matrix
        As `symmetric_operator` gives in floating point: one product of d^2 x m matrices, then
        four gathers.
    """
    new, dim = type(P[0]), P[0].nrows()
    left = new([matrix.entries() for matrix in P])
    right = new([matrix.entries() for matrix in R])
    tensor = (left.transpose() * right).table()  # at [i d + k][l d + j]: sum_m P[i, k] R[l, j]
    index = vech_index(dim)
    pairs = list(zip(index.rows.tolist(), index.columns.tolist(), strict=True))
    rows = []
    for i, j in pairs:
        row = []
        for k, l in pairs:
            term = tensor[i * dim + k][l * dim + j] + tensor[j * dim + k][l * dim + i]
            if k != l:  # such an E has ones at (k, l) and at (l, k)
                term += tensor[i * dim + l][k * dim + j] + tensor[j * dim + l][k * dim + i]
            row.append(term)
        rows.append(row)
    return new(rows)


def form_matrix(operator: BallMatrix) -> BallMatrix:
    """Return the symmetric matrix of E -> <E, operator(E)>, in plain entries of vech."""
    weight = vech_index(symmetric_size(operator.nrows())).weight
    doubles = [exact(round(float(w) ** 2)) for w in weight]
    table = [[w * x for x in row] for w, row in zip(doubles, operator.table(), strict=True)]
    return symmetric_part(type(operator)(table))


def pair_form(G: BallMatrix, dim: int) -> BallMatrix:
    """Return the symmetric matrix of S -> <G, S (x) S>, in plain entries of vech.

    Parameters
    ----------
    G : (d^2, d^2) ball matrix
        Paired with the Kronecker product of symmetric S with itself, so that row (i, k) and
        column (j, l) meet S_ij S_kl.
    dim : int
        d.

    Returns
    -------
    (n, n) ball matrix
    """
    table, full = G.table(), vech_index(dim).full.tolist()
    steps = [divmod(position, dim) for position in range(dim * dim)]
    realigned = [[table[i * dim + k][j * dim + l] for k, l in steps] for i, j in steps]
    doubling = np.zeros((dim * dim, dim * (dim + 1) // 2))
    doubling[np.arange(dim * dim), full] = 1.0
    D = exact_matrix(doubling)
    return symmetric_part(D.transpose() * type(G)(realigned) * D)


def form_bounds(X: BallMatrix) -> tuple[Ball, Ball]:
    """Return exact numbers l, u with l |E|^2 <= form of E <= u |E|^2, Frobenius norm.

    Parameters
    ----------
    X : (n, n) ball matrix
        Symmetric, in plain entries of vech.

    Returns
    -------
    tuple of balls
        Eigenvalues of the midpoints, rounded outwards and then proved; NaN where they are not.
    """
    weight = vech_index(symmetric_size(X.nrows())).weight
    middle = floats(X)
    nan = exact(np.nan)
    if not np.isfinite(middle).all():
        return nan, nan
    values = np.linalg.eigvalsh(middle / weight[:, None] / weight)
    room = 4 * len(values) * EPS * np.abs(values).max()
    low, high = exact(values[0] - room), exact(values[-1] + room)
    norm = exact_matrix(np.diag(np.rint(weight**2)))
    return (
        low if is_positive_definite(X - norm * low) else nan,
        high if is_positive_definite(norm * high - X) else nan,
    )
