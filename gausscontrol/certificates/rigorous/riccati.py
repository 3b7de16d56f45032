"""Proofs of blow-up in the Riccati case, in ball arithmetic (Theory 3.2, 9.3).

    V_h = v_h I,   G = sum_h v_h (B_h + B_h^T)
    exp(t [[-A^T, G], [0, A]]) = [[e^{-A^T t}, e^{-A^T t} W(t)], [0, e^{At}]]
    P < W(t)   =>   Sigma_0 with lambda_max(P Sigma_0) >= 1 escapes no later than t

The exponential is enclosed on a short step, and the step doubled: W(2 t) = W(t) + E^T W(t) E with
E = e^{At}. That V_h = v_h I and G are what they are is decided in rationals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.certificates.riccati_growth import doublings
from gausscontrol.certificates.rigorous.exact_model import ExactModel, exact_gain, gain_of, working
from gausscontrol.linalg.balls import (
    block_matrix,
    exact,
    exact_matrix,
    is_positive_definite,
    symmetric_part,
)
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.linalg.balls import BallMatrix

__all__ = ["prove_riccati_escape", "prove_uniform_escape"]


def prove_riccati_escape(model: GaussianTransformer, P: np.ndarray, depth: float) -> bool:
    """Prove that covariances with lambda_max(P Sigma_0) >= 1 escape no later than a depth.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth, every V_h exactly a multiple of the identity.
    P : (d, d) ndarray
        Symmetric. [1/x^2]
    depth : float
        [t]

    Returns
    -------
    bool

    Notes
    -----
    Theory 3.2: L^T W(depth) L, Sigma_0 = L L^T, has an eigenvalue of at least 1.
    """
    if model.dt or not 0 < depth < np.inf:
        return False
    with working(model.dim):
        if exact_gain(model) is None:
            return False
        W = _gramian(ExactModel.of(model), float(np.linalg.norm(model.A)), depth)
        return is_positive_definite(W - exact_matrix(symmetrise(P)))


def prove_uniform_escape(model: GaussianTransformer, P: np.ndarray, rate: float) -> bool:
    """Prove that y = lambda_max(P Sigma) obeys y' >= 2 (rate y + y^2 / 2), for A = rate I.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth, every V_h exactly a multiple of the identity.
    P : (d, d) ndarray
        Symmetric. [1/(t x^2)]
    rate : float
        [1/t]

    Returns
    -------
    bool

    Notes
    -----
    P < G, and W(t) = G (e^{2 rate t} - 1) / (2 rate).
    """
    if model.dt or not np.array_equal(model.A, rate * np.eye(model.dim)):
        return False
    with working(model.dim):
        if exact_gain(model) is None:
            return False
        return is_positive_definite(gain_of(ExactModel.of(model)) - exact_matrix(symmetrise(P)))


def _gramian(model: ExactModel, size: float, depth: float) -> BallMatrix:
    """Enclose W(depth); `size` says how often the step is doubled, and nothing rests on it."""
    count = doublings(size, depth)
    step, zero = exact(np.ldexp(depth, -count)), exact_matrix(np.zeros((model.dim,) * 2))
    generator = block_matrix([[-model.A.transpose(), gain_of(model)], [zero, model.A]])
    flow = (generator * step).exp().table()
    new, dim = type(model.A), model.dim
    E = new([row[dim:] for row in flow[dim:]])
    W = symmetric_part(E.transpose() * new([row[dim:] for row in flow[:dim]]))
    for _ in range(count):
        W, E = W + E.transpose() * W * E, E * E
    return W
