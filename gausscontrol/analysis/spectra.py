"""Rightmost eigenvalues of the linearisation and of the attention form (Theory 2.3, 4.1).

    L(E) = M E + E M^T + T(E) + T(E)^T,    q(E) = <E, T(E)>    in coordinates where Sigma* = I

Dense up to d = 32 and matrix-free by ARPACK beyond, where E is kept as a d x d matrix and one
application costs O(h d^3). ARPACK's "LR" mode is known to return numbers that are no eigenvalues,
so every pair is checked by its residual, several are asked for, and two starts must agree.
Shift-invert at zero is not used: it can converge to a wrong eigenvalue.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg.symmetric import smat, svec, to_svec_basis
from gausscontrol.model.moments import MomentField, attention_form
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["covariance_abscissa", "form_maximum", "linear_operator", "matrix_abscissa"]

DENSE_DIM = 32
FALLBACK_DIM = 64
KRYLOV_SIZE = 80
KRYLOV_PAIRS = 4
# Relative residual of an eigenpair, and agreement of two starts, that count as converged.
PAIR_TOLERANCE = 1e-7
ATTEMPTS = 6


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
    return _rate(values, dt)


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
        If ARPACK does not converge.
    """
    dim = white.dim
    field = MomentField.of(white)
    if dim <= DENSE_DIM:
        return matrix_abscissa(field.covariance_jacobian(np.eye(dim)), white.dt)
    which = "LM" if white.dt else "LR"
    try:
        return _arpack(eigs, linear_operator(white), which, lambda values: _rate(values, white.dt))
    except GausscontrolError:
        # Eigenvalues far up the imaginary axis defeat ARPACK; slow and sure while it fits.
        if dim > FALLBACK_DIM:
            raise
        return matrix_abscissa(dense_operator(white), white.dt)


def form_maximum(white: GaussianTransformer) -> float:
    """Return the largest eigenvalue of the attention form, -alpha of Theory 4.2.

    Parameters
    ----------
    white : GaussianTransformer
        The model whitened at its equilibrium.

    Returns
    -------
    float
        Per unit depth; negative means that the equilibrium attracts globally. [1/t]

    Raises
    ------
    GausscontrolError
        If ARPACK does not converge.
    """
    if white.dim <= DENSE_DIM:
        return float(np.linalg.eigvalsh(attention_form(white.heads))[-1])

    heads = white.heads
    adjoint = heads.adjoint()

    def apply(E: np.ndarray) -> np.ndarray:
        # Half of T and half of its adjoint E -> sum_h V_h^T E B_h^T, on symmetric matrices.
        image = heads.attention(E) + adjoint.attention(E)
        return (image + image.T) / 4

    return _arpack(eigsh, _on_svec(apply, white.dim), "LA", lambda values: float(values.max()))


def linear_operator(white: GaussianTransformer) -> LinearOperator:
    """Return the covariance linearisation at the identity, acting on svec."""
    heads, dt = white.heads, white.dt
    M = white.A + heads.attention(np.eye(white.dim))
    D = np.eye(white.dim) + dt * M

    def apply(E: np.ndarray) -> np.ndarray:
        attention = heads.attention(E)
        if dt:
            change = dt * attention @ D.T
            return D @ E @ D.T + change + change.T
        image = M @ E + attention
        return image + image.T

    return _on_svec(apply, white.dim)


def dense_operator(white: GaussianTransformer) -> np.ndarray:
    """Return the covariance linearisation at the identity as a matrix on svec."""
    return to_svec_basis(MomentField.of(white).covariance_jacobian(np.eye(white.dim)))


def _on_svec(apply: Callable[[np.ndarray], np.ndarray], dim: int) -> LinearOperator:
    size = dim * (dim + 1) // 2
    return LinearOperator(
        (size, size), matvec=lambda v: svec(apply(smat(np.ravel(v)))), dtype=float
    )


def _arpack(
    solver: Callable,
    operator: LinearOperator,
    which: str,
    measure: Callable[[np.ndarray], float],
) -> float:
    # Start vectors are fixed, so that verdicts are reproducible.
    found: list[float] = []
    for attempt in range(ATTEMPTS):
        start = np.random.default_rng(attempt).normal(size=operator.shape[0])
        try:
            values, vectors = solver(
                operator, k=KRYLOV_PAIRS, which=which, ncv=KRYLOV_SIZE, v0=start
            )
        except ArpackNoConvergence:
            continue
        if not _are_pairs(operator, values, vectors):
            continue
        found.append(measure(values))
        agreeing = [abs(found[-1] - other) < PAIR_TOLERANCE * abs(found[-1]) for other in found]
        if sum(agreeing) >= 2:
            return max(found)
    raise GausscontrolError(
        "model: ARPACK found no reliable rightmost eigenvalue of a linearisation of size "
        f"{operator.shape[0]} in {ATTEMPTS} attempts; the rightmost ones may be clustered"
    )


def _are_pairs(operator: LinearOperator, values: np.ndarray, vectors: np.ndarray) -> bool:
    def apply(vector: np.ndarray) -> np.ndarray:
        if np.isrealobj(vector):
            return operator @ vector
        return operator @ vector.real + 1j * (operator @ vector.imag)

    scale = np.abs(values).max()
    return all(
        np.linalg.norm(apply(vector) - value * vector) < PAIR_TOLERANCE * scale
        for value, vector in zip(values, vectors.T, strict=True)
    )


def _rate(values: np.ndarray, dt: float) -> float:
    if not dt:
        return float(values.real.max())
    radius = np.abs(values).max()
    return float(np.log(radius) / dt) if radius > 0 else -np.inf
