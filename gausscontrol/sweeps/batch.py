"""Many models of one size, as arrays (Theory 1).

    Sigma_i' = M_i Sigma_i + Sigma_i M_i^T,   M_i(S) = A_i + sum_h V_ih S B_ih,   i = 1, ..., N

`Stack` keeps models first, as LAPACK wants them; `Field` keeps them last, where a product of small
matrices is a few long vector operations. Continuous depth and zero tilts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ShapeError
from gausscontrol.linalg.arrays import EXTREME, check_scale, real_array
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "Field",
    "Stack",
    "blocks",
    "chosen",
    "mul",
    "read_stack",
    "symmetric_operators",
    "to_svec",
    "transposed",
]

# Numbers in the largest array that is made: 160 MB.
LARGEST_ARRAY = 2e7


class Stack(NamedTuple):
    """N models: A (N, d, d), B and V (N, h, d, d), b (N, d); not validated."""

    A: np.ndarray
    B: np.ndarray
    V: np.ndarray
    b: np.ndarray

    @property
    def count(self) -> int:
        """Number of models N."""
        return self.A.shape[0]

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.A.shape[1]

    @property
    def n_heads(self) -> int:
        """Number of heads h."""
        return self.B.shape[1]

    def take(self, index: np.ndarray) -> Stack:
        """Return some of the models."""
        return Stack(*(array[index] for array in self))

    def model(self, index: int) -> GaussianTransformer:
        """Return one model."""
        return GaussianTransformer(self.A[index], self.B[index], self.V[index], self.b[index])

    def attention(self, S: np.ndarray) -> np.ndarray:
        """Return T_i(S_i) for S (N, d, d)."""
        return (self.V @ S[:, None] @ self.B).sum(axis=1)

    def transform(self, R: np.ndarray, R_inverse: np.ndarray) -> Stack:
        """Return the models in the coordinates R_i x."""
        left, right = R[:, None], R_inverse[:, None]
        return Stack(
            R @ self.A @ R_inverse,
            transposed(right) @ self.B @ right,
            left @ self.V @ right,
            (R @ self.b[..., None])[..., 0],
        )

    def directed(self, signs: np.ndarray) -> Stack:
        """Return the models that run forward (+1) or backward (-1)."""
        sign = signs[:, None, None]
        return Stack(sign * self.A, self.B, sign[:, None] * self.V, signs[:, None] * self.b)

    def field(self) -> Field:
        """Return the models as vector fields, models last."""
        B, V = (np.moveaxis(array, 0, -1) for array in (self.B, self.V))
        return Field(*(np.ascontiguousarray(X) for X in (np.moveaxis(self.A, 0, -1), B, V)))

    def jacobians(self, S: np.ndarray) -> np.ndarray:
        """Return the covariance linearisations at S (N, d, d) on svec, (N, n, n)."""
        M = self.A + self.attention(S)
        unit = np.broadcast_to(np.eye(self.dim), M.shape)
        left = np.concatenate([self.V, M[:, None]], axis=1)
        right = np.concatenate([self.B @ S[:, None], unit[:, None]], axis=1)
        return to_svec(symmetric_operators(left, right))

    def forms(self) -> np.ndarray:
        """Return the attention forms on svec, symmetric (N, n, n)."""
        operators = to_svec(symmetric_operators(self.V / 2, self.B))
        return (operators + transposed(operators)) / 2


class Field(NamedTuple):
    """Models last: A (d, d, N), B and V (h, d, d, N)."""

    A: np.ndarray
    B: np.ndarray
    V: np.ndarray

    def keep(self, kept: np.ndarray) -> Field:
        """Return some of the models."""
        return Field(*(chosen(array, kept) for array in self))

    def attention(self, S: np.ndarray) -> np.ndarray:
        """Return T_i(S_i) for S (d, d, N)."""
        total = mul(mul(self.V[0], S), self.B[0])
        for V, B in zip(self.V[1:], self.B[1:], strict=True):
            total += mul(mul(V, S), B)
        return total


def blocks(count: int, size: float) -> Iterator[np.ndarray]:
    """Yield indices of models a block at a time, for arrays of `size` numbers per model."""
    length = max(1, int(LARGEST_ARRAY / size))
    for start in range(0, count, length):
        yield np.arange(start, min(start + length, count))


def chosen(X: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the entries of some models, on the last axis, side by side in memory.

    X[..., index] is laid out models first, after which everything takes several times as long.
    """
    return np.take(X, index, axis=-1)


