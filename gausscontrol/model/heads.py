"""Attention heads: the operator T(S) = sum_h V_h S B_h and its products (Theory 1).

    DenseHeads     V_h, B_h of shape (d, d)
    FactoredHeads  V_h = O_h U_h,  B_h = s K_h^T Q_h,  with U_h, K_h, Q_h of shape (dk, d)   (1.3)

Dense heads are applied by two matrix products: with the values stacked as W[(i, h), :] = V_h[i, :]
the product W S, read as a d x (h d) matrix, meets the stacked B_h without any transposition.
Factored ones take one product U S for all heads, small dk x dk blocks and one product with the
stacked O, so that twelve heads cost what one dense head costs. Complex S is accepted, so that
derivatives can be checked by the complex step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

__all__ = ["DenseHeads", "FactoredHeads", "Heads"]

# Relative deviation up to which a value matrix counts as a multiple of the identity.
SCALAR_TOLERANCE = 1e-13


class Heads(ABC):
    """What a set of heads can do; matrices V (h, d, d) [1/t] and B (h, d, d) [1/x^2]."""

    parts: tuple[str, ...]  # names of `arrays`, those of the constructors of models
    n_heads: int
    dim: int
    V: np.ndarray
    B: np.ndarray
    total: np.ndarray

    @property
    @abstractmethod
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that define the heads."""

    @abstractmethod
    def attention(self, S: np.ndarray) -> np.ndarray:
        """Return T(S) = sum_h V_h S B_h."""

    @abstractmethod
    def tilt(self, S: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return sum_h V_h S k_h for tilts k of shape (h, d)."""

    @abstractmethod
    def products(self, S: np.ndarray) -> np.ndarray:
        """Return the stack B_h S, the right factors of E -> T(E) S."""

    @abstractmethod
    def norms(self) -> np.ndarray:
        """Return |V_h|_2 |B_h|_2 for every head."""

    @abstractmethod
    def transform(self, R: np.ndarray, R_inverse: np.ndarray) -> Heads:
        """Return the heads in coordinates R x: V -> R V R^-1, B -> R^-T B R^-1."""

    @abstractmethod
    def scaled(self, values: np.ndarray, keys: np.ndarray) -> Heads:
        """Return the heads (v_h V_h, k_h B_h) for factors v, k of shape (h,)."""

    @abstractmethod
    def adjoint(self) -> Heads:
        """Return the heads of the adjoint operator E -> sum_h V_h^T E B_h^T."""

    def scalar_values(self) -> np.ndarray | None:
        """Return v (h,) if every V_h = v_h I to rounding, else None."""
        scales = np.trace(self.V, axis1=1, axis2=2) / self.dim
        deviation = np.abs(self.V - scales[:, None, None] * np.eye(self.dim)).max(axis=(1, 2))
        return None if (deviation > SCALAR_TOLERANCE * np.abs(scales)).any() else scales

    def norm_bound(self) -> float:
        """Return sum_h |V_h|_2 |B_h|_2, a bound on |T(E)|_F / |E|_F that head gauge leaves."""
        return float(self.norms().sum())


class DenseHeads(Heads):
    """One or many heads given by their d x d matrices.

    Parameters
    ----------
    V, B : (h, d, d) ndarray
        Value and key-query matrices, [1/t] and [1/x^2]; kept by reference, not copied.
    """

    parts = ("V", "B")

    def __init__(self, V: np.ndarray, B: np.ndarray) -> None:
        self.V, self.B = V, B
        self.n_heads, self.dim, _ = V.shape
        self.total = V.sum(axis=0)
        self._single = self.n_heads == 1
        self._value, self._key = V[0], B[0]
        # (d h, d): reshaped to (d, h d) it is also [V_1 ... V_h] side by side.
        self._values = np.ascontiguousarray(V.transpose(1, 0, 2)).reshape(-1, self.dim)
        self._keys = B.reshape(-1, self.dim)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that define the heads."""
        return self.V, self.B

    def attention(self, S: np.ndarray) -> np.ndarray:
        """Return T(S) = sum_h V_h S B_h."""
        if self._single:
            return self._value @ S @ self._key
        return (self._values @ S).reshape(self.dim, -1) @ self._keys

    def tilt(self, S: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return sum_h V_h S k_h for tilts k of shape (h, d)."""
        return self._values.reshape(self.dim, -1) @ (k @ S.T).reshape(-1)

    def products(self, S: np.ndarray) -> np.ndarray:
        """Return the stack B_h S, the right factors of E -> T(E) S."""
        return self.B @ S

    def norms(self) -> np.ndarray:
        """Return |V_h|_2 |B_h|_2 for every head."""
        return _spectral_norms(self.V) * _spectral_norms(self.B)

    def transform(self, R: np.ndarray, R_inverse: np.ndarray) -> DenseHeads:
        """Return the heads in coordinates R x: V -> R V R^-1, B -> R^-T B R^-1."""
        return DenseHeads(R @ self.V @ R_inverse, R_inverse.T @ self.B @ R_inverse)

    def scaled(self, values: np.ndarray, keys: np.ndarray) -> DenseHeads:
        """Return the heads (v_h V_h, k_h B_h) for factors v, k of shape (h,)."""
        return DenseHeads(self.V * values[:, None, None], self.B * keys[:, None, None])

    def adjoint(self) -> DenseHeads:
        """Return the heads of the adjoint operator E -> sum_h V_h^T E B_h^T."""
        return DenseHeads(self.V.transpose(0, 2, 1), self.B.transpose(0, 2, 1))


class FactoredHeads(Heads):
    """Heads given by their low-rank factors, V_h = O_h U_h and B_h = K_h^T Q_h.

    Parameters
    ----------
    O : (h, d, dv) ndarray
        Output projections.
    U : (h, dv, d) ndarray
        Value projections.
    K, Q : (h, dk, d) ndarray
        Key and query projections; the logit scale is folded into Q.
    """

    parts = ("W_O", "W_V", "W_K", "W_Q")

    def __init__(self, O: np.ndarray, U: np.ndarray, K: np.ndarray, Q: np.ndarray) -> None:
        self._O, self._U, self._K, self._Q = O, U, K, Q
        self.n_heads, self.dim, _ = O.shape
        # Heads side by side: (d, h dv) for the outputs and (h dv, d) for the values.
        self._outputs = np.ascontiguousarray(O.transpose(1, 0, 2)).reshape(self.dim, -1)
        self._values = U.reshape(-1, self.dim)
        self._keys = np.ascontiguousarray(K.transpose(0, 2, 1))

    def __reduce__(self):
        # Without the matrices formed so far: they are large, and would come back writeable.
        return FactoredHeads, self.arrays

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that define the heads."""
        return self._O, self._U, self._K, self._Q

    @cached_property
    def V(self) -> np.ndarray:
        """Value matrices as (h, d, d), formed when first asked for."""
        return _read_only(self._O @ self._U)

    @cached_property
    def B(self) -> np.ndarray:
        """Key-query matrices as (h, d, d), formed when first asked for."""
        return _read_only(self._keys @ self._Q)

    @cached_property
    def total(self) -> np.ndarray:
        """Vbar = sum_h V_h."""
        return self._outputs @ self._values

    def attention(self, S: np.ndarray) -> np.ndarray:
        """Return T(S) = sum_h O_h (U_h S K_h^T) Q_h."""
        moved = (self._values @ S).reshape(self.n_heads, -1, self.dim)
        small = (moved @ self._keys) @ self._Q
        return self._outputs @ small.reshape(-1, self.dim)

    def tilt(self, S: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return sum_h V_h S k_h for tilts k of shape (h, d)."""
        moved = self._U @ (k @ S.T)[:, :, None]
        return self._outputs @ moved.reshape(-1)

    def products(self, S: np.ndarray) -> np.ndarray:
        """Return the stack B_h S, the right factors of E -> T(E) S."""
        return self._keys @ (self._Q @ S)

    def norms(self) -> np.ndarray:
        """Return |V_h|_2 |B_h|_2 for every head, from the triangular factors."""
        return _product_norms(self._O, self._U) * _product_norms(self._keys, self._Q)

    def scalar_values(self) -> np.ndarray | None:
        """Return v (h,) if every V_h = v_h I to rounding, else None."""
        # A multiple of I has full rank or is zero; narrow heads need no d x d matrices to see that.
        narrow = self._U.shape[1] < self.dim
        return None if narrow and self._U.any() and self._O.any() else super().scalar_values()

    def transform(self, R: np.ndarray, R_inverse: np.ndarray) -> FactoredHeads:
        """Return the heads in coordinates R x: V -> R V R^-1, B -> R^-T B R^-1."""
        return FactoredHeads(
            R @ self._O, self._U @ R_inverse, self._K @ R_inverse, self._Q @ R_inverse
        )

    def scaled(self, values: np.ndarray, keys: np.ndarray) -> FactoredHeads:
        """Return the heads (v_h V_h, k_h B_h) for factors v, k of shape (h,)."""
        return FactoredHeads(
            self._O * values[:, None, None], self._U, self._K, self._Q * keys[:, None, None]
        )

    def adjoint(self) -> FactoredHeads:
        """Return the heads of the adjoint operator E -> sum_h V_h^T E B_h^T."""
        return FactoredHeads(
            self._U.transpose(0, 2, 1), self._O.transpose(0, 2, 1), self._Q, self._K
        )


def _spectral_norms(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.norm(matrices, 2, axis=(1, 2))


def _product_norms(tall: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Return |X_h Y_h|_2 for tall X_h and wide Y_h, from a small matrix each."""
    left = np.linalg.qr(tall, mode="r")
    right = np.linalg.qr(wide.transpose(0, 2, 1), mode="r")
    return _spectral_norms(left @ right.transpose(0, 2, 1))


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
