"""The form of a weight on covariances, in ball arithmetic (Theory 5, 9.3).

    q_P(S) = sum_h tr(P V_h S B_h S),     <G, S (x) S> >= 0 for S >= 0 and G >= 0

The forms are symmetric matrices in plain entries of vech, of which a positive definite one is
positive for every symmetric S != 0. Every result encloses what the exact matrices give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.rigorous.exact_model import ExactModel
from gausscontrol.linalg.ball_forms import form_matrix, pair_form, symmetric_map, vech
from gausscontrol.linalg.balls import exact, exact_matrix, is_positive_definite
from gausscontrol.linalg.symmetric import symmetrise, vech_index

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import BallMatrix

__all__ = ["cone_remainder", "trace_vector"]


def cone_remainder(
    model: ExactModel, P: BallMatrix, multiplier: np.ndarray | None, gain: float, sign: float
) -> BallMatrix | None:
    """Return the form sign q_P(S) - <G, S (x) S> - gain tr(P S)^2 in plain entries of vech.

    Parameters
    ----------
    model : ExactModel
    P : (d, d) ball matrix
        Symmetric.
    multiplier : (d^2, d^2) ndarray or None
        G; None for zero.
    gain, sign : float

    Returns
    -------
    (n, n) ball matrix or None
        None if G is not proved positive definite.
    """
    # tr(P V S B S) is half of <S, symmetric_map(S)>.
    left = [P * V * exact(sign / 2) for V in model.V]
    form = form_matrix(symmetric_map(left, model.B))
    if multiplier is not None:
        G = exact_matrix(symmetrise(multiplier))
        if not is_positive_definite(G):
            return None
        form = form - pair_form(G, model.dim)
    v = trace_vector(P)
    return form - v * v.transpose() * exact(gain)


def trace_vector(X: BallMatrix) -> BallMatrix:
    """Return v with tr(X S) = v^T vech(S) for symmetric X."""
    weight = np.rint(vech_index(X.nrows()).weight ** 2)
    return exact_matrix(np.diag(weight)) * vech(X)