def mul(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the products of matrices with the models on the last axis."""
    return np.einsum("ijn,jkn->ikn", X, Y)


def transposed(X: np.ndarray) -> np.ndarray:
    """Return X^T for matrices on the last two axes."""
    return X.swapaxes(-1, -2)


def symmetric_operators(P: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return E -> sum_m P_m E R_m + transpose on vech, for P and R (N, m, d, d)."""
    dim = P.shape[-1]
    index = vech_index(dim)
    i, j, k, l = index.rows, index.columns, index.rows, index.columns
    # tensor[n, i, k, l, j] = sum_m P[i, k] R[l, j]
    tensor = np.einsum("nmik,nmlj->niklj", P, R, optimize=True)
    i, j, k, l = i[:, None], j[:, None], k[None], l[None]
    parts = tensor[:, i, k, l, j] + tensor[:, j, k, l, i]
    parts += tensor[:, i, l, k, j] + tensor[:, j, l, k, i]
    return parts * index.half


def to_svec(operators: np.ndarray) -> np.ndarray:
    """Turn matrices of linear maps from vech to svec coordinates, (N, n, n)."""
    size = operators.shape[-1]
    dim = (int(np.sqrt(8 * size + 1)) - 1) // 2
    weight = vech_index(dim).weight
    return operators * weight[:, None] / weight


def read_stack(A: ArrayLike, B: ArrayLike, V: ArrayLike, b: ArrayLike | None = None) -> Stack:
    """Read and validate many models.

    Parameters
    ----------
    A : (N, d, d) array_like
    B, V : (N, d, d) or (N, h, d, d) array_like
    b : (N, d) array_like, optional
        Zero by default.

    Returns
    -------
    Stack

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ParameterError
        If an entry is not a finite real number.
    """
    A = real_array(A, "A")
    if A.ndim != 3 or A.shape[1] != A.shape[2]:
        raise ShapeError(
            f"A: expected shape (N, d, d), one matrix for each model, found {A.shape}; "
            "put models on the first axis"
        )
    if A.size == 0:
        raise ShapeError(
            f"A: expected at least one model, d >= 1, found shape {A.shape}; "
            "leave out the call where there is nothing to do"
        )
    count, dim, _ = A.shape
    B, V = (_read_heads(value, name, count, dim) for value, name in ((B, "B"), (V, "V")))
    if B.shape != V.shape:
        raise ShapeError(
            f"V: expected {B.shape[1]} head(s) as in B, found {V.shape[1]}; pass one V for each B"
        )
    for array, name in ((A, "A"), (B, "B"), (V, "V")):
        largest = np.abs(array).max(axis=(-2, -1))
        extreme = (largest > 0) & ((largest > EXTREME) | (largest < 1 / EXTREME))
        for index in np.argwhere(extreme)[:1]:
            check_scale(array[tuple(index)], f"{name}[{', '.join(map(str, index))}]")
    if b is None:
        return Stack(A, B, V, np.zeros((count, dim)))
    b = real_array(b, "b")
    if b.shape != (count, dim):
        raise ShapeError(
            f"b: expected shape {(count, dim)} to agree with A, found {b.shape}; "
            "put models on the first axis"
        )
    return Stack(A, B, V, b)


def _read_heads(value: ArrayLike, name: str, count: int, dim: int) -> np.ndarray:
    array = real_array(value, name)
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim != 4 or array.shape[1] == 0 or array.shape != (count, array.shape[1], dim, dim):
        raise ShapeError(
            f"{name}: expected shape ({count}, {dim}, {dim}) or ({count}, h, {dim}, {dim}) to "
            f"agree with A, found {np.shape(value)}; put models first, heads second"
        )
    return array
