"""Attention heads: the operator T(S) = sum_h V_h S B_h and its products (Theory 1).

`DenseHeads` holds arrays V, B of shape (h, d, d). All heads are applied by two matrix products:
with the values stacked as W[(i, h), :] = V_h[i, :], the product W S, read as a d x (h d) matrix,
meets the stacked B_h without any transposition. Complex S is accepted, so that derivatives can
be checked by the complex step.
"""

from __future__ import annotations

import numpy as np

__all__ = ["DenseHeads"]


class DenseHeads:
    """One or many heads given by their d x d matrices.

    Parameters
    ----------
    V, B : (h, d, d) ndarray
        Value and key-query matrices, [1/t] and [1/x^2]; kept by reference, not copied.
    """

    def __init__(self, V: np.ndarray, B: np.ndarray) -> None:
        self.V, self.B = V, B
        self.n_heads, self.dim, _ = V.shape
        self.total = V.sum(axis=0)
        self._single = self.n_heads == 1
        self._value, self._key = V[0], B[0]
        # (d h, d): reshaped to (d, h d) it is also [V_1 ... V_h] side by side.
        self._values = np.ascontiguousarray(V.transpose(1, 0, 2)).reshape(-1, self.dim)
        self._keys = B.reshape(-1, self.dim)

    def attention(self, S: np.ndarray) -> np.ndarray:
        """Return T(S) = sum_h V_h S B_h."""
        if self._single:
            return self._value @ S @ self._key
        return (self._values @ S).reshape(self.dim, -1) @ self._keys

    def attention_times(self, L: np.ndarray) -> np.ndarray:
        """Return T(L L^T) L for a d x r factor without forming a d x d matrix."""
        if self._single:
            return (self._value @ L) @ (L.T @ (self._key @ L))
        rank = L.shape[1]
        small = L.T @ (self._keys @ L).reshape(self.n_heads, self.dim, rank)
        return (self._values @ L).reshape(self.dim, -1) @ small.reshape(self.n_heads * rank, rank)

    def tilt(self, S: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return sum_h V_h S k_h for tilts k of shape (h, d)."""
        return self._values.reshape(self.dim, -1) @ (k @ S.T).reshape(-1)

    def products(self, S: np.ndarray) -> np.ndarray:
        """Return the stack B_h S, the right factors of E -> T(E) S."""
        return self.B @ S

    def norm_bound(self) -> float:
        """Return sum_h |V_h|_2 |B_h|_2, a bound on |T(E)|_F / |E|_F that head gauge leaves."""
        return float(
            (np.linalg.norm(self.V, 2, axis=(1, 2)) * np.linalg.norm(self.B, 2, axis=(1, 2))).sum()
        )

    def transform(self, R: np.ndarray, R_inverse: np.ndarray) -> DenseHeads:
        """Return the heads in coordinates R x: V -> R V R^-1, B -> R^-T B R^-1."""
        return DenseHeads(R @ self.V @ R_inverse, R_inverse.T @ self.B @ R_inverse)
