"""One layer contracts near a fixed point (Theory 4.5, 4.10).

    Sigma+ = D Sigma D^T,  D = I + tau M(Sigma):     P > 0,   J^T P J < P

A contraction in the norm of some P > 0, on a ball around the computed fixed point, proves an exact
fixed point in it and its exponential stability at once (Banach). Coordinates are svec, whitened at
the computed fixed point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from gausscontrol.analysis.enclosure import WhitenedPoint
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.errors import NotCertified
from gausscontrol.linalg.symmetric import svec, symmetrise
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Contraction", "contraction", "contraction_matrix", "schur_margin"]


@dataclass(frozen=True)
class Contraction:
    """The map of one layer contracts near the computed fixed point, in the norm of P.

    `margin` is 1 minus the contraction factor on the ball of `radius` (whitened Frobenius norm)
    that holds the exact fixed point; at most zero if it is not proven to contract.
    """

    margin: float
    radius: float
    factor: float


def contraction_matrix(model: GaussianTransformer, Sigma: np.ndarray) -> np.ndarray:
    """Return P > 0 with J^T P J < P, in whitened svec coordinates, smallest eigenvalue 1.

    Raises
    ------
    NotCertified
        If the spectral radius of the linearisation is not below 1.
    """
    J = dense_operator(model.whiten(Sigma))
    radius = float(np.abs(np.linalg.eigvals(J)).max())
    if not radius < 1:
        raise NotCertified(
            f"equilibrium: the linearised layer has spectral radius {radius:.6g}, and it is not "
            "below 1; look at the poles with analyze(model, equilibrium)",
            margin=1 - radius,
        )
    if np.linalg.norm(J, 2) < 1:
        return np.eye(len(J))
    # Scaling J up to just inside the unit circle evens out the margin.
    P = scipy.linalg.solve_discrete_lyapunov((J / np.sqrt(radius)).T, np.eye(len(J)))
    P = symmetrise(P)
    return P / np.linalg.eigvalsh(P)[0]


def contraction(model: GaussianTransformer, Sigma: np.ndarray, P: np.ndarray) -> Contraction:
    """Verify that one layer contracts around Sigma in the norm of P.

    Parameters
    ----------
    model : GaussianTransformer
        dt > 0.
    Sigma : (d, d) ndarray
        Computed fixed point.
    P : (n, n) ndarray
        In whitened svec coordinates, smallest eigenvalue at least 1.

    Returns
    -------
    Contraction

    Notes
    -----
    With rho the P-norm of J at the computed point and kappa(r) a bound on the change of J over
    the ball |E| <= r, Banach's theorem needs rho + sqrt(|P|) kappa(r) < 1 and a residual below
    (1 - that) r.
    """
    point, tau = WhitenedPoint(model, Sigma), model.dt
    white, dim = point.white, point.white.dim
    J = dense_operator(white)
    unit = 8 * len(J) * np.finfo(float).eps
    values = np.linalg.eigvalsh(P)
    if not values[0] >= 1 - 1e-6:
        return Contraction(float(values[0] - 1), np.inf, np.inf)
    stretch = float(np.sqrt(values[-1] / values[0]))
    root = np.linalg.cholesky(P)
    # |J|_P is the 2-norm of L^T J L^-T with P = L L^T.
    turned = scipy.linalg.solve_triangular(root, (root.T @ J).T, lower=True).T
    D = np.eye(dim) + tau * point.drift
    residual = svec(symmetrise(D @ D.T - np.eye(dim)))
    nu, size = point.bound + point.attention_error, float(np.linalg.norm(D, 2))
    # What whitening lost: D is off by at most `slip`, and J by what that and T bring.
    slip = tau * point.drift_error + unit * size
    loss = 2 * (size + slip + tau * nu) * (slip + tau * point.attention_error)
    rho = float(np.linalg.norm(turned, 2))
    rho += stretch * (loss + unit * float(np.linalg.norm(J, 2)))
    rounding = (2 * size + slip) * slip + unit * size**2
    error = stretch * np.sqrt(values[0]) * (float(np.linalg.norm(residual)) + rounding)
    if not rho < 1:
        return Contraction(1 - rho, np.inf, rho)
    radius = 2 * error / (1 - rho)
    if not radius < 0.5:
        return Contraction(-1.0, np.inf, rho)
    kappa = 2 * tau * nu * (radius * size + tau * nu * radius * (1 + radius))
    kappa += tau * nu * radius * (2 * size + tau * nu * radius)
    factor = rho + stretch * kappa
    margin = min(1 - factor, (1 - factor) * radius - error if error else 1 - factor)
    return Contraction(1 - factor if margin >= 0 else float(margin), radius, factor)


def schur_margin(matrix: np.ndarray, perturbation: float) -> float:
    """Verify that a matrix has all eigenvalues inside the unit circle.

    Parameters
    ----------
    matrix : (d, d) ndarray
    perturbation : float
        Spectral-norm distance within which every matrix must have them there too.

    Returns
    -------
    float
        1 - |A|_P for some P > 0 after perturbation and rounding; positive if verified.
    """
    radius = float(np.abs(np.linalg.eigvals(matrix)).max())
    if not radius < 1:
        return 1 - radius
    size = len(matrix)
    scaled = matrix / np.sqrt(radius) if radius > 0 else matrix
    P = symmetrise(scipy.linalg.solve_discrete_lyapunov(scaled.T, np.eye(size)))
    values = np.linalg.eigvalsh(P)
    if not values[0] > 0:
        return float(values[0])
    root = np.linalg.cholesky(P)
    turned = scipy.linalg.solve_triangular(root, (root.T @ matrix).T, lower=True).T
    stretch = float(np.sqrt(values[-1] / values[0]))
    unit = 8 * size * np.finfo(float).eps * float(np.linalg.norm(matrix, 2))
    return 1 - float(np.linalg.norm(turned, 2)) - stretch * (perturbation + unit)
