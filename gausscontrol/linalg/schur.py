"""SciPy backend of the matrix equations, by Schur forms.

The equations::

    A X + X A^T + Q = 0           A = U T U^T, T real quasi-triangular
    A X E^T + E X A^T + Q = 0     A = U S Z^H, E = U T Z^H, S and T complex triangular
    A^T X + X A - X B R^-1 B^T X + Q = 0

Assumptions: finite float arrays whose shapes agree, scaled by the caller so that nothing overflows;
symmetric Q and R. Answers are unchecked; what cannot be computed is a LinAlgError.

LAPACK estimates no separation, so it is estimated here, from above, by inverse iteration.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dtrsyl

__all__ = ["schur_lyapunov", "schur_generalized_lyapunov", "schur_riccati"]

Solver = Callable[[np.ndarray], np.ndarray]


def schur_lyapunov(A: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, float]:
    """Return X of the Lyapunov equation, and the separation."""
    solve, adjoint = _schur_solver(A), _schur_solver(A.T)
    return solve(-Q), _separation(solve, adjoint, len(A))


def schur_generalized_lyapunov(
    A: np.ndarray, E: np.ndarray, Q: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return X of the generalised Lyapunov equation, and the separation."""
    solve, adjoint = _pencil_solver(A, E), _pencil_solver(A.T, E.T)
    return solve(-Q), _separation(solve, adjoint, len(A))


def schur_riccati(A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return the stabilising X of the Riccati equation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        return scipy.linalg.solve_continuous_are(A, B, Q, R)


def _schur_solver(A: np.ndarray) -> Solver:
    """Return C -> X with A X + X A^T = C."""
    T, U = scipy.linalg.schur(A, output="real")

    def solve(C: np.ndarray) -> np.ndarray:
        Y, scale, info = dtrsyl(T, T, U.T @ C @ U, tranb="T")
        if info != 0:
            raise np.linalg.LinAlgError("dtrsyl perturbed the matrix to solve the equation")
        return U @ Y @ U.T / scale

    return solve


def _pencil_solver(A: np.ndarray, E: np.ndarray) -> Solver:
    """Return C -> X with A X E^T + E X A^T = C."""
    S, T, U, Z = scipy.linalg.qz(A, E, output="complex")

    def solve(C: np.ndarray) -> np.ndarray:
        # S Y T^H + T Y S^H = U^H C U: the last column of Y comes first.
        right, Y = U.conj().T @ C @ U, np.zeros(C.shape, dtype=complex)
        for k in range(len(C) - 1, -1, -1):
            known = S @ (Y @ T[k].conj()) + T @ (Y @ S[k].conj())
            M = S * T[k, k].conj() + T * S[k, k].conj()
            Y[:, k] = scipy.linalg.solve_triangular(M, right[:, k] - known)
        return (Z @ Y @ Z.conj().T).real

    return solve


def _separation(solve: Solver, adjoint: Solver, d: int) -> float:
    """Estimate the smallest singular value of a Lyapunov operator, from above, from its inverse.

    Four steps of inverse iteration on symmetric matrices from a fixed generic start.
    """
    E = np.random.default_rng(0).standard_normal((d, d))
    E, size = E + E.T, 0.0
    for _ in range(4):
        E = adjoint(E / np.linalg.norm(E))
        E = solve(E)
        size = float(np.linalg.norm(E))
        if not np.isfinite(size) or size == 0.0:
            return 0.0
    return size**-0.5
