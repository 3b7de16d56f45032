"""Linear maps on symmetric matrices as matrices on vech or svec (Theory 2).

    E -> sum_m P_m E R_m + (its transpose)        dL -> dL L^T + L dL^T

The first is the shape of every derivative in this package, the second that of Sigma = L L^T.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse

from gausscontrol.linalg.symmetric import symmetric_size, vech_index

__all__ = [
    "factor_derivative",
    "symmetric_basis",
    "symmetric_operator",
    "symmetric_units",
    "to_svec_basis",
]

# Up to this size one d^4 tensor is cheaper than a loop over column blocks.
TENSOR_SIZE = 16


def symmetric_operator(P: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return E -> sum_m P_m E R_m + transpose as a matrix on vech.

    Parameters
    ----------
    P, R : (m, d, d) ndarray
        Left and right factors.

    Returns
    -------
    (n, n) ndarray
        Column (k, l) is vech of the image of the symmetric matrix with ones at (k, l) and (l, k).

    Notes
    -----
    Up to d = 16 one (d^2 x m)(m x d^2) product holds all entries and four gathers symmetrise it;
    beyond that the columns are built one block E = e_k e_l^T + e_l e_k^T, l fixed, at a time.
    """
    terms, dim, _ = P.shape
    if dim <= TENSOR_SIZE:
        tensor = P.reshape(terms, -1).T @ R.reshape(terms, -1)
        first, second, third, fourth = _tensor_index(dim)
        operator = tensor.take(first)
        for positions in (second, third, fourth):
            operator += tensor.take(positions)
        operator *= vech_index(dim).half
        return operator
    return _operator_by_columns(P, R)


def to_svec_basis(operator: np.ndarray) -> np.ndarray:
    """Turn the matrix of a linear map from vech to svec coordinates.

    Parameters
    ----------
    operator : (n, n) ndarray
        Map on symmetric matrices in vech coordinates.

    Returns
    -------
    (n, n) ndarray
        The same map in an orthonormal basis, so that norms and symmetric parts mean something.
    """
    weight = vech_index(symmetric_size(operator.shape[0])).weight
    return operator * weight[:, None] / weight


def factor_derivative(L: np.ndarray) -> np.ndarray:
    """Return dL -> vech(dL L^T + L dL^T) as a matrix on the rows of dL.

    Parameters
    ----------
    L : (d, r) ndarray
        A factor. [x]

    Returns
    -------
    (n, d r) ndarray
        [x]
    """
    index, unit = vech_index(len(L)), np.eye(len(L))
    # d(L L^T)_ij / dL_pa = delta_ip L_ja + delta_jp L_ia
    tensor = np.einsum("np,na->npa", unit[index.rows], L[index.columns])
    tensor += np.einsum("np,na->npa", unit[index.columns], L[index.rows])
    return tensor.reshape(index.low.size, L.size)


@lru_cache(maxsize=32)
def symmetric_basis(dim: int) -> scipy.sparse.csr_matrix:
    """Return S of shape (d^2, n): vec(X) = S svec(X), row-major, with orthonormal columns."""
    index = vech_index(dim)
    columns = np.arange(index.low.size)
    off = index.rows != index.columns
    rows = np.concatenate([index.low, index.high[off]])
    values = 1 / np.concatenate([index.weight, index.weight[off]])
    shape = (dim * dim, columns.size)
    return scipy.sparse.csr_matrix((values, (rows, np.concatenate([columns, columns[off]]))), shape)


def symmetric_units(dim: int) -> np.ndarray:
    """Return the columns of `symmetric_basis` as matrices, (n, d, d)."""
    return symmetric_basis(dim).toarray().T.reshape(-1, dim, dim)


@lru_cache(maxsize=16)
def _tensor_index(dim: int) -> tuple[np.ndarray, ...]:
    # Flat positions, in the (i, k, l, j) tensor sum_m P[i,k] R[l,j], of the four terms that E_kl
    # and its transpose contribute to entries (i, j) and (j, i).
    index = vech_index(dim)
    i, j = index.rows[:, None], index.columns[:, None]
    k, l = index.rows[None, :], index.columns[None, :]

    def at(i, k, l, j):
        return ((i * dim + k) * dim + l) * dim + j

    return at(i, k, l, j), at(j, k, l, i), at(i, l, k, j), at(j, l, k, i)


def _operator_by_columns(P: np.ndarray, R: np.ndarray) -> np.ndarray:
    _, dim, _ = P.shape
    low = vech_index(dim).low
    operator = np.empty((low.size, low.size), dtype=np.result_type(P, R))
    left = P.transpose(2, 1, 0)  # left[k] = (P_m[:, k])_m, shape (d, m)
    right = R.transpose(1, 0, 2)  # right[l] = (R_m[l, :])_m, shape (m, d)
    start = 0
    for l in range(dim):
        # e_k e_l^T gives P[:, k] R[l, :], and e_l e_k^T gives P[:, l] R[k, :]; k = l counts once.
        block = left[l:] @ right[l]
        block[1:] += left[l] @ right[l + 1 :]
        block = block + block.transpose(0, 2, 1)
        stop = start + dim - l
        operator[:, start:stop] = block.reshape(dim - l, -1).take(low, axis=1).T
        start = stop
    return operator
