"""Extreme eigenvalues of linear maps on symmetric matrices, matrix-free (Theory 2.3, 4.1).

    L(E) = lambda E,    E symmetric d x d, as svec E

ARPACK's word is not taken: every pair is checked by its residual, and two starts must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator

from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg.symmetric import smat, svec

__all__ = [
    "DENSE_DIM",
    "KRYLOV_PAIRS",
    "PAIR_TOLERANCE",
    "RESTARTS",
    "applied",
    "extreme_eigenvalues",
    "on_svec",
    "spectral_rate",
]

# Up to this d a linear map on symmetric matrices is formed as a matrix.
DENSE_DIM = 32
# Vectors that ARPACK keeps, and eigenpairs that it is asked for.
KRYLOV_SIZE, KRYLOV_PAIRS = 80, 4
# Residual of an eigenpair, and agreement of two starts, that count as converged, relative to the
# operator; what ARPACK is asked for.
PAIR_TOLERANCE = 1e-7
ARPACK_TOLERANCE = 1e-9
ATTEMPTS = 6
# Restarts of ARPACK.
RESTARTS = 60
# Products with the operator that estimate its size.
SIZE_STEPS = 12


def on_svec(apply: Callable[[np.ndarray], np.ndarray], dim: int) -> LinearOperator:
    """Return a linear map on symmetric d x d matrices as an operator on svec."""
    size = dim * (dim + 1) // 2
    return LinearOperator(
        (size, size), matvec=lambda v: svec(apply(smat(np.ravel(v)))), dtype=float
    )


def extreme_eigenvalues(
    solver: Callable,
    operator: LinearOperator,
    which: str,
    dt: float = 0,
    restarts: int = RESTARTS,
    tolerance: float = PAIR_TOLERANCE,
) -> np.ndarray:
    """Return extreme eigenvalues that two starts of ARPACK agree on.

    Parameters
    ----------
    solver : callable
        `eigs` or `eigsh`.
    operator : (n, n) LinearOperator
    which : {"LR", "LA", "LM"}
        But for "LM" the operator is shifted by its size, which leaves the order as it is and makes
        ARPACK's tolerance, relative to an eigenvalue, one relative to the operator.
    dt : float, optional
        Positive for the linearisation of a map.
    restarts : int, optional
        After which a start counts as not converging; two of them end the search, and one where
        few are allowed.
    tolerance : float, optional
        Residual of a pair and agreement of two starts, relative to the operator.

    Returns
    -------
    (m,) ndarray

    Raises
    ------
    GausscontrolError
        If residuals stay large or no two starts agree.
    """
    size = _size(operator)
    shift = 0.0 if which == "LM" else size
    shifted = LinearOperator(
        operator.shape, matvec=lambda v: operator @ v + shift * v, dtype=operator.dtype
    )
    arpack = partial(
        solver,
        shifted,
        k=KRYLOV_PAIRS,
        which=which,
        ncv=min(KRYLOV_SIZE, operator.shape[0]),
        tol=ARPACK_TOLERANCE if tolerance == PAIR_TOLERANCE else tolerance / 2,
        maxiter=restarts,
    )
    found: list[np.ndarray] = []
    failures = 0
    for attempt in range(ATTEMPTS):
        # Start vectors are fixed, so that verdicts are reproducible.
        start = np.random.default_rng(attempt).normal(size=operator.shape[0])
        try:
            values, vectors = arpack(v0=start)
        except ArpackNoConvergence:
            failures += 1
            if failures == 2 or restarts < RESTARTS:
                break
            continue
        values = values - shift
        if not _are_pairs(operator, values, vectors, tolerance * size):
            continue
        found.append(values)
        rates = [spectral_rate(each, dt) for each in found]
        if sum(abs(rates[-1] - other) < tolerance * size for other in rates) >= 2:
            return found[int(np.argmax(rates))]
    raise GausscontrolError(
        "model: ARPACK found no reliable extreme eigenvalue of an operator of size "
        f"{operator.shape[0]} within {ATTEMPTS} attempts of {restarts} restarts; the extreme ones "
        "may be clustered"
    )


def applied(operator: LinearOperator, vector: np.ndarray) -> np.ndarray:
    """Return the image of a vector that may be complex under a real operator."""
    if np.isrealobj(vector):
        return operator @ vector
    return operator @ vector.real + 1j * (operator @ vector.imag)


def spectral_rate(values: np.ndarray, dt: float) -> float:
    """Return the largest real part of eigenvalues, or log(spectral radius)/dt of those of a map."""
    if not dt:
        return float(values.real.max())
    radius = np.abs(values).max()
    return float(np.log(radius) / dt) if radius > 0 else -np.inf


def _size(operator: LinearOperator) -> float:
    """Return a lower estimate of the norm of an operator, by repeated products."""
    vector, size = np.random.default_rng(ATTEMPTS).normal(size=operator.shape[0]), 0.0
    for _ in range(SIZE_STEPS):
        vector = operator @ (vector / np.linalg.norm(vector))
        size = max(size, float(np.linalg.norm(vector)))
        if not vector.any():
            break
    return size


def _are_pairs(
    operator: LinearOperator, values: np.ndarray, vectors: np.ndarray, residual: float
) -> bool:
    return all(
        np.linalg.norm(applied(operator, vector) - value * vector) <= residual
        for value, vector in zip(values, vectors.T, strict=True)
    )
