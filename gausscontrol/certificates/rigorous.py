"""Proofs about an exact equilibrium, in ball arithmetic (Theory 3.4, 4.1, 4.5, 4.7, 9.3).

    F(S + E) = F(S) + L(E) + N(E),   |N(E)| <= K |E|^2,   |L^-1 F(S)| + |L^-1| K r^2 <= r
    =>  F has a zero within r of S

(Brouwer: E -> -L^-1 (F(S) + N(E)) maps that ball of symmetric matrices into itself.) Newton's
method in multiple precision first makes r so small, about 1e-80, that a bad choice of coordinates
costs nothing; what is to be shown is then shown for every matrix in the ball.

The parameters are the floats of the model, taken as exact, and of heads given by factors the exact
products. Every function here returns True only if its claim is proved; False means no proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.exact_model import ExactModel, exact_gain, working
from gausscontrol.linalg.ball_forms import form_matrix, symmetric_map, unvech, vech
from gausscontrol.linalg.balls import (
    alternates,
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
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = [
    "enclosed_equilibrium",
    "existence_radius",
    "mean_is_stable",
    "prove_form",
    "prove_local",
    "prove_riccati",
]

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


def _within(ball: BallMatrix, Sigma: np.ndarray, radius: float) -> bool:
    X = inverse(exact_matrix(Sigma))
    if X is None:
        return False
    shift = X * (ball - exact_matrix(Sigma))
    return bool((shift * shift).trace() <= exact(radius) * exact(radius))


def prove_form(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    radius: float,
    *,
    rate: float = 0.0,
    mean: bool = False,
) -> bool:
    """Prove that an exact equilibrium attracts every Sigma > 0.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Computed equilibrium.
    radius : float
        How far the exact one may lie, in Frobenius norm whitened at Sigma.
    rate : float, optional
        Decay rate near the equilibrium that is to be proved too.
    mean : bool, optional
        Whether M + Vbar is to be proved Hurwitz too.

    Returns
    -------
    bool

    Notes
    -----
    Theory 4.1, 4.2: at an exact equilibrium, X its inverse and for all symmetric E != 0,
    sum_h tr(X V_h E B_h E) + (rate / 2) tr(X E X E) < 0. That is a statement about a quadratic
    form, true in all coordinates if in one, so nothing is whitened.
    """
    if model.dt:
        return False
    with working(model.dim):
        exact_model = ExactModel.of(model)
        ball = enclosed_equilibrium(exact_model, Sigma, radius)
        X = None if ball is None else inverse(ball)
        if X is None:
            return False
        left = [X * V for V in exact_model.V]
        operator = symmetric_map([*left, X * exact(rate / 2)], [*exact_model.B, X])
        return is_positive_definite(-form_matrix(operator)) and (
            not mean or mean_is_stable(exact_model, ball)
        )


def prove_local(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    P: np.ndarray,
    radius: float,
    *,
    mean: bool = False,
) -> bool:
    """Prove that an exact equilibrium is locally exponentially stable.

    Parameters
    ----------
    model : GaussianTransformer
    Sigma : (d, d) ndarray
        Computed equilibrium.
    P : (n, n) ndarray
        Lyapunov matrix in vech coordinates.
    radius : float
        How far the exact one may lie, in Frobenius norm whitened at Sigma.
    mean : bool, optional
        Whether the mean is to be proved stable too.

    Returns
    -------
    bool

    Notes
    -----
    Theory 4.5: P > 0 and J^T P + P J < 0, or J^T P J < P for dt > 0, with J the linearisation at
    an exact equilibrium, which for dt > 0 is a fixed point of the layer.
    """
    with working(model.dim):
        exact_model = ExactModel.of(model)
        ball = enclosed_equilibrium(exact_model, Sigma, radius)
        if ball is None:
            return False
        P = symmetric_part(exact_matrix(P))
        J = exact_model.linearisation(ball)
        product = J.transpose() * P
        change = product * J - P if model.dt else product + product.transpose()
        return (
            is_positive_definite(P)
            and is_positive_definite(-change)
            and (not mean or mean_is_stable(exact_model, ball))
        )


def prove_riccati(
    model: GaussianTransformer, Sigma: np.ndarray, radius: float, *, mean: bool = False
) -> bool:
    """Prove that an exact equilibrium attracts every Sigma > 0, for scalar values.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth, every V_h exactly a multiple of the identity.
    Sigma : (d, d) ndarray
        Computed equilibrium.
    radius : float
        How far the exact one may lie, in Frobenius norm whitened at Sigma.
    mean : bool, optional
        Whether M + Vbar is to be proved Hurwitz too.

    Returns
    -------
    bool

    Notes
    -----
    Theory 4.7: an equilibrium Sigma* > 0 exists, -A is Hurwitz, and G <= 0. A semidefinite G has no
    margin that a ball could hide in, so its definiteness is decided in rational arithmetic.
    """
    if model.dt:
        return False
    with working(model.dim):
        gain = exact_gain(model)
        if gain is None or not alternates(-gain):
            return False
        exact_model = ExactModel.of(model)
        if not is_hurwitz(-exact_model.A):
            return False
        ball = enclosed_equilibrium(exact_model, Sigma, radius)
        return ball is not None and (not mean or mean_is_stable(exact_model, ball))


def mean_is_stable(model: ExactModel, S: BallMatrix) -> bool:
    """Prove that the mean converges at every S in a ball (Theory 2.4, 3.6)."""
    matrix = model.drift(S) + model.values()
    if not model.dt:
        return is_hurwitz(matrix)
    return is_schur(identity(model.dim) + matrix * exact(model.dt))
