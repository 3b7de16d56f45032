"""An exact equilibrium enclosed near a computed one, in ball arithmetic (Theory 3.4, 9.3).

    F(S + E) = F(S) + L(E) + N(E),   |N(E)| <= K |E|^2,   |L^-1 F(S)| + |L^-1| K r^2 <= r
    =>  F has a zero within r of S

(Brouwer: E -> -L^-1 (F(S) + N(E)) maps that ball of symmetric matrices into itself.) Newton's
method in multiple precision first makes r so small, about 1e-80, that a bad choice of coordinates
costs nothing; what is to be shown is then shown for every matrix in the ball.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.rigorous.exact_model import ExactModel
from gausscontrol.linalg.ball_forms import unvech, vech
from gausscontrol.linalg.balls import (
    exact,
    exact_matrix,
    frobenius,
    identity,
    inverse,
    is_hurwitz,
    is_positive_definite,
    is_schur,
    midpoint,
    solve,
    symmetric_part,
    widened,
)

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = ["STEPS", "enclosed_equilibrium", "existence_radius", "mean_is_stable"]

# Newton steps; from a whitened distance of 1e-3 five reach 1e-80.
STEPS = 9


def enclosed_equilibrium(model: ExactModel, Sigma: np.ndarray, radius: float) -> BallMatrix | None:
    """Enclose an exact equilibrium near a computed one.

    Parameters
    ----------
    model : ExactModel
    Sigma : (d, d) ndarray
        Symmetric positive definite.
    radius : float
        How far the exact one may lie, in Frobenius norm whitened at Sigma.

    Returns
    -------
    (d, d) ball matrix or None
        An equilibrium of the exact model lies in it, every symmetric matrix in it is positive
        definite and within the radius. None if that is not proved.

    Notes
    -----
    Theory 3.4. |Sigma^(-1/2) D Sigma^(-1/2)|^2 = tr(X D X D), X the inverse of Sigma, needs no
    square root.
    """
    centre = _refined(model, symmetric_part(exact_matrix(Sigma)))
    if centre is None:
        return None
    found = _distance_to_zero(model, centre)
    if found is None:
        return None
    ball = widened(centre, found)
    return ball if is_positive_definite(ball) and _within(ball, Sigma, radius) else None


def existence_radius(beta: Ball, eta: Ball, curvature: Callable[[Ball], Ball]) -> Ball | None:
    """Return r with eta + beta K(r) r^2 <= r, or None if 2 eta is no such r.

    Parameters
    ----------
    beta : ball
        Upper bound on |L^-1|.
    eta : ball
        Upper bound on |L^-1 F(S)|.
    curvature : callable
        r -> K with |N(E)| <= K |E|^2 for |E| <= r.

    Returns
    -------
    ball or None
        A zero of F lies within r of S.
    """
    r = 2 * eta
    return r if eta + beta * curvature(r) * r * r <= r else None


def mean_is_stable(model: ExactModel, S: BallMatrix) -> bool:
    """Prove that the mean converges at every S in a ball (Theory 2.4, 3.6)."""
    matrix = model.drift(S) + model.values()
    if not model.dt:
        return is_hurwitz(matrix)
    return is_schur(identity(model.dim) + matrix * exact(model.dt))


def _refined(model: ExactModel, S: BallMatrix) -> BallMatrix | None:
    """Return where Newton's method arrives from S; nothing is claimed about it."""
    one = identity(model.dim * (model.dim + 1) // 2)
    for _ in range(STEPS):
        J = model.linearisation(S) - one if model.dt else model.linearisation(S)
        step = solve(midpoint(J), midpoint(vech(model.residual(S))))
        if step is None:
            return None
        S = midpoint(S - unvech(step, model.dim))
        if frobenius(step) <= frobenius(S) * exact(2.0**-200):
            break
    return S


def _distance_to_zero(model: ExactModel, S: BallMatrix) -> Ball | None:
    """Return r such that an exact zero lies within a Frobenius distance r of S."""
    J = model.linearisation(S)
    if model.dt:
        J = J - identity(J.nrows())
    backwards = inverse(J)
    if backwards is None:
        return None
    # Entries of vech count once, those of the matrix twice: norms differ by at most sqrt(2).
    beta = frobenius(backwards) * exact(2).sqrt()
    eta = frobenius(unvech(backwards * vech(model.residual(S)), model.dim))
    return existence_radius(beta, eta, lambda reach: model.curvature(S, reach))


def _within(ball: BallMatrix, Sigma: np.ndarray, radius: float) -> bool:
    X = inverse(exact_matrix(Sigma))
    if X is None:
        return False
    shift = X * (ball - exact_matrix(Sigma))
    return bool((shift * shift).trace() <= exact(radius) * exact(radius))
