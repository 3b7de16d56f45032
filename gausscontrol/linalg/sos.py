"""Sums of squares: Gram matrices and the identities between polynomials they meet (Theory 4.8).

    p(e) = z(e)^T G z(e),   G >= 0        S(e) = (z (x) I)^T G (z (x) I),   G >= 0
    sum_k A_k svec(G_k) = b                                  (one row for every monomial)

Gram matrices stand on scaled monomials z_m = w_m e^m and rows are divided by w_m, so that the map
svec(G) -> z^T G z has orthonormal rows for monomials of one degree: identities are well
conditioned, and a small change of a polynomial is absorbed by an equally small one of G.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import lsmr

from gausscontrol.errors import ParameterError
from gausscontrol.linalg.polynomials import (
    Monomials,
    Polynomial,
    graded_position,
    monomial_count,
    monomials,
    polynomial_degree,
)
from gausscontrol.linalg.symmetric import vech_index

__all__ = ["Identity", "gram_map", "matrix_gram_map", "shifted_symmetric"]

# A corrected identity stops improving after two or three passes of least squares.
PASSES = 4


def shifted_symmetric(dim: int) -> list[list[Polynomial]]:
    """Return the entries of I + E as polynomials in e = svec(E).

    Returns
    -------
    list of list of Polynomial
        d x d, to be paired with an SOS matrix by `matrix_gram_map`.
    """
    index = vech_index(dim)
    size = index.low.size
    slopes = np.eye(size) / index.weight[:, None]
    entry = index.full.reshape(dim, dim)
    return [
        [Polynomial.linear(slopes[entry[j, k]], float(j == k)) for k in range(dim)]
        for j in range(dim)
    ]


@lru_cache(maxsize=64)
def gram_map(basis: Monomials) -> scipy.sparse.csr_array:
    """Return the map svec(G) -> coefficients of z^T G z.

    Parameters
    ----------
    basis : Monomials
        z, of size N.

    Returns
    -------
    (monomial_count(n, 2 high), N(N+1)/2) sparse array

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.linalg.symmetric import svec
    >>> G = np.array([[1.0, 3.0], [3.0, 2.0]])
    >>> print(gram_map(monomials(1, 1, 2)) @ svec(G))
    [0. 0. 1. 6. 2.]
    """
    index = vech_index(len(basis))
    i, j = index.rows, index.columns
    rows = graded_position(basis.exponents[i] + basis.exponents[j])
    values = index.weight * basis.weight[i] * basis.weight[j]
    shape = (monomial_count(basis.variables, 2 * basis.high), i.size)
    return scipy.sparse.csr_array((values, (rows, np.arange(i.size))), shape)


def matrix_gram_map(basis: Monomials, Y: Sequence[Sequence[Polynomial]]) -> scipy.sparse.csr_array:
    """Return the map svec(G) -> coefficients of tr(S(e) Y(e)).

    S(e)_jk = sum_ab z_a z_b G[(a, j), (b, k)], with (a, j) at a d + j, is positive semidefinite
    for every e if G is.

    Parameters
    ----------
    basis : Monomials
        z, of size N.
    Y : d x d nested sequence of Polynomial
        Symmetric; only the lower triangle is read. `shifted_symmetric` gives I + E.

    Returns
    -------
    (monomial_count(n, 2 high + degree of Y), N d (N d + 1)/2) sparse array
    """
    dim, n = len(Y), basis.variables
    index = vech_index(len(basis) * dim)
    a, j = np.divmod(index.rows, dim)
    b, k = np.divmod(index.columns, dim)
    exponents = basis.exponents[a] + basis.exponents[b]
    values = index.weight * basis.weight[a] * basis.weight[b]
    degree = max(Y[row][column].degree for row in range(dim) for column in range(row + 1))
    known = monomials(n, 0, degree).exponents
    rows, columns, data = [], [], []
    high, low = np.maximum(j, k), np.minimum(j, k)
    for row in range(dim):
        for column in range(row + 1):
            (here,) = np.nonzero((high == row) & (low == column))
            polynomial = Y[row][column]
            for term in np.flatnonzero(polynomial.coefficients):
                rows.append(graded_position(exponents[here] + known[term]))
                columns.append(here)
                data.append(values[here] * polynomial.coefficients[term])
    shape = (monomial_count(n, 2 * basis.high + degree), index.low.size)
    entries = (np.concatenate(rows), np.concatenate(columns))
    return scipy.sparse.csr_array((np.concatenate(data), entries), shape)


class Identity:
    """A polynomial identity, linear in unknown Gram matrices and numbers.

    sum_k maps_k x_k = target on every monomial, each row divided by the monomial's weight.

    Parameters
    ----------
    variables : int
        n.
    maps : sequence of sparse arrays or (M,) ndarrays
        What each unknown x_k contributes; their numbers of rows may belong to different degrees.
        A vector is the contribution of one unknown number.
    target : Polynomial or None, optional
        The known side; default zero.

    Attributes
    ----------
    matrix : (rows, columns) sparse array
        All maps side by side, without the rows that are zero throughout.
    target : (rows,) ndarray
    positions : (rows,) ndarray
        The monomial of each row, in graded order.
    sizes : tuple of int
        Lengths of the x_k.

    Raises
    ------
    ParameterError
        If the target has a monomial that no unknown reaches.

    Examples
    --------
    The Gram matrix of (1 + e)^2 on z = (1, e):

    >>> import numpy as np
    >>> from gausscontrol.linalg.symmetric import smat
    >>> known = Polynomial.linear(np.ones(1), 1.0)
    >>> identity = Identity(1, [gram_map(monomials(1, 0, 1))], known * known)
    >>> print(smat(identity.correct(np.zeros(3))))
    [[1. 1.]
     [1. 1.]]
    """

    def __init__(
        self,
        variables: int,
        maps: Sequence[scipy.sparse.csr_array | np.ndarray],
        target: Polynomial | None = None,
    ) -> None:
        columns = [_as_column(m) for m in maps]
        length = max(m.shape[0] for m in columns)
        known = np.zeros(0) if target is None else target.coefficients
        length = max(length, known.size)
        known = np.concatenate([known, np.zeros(length - known.size)])
        stacked = scipy.sparse.hstack([_with_rows(m, length) for m in columns], format="csr")
        reached = np.diff(stacked.indptr) > 0
        if known[~reached].any():
            raise ParameterError(
                "target: expected only monomials that an unknown reaches, found others; "
                "use a basis of higher degree"
            )
        self.variables = variables
        self.positions = np.flatnonzero(reached)
        weight = monomials(variables, 0, polynomial_degree(variables, length)).weight[
            self.positions
        ]
        self.matrix = scipy.sparse.csr_array(stacked[self.positions])
        self.matrix.data = self.matrix.data / np.repeat(weight, np.diff(self.matrix.indptr))
        self.target = known[self.positions] / weight
        self.sizes = tuple(m.shape[1] for m in columns)

    def split(self, x: np.ndarray) -> list[np.ndarray]:
        """Return the unknowns x_k as pieces of the stacked vector."""
        return np.split(x, np.cumsum(self.sizes)[:-1])

    def residual(self, x: np.ndarray) -> np.ndarray:
        """Return matrix x - target, one entry for every monomial."""
        return self.matrix @ x - self.target

    def rounding(self, x: np.ndarray) -> np.ndarray:
        """Bound the rounding error of `residual` itself, entry by entry.

        Covers sums of products in any order; the entries of `matrix` are taken as exact.
        """
        longest = np.diff(self.matrix.indptr) + 2
        unit = np.finfo(float).eps * longest
        return unit * (abs(self.matrix) @ np.abs(x) + np.abs(self.target))

    def correct(self, x: np.ndarray, keep: Sequence[int] = ()) -> np.ndarray:
        """Return the nearest point at which the identity holds to rounding.

        Parameters
        ----------
        x : (columns,) ndarray
            Stacked unknowns, such as a solver returned them.
        keep : sequence of int, optional
            Unknowns that stay as they are.

        Returns
        -------
        (columns,) ndarray
            x + least-squares correction. Compare `residual` afterwards: what the unknowns that
            may move cannot reach is left.
        """
        free = np.ones(len(self.sizes), dtype=bool)
        free[list(keep)] = False
        moving = np.repeat(free, self.sizes)
        matrix = self.matrix[:, np.flatnonzero(moving)]
        x = x.copy()
        for _ in range(PASSES):
            gap = self.residual(x)
            if not (np.abs(gap) > self.rounding(x)).any():
                break
            step = lsmr(matrix, gap, atol=1e-15, btol=1e-15, maxiter=1000)[0]
            x[moving] -= step
        return x


def _as_column(contribution: scipy.sparse.csr_array | np.ndarray) -> scipy.sparse.csr_array:
    if isinstance(contribution, np.ndarray):
        return scipy.sparse.csr_array(contribution.reshape(-1, 1))
    return scipy.sparse.csr_array(contribution)


def _with_rows(matrix: scipy.sparse.csr_array, rows: int) -> scipy.sparse.csr_array:
    tail = np.full(rows - matrix.shape[0], matrix.indptr[-1])
    indptr = np.concatenate([matrix.indptr, tail])
    return scipy.sparse.csr_array((matrix.data, matrix.indices, indptr), (rows, matrix.shape[1]))
