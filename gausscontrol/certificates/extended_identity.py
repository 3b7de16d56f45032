"""The identity behind the extended certificate, and how far the exact model is from it (4.8).

    2 eta q(E) + Dp(E) . F(I + E) + alpha |E|^2 + sigma0(E) + tr(S(E) (I + E)) = 0
    p = z^T Phi z / 2,   sigma0 = z^T Q z,   S = (z (x) I)^T G (z (x) I)

for all symmetric E, in coordinates whitened at the equilibrium, where F(I + E) = L(E) + N(E) with
M(I) = K skew. z are the scaled monomials of degree 1..k in e = svec(E), and coefficients are
measured in the rotation-invariant norm of `linalg.polynomials`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint
from gausscontrol.linalg.operators import symmetric_units
from gausscontrol.linalg.polynomials import (
    Monomials,
    Polynomial,
    directional_map,
    monomials,
)
from gausscontrol.linalg.sos import Identity, gram_map, matrix_gram_map, shifted_symmetric
from gausscontrol.linalg.symmetric import svec, symmetrise

__all__ = [
    "Defect",
    "ExtendedWitness",
    "WhitenedField",
    "deviation_monomials",
    "gram_identity",
    "identity_defect",
]


@dataclass(frozen=True, eq=False)
class ExtendedWitness:
    """What proves an extended certificate: V = eta W + z^T Phi z / 2 and its multipliers.

    Attributes
    ----------
    degree : int
        2k, the degree of the polynomial part of V.
    eta : float
    Phi : (N, N) ndarray
        Gram matrix of twice the polynomial part, on scaled monomials of degree 1..k in svec(E).
    Q : (N, N) ndarray
        Gram matrix of sigma0. [1/t]
    G : (d N, d N) ndarray
        Gram matrix of the SOS matrix S. [1/t]
    alpha : float
        V' <= -alpha |E|^2. [1/t]
    """

    degree: int
    eta: float
    Phi: np.ndarray
    Q: np.ndarray
    G: np.ndarray
    alpha: float

    def lyapunov_function(self, whitened: np.ndarray) -> float:
        """Return V at a covariance in whitened coordinates.

        Parameters
        ----------
        whitened : (d, d) ndarray
            R Sigma R with R = Sigma*^(-1/2); positive definite.

        Returns
        -------
        float
            V >= 0, zero only at the identity; infinite on the boundary of the cone.
        """
        E = symmetrise(whitened) - np.eye(len(whitened))
        z = deviation_monomials(len(E), self.degree)(svec(E))
        values = np.linalg.eigvalsh(E)
        if not values[0] > -1:
            return np.inf
        return float(self.eta * (values - np.log1p(values)).sum() + z @ self.Phi @ z / 2)

    def fits(self, dim: int) -> bool:
        """Tell whether the degree is even, shapes are those of a dimension and numbers finite."""
        if self.degree < 2 or self.degree % 2:
            return False
        size = len(deviation_monomials(dim, self.degree))
        shapes = [(size, size), (size, size), (size * dim, size * dim)]
        matrices = [self.Phi, self.Q, self.G]
        numbers = np.array([self.eta, self.alpha])
        return [X.shape for X in matrices] == shapes and all(
            bool(np.isfinite(X).all()) for X in [numbers, *matrices]
        )

    @property
    def hessian(self) -> np.ndarray:
        """The second derivative of V at the equilibrium, on svec: eta I + Phi_11."""
        dim = len(self.G) // len(self.Q)
        size = dim * (dim + 1) // 2
        return self.eta * np.eye(size) + self.Phi[:size, :size]


class WhitenedField(NamedTuple):
    """E' = L(E) + N(E) as polynomials in svec(E), and the matrices of q and L.

    `sizes` are polynomials whose coefficients bound what was added up to make those of `field`,
    and `form_size` does so for `form`.
    """

    form: np.ndarray
    linear: np.ndarray
    field: list[Polynomial]
    sizes: list[Polynomial]
    form_size: np.ndarray

    @classmethod
    def of(cls, point: WhitenedPoint) -> WhitenedField:
        """Read it from a model whitened at its equilibrium, M(I) made exactly skew."""
        K = (point.drift - point.drift.T) / 2
        V, B = point.white.V[:, None], point.white.B[:, None]
        basis = symmetric_units(point.white.dim)
        form, linear, field = _assemble(K, (V @ basis @ B).sum(axis=0), basis)
        large = (np.abs(V) @ basis @ np.abs(B)).sum(axis=0)
        form_size, _, sizes = _assemble(np.abs(K), large, basis, sign=1.0)
        return cls(form, linear, field, sizes, form_size)

    def scaled(self, factor: float) -> WhitenedField:
        """Return the field in another unit of depth."""
        return WhitenedField(
            factor * self.form,
            factor * self.linear,
            [factor * f for f in self.field],
            [factor * f for f in self.sizes],
            factor * self.form_size,
        )


class Defect(NamedTuple):
    """What the multipliers must absorb, in the norm of Gram matrices. [1/t].

    `low` is to be kept by alpha |E|^2 + sigma0 and `top` by S, for the exact model at the exact
    equilibrium; `residual` is the part that comes from the computed coefficients.
    """

    low: float
    top: float
    residual: float


def deviation_monomials(dim: int, degree: int) -> Monomials:
    """Return z, the scaled monomials of degree 1..degree/2 in svec(E)."""
    return monomials(dim * (dim + 1) // 2, 1, degree // 2)


@lru_cache(maxsize=16)
def _multiplier_map(dim: int, degree: int) -> scipy.sparse.csr_array:
    return matrix_gram_map(deviation_monomials(dim, degree), shifted_symmetric(dim))


def gram_identity(field: WhitenedField, dim: int, degree: int) -> Identity:
    """Return the identity with unknowns eta, svec Phi, svec (Q + alpha on degree 1), svec G."""
    basis = deviation_monomials(dim, degree)
    grams = gram_map(basis)
    decay = directional_map(field.field, degree) @ grams / 2
    form = Polynomial.quadratic(2 * field.form).coefficients
    return Identity(basis.variables, [form, decay, grams, _multiplier_map(dim, degree)])


def identity_defect(
    point: WhitenedPoint, field: WhitenedField, radius: float, witness: ExtendedWitness
) -> Defect:
    """Bound what is left of the identity for the exact model at the exact equilibrium.

    Parameters
    ----------
    point : WhitenedPoint
    field : WhitenedField
        Of that point.
    radius : float
        Whitened distance to the exact equilibrium, at most 1/2.
    witness : ExtendedWitness

    Returns
    -------
    Defect

    Notes
    -----
    Let delta be the difference of the two sides for the exact model. Its coefficients of degree
    2k + 1 equal those of tr(D(E) E) for a Gram matrix D with |D|_F <= |delta_top|, as the map from
    Gram matrices to them has orthonormal rows. That adds tr D(E), of norm at most
    sqrt(d) |delta_top|, to the lower ones, and those are z^T C z with |C|_F at most their norm, as
    the rows of that map are orthogonal with norms at least one. So the identity holds exactly with
    Q - C and G - D, which are positive semidefinite if Q and G are by as much.

    With S = (I + Delta)^(1/2), |Delta| <= r, the exact T is E -> S^-1 T(S E S) S, within
    tau = ((1 + r)^4 - 1) |T| and rounding of T, and K likewise. A change of F(I + E) by
    delta_K E + E delta_K^T + delta_T(E) (I + E) + transpose changes Dp . F, p homogeneous of degree
    m, by at most m |p| (2 |delta_K| + 2 tau) in degree m and m |p| 2 sqrt(d) tau in degree m + 1.
    """
    dim, degree = point.white.dim, witness.degree
    residual = _residual(field, dim, witness).norms()
    p = Polynomial(
        dim * (dim + 1) // 2,
        gram_map(deviation_monomials(dim, degree)) @ np.abs(svec(witness.Phi)) / 2,
    ).norms()
    bound = point.bound + point.attention_error
    tau = point.attention_error + ((1 + radius) ** 4 - 1) * bound
    moved = point.drift_error + bound * radius
    kappa = moved + ((1 + radius) ** 2 - 1) * (np.linalg.norm(point.drift, 2) + moved)
    m = np.arange(degree + 1)
    exact = np.zeros(degree + 2)
    exact[:-1] += m * p * (2 * kappa + 2 * tau)
    exact[1:] += m * p * 2 * np.sqrt(dim) * tau
    exact[2] += 2 * witness.eta * np.sqrt(dim * (dim + 1) / 2) * tau
    total = (1 + 1e-9) * (residual + exact)
    low = float(np.linalg.norm(total[:-1]) + np.sqrt(dim) * total[-1])
    return Defect(low, float(total[-1]), float(np.linalg.norm(residual)))


def _residual(field: WhitenedField, dim: int, witness: ExtendedWitness) -> Polynomial:
    """Bound the coefficients of the left side, rounding in evaluating them included."""
    derivative = directional_map(field.field, witness.degree)
    found = _left_side(field.form, derivative, dim, witness)
    large = replace(witness, Phi=np.abs(witness.Phi), Q=np.abs(witness.Q), G=np.abs(witness.G))
    sizes = directional_map(field.sizes, witness.degree)
    summed = _left_side(field.form_size, sizes, dim, large)
    basis = deviation_monomials(dim, witness.degree)
    maps = derivative, gram_map(basis), _multiplier_map(dim, witness.degree)
    longest = sum(int(np.diff(m.indptr).max()) for m in maps)
    unit = (longest + 4 * basis.variables + 16) * EPS
    return Polynomial(basis.variables, np.abs(found) + unit * summed)


def _left_side(
    form: np.ndarray, derivative: scipy.sparse.csr_array, dim: int, witness: ExtendedWitness
) -> np.ndarray:
    basis = deviation_monomials(dim, witness.degree)
    grams = gram_map(basis)
    total = _multiplier_map(dim, witness.degree) @ svec(witness.G)
    total += derivative @ (grams @ svec(witness.Phi)) / 2
    total[: grams.shape[0]] += grams @ svec(witness.Q)
    square = 2 * witness.eta * form + witness.alpha * np.eye(len(form))
    quadratic = Polynomial.quadratic(square).coefficients
    total[: quadratic.size] += quadratic
    return total


def _assemble(
    K: np.ndarray, T: np.ndarray, basis: np.ndarray, sign: float = -1.0
) -> tuple[np.ndarray, np.ndarray, list[Polynomial]]:
    """Return the matrices of q and L and the polynomials L + N; K^T = sign K."""
    count = len(basis)
    linear = K @ basis + sign * basis @ K + T + T.swapaxes(1, 2)
    J = svec(np.moveaxis(linear, 0, -1))
    form = symmetrise(basis.reshape(count, -1) @ T.reshape(count, -1).T)
    products = T[:, None] @ basis[None]
    products = products + products.swapaxes(2, 3)
    quadratic = svec(np.moveaxis(products, (0, 1), (2, 3)))
    field = [Polynomial.linear(J[i]) + Polynomial.quadratic(quadratic[i]) for i in range(count)]
    return form, J, field
