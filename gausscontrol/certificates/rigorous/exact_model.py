"""The parameters of a model without rounding, for proofs (Theory 1, 9.3).

    F(S) = M(S) S + S M(S)^T                   dt = 0
    F(S) = D S D^T - S,  D = I + dt M(S)       dt > 0
    F(S + E) = F(S) + L(E) + N(E),   |N(E)| <= K |E|^2

The floats of the model are taken as exact, and of heads given by factors the exact products. The
same class serves ball matrices, where every result is an enclosure, and matrices of rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.linalg.ball_forms import symmetric_map
from gausscontrol.linalg.balls import (
    congruence,
    exact,
    exact_matrix,
    frobenius,
    identity,
    precision,
    rational_matrix,
    spectral_bound,
    symmetric_part,
)
from gausscontrol.model.heads import FactoredHeads
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import Ball, BallMatrix, RationalMatrix

    Reader = Callable[[np.ndarray], BallMatrix | RationalMatrix]

__all__ = [
    "ExactModel",
    "carried_form",
    "exact_gain",
    "gain_of",
    "lyapunov_form",
    "matrix_sum",
    "working",
]

# Bits of the midpoints, and more for characteristic polynomials of larger matrices.
BITS = 320
BITS_PER_ROW = 16


@contextmanager
def working(dim: int) -> Iterator[None]:
    """Compute with enough bits for characteristic polynomials of d x d matrices."""
    with precision(BITS + BITS_PER_ROW * dim):
        yield


@dataclass(frozen=True, eq=False)
class ExactModel:
    """The parameters of a model as exact matrices.

    Attributes
    ----------
    A : (d, d) ball matrix
    V, B : lists of (d, d) ball matrices
        One for each head.
    dt : float
    """

    A: BallMatrix
    V: list[BallMatrix]
    B: list[BallMatrix]
    dt: float = 0.0

    @classmethod
    def of(cls, model: GaussianTransformer, read: Reader = exact_matrix) -> ExactModel:
        """Return the parameters of a model, `read` into ball matrices or into rationals."""
        arrays = [[read(matrix) for matrix in array] for array in model.heads.arrays]
        if isinstance(model.heads, FactoredHeads):
            V = [O * U for O, U in zip(*arrays[:2], strict=True)]
            B = [K.transpose() * Q for K, Q in zip(*arrays[2:], strict=True)]
        else:
            V, B = arrays
        return cls(read(model.A), V, B, model.dt)

    @property
    def dim(self) -> int:
        """Token dimension d."""
        return self.A.nrows()

    def transformed(self, R: BallMatrix, back: BallMatrix) -> ExactModel:
        """Return the model in the coordinates R x; `back` holds the inverse of R."""
        V = [R * V * back for V in self.V]
        B = [back.transpose() * B * back for B in self.B]
        return ExactModel(R * self.A * back, V, B, self.dt)

    def attention(self, S: BallMatrix) -> BallMatrix:
        """Return T(S) = sum_h V_h S B_h."""
        return matrix_sum([V * S * B for V, B in zip(self.V, self.B, strict=True)])

    def drift(self, S: BallMatrix) -> BallMatrix:
        """Return M(S) = A + T(S)."""
        return self.A + self.attention(S)

    def values(self) -> BallMatrix:
        """Return Vbar, the sum of the V_h."""
        return matrix_sum(self.V)

    def attention_bound(self) -> Ball:
        """Return an upper bound on |T(E)| / |E| in Frobenius norm."""
        pairs = zip(self.V, self.B, strict=True)
        return sum((frobenius(V) * frobenius(B) for V, B in pairs), exact(0)).abs_upper()

    def spectral_bound(self) -> Ball:
        """Return what `attention_bound` does by spectral norms, which is sharper and costs more."""
        pairs = zip(self.V, self.B, strict=True)
        return sum((spectral_bound(V) * spectral_bound(B) for V, B in pairs), exact(0)).abs_upper()

    def step_matrix(self, S: BallMatrix) -> BallMatrix:
        """Return D = I + dt M(S), which carries the factor of S through one layer."""
        return identity(self.dim) + self.drift(S) * exact(self.dt)

    def residual(self, S: BallMatrix) -> BallMatrix:
        """Return what vanishes at an equilibrium: Sigma', or Sigma+ - Sigma for layers."""
        if self.dt:
            return congruence(self.step_matrix(S), S) - S
        change = self.drift(S) * S
        return change + change.transpose()

    def linearisation(self, S: BallMatrix) -> BallMatrix:
        """Return the covariance linearisation on vech, of Sigma' or of the map to Sigma+."""
        if not self.dt:
            right = [B * S for B in self.B]
            return symmetric_map([self.drift(S), *self.V], [identity(self.dim), *right])
        step = self.step_matrix(S)
        after, tau = step.transpose(), exact(self.dt)
        left = [V * tau for V in self.V]
        right = [B * S * after for B in self.B]
        return symmetric_map([step * exact(0.5), *left], [after, *right])

    def curvature(self, S: BallMatrix, reach: Ball) -> Ball:
        """Return K with |remainder(E)| <= K |E|^2 for |E| <= reach, in Frobenius norm."""
        nu = self.attention_bound()
        if not self.dt:
            return 2 * nu
        push = nu * exact(self.dt)
        return push * (2 * frobenius(self.step_matrix(S)) + push * (frobenius(S) + reach))


def matrix_sum(matrices: list[BallMatrix]) -> BallMatrix:
    """Return the sum of one or more matrices."""
    total = matrices[0]
    for matrix in matrices[1:]:
        total = total + matrix
    return total


def lyapunov_form(P: BallMatrix, A: BallMatrix) -> BallMatrix:
    """Return P A + A^T P for symmetric P."""
    product = P * A
    return product + product.transpose()


def carried_form(P: BallMatrix, back: BallMatrix) -> BallMatrix:
    """Return in the coordinates R x the form P on vech of E; `back` holds the inverse of R."""
    carried = symmetric_map([back * exact(0.5)], [back.transpose()])
    return symmetric_part(congruence(carried.transpose(), P))


def gain_of(model: ExactModel) -> BallMatrix:
    """Return G = sum_h v_h (B_h + B_h^T) of a model whose V_h are known to be v_h I."""
    pairs = zip(model.V, model.B, strict=True)
    return matrix_sum([(B + B.transpose()) * V[0, 0] for V, B in pairs])


def exact_gain(model: GaussianTransformer) -> RationalMatrix | None:
    """Return G = sum_h v_h (B_h + B_h^T) as rationals, None unless V_h = v_h I exactly."""
    rational = ExactModel.of(model, rational_matrix)
    one = rational_matrix(np.eye(model.dim))
    scales = [value[0, 0] for value in rational.V]
    if any(value != one * v for value, v in zip(rational.V, scales, strict=True)):
        return None
    return gain_of(rational)
