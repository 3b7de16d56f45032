"""Newton's method for F(Sigma) = 0 on positive definite matrices (Theory 3.3).

    Sigma = S^(1/2) (I + E) S^(1/2),     L(E) = -F(I)     in coordinates whitened at the iterate S

Whitening at every iterate makes the method independent of coordinates, and turns "E is too
large" into "I + E is not positive". With dt > 0 the same is done for the map's fixed points,
(Sigma+ - Sigma) / dt = M Sigma + Sigma M^T + dt M Sigma M^T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.sparse.linalg import LinearOperator, gmres

from gausscontrol.analysis.spectra import dense_operator, linear_operator
from gausscontrol.linalg.symmetric import smat, svec, symmetrise, whitening
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Root", "polish", "scaled_residual"]

DENSE_DIM = 20
MAX_ITERATIONS = 40
# Chords between two factorisations; how far each must shrink, and what counts as none.
MAX_CHORDS, CONTRACTION, CHORD_TOLERANCE = 12, 0.5, 1e-14
# Residuals, relative to |A| + |T(I)| in whitened coordinates.
CONVERGED = 1e-9
STAGNATION = 0.5
# A residual this small, times d, is rounding: nothing is left to gain.
ROUNDING = float(np.finfo(float).eps)
WHITENING_ERROR = 16 * float(np.finfo(float).eps)
LOOSEST = 1e-6
# Ratio of eigenvalues at which a covariance counts as singular.
SINGULAR = 1e-12
# What GMRES may leave of a residual; beyond d = 32 a share of the nonlinear one, since a step need
# be no more exact than the next residual.
GMRES_TOLERANCE, LOOSEST_GMRES, FORCING = 1e-10, 1e-2, 0.1
INEXACT_DIM = 32
# Beyond that size it ends if so many steps in a row do not halve the residual.
PATIENCE = 5
# The smallest eigenvalue a step may leave to I + E, and the largest it may reach.
SHRINK, STRETCH = 0.1, 10.0


@dataclass(frozen=True)
class Root:
    """A solution of F(Sigma) = 0 with its relative residual."""

    covariance: np.ndarray
    residual: float


def scaled_residual(white: GaussianTransformer) -> tuple[np.ndarray, float]:
    """Return F at the identity and its norm over that of its terms.

    Parameters
    ----------
    white : GaussianTransformer
        The model whitened at the point in question.

    Returns
    -------
    (d, d) ndarray, float
        F(I), or (Sigma+ - Sigma)/dt, and |F(I)|_F / (2 |A|_F + 2 |T(I)|_F).
    """
    attention = white.heads.attention(np.eye(white.dim))
    M = white.A + attention
    rate = M + M.T
    if white.dt:
        rate = rate + white.dt * M @ M.T
    scale = 2 * (np.linalg.norm(white.A) + np.linalg.norm(attention))
    return rate, float(np.linalg.norm(rate) / scale) if scale > 0 else 0.0


def polish(model: GaussianTransformer, covariance: np.ndarray) -> Root | None:
    """Run Newton's method from a positive definite guess.

    Parameters
    ----------
    model : GaussianTransformer
    covariance : (d, d) ndarray
        Positive definite.

    Returns
    -------
    Root or None
        None if it does not converge to a positive definite solution.
    """
    best: Root | None = None
    bests: list[float] = []
    for _ in range(MAX_ITERATIONS):
        values = np.linalg.eigvalsh(covariance)
        if not values[0] > SINGULAR * values[-1]:
            return None
        R, root = whitening(covariance)
        white = model.in_coordinates(R, root)
        rate, residual = scaled_residual(white)
        converged = best is not None and best.residual < _tolerance(values)
        stagnant = converged and residual >= STAGNATION * best.residual
        if best is None or residual < best.residual:
            best = Root(covariance, residual)
        if stagnant or best.residual < ROUNDING * model.dim:
            return best
        bests.append(best.residual)
        if model.dim > INEXACT_DIM and _is_stuck(bests):
            break
        step = _newton_step(white, rate, residual)
        if step is None:
            break
        covariance = symmetrise(root @ (np.eye(model.dim) + _damped(step)) @ root)
    return best if best is not None and best.residual < CONVERGED else None


def _is_stuck(residuals: list[float]) -> bool:
    return len(residuals) > PATIENCE and residuals[-1] > 0.5 * residuals[-1 - PATIENCE]


def _tolerance(values: np.ndarray) -> float:
    # Whitening multiplies the rounding of the data by the condition number of the covariance.
    condition = values[-1] / values[0]
    return max(CONVERGED, min(WHITENING_ERROR * condition, LOOSEST))


def _damped(E: np.ndarray) -> np.ndarray:
    values = np.linalg.eigvalsh(E)
    share = min(1.0, (1 - SHRINK) / max(-values[0], 1e-300), STRETCH / max(values[-1], 1e-300))
    return share * E


def _newton_step(
    white: GaussianTransformer, rate: np.ndarray, residual: float
) -> np.ndarray | None:
    if white.dim <= DENSE_DIM:
        return _chord_step(white, rate)
    tolerance = GMRES_TOLERANCE
    if white.dim > INEXACT_DIM:
        # What is left beyond rounding need not be removed either.
        needed = max(FORCING * residual, FORCING * ROUNDING * white.dim / residual)
        tolerance = max(tolerance, min(needed, LOOSEST_GMRES))
    step = _krylov_step(white, rate, tolerance)
    return _dense_step(white, rate) if step is None and white.dim <= 64 else step


def _dense_step(white: GaussianTransformer, rate: np.ndarray) -> np.ndarray | None:
    solve = _dense_solver(white)
    step = None if solve is None else solve(-rate)
    return step if step is not None and np.isfinite(step).all() else None


def _chord_step(white: GaussianTransformer, rate: np.ndarray) -> np.ndarray | None:
    # F(I + E) = F(I) + L(E) + T(E) E + E T(E)^T exactly (Theory 2.1), so that L, factored once,
    # finds the zero nearby in these coordinates wherever the chords contract.
    solve = _dense_solver(white)
    step = None if solve is None else solve(-rate)
    if step is None or not np.isfinite(step).all():
        return None
    change = np.linalg.norm(step)
    for _ in range(0 if white.dt else MAX_CHORDS):
        image = white.heads.attention(step) @ step
        following = solve(-rate - image - image.T)
        moved = np.linalg.norm(following - step)
        if not moved < CONTRACTION * change:
            break
        step, change = following, moved
        if moved < CHORD_TOLERANCE * np.linalg.norm(step):
            break
    return step


def _dense_solver(white: GaussianTransformer) -> Callable[[np.ndarray], np.ndarray] | None:
    operator = _fixed_point_operator(dense_operator(white), white.dt)
    factors, pivots, singular = dgetrf(operator)
    return None if singular else lambda right: smat(dgetrs(factors, pivots, svec(right))[0])


def _fixed_point_operator(operator: np.ndarray, dt: float) -> np.ndarray:
    return (operator - np.eye(operator.shape[0])) / dt if dt else operator


def _krylov_step(
    white: GaussianTransformer, rate: np.ndarray, tolerance: float = GMRES_TOLERANCE
) -> np.ndarray | None:
    forward, dt = linear_operator(white), white.dt
    size = forward.shape[0]

    def apply(v: np.ndarray) -> np.ndarray:
        return (forward @ v - v) / dt if dt else forward @ v

    operator = LinearOperator((size, size), matvec=apply, dtype=float)
    target = -svec(rate)
    step, failed = gmres(
        operator, target, rtol=tolerance, restart=80, maxiter=5, M=_lyapunov_preconditioner(white)
    )
    error = np.linalg.norm(apply(step) - target)
    if failed and not error < 1e-3 * np.linalg.norm(target):
        return None
    return smat(step)


def _lyapunov_preconditioner(white: GaussianTransformer) -> LinearOperator | None:
    # One head near balance: V E B + B^T E V^T = R is W E + E W^T = B^-T R B^-1 with W = B^-T V,
    # diagonal in the eigenvectors of W.
    if white.n_heads != 1 or white.dt:
        return None
    V, B = white.V[0], white.B[0]
    if not np.linalg.cond(B) < 1e8:
        return None
    inverse = np.linalg.inv(B)
    values, vectors = np.linalg.eig(inverse.T @ V)
    sums = values[:, None] + values
    if not np.linalg.cond(vectors) < 1e6 or np.abs(sums).min() < 1e-10 * np.abs(sums).max():
        return None
    back = np.linalg.inv(vectors)

    def solve(v: np.ndarray) -> np.ndarray:
        right = inverse.T @ smat(np.ravel(v)) @ inverse
        inner = back @ right @ back.T / sums
        return svec(symmetrise((vectors @ inner @ vectors.T).real))

    size = white.dim * (white.dim + 1) // 2
    return LinearOperator((size, size), matvec=solve, dtype=float)
