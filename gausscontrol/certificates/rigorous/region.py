"""Proofs of regions of attraction, in ball arithmetic (Theory 4.6, 4.8, 9.3).

    V(Sigma) = e^T P e, e = vech(Sigma - Sigma_c);    V* likewise around the exact equilibrium S
    sqrt(V*) <= sqrt(V) + sqrt(V(S)),   so that {V < level} lies in {V* < s^2} for s as on the right

and V*' < 0 on {0 < V* < s^2} within the cone is shown for every S in a ball, in one of two ways::

    norm   V*' <= -c |E|^2 + 4 p nu |E|^3 and |E| <= s / sqrt(l),   l <= P <= p,  nu >= |T|
    sos    -V*' / s^2 = sigma(y) (1 - V*/s^2) + tr(S(y) Sigma) + z^T G z,   z = (y, y (x) y)

What is left of each monomial of the second identity is moved into G, as `gram` does. No
matrix has to be definite as stored: alpha |y|^2 of the witness is spread as
(alpha / 2) [ |y|^2 (1 - |y|^2) + |y|^2 + |y|^4 ] over sigma and G first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gausscontrol.certificates.rigorous.equilibrium import enclosed_equilibrium, mean_is_stable
from gausscontrol.certificates.rigorous.exact_model import (
    ExactModel,
    carried_form,
    lyapunov_form,
    working,
)
from gausscontrol.certificates.rigorous.gram import GramBasis
from gausscontrol.certificates.rigorous.terms import accumulate, added, multiplied, quadratic_terms
from gausscontrol.linalg.ball_forms import form_bounds, form_matrix, symmetric_map, unvech, vech
from gausscontrol.linalg.balls import (
    congruence,
    exact,
    exact_matrix,
    identity,
    inverse,
    is_positive_definite,
    symmetric_part,
)
from gausscontrol.linalg.symmetric import symmetrise, vech_index, whitening

if TYPE_CHECKING:
    from gausscontrol.certificates.region import RegionOfAttraction
    from gausscontrol.certificates.region_identity import Witness
    from gausscontrol.certificates.rigorous.terms import Terms
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = ["prove_region"]

# Whitened distance within which the exact equilibrium must lie; the level pays for it.
FARTHEST = 1e-3
# Relative room in which a float that is only a candidate is rounded to the safe side.
ROOM = 1e-9


def prove_region(certificate: RegionOfAttraction) -> bool:
    """Prove that every covariance of a region tends to an exact equilibrium.

    Parameters
    ----------
    certificate : RegionOfAttraction

    Returns
    -------
    bool
        For the stored P and level, and the stored radius to nine digits. The rate in its margin is
        not part of what is proved.

    Notes
    -----
    Theory 4.6, 4.8. A solution that starts in the region and in the closed cone stays in
    {V* < s^2}, so it exists for all depths and tends to S > 0. As rank is constant along it, no
    start is singular; and as the region is convex and holds S, it lies in the open cone.
    """
    model, Sigma = certificate.model, certificate.covariance
    if model.dt or not certificate.level > 0:
        return False
    with working(model.dim):
        original = ExactModel.of(model)
        ball = enclosed_equilibrium(original, Sigma, FARTHEST)
        if ball is None or (certificate.mean_stable and not mean_is_stable(original, ball)):
            return False
        P = exact_matrix(symmetrise(certificate.lyapunov_matrix))
        if not (is_positive_definite(P) and _holds_ball(certificate, P)):
            return False
        shift = vech(ball - exact_matrix(Sigma))
        distance = (shift.transpose() * P * shift)[0, 0].abs_upper().sqrt()
        scale = (exact(certificate.level).sqrt() + distance).abs_upper()
        ground = _ground(original, ball, P, whitening(Sigma)[0])
        if ground is None:
            return False
        if certificate.witness is None:
            return _norm_holds(ground, scale)
        return _squares_hold(ground, scale, certificate.witness)


def _holds_ball(certificate: RegionOfAttraction, P: BallMatrix) -> bool:
    """Prove that V < level wherever |E| < radius, whitened at the stored covariance."""
    X = inverse(exact_matrix(certificate.covariance))
    if X is None:
        return False
    squared = form_matrix(symmetric_map([X * exact(0.5)], [X]))
    radius = exact(certificate.radius) * exact(1 - ROOM)
    return is_positive_definite(squared * exact(certificate.level) - P * radius * radius)


class _Ground(NamedTuple):
    # The model in coordinates R x, its equilibrium there, and P on vech of E in them.
    model: ExactModel
    S: BallMatrix
    P: BallMatrix


def _ground(
    model: ExactModel, ball: BallMatrix, P: BallMatrix, whitening_matrix: np.ndarray
) -> _Ground | None:
    R = exact_matrix(whitening_matrix)
    back = inverse(R)
    if back is None:
        return None
    return _Ground(model.transformed(R, back), congruence(R, ball), carried_form(P, back))


def _norm_holds(ground: _Ground, scale: Ball) -> bool:
    """Prove c sqrt(l) > 4 p nu s."""
    Q = -lyapunov_form(ground.P, ground.model.linearisation(ground.S))
    (c, _), (l, p) = form_bounds(Q), form_bounds(ground.P)
    reach = 4 * p * ground.model.spectral_bound() * scale
    return bool(c > 0 and l > 0 and c * c * l > reach * reach)


def _squares_hold(ground: _Ground, scale: Ball, witness: Witness) -> bool:
    """Correct G of the identity and prove all Gram matrices positive definite."""
    stored = (witness.coordinates, witness.multiplier, witness.cone, witness.gram)
    if not (all(np.isfinite(matrix).all() for matrix in stored) and witness.rate > 0):
        return False
    dim, n = ground.model.dim, len(witness.coordinates)
    index = vech_index(dim)
    diagonal = (index.rows == index.columns).tolist()
    root = exact(2).sqrt()
    C = exact_matrix(witness.coordinates).table()
    # vech(E) = T y, with svec(E) = s C y.
    rows = [
        [x * scale / (1 if plain else root) for x in row]
        for row, plain in zip(C, diagonal, strict=True)
    ]
    T = type(ground.P)(rows)
    units = [unvech(type(T)([[row[m]] for row in rows]), dim) for m in range(n)]
    slopes = [[{(m,): units[m][j, k] for m in range(n)} for k in range(dim)] for j in range(dim)]
    ones = np.ones(n, dtype=int)
    linear, both = GramBasis(1, ones, slopes), GramBasis(2, ones, slopes)

    half = witness.rate / 2
    sigma = exact_matrix(symmetrise(witness.multiplier) + half * np.eye(n))
    G = exact_matrix(symmetrise(witness.gram) + half * np.eye(len(witness.gram)))
    cone = symmetrise(witness.cone)
    lift = 2 * max(-float(np.linalg.eigvalsh(cone)[0]), 0.0) + 1e-13 * float(np.linalg.norm(cone))
    cone = exact_matrix(cone) + identity(len(cone)) * exact(lift)

    level = symmetric_part(T.transpose() * ground.P * T) / (scale * scale)
    room = {(): exact(1)} | {key: -value for key, value in quadratic_terms(level).items()}
    total = added(
        _derivative(ground, T, units, scale),
        multiplied(quadratic_terms(sigma), room),
        linear.cone(cone, ground.S),
    )
    G = both.balance(total, G)
    return G is not None and all(is_positive_definite(matrix) for matrix in (sigma, cone, G))


def _derivative(ground: _Ground, T: BallMatrix, units: list[BallMatrix], scale: Ball) -> Terms:
    """Return V*' / s^2 as a polynomial in y."""
    slope = T.transpose() * ground.P * (2 / (scale * scale))
    total = quadratic_terms(symmetric_part(slope * ground.model.linearisation(ground.S) * T))
    for m, unit in enumerate(units):
        attention = ground.model.attention(unit)
        images = []
        for other in units:
            product = attention * other
            images.append(vech(product + product.transpose()).entries())
        # Entry (l, i): the coefficient of y_i y_m y_l.
        values = type(T)(images) * slope.transpose()
        for l in range(len(units)):
            for i in range(len(units)):
                accumulate(total, tuple(sorted((i, l, m))), values[l, i])
    return total
