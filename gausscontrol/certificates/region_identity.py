"""The identity behind a region by sums of squares, and its check (Theory 4.6, 4.8).

    -V'/level = sigma(y) (1 - |y|^2) + tr(S(y) Sigma) + z^T G z + alpha |y|^2,   z = (y, y (x) y)

in coordinates y where the set {V < level} is the unit ball, |y|^2 = V/level. If the Gram matrices
of sigma, S and G are positive semidefinite, V' <= -alpha V there. The check needs no solver: both
sides are compared monomial by monomial in NumPy, and what does not match, what the Gram matrices
lack and what rounding may hide is subtracted from alpha.

Assumptions: continuous depth; svec(E) = scale C y for the whitened E = Sigma - Sigma* around the
exact equilibrium, where scale^2 is the level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.linalg.operators import symmetric_units
from gausscontrol.linalg.polynomials import Polynomial, monomials, product_map
from gausscontrol.linalg.sos import Identity, gram_map, matrix_gram_map
from gausscontrol.linalg.symmetric import smat, svec
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["LocalField", "Witness", "certified_decay", "level_identity", "quadratic_part"]


@dataclass(frozen=True, eq=False)
class Witness:
    """The ingredients of an identity; the check trusts none of them.

    Attributes
    ----------
    coordinates : (n, n) ndarray
        C, with C^T P C = I.
    multiplier : (n, n) ndarray
        Gram matrix of sigma on y.
    cone : (n d, n d) ndarray
        Gram matrix of S, S(y)_jk = sum_ab y_a y_b cone[a d + j, b d + k].
    gram : (N, N) ndarray
        G on z = (y, svec(y y^T)), N = n + n(n + 1)/2.
    rate : float
        alpha. [1/t]
    """

    coordinates: np.ndarray
    multiplier: np.ndarray
    cone: np.ndarray
    gram: np.ndarray
    rate: float

    @property
    def unknowns(self) -> np.ndarray:
        """All of them as the vector that `level_identity` takes."""
        pieces = [svec(matrix) for matrix in (self.multiplier, self.cone, self.gram)]
        return np.concatenate([*pieces, [self.rate]])


class LocalField:
    """The covariance equation around the exact equilibrium, in coordinates y.

        y' = J y + scale N(y),   N quadratic

    Parameters
    ----------
    point : WhitenedPoint
    radius : float
        Whitened distance within which the exact equilibrium lies.
    coordinates : (n, n) ndarray
        C, invertible.

    Attributes
    ----------
    J : (n, n) ndarray
        [1/t]
    N : (n, n, n) ndarray
        N(y)_i = sum_jk N_ijk y_j y_k, symmetric in j and k. [1/t]
    matrices : (d, d, n) ndarray
        smat of the columns of C.
    errors : (float, float)
        Bounds on |J - exact| and on |N(y) - exact| for |y| = 1; infinite if C is singular to
        working precision.
    """

    def __init__(self, point: WhitenedPoint, radius: float, coordinates: np.ndarray) -> None:
        self.coordinates = C = coordinates
        self.radius, self.dim = radius, point.white.dim
        inverse = np.linalg.inv(C)
        J, N = dense_operator(point.white), quadratic_part(point.white)
        self.J = inverse @ J @ C
        self.N = np.einsum("ia,abc,bj,ck->ijk", inverse, N, C, C, optimize=True)
        self.matrices = smat(C)
        self.size = size = float(np.linalg.norm(C))
        stretch = size * float(np.linalg.norm(inverse))
        unit = 8 * len(C) * EPS
        lost = float(np.linalg.norm(inverse @ C - np.eye(len(C)))) + unit * stretch
        lost = lost / (1 - lost) if lost < 0.5 else np.inf
        # J changes by at most 4 sum_h |V_h| |B_h| radius on the way to the exact equilibrium.
        moved = 4 * (point.bound + point.attention_error) * radius
        moved += 2 * (point.drift_error + point.attention_error)
        error_J = moved + (lost + unit) * float(np.linalg.norm(J))
        # The terms of N may cancel; each is at most the sum of |V_h| |B_h|.
        terms = float(np.linalg.norm(N)) + 2 * point.bound
        error_N = 2 * point.attention_error + (lost + len(C) * unit) * terms
        self.errors = stretch * (1 + lost) * error_J, stretch * size * (1 + lost) * error_N


def quadratic_part(white: GaussianTransformer) -> np.ndarray:
    """Return N (n, n, n) with svec(T(E) E + E T(E)^T)_i = sum_jk N_ijk e_j e_k, e = svec(E)."""
    basis = symmetric_units(white.dim)
    images = np.stack([white.attention(E) for E in basis])
    products = np.einsum("jab,kbc->acjk", images, basis)
    products = products + products.transpose(0, 1, 3, 2)
    return svec((products + products.transpose(1, 0, 2, 3)) / 2)


def level_identity(field: LocalField, scale: float) -> Identity:
    """Return the identity of this module at one scale, level = scale^2.

    Parameters
    ----------
    field : LocalField
    scale : float

    Returns
    -------
    Identity
        Unknowns svec of the Gram matrices of sigma, S and G, then alpha; one row for every
        monomial of degree 2 to 4.
    """
    n, d = len(field.J), field.dim
    linear, both = monomials(n, 1, 1), monomials(n, 1, 2)
    norm = Polynomial.quadratic(np.eye(n))
    ball = Polynomial.constant(n, 1.0) - norm
    Sigma = [
        [Polynomial.linear(scale * field.matrices[j, k], float(j == k)) for k in range(d)]
        for j in range(d)
    ]
    decay = Polynomial.quadratic(-field.J - field.J.T)
    for row, N in zip(np.eye(n), field.N, strict=True):
        decay = decay - 2 * scale * (Polynomial.linear(row) * Polynomial.quadratic(N))
    maps = [
        product_map(ball, 2) @ gram_map(linear),
        matrix_gram_map(linear, Sigma),
        gram_map(both),
        norm.coefficients,
    ]
    return Identity(n, maps, decay)


def certified_decay(field: LocalField, scale: float, witness: Witness) -> float:
    """Check an identity: return a rate alpha > 0 with V' <= -alpha V where V < scale^2.

    Parameters
    ----------
    field : LocalField
        In the coordinates of the witness.
    scale : float
    witness : Witness

    Returns
    -------
    float
        For the exact model around its exact equilibrium; at most zero if the check fails. [1/t]

    Notes
    -----
    Theory 4.6, 9.1. On |y| <= 1 every form of degree 2 or more is at most its norm times |y|^2,
    so that alpha pays for mismatches. A Gram matrix may lack a little, too: no matrix has to be
    positive definite.
    """
    identity, unknowns = level_identity(field, scale), witness.unknowns
    # The entries of the identity are products of a few rounded factors.
    residual = np.abs(identity.residual(unknowns)) + 8 * identity.rounding(unknowns)
    degrees = monomials(len(field.J), 0, 4).exponents.sum(axis=1)[identity.positions]
    mismatch = sum(np.linalg.norm(residual[degrees == k]) for k in (2, 3, 4))

    lack_sigma, lack_S, lack_G = (
        _shortfall(matrix) for matrix in (witness.multiplier, witness.cone, witness.gram)
    )
    d, n = field.dim, len(field.J)
    # tr Sigma on the ball, and tr S(y) / |y|^2; S meets I + E where Sigma is Sigma* + E.
    trace = d + np.sqrt(d) * (field.radius + scale * field.size)
    weight = np.einsum("aibi->ab", witness.cone.reshape(n, d, n, d))
    shift = field.radius * (max(float(np.linalg.eigvalsh(weight)[-1]), 0.0) + 2 * d * lack_S)
    error_J, error_N = field.errors
    loss = mismatch + lack_sigma + lack_S * trace + 2 * lack_G + shift
    return float(witness.rate - loss - 2 * (error_J + scale * error_N))


def _shortfall(matrix: np.ndarray) -> float:
    """Bound how far a symmetric matrix is from positive semidefinite."""
    rounding = 8 * len(matrix) * EPS * float(np.linalg.norm(matrix))
    return max(-float(np.linalg.eigvalsh(matrix)[0]), 0.0) + rounding
