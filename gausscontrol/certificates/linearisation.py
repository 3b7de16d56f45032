"""What decides local stability: a Lyapunov matrix of the covariance linearisation (Theory 4.5).

    dt = 0   P > 0 with J^T P + P J < 0        dt > 0   P > 0 with J^T P J < P

evaluated at the computed equilibrium in whitened svec coordinates, with slack for rounding and
for the distance to the exact equilibrium, whose existence is part of the check.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.analysis.enclosure import WhitenedPoint, inverse_norm
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates.base import check_enclosed
from gausscontrol.certificates.contraction import contraction, contraction_matrix, schur_margin
from gausscontrol.certificates.evidence import Evidence, mean_margin
from gausscontrol.errors import MatrixEquationError, NotCertified
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.operators import symmetric_operator
from gausscontrol.linalg.symmetric import symmetrise, vech_index, whitening
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "DENSE_DIM",
    "in_vech",
    "in_whitened_svec",
    "linear_stability",
    "lyapunov_candidate",
    "lyapunov_solution",
]

# Up to this size the linearisation is formed and its Lyapunov equation solved.
DENSE_DIM = 32
# Share of |J| by which its symmetric part must be negative for P = I to be taken.
CLEARLY = 1e-3


def lyapunov_candidate(model: GaussianTransformer, Sigma: np.ndarray) -> np.ndarray:
    """Return P in svec coordinates whitened at Sigma, scaled to |P| = 1."""
    _check_dense(model.dim)
    if model.dt:
        return contraction_matrix(model, Sigma)
    J = dense_operator(model.whiten(Sigma))
    if np.linalg.eigvalsh(J + J.T)[-1] < -CLEARLY * np.linalg.norm(J, 2):
        return np.eye(J.shape[0])
    return lyapunov_solution(J)


def lyapunov_solution(J: np.ndarray) -> np.ndarray:
    """Return the P of J^T P + P J = -I, scaled to |P| = 1: none keeps more decay for its norm.

    Raises
    ------
    NotCertified
        If there is no solution.
    """
    try:
        P = symmetrise(solve_lyapunov(J.T, np.eye(len(J))))
    except MatrixEquationError as error:
        raise NotCertified(
            f"equilibrium: the Lyapunov equation of the linearisation has no solution ({error}); "
            "it has eigenvalues on or near the imaginary axis",
            margin=0.0,
        ) from error
    return P / np.linalg.norm(P, 2)


def linear_stability(model: GaussianTransformer, Sigma: np.ndarray, P: np.ndarray) -> Evidence:
    """Check a Lyapunov matrix at an equilibrium; it holds if the margin is positive."""
    return _discrete(model, Sigma, P) if model.dt else _continuous(model, Sigma, P)


def _discrete(model: GaussianTransformer, Sigma: np.ndarray, P: np.ndarray) -> Evidence:
    found = contraction(model, Sigma, P / np.linalg.eigvalsh(P)[0])
    point = WhitenedPoint(model, Sigma)
    error = point.drift_error + point.total_error
    change = (point.bound + point.attention_error) * found.radius + error
    mean_stable = False
    if found.margin > 0:
        step = np.eye(model.dim) + model.dt * (point.drift + point.white.heads.total)
        mean_stable = schur_margin(step, model.dt * change) > 0
    data = {"factor": found.factor, "existence_radius": found.radius}
    return Evidence(found.margin, found.radius + point.offset, mean_stable, data)


def _continuous(model: GaussianTransformer, Sigma: np.ndarray, P: np.ndarray) -> Evidence:
    point = WhitenedPoint(model, Sigma)
    J = dense_operator(point.white)
    beta = inverse_norm(point, J)
    if not np.isfinite(beta):
        raise NotCertified(
            "equilibrium: its linearisation is singular to working precision, so it is not "
            "isolated or not hyperbolic; no certificate applies",
            margin=0.0,
        )
    radius = point.radius_from(beta)
    check_enclosed(point, radius)
    unit = 8 * J.shape[0] * np.finfo(float).eps
    size = float(np.linalg.norm(P, 2)) or 1.0
    lowest = float(np.linalg.eigvalsh(P)[0]) / size
    product = P @ J / size
    decay = -float(np.linalg.eigvalsh(product + product.T)[-1])
    # At the exact equilibrium J differs by at most 4 sum_h |V_h| |B_h| |Delta|, and by rounding.
    change = 4 * (point.bound + point.attention_error) * radius
    change += 2 * (point.drift_error + point.attention_error)
    slack = 2 * change + 2 * unit * float(np.linalg.norm(J))
    data = {
        "decay": decay,
        "slack": slack,
        "lowest_eigenvalue": lowest,
        "existence_radius": radius,
    }
    margin = decay - slack if lowest > unit else min(lowest - unit, decay - slack)
    mean_stable = margin > 0 and mean_margin(point, radius) > 0
    return Evidence(margin, radius + point.offset, mean_stable, data)


def _check_dense(dim: int) -> None:
    if dim > DENSE_DIM:
        raise NotCertified(
            f"model: the linearisation at d = {dim} has {dim * (dim + 1) // 2} states, more than "
            f"the {DENSE_DIM * (DENSE_DIM + 1) // 2} this certificate solves for; "
            "use certify_local_stability or certify_global_stability"
        )


def _svec_congruence(Sigma: np.ndarray) -> np.ndarray:
    """Return the map vech(E) -> svec(R E R), R the whitening of Sigma."""
    R, _ = whitening(Sigma)
    operator = symmetric_operator(R[None] / 2, R[None])
    return operator * vech_index(len(R)).weight[:, None]


def in_vech(P: np.ndarray, Sigma: np.ndarray) -> np.ndarray:
    """Carry P from whitened svec coordinates to vech."""
    S = _svec_congruence(Sigma)
    return symmetrise(S.T @ P @ S)


def in_whitened_svec(P: np.ndarray, Sigma: np.ndarray) -> np.ndarray:
    """Carry P from vech to whitened svec coordinates."""
    _, root = whitening(Sigma)
    # svec(E) -> vech(root E root), the inverse of the congruence without inverting it.
    operator = symmetric_operator(root[None] / 2, root[None]) / vech_index(len(root)).weight
    return symmetrise(operator.T @ P @ operator)
