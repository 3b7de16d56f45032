"""Rightmost eigenvalues of the linearisation and of the attention form (Theory 2.3, 4.1).

    L(E) = M E + E M^T + T(E) + T(E)^T,    q(E) = <E, T(E)>    in coordinates where Sigma* = I

Dense up to d = 32 and matrix-free by ARPACK beyond, where E is kept as a d x d matrix and one
application costs O(h d^3). ARPACK's "LR" mode is known to return numbers that are no eigenvalues,
and eigenvalues that are not the rightmost ones where its subspace is small: so every pair is
checked by its residual, several are asked for, and two starts must agree. Shift-invert at zero is
not used: it can converge to a wrong eigenvalue. Where the rightmost eigenvalues are clustered, so
that ARPACK gives up within its budget, the abscissa is the growth rate of the propagator instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from gausscontrol.analysis.propagator import Linearisation, growth_rate
from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg.symmetric import smat, svec, to_svec_basis
from gausscontrol.model.heads import FactoredHeads, Heads
from gausscontrol.model.moments import MomentField, attention_form
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "affordable_restarts",
    "covariance_abscissa",
    "dense_operator",
    "extreme_eigenvalues",
    "form_is_degenerate",
    "form_maximum",
    "form_tolerance",
    "linear_operator",
    "matrix_abscissa",
    "on_svec",
    "rightmost_poles",
]

DENSE_DIM = 32
FALLBACK_DIM = 48
KRYLOV_SIZE = 80
KRYLOV_PAIRS = 4
# Residual of an eigenpair, and agreement of two starts, that count as converged, relative to the
# operator; what ARPACK is asked for.
PAIR_TOLERANCE = 1e-7
ARPACK_TOLERANCE = 1e-9
# The same for the form beyond `LARGE_DIM`, whose eigenvalues crowd at the edge; ARPACK's own is
# relative to the same size.
LARGE_FORM_TOLERANCE = 1e-3
ATTEMPTS = 6
# Restarts of ARPACK, and floating point operations after which it gives up earlier.
RESTARTS, LEAST_RESTARTS = 60, 4
BUDGET = 4e11
# Beyond this size more than so many are not worth their time: isolated poles take a few.
LARGE_DIM, LARGE_RESTARTS = 64, 20
# Products with the operator that estimate its size.
SIZE_STEPS = 12


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
        If dt > 0 and ARPACK does not converge.
    """
    if white.dim <= DENSE_DIM:
        jacobian = MomentField.of(white).covariance_jacobian(np.eye(white.dim))
        return matrix_abscissa(jacobian, white.dt)
    try:
        return _rate(rightmost_poles(white), white.dt)
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
        which = "LM" if white.dt else "LR"
        values = extreme_eigenvalues(
            eigs, linear_operator(white), which, white.dt, affordable_restarts(white)
        )
    except GausscontrolError as error:
        # Eigenvalues far up the imaginary axis defeat ARPACK; slow and sure while it fits.
        if white.dim > FALLBACK_DIM:
            return error
        values = np.linalg.eigvals(dense_operator(white))
    values.flags.writeable = False
    return values


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
    return _large_form_maximum(white)


def form_is_degenerate(heads: Heads) -> bool:
    """Tell whether heads are so narrow that the attention form has a kernel, beyond d = 32.

    T(E) depends on E through the blocks U_h E K_h^T alone, so that the form has at most twice as
    many eigenvalues that are not zero as these blocks have entries.

    Parameters
    ----------
    heads : Heads

    Returns
    -------
    bool
        True means that its largest eigenvalue is at least zero.
    """
    if heads.dim <= DENSE_DIM or not isinstance(heads, FactoredHeads):
        return False
    _, U, K, _ = heads.arrays
    return 2 * heads.n_heads * U.shape[1] * K.shape[1] < heads.dim * (heads.dim + 1) // 2


@lru_cache(maxsize=8)
def _large_form_maximum(white: GaussianTransformer) -> float:
    heads = white.heads
    adjoint = heads.adjoint()

    def apply(E: np.ndarray) -> np.ndarray:
        # Half of T and half of its adjoint E -> sum_h V_h^T E B_h^T, on symmetric matrices.
        image = heads.attention(E) + adjoint.attention(E)
        return (image + image.T) / 4

    operator = on_svec(apply, white.dim)
    tolerance = form_tolerance(white.dim)
    return float(extreme_eigenvalues(eigsh, operator, "LA", tolerance=tolerance).max())


def form_tolerance(dim: int) -> float:
    """Return what an eigenvalue of the form may be off by, d > 32, relative to |T|."""
    return PAIR_TOLERANCE if dim <= LARGE_DIM else LARGE_FORM_TOLERANCE


def linear_operator(white: GaussianTransformer) -> LinearOperator:
    """Return the covariance linearisation at the identity, acting on svec."""
    return on_svec(Linearisation(white).apply, white.dim)


def dense_operator(white: GaussianTransformer) -> np.ndarray:
    """Return the covariance linearisation at the identity as a matrix on svec."""
    return to_svec_basis(MomentField.of(white).covariance_jacobian(np.eye(white.dim)))


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
    # Start vectors are fixed, so that verdicts are reproducible.
    found: list[np.ndarray] = []
    failures = 0
    for attempt in range(ATTEMPTS):
        start = np.random.default_rng(attempt).normal(size=operator.shape[0])
        try:
            values, vectors = solver(
                shifted,
                k=KRYLOV_PAIRS,
                which=which,
                ncv=min(KRYLOV_SIZE, operator.shape[0]),
                v0=start,
                tol=ARPACK_TOLERANCE if tolerance == PAIR_TOLERANCE else tolerance / 2,
                maxiter=restarts,
            )
        except ArpackNoConvergence:
            failures += 1
            if failures == 2 or restarts < RESTARTS:
                break
            continue
        values = values - shift
        if not _are_pairs(operator, values, vectors, tolerance * size):
            continue
        found.append(values)
        rates = [_rate(each, dt) for each in found]
        if sum(abs(rates[-1] - other) < tolerance * size for other in rates) >= 2:
            return found[int(np.argmax(rates))]
    raise GausscontrolError(
        "model: ARPACK found no reliable rightmost eigenvalue of a linearisation of size "
        f"{operator.shape[0]} within {ATTEMPTS} attempts of {restarts} restarts; the rightmost "
        "ones may be clustered"
    )


def affordable_restarts(model: GaussianTransformer) -> int:
    """Return how often ARPACK may restart for eigenvalues that there is a substitute for."""
    dim = model.dim
    product = 2.0 * dim * (dim**2 + sum(array.size for array in model.heads.arrays))
    restart = KRYLOV_SIZE * (product + 2.0 * KRYLOV_SIZE * dim**2)
    most = RESTARTS if dim <= LARGE_DIM else LARGE_RESTARTS
    return int(np.clip(BUDGET / restart, LEAST_RESTARTS, most))


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
    def apply(vector: np.ndarray) -> np.ndarray:
        if np.isrealobj(vector):
            return operator @ vector
        return operator @ vector.real + 1j * (operator @ vector.imag)

    return all(
        np.linalg.norm(apply(vector) - value * vector) <= residual
        for value, vector in zip(values, vectors.T, strict=True)
    )


def _rate(values: np.ndarray, dt: float) -> float:
    if not dt:
        return float(values.real.max())
    radius = np.abs(values).max()
    return float(np.log(radius) / dt) if radius > 0 else -np.inf
