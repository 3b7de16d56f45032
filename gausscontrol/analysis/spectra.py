"""Rightmost eigenvalues of the linearisation, and its abscissa (Theory 2.3).

    L(E) = M E + E M^T + T(E) + T(E)^T    in coordinates where Sigma* = I

Dense up to d = 32 and matrix-free by ARPACK beyond, where E is kept as a d x d matrix and one
application costs O(h d^3). The rightmost eigenvalues of L are sought as the largest ones of e^(tL):
where attention rotates fast, ARPACK's "LR" mode can converge to eigenvalues that are not rightmost
from several starts, or not at all, and shift-invert at zero to wrong ones. Where e^(tL) costs too
much, beyond d = 150 or so, "LR" is asked, and believed only as far as propagated matrices grow at
the rate it says. Every pair is checked by its residual; but for e^(tL) two starts must agree
besides. Where the rightmost eigenvalues are clustered, so that ARPACK gives up within its budget,
dense ones come instead up to d = 64, and the growth rate of the propagator beyond.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from gausscontrol.analysis.krylov import (
    DENSE_DIM,
    KRYLOV_PAIRS,
    PAIR_TOLERANCE,
    RESTARTS,
    applied,
    extreme_eigenvalues,
    on_svec,
    spectral_rate,
)
from gausscontrol.analysis.propagator import STEP, Linearisation, growth_rate
from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg.operators import to_svec_basis
from gausscontrol.model.moments import MomentField
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "covariance_abscissa",
    "dense_operator",
    "linear_operator",
    "matrix_abscissa",
    "rightmost_poles",
]

# Up to this d dense eigenvalues stand in for those that ARPACK does not find.
FALLBACK_DIM = 64
# For e^(tL): t in Taylor steps, what a step leaves out, the subspace, ARPACK's tolerance.
DEPTH, TRUNCATION, SMALL_KRYLOV, PROPAGATOR_TOLERANCE = 8, 1e-9, 24, 1e-7
# Products with L that a Taylor step takes, about.
SERIES = 30
# What a growth rate may exceed the abscissa by, in units of |L|: a few over its depth of 72/|L|.
GROWTH_ERROR = 0.04
# Restarts of ARPACK in "LR" mode, of which isolated eigenvalues take few; and floating point
# operations after which the search by e^(tL) ends.
LARGE_RESTARTS, BUDGET = 4, 4e11
# Fewer restarts than these of e^(tL) lead nowhere.
LEAST_RESTARTS = 3


def matrix_abscissa(matrix: np.ndarray, dt: float = 0) -> float:
    """Return the largest real part of the eigenvalues, or log(spectral radius)/dt.

    Parameters
    ----------
    matrix : (n, n) ndarray
    dt : float, optional
        Positive for the matrix of a map.

    Returns
    -------
    float
        Per unit depth; negative means stable. [1/t]
    """
    values = np.linalg.eigvals(matrix)
    return spectral_rate(values, dt)


def covariance_abscissa(white: GaussianTransformer) -> float:
    """Return the abscissa of the covariance linearisation at the identity.

    Parameters
    ----------
    white : GaussianTransformer
        The model whitened at its equilibrium.

    Returns
    -------
    float
        Per unit depth; for dt > 0, log(spectral radius)/dt. [1/t]

    Raises
    ------
    GausscontrolError
        If dt > 0 and ARPACK does not converge.
    """
    if white.dim <= DENSE_DIM:
        jacobian = MomentField.of(white).covariance_jacobian(np.eye(white.dim))
        return matrix_abscissa(jacobian, white.dt)
    try:
        return spectral_rate(rightmost_poles(white), white.dt)
    except GausscontrolError:
        if white.dt:
            raise
        return _growth_rate(white)


@lru_cache(maxsize=8)
def _growth_rate(white: GaussianTransformer) -> float:
    return growth_rate(Linearisation(white))


def rightmost_poles(white: GaussianTransformer) -> np.ndarray:
    """Return the rightmost eigenvalues of the covariance linearisation at the identity.

    Parameters
    ----------
    white : GaussianTransformer
        The model whitened at its equilibrium, d > 32; remembered for the last few models.

    Returns
    -------
    (m,) ndarray
        Complex; a few of them, for dt > 0 those of largest modulus. [1/t] (none for dt > 0)

    Raises
    ------
    GausscontrolError
        If ARPACK does not converge.
    """
    found = _rightmost_poles(white)
    if isinstance(found, GausscontrolError):
        raise found
    return found


@lru_cache(maxsize=8)
def _rightmost_poles(white: GaussianTransformer) -> np.ndarray | GausscontrolError:
    """Return them or the error: a search that failed is remembered too."""
    try:
        if white.dt:
            values = extreme_eigenvalues(eigs, linear_operator(white), "LM", white.dt)
        else:
            values = _rightmost(white)
    except GausscontrolError as error:
        # Eigenvalues far up the imaginary axis defeat ARPACK; slow and sure while it fits.
        if white.dim > FALLBACK_DIM:
            return error
        values = np.linalg.eigvals(dense_operator(white))
    values.flags.writeable = False
    return values


def _rightmost(white: GaussianTransformer) -> np.ndarray:
    linear, restarts = Linearisation(white), _affordable_restarts(white)
    if restarts >= LEAST_RESTARTS:
        return _largest_of_the_propagator(linear, restarts)
    values = extreme_eigenvalues(eigs, linear_operator(white), "LR", restarts=LARGE_RESTARTS)
    gap = _growth_rate(white) - spectral_rate(values, 0)
    if gap > GROWTH_ERROR * linear.size:
        raise GausscontrolError(
            f"model: the rightmost eigenvalues that ARPACK finds of a linearisation of size "
            f"{white.dim * (white.dim + 1) // 2} are {gap:.2g} per unit depth to the left of what "
            "grows; they may be clustered"
        )
    return values


def _largest_of_the_propagator(linear: Linearisation, restarts: int) -> np.ndarray:
    """Return eigenvalues lambda of L for which |e^(t lambda)| is largest, t about 50/|L|.

    They are the Rayleigh quotients of L at the eigenvectors of e^(tL).
    """
    if not linear.size:
        return np.zeros(1, dtype=complex)
    depth = DEPTH * STEP / linear.size
    flow = on_svec(lambda E: linear.propagate(E, depth, truncation=TRUNCATION), linear.dim)
    try:
        _, vectors = eigs(
            flow,
            k=KRYLOV_PAIRS,
            ncv=SMALL_KRYLOV,
            v0=np.random.default_rng(0).normal(size=flow.shape[0]),
            tol=PROPAGATOR_TOLERANCE,
            maxiter=restarts,
        )
    except ArpackNoConvergence as error:
        raise GausscontrolError(
            f"model: ARPACK found no rightmost eigenvalues of a linearisation of size "
            f"{flow.shape[0]} within {restarts} restarts; they may be clustered"
        ) from error
    operator = on_svec(linear.apply, linear.dim)
    images = np.stack([applied(operator, vector) for vector in vectors.T], axis=1)
    values = (vectors.conj() * images).sum(axis=0)
    residuals = np.linalg.norm(images - values * vectors, axis=0)
    if residuals.max() > PAIR_TOLERANCE * linear.size:
        raise GausscontrolError(
            f"model: the rightmost eigenvalues of a linearisation of size {flow.shape[0]} have "
            f"residuals up to {residuals.max() / linear.size:.1g} of its norm; they may be "
            "clustered"
        )
    return values


def linear_operator(white: GaussianTransformer) -> LinearOperator:
    """Return the covariance linearisation at the identity, acting on svec."""
    return on_svec(Linearisation(white).apply, white.dim)


def dense_operator(white: GaussianTransformer) -> np.ndarray:
    """Return the covariance linearisation at the identity as a matrix on svec."""
    return to_svec_basis(MomentField.of(white).covariance_jacobian(np.eye(white.dim)))


def _affordable_restarts(model: GaussianTransformer) -> int:
    """Return how often ARPACK may restart for eigenvalues that there is a substitute for."""
    dim = model.dim
    product = 2.0 * dim * (dim**2 + sum(array.size for array in model.heads.arrays))
    restart = SMALL_KRYLOV * DEPTH * SERIES * product
    return int(min(BUDGET / restart, RESTARTS))
