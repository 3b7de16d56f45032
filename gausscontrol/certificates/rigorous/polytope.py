"""Proof of one Lyapunov matrix for a polytope of parameters (Theory 4.5, 7.1a, 9.3).

    0 < P <= p,   J_i^T P + P J_i <= -c       at every triple (A_i, V_j, B_k), J_i at Sigma
    =>  |L^-1| <= 2 p / c on the hulls;   (2 p / c) (eta + 2 nu r^2) <= r,  eta >= |F|, nu >= |T|
    =>  every model has an equilibrium within r of Sigma;  8 p nu r < c: exponentially stable

in Frobenius norm, in coordinates R x with R the floating-point Sigma^(-1/2). J and F are affine in
A, in the stack of all V_h and in that of all B_h, and sum_h |V_h| |B_h| is convex in each, so that
what holds at the triples holds on the three convex hulls. Continuous depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.polytope import polytope_triples
from gausscontrol.certificates.rigorous.exact_model import (
    ExactModel,
    carried_form,
    lyapunov_form,
    working,
)
from gausscontrol.linalg.ball_forms import form_bounds
from gausscontrol.linalg.balls import (
    congruence,
    exact,
    exact_matrix,
    frobenius,
    identity,
    inverse,
    is_positive_definite,
)
from gausscontrol.linalg.symmetric import symmetrise, whitening
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import Ball, BallMatrix

__all__ = ["prove_polytope"]


def prove_polytope(
    model: GaussianTransformer,
    vertices: Sequence[GaussianTransformer],
    Sigma: np.ndarray,
    P: np.ndarray,
    radius: float | None = None,
) -> bool:
    """Prove that one P serves all linearisations of a polytope at a covariance.

    Parameters
    ----------
    model : GaussianTransformer
    vertices : sequence of GaussianTransformer
    Sigma : (d, d) ndarray
        Positive definite, the point of the linearisations.
    P : (n, n) ndarray
        In vech coordinates.
    radius : float, optional
        Prove too that every model of the polytope has an equilibrium within this distance of Sigma
        (whitened at Sigma, Frobenius), exponentially stable.

    Returns
    -------
    bool

    Notes
    -----
    Theory 7.1a.
    """
    models = polytope_triples(model, vertices)
    R, _ = whitening(Sigma)
    with working(model.dim):
        R, S = exact_matrix(R), exact_matrix(Sigma)
        back, X = inverse(R), inverse(S)
        if back is None or X is None:
            return False
        P = carried_form(exact_matrix(symmetrise(P)), back)
        S = congruence(R, S)
        triples = [ExactModel.of(each).transformed(R, back) for each in models]
        forms = [-lyapunov_form(P, triple.linearisation(S)) for triple in triples]
        if not all(is_positive_definite(form) for form in (P, *forms)):
            return False
        return radius is None or _equilibria_follow(triples, S, P, forms, radius)


def _equilibria_follow(
    triples: list[ExactModel],
    S: BallMatrix,
    P: BallMatrix,
    forms: list[BallMatrix],
    radius: float,
) -> bool:
    lowest = [form_bounds(form)[0] for form in forms]
    _, p = form_bounds(P)
    if not all(c > 0 for c in lowest):
        return False
    c = _least(lowest)
    nu = _largest([triple.spectral_bound() for triple in triples])
    eta = _largest([frobenius(triple.residual(S)) for triple in triples])
    beta = (2 * p / c).abs_upper()
    # |D| whitened at Sigma itself is at most |R D R| over the least eigenvalue of R Sigma R.
    r = exact(radius) * (1 - frobenius(S - identity(S.nrows())))
    return bool(r >= 0 and beta * (eta + 2 * nu * r * r) <= r and 8 * p * nu * r < c)


def _least(values: list[Ball]) -> Ball:
    least = values[0]
    for value in values[1:]:
        least = value if value < least else least
    return least


def _largest(values: list[Ball]) -> Ball:
    return -_least([-value for value in values])
