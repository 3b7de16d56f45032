"""An exact left-invariant subspace enclosed near a computed one (Theory 5.3, 9.3).

    U^T V = Lam U^T,     0 = c + e Z - Z a - Z b Z,        [ a b ; c e ] = [U W]^-1 V^T [U W]

The exact basis is U + W Z with W a complement of the stored U, and a zero Z of the quadratic
equation is enclosed as equilibria are (Theory 3.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gausscontrol.certificates.rigorous.equilibrium import STEPS, existence_radius
from gausscontrol.linalg.balls import (
    block_matrix,
    column,
    exact,
    exact_matrix,
    frobenius,
    identity,
    inverse,
    kronecker,
    midpoint,
    reshaped,
    solve,
    widened,
)

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = ["ExactPlane", "enclosed_plane"]


class ExactPlane(NamedTuple):
    """An exact basis U with U^T V = Lam U^T, and a bound on its distance from the stored one.

    `shift` bounds |D^-1 (U - stored U)|, D the diagonal matrix of the scale.
    """

    U: BallMatrix
    Lam: BallMatrix
    shift: Ball


def enclosed_plane(V: BallMatrix, basis: np.ndarray, scale: np.ndarray) -> ExactPlane | None:
    """Enclose an exact left-invariant subspace of V near the columns of a basis."""
    dim, rank = basis.shape
    U = exact_matrix(basis)
    complement = _complement(basis, scale)
    frame = U if rank == dim else block_matrix([[U, exact_matrix(complement)]])
    back = inverse(frame)
    if back is None:
        return None
    turned = (back * V.transpose() * frame).table()
    new = type(V)
    a = new([row[:rank] for row in turned[:rank]])
    if rank == dim:
        return ExactPlane(U, a.transpose(), exact(0))
    b = new([row[rank:] for row in turned[:rank]])
    c = new([row[:rank] for row in turned[rank:]])
    e = new([row[rank:] for row in turned[rank:]])
    Z = _enclosed_riccati(a, b, c, e)
    if Z is None:
        return None
    move = exact_matrix(complement) * Z
    moved = exact_matrix(np.diag(1 / scale)) * move
    return ExactPlane(U + move, (a + b * Z).transpose(), frobenius(moved))


def _complement(basis: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return columns that complete a basis, orthonormal where the coordinates are balanced."""
    Z, _ = np.linalg.qr(basis / scale[:, None], mode="complete")
    return scale[:, None] * Z[:, basis.shape[1] :]


def _enclosed_riccati(
    a: BallMatrix, b: BallMatrix, c: BallMatrix, e: BallMatrix
) -> BallMatrix | None:
    """Enclose a zero of c + e Z - Z a - Z b Z near zero, or return None.

    The change of Z from a centre solves H(D) = D b D - residual, H the derivative.
    """
    rows, columns = c.nrows(), c.ncols()
    one, other = identity(columns), identity(rows)
    Z = exact_matrix(np.zeros((rows, columns)))

    def residual(Z: BallMatrix) -> BallMatrix:
        return c + e * Z - Z * a - Z * b * Z

    def derivative(Z: BallMatrix) -> BallMatrix:
        return kronecker(e - Z * b, one) - kronecker(other, (a + b * Z).transpose())

    for _ in range(STEPS):
        step = solve(midpoint(derivative(Z)), midpoint(column(residual(Z))))
        if step is None:
            return None
        Z = midpoint(Z - reshaped(step, columns))
    backwards = inverse(derivative(Z))
    if backwards is None:
        return None
    eta = frobenius(backwards * column(residual(Z)))
    radius = existence_radius(frobenius(backwards), eta, lambda _: frobenius(b))
    return None if radius is None else widened(Z, radius)
