"""What bounded changes of the parameters are in whitened coordinates (Theory 7.1b).

    A' = A + dA,  V'_h = V_h + dV_h,  B'_h = B_h + dB_h,     |dA| <= r a,  |dV_h| <= r v_h,  ...
    R dA X,       R dV_h X,           X dB_h X,              R = Sigma*^(-1/2),  X = R^(-1)

Spectral norms in the original coordinates. The bounds are worst cases over all such changes at
once; those on the step that the equilibrium takes use the inverse linearisation and not only its
norm, as far as it is formed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint, inverse_norm
from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.errors import ParameterError
from gausscontrol.linalg.operators import symmetric_units
from gausscontrol.linalg.symmetric import vech_index, whitening
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Moves", "Reach", "WhitenedMoves"]

# Up to this size operators on matrices are formed where a product of norms would do.
NORM_DIM = 16


class Moves(NamedTuple):
    """By how much A, every V_h and every B_h move per unit of r: a number and two (h,) arrays."""

    A: float
    V: np.ndarray
    B: np.ndarray

    @classmethod
    def equal(cls, model: GaussianTransformer) -> Moves:
        """Return equal moves of all matrices."""
        return cls(1.0, np.ones(model.n_heads), np.ones(model.n_heads))

    @classmethod
    def relative(cls, model: GaussianTransformer) -> Moves:
        """Return moves in proportion to the norms of the matrices."""
        return cls(_norm(model.A), norms(model.V), norms(model.B))

    @classmethod
    def between(cls, model: GaussianTransformer, other: GaussianTransformer) -> Moves:
        """Return the norms by which a model differs from another.

        Raises
        ------
        ParameterError
            If the sizes differ or depth is discrete.
        """
        if not isinstance(other, GaussianTransformer):
            raise ParameterError(
                f"other: expected a GaussianTransformer, found {type(other).__name__}; "
                "make one with model.replace(V=...)"
            )
        if (other.dim, other.n_heads, other.dt) != (model.dim, model.n_heads, 0):
            raise ParameterError(
                f"other: expected d = {model.dim}, {model.n_heads} heads and dt = 0, found d = "
                f"{other.dim}, {other.n_heads} heads and dt = {other.dt:g}; "
                "compare models of one shape"
            )
        grown = 1 + 8 * model.dim * EPS
        return cls(
            grown * _norm(other.A - model.A),
            grown * norms(other.V - model.V),
            grown * norms(other.B - model.B),
        )


class Reach(NamedTuple):
    """Bounds on what moves do in whitened coordinates.

    `spectral` and `frobenius` bound |dM(I)|, `attention` |dT(E)|_F / |E|_F, `total` |dVbar|, and
    `step` |L^-1 dF(I)|_F with the unmoved L (infinite where L is not formed).
    """

    spectral: float
    frobenius: float
    attention: float
    total: float
    step: float


class WhitenedMoves:
    """Moves of the parameters seen from a computed equilibrium.

    Parameters
    ----------
    point : WhitenedPoint
    Sigma : (d, d) ndarray
        Positive definite, the computed equilibrium. [x]^2

    Attributes
    ----------
    norm : float
        Bounds |T(E)|_F / |E|_F of the unmoved model.
    beta : float
        Bounds |L^-1|; infinite where L is not formed, beyond d = 32, or is singular.
    gram : (n, n) ndarray or None
        The matrix of |T(E)|_F^2 on svec, up to d = 16.
    """

    def __init__(self, point: WhitenedPoint, Sigma: np.ndarray) -> None:
        white = point.white
        R, X = whitening(Sigma)
        defect = np.linalg.norm(R @ X - np.eye(len(R))) + len(R) * EPS * _norm(R) * _norm(X)
        slack = 1 + 8 * float(defect) + 1e-12
        self._R, self._X = slack * _norm(R), slack * _norm(X)
        self._R_F, self._X_F = slack * np.linalg.norm(R), slack * np.linalg.norm(X)
        V, B = white.V, white.B
        self._norm_V, self._norm_B = slack * norms(V), slack * norms(B)
        self._norm_XB, self._norm_VX = slack * norms(X @ B), slack * norms(V @ X)
        self._size_XB = slack * np.linalg.norm(X @ B, axis=(1, 2))
        self._size_VX = slack * np.linalg.norm(V @ X, axis=(1, 2))
        self.norm, self.beta, self.gram = point.bound, np.inf, None
        if white.dim <= NORM_DIM:
            units = symmetric_units(white.dim)
            images = np.stack([white.heads.attention(E).ravel() for E in units])
            self.gram = images @ images.T
            self.norm = min(self.norm, (1 + 1e-12 + len(units) * EPS) * _norm(images))
        self.norm += point.attention_error
        if white.dim <= DENSE_DIM:
            J = dense_operator(white)
            self.beta = inverse_norm(point, J)
        self._steps: tuple[float, np.ndarray, np.ndarray] | None = None
        if white.dim <= NORM_DIM and np.isfinite(self.beta):
            self._steps = self._first_order(J, R, X, V, B, slack)

    def reach(self, moves: Moves, r: float) -> Reach:
        """Return the bounds for moves of r."""
        R, X, R_F, X_F = self._R, self._X, self._R_F, self._X_F
        a, v, b = r * moves.A, r * moves.V, r * moves.B
        # R dA X;  R dV X B + V X dB X + R dV X X dB X
        spectral = a * R * X
        spectral += (v * R * self._norm_XB + self._norm_VX * b * X + R * v * X**3 * b).sum()
        keys = np.minimum(self._size_VX * X, self._norm_VX * X_F)
        first = a * min(R * X_F, R_F * X) + (v * R * self._size_XB + keys * b).sum()
        second = (R * v * X**2 * b * X_F).sum()
        # R dV X E B + V E X dB X + R dV X E X dB X
        values = v * R * X
        attention = (values * self._norm_B + self._norm_V * X**2 * b + values * X**2 * b).sum()
        step = 2 * self.beta * first
        if self._steps is not None:
            by_A, by_V, by_B = self._steps
            step = min(step, a * by_A + (v * by_V + b * by_B).sum())
        step += 2 * self.beta * second if second > 0 else 0.0
        bounds = (spectral, first + second, attention, values.sum(), step)
        return Reach(*(float(bound) for bound in bounds))

    def _first_order(
        self,
        J: np.ndarray,
        R: np.ndarray,
        X: np.ndarray,
        V: np.ndarray,
        B: np.ndarray,
        slack: float,
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Bound |L^-1 dF(I)| to first order for moves of A, each V_h and each B_h by 1."""
        inverse = np.linalg.inv(J)
        # The exact inverse is within this factor of the computed one, see `inverse_norm`.
        size = np.sqrt(np.linalg.norm(inverse, 1) * np.linalg.norm(inverse, np.inf))
        factor = slack * self.beta / size
        by_A = factor * _worst(inverse, R, X)
        by_V = np.array([factor * _worst(inverse, R, X @ key) for key in B])
        by_B = np.array([factor * _worst(inverse, value @ X, X) for value in V])
        return by_A, by_V, by_B


def _worst(inverse: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    """Bound |inverse (P D Q + its transpose)| over all D with |D| <= 1."""
    dim = len(left)
    index = vech_index(dim)
    # Column (k, l) holds svec of P e_k e_l^T Q + its transpose.
    tensor = left[:, :, None, None] * right[None, None, :, :]
    tensor = tensor + tensor.transpose(3, 1, 2, 0)
    columns = tensor[index.rows, :, :, index.columns].reshape(len(index.rows), -1)
    _, values, vectors = np.linalg.svd(
        inverse @ (index.weight[:, None] * columns), full_matrices=False
    )
    # |D|_F <= sqrt(d), and <W, D> <= |W|_* for each right singular matrix W.
    nuclear = np.linalg.norm(vectors.reshape(-1, dim, dim), "nuc", axis=(1, 2))
    rounding = 1 + 1e-10
    return rounding * float(min(np.sqrt(dim) * values[0], np.sqrt(values**2 @ nuclear**2)))


def _norm(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix, 2))


def norms(matrices: np.ndarray) -> np.ndarray:
    """Return the spectral norms of a stack of matrices."""
    return np.linalg.norm(matrices, 2, axis=(1, 2))
