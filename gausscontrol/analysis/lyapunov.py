"""The Lyapunov matrix of a linearisation, and how far it holds (Theory 4.5).

    A^T P + P A = -I,      P - A^T P A = I for dt > 0,      P > 0

The margin is that of the matrix as it came out, less what rounding may have made of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.analysis.realisation import bilinear
from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.measures import observability_gramian
from gausscontrol.linalg.symmetric import symmetrise

__all__ = ["LyapunovSolution", "lyapunov_solution"]


class LyapunovSolution(NamedTuple):
    """Lyapunov matrix of a linearisation, and its verified margin.

    P > 0 with A^T P + P A = -I, or P - A^T P A = I for dt > 0.

    Attributes
    ----------
    matrix : (n, n) ndarray
        P.
    margin : float
        The least eigenvalue of -(A^T P + P A) (P - A^T P A for dt > 0) and of P, whichever is
        smaller, minus rounding.
    """

    matrix: np.ndarray
    margin: float


def lyapunov_solution(A: np.ndarray, dt: float) -> LyapunovSolution:
    """Solve the Lyapunov equation of a stable linearisation, and check it.

    Parameters
    ----------
    A : (n, n) ndarray
        Hurwitz; Schur for dt > 0.
    dt : float
        Positive for the matrix of a map.

    Returns
    -------
    LyapunovSolution

    Raises
    ------
    MatrixEquationError
        If the matrix is not stable, or the answer fails its check.
    """
    if dt:
        P = symmetrise(_discrete_solution(A))
        decay = P - A.T @ P @ A
    else:
        P = solve_lyapunov(A.T, np.eye(len(A)))
        decay = -(A.T @ P + P @ A)
    rounding = 8 * len(A) * np.finfo(float).eps * np.linalg.norm(P, 2) * np.linalg.norm(A, 2)
    margin = float(min(np.linalg.eigvalsh(symmetrise(decay))[0], np.linalg.eigvalsh(P)[0]))
    if not margin > rounding:
        raise MatrixEquationError(
            f"the Lyapunov matrix fails its check by {rounding - margin:.2g}: "
            "the linearisation is too ill-conditioned"
        )
    return LyapunovSolution(P, margin - rounding)


def _discrete_solution(A: np.ndarray) -> np.ndarray:
    # P - A^T P A = I is the observability Gramian of (A, I).
    identity = np.eye(len(A))
    continuous = bilinear(A, identity, identity, np.zeros_like(A))
    return observability_gramian(continuous.A, continuous.C)
