"""Proofs that an equilibrium attracts: by its form, its linearisation or Riccati's criterion.

    form      q(E) < 0 for symmetric E != 0                          (Theory 4.1)
    riccati   V_h = v_h I:   G <= 0,   -A Hurwitz                    (Theory 4.7)
    local     P > 0,   J^T P + P J < 0;   J^T P J < P for layers     (Theory 4.5)

at every matrix of a ball that holds an exact equilibrium. All functions take the model, whose
floats are exact and whose heads given by factors are the exact products, the computed equilibrium
`Sigma`, how far the exact one may lie (`radius`, Frobenius norm, whitened at Sigma), and whether
the mean is to be proved stable too (`mean`). True means that the claim is proved, False that there
is no proof.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.certificates.rigorous.equilibrium import enclosed_equilibrium, mean_is_stable
from gausscontrol.certificates.rigorous.exact_model import (
    ExactModel,
    exact_gain,
    lyapunov_form,
    working,
)
from gausscontrol.linalg.ball_forms import form_matrix, symmetric_map
from gausscontrol.linalg.balls import (
    alternates,
    congruence,
    exact,
    exact_matrix,
    inverse,
    is_hurwitz,
    is_positive_definite,
    symmetric_part,
)
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["prove_form", "prove_local", "prove_riccati"]


def prove_form(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    radius: float,
    *,
    rate: float = 0.0,
    mean: bool = False,
) -> bool:
    """Prove that an exact equilibrium attracts every Sigma > 0, near it at a decay rate.

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


def prove_riccati(
    model: GaussianTransformer, Sigma: np.ndarray, radius: float, *, mean: bool = False
) -> bool:
    """Prove that an exact equilibrium attracts every Sigma > 0, for scalar values.

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


def prove_local(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    P: np.ndarray,
    radius: float,
    *,
    mean: bool = False,
) -> bool:
    """Prove that an exact equilibrium is locally exponentially stable.

    Notes
    -----
    Theory 4.5: P > 0 and J^T P + P J < 0, or J^T P J < P for dt > 0, in vech coordinates, with J
    the linearisation at an exact equilibrium, which for dt > 0 is a fixed point of the layer.
    """
    with working(model.dim):
        exact_model = ExactModel.of(model)
        ball = enclosed_equilibrium(exact_model, Sigma, radius)
        if ball is None:
            return False
        P = symmetric_part(exact_matrix(P))
        J = exact_model.linearisation(ball)
        change = congruence(J.transpose(), P) - P if model.dt else lyapunov_form(P, J)
        return (
            is_positive_definite(P)
            and is_positive_definite(-change)
            and (not mean or mean_is_stable(exact_model, ball))
        )
