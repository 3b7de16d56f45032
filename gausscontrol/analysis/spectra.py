"""Rightmost eigenvalues of the linearisation and of the attention form (Theory 2.3, 4.1).

    L(E) = M E + E M^T + T(E) + T(E)^T,    q(E) = <E, T(E)>    in coordinates where Sigma* = I

Dense up to d = 32 and matrix-free by ARPACK beyond, where E is kept as a d x d matrix and one
application costs O(h d^3). The rightmost eigenvalues of L are sought as the largest ones of e^(tL):
ARPACK's "LR" mode converges, where attention rotates fast, to eigenvalues that are not rightmost,
from whatever start, and shift-invert at zero to wrong ones too. Where e^(tL) costs too much, beyond
d = 150 or so, "LR" is asked, and believed only as far as propagated matrices grow at the rate it
says. Every pair is checked by its residual; but for e^(tL) two starts must agree besides. Where the
rightmost eigenvalues are clustered, so that ARPACK gives up within its budget, dense ones come
instead up to d = 64, and the growth rate of the propagator beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from gausscontrol.analysis.propagator import STEP, Linearisation, growth_rate
from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg.symmetric import smat, svec, to_svec_basis
from gausscontrol.model.heads import FactoredHeads, Heads
from gausscontrol.model.moments import MomentField, attention_form
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
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
FALLBACK_DIM = 64
# For e^(tL): t in Taylor steps, what a step leaves out, the subspace, ARPACK's tolerance.
DEPTH, TRUNCATION, SMALL_KRYLOV, PROPAGATOR_TOLERANCE = 8, 1e-9, 24, 1e-7
# Products with L that a Taylor step takes, about.
SERIES = 30
# What a growth rate may exceed the abscissa by, in units of |L|: a few over its depth of 72/|L|.
GROWTH_ERROR = 0.04
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
RESTARTS, LARGE_RESTARTS = 60, 20
BUDGET = 4e11
# Fewer restarts than these of e^(tL) lead nowhere.
LEAST_RESTARTS = 3
LARGE_DIM = 64
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
    gap = _growth_rate(white) - _rate(values, 0)
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
    images = np.stack([_applied(operator, vector) for vector in vectors.T], axis=1)
    values = (vectors.conj() * images).sum(axis=0)
    residuals = np.linalg.norm(images - values * vectors, axis=0)
    if residuals.max() > PAIR_TOLERANCE * linear.size:
        raise GausscontrolError(
            f"model: the rightmost eigenvalues of a linearisation of size {flow.shape[0]} have "
            f"residuals up to {residuals.max() / linear.size:.1g} of its norm; they may be "
            "clustered"
        )
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
        "model: ARPACK found no reliable extreme eigenvalue of an operator of size "
        f"{operator.shape[0]} within {ATTEMPTS} attempts of {restarts} restarts; the extreme ones "
        "may be clustered"
    )


def _affordable_restarts(model: GaussianTransformer) -> int:
    """Return how often ARPACK may restart for eigenvalues that there is a substitute for."""
    dim = model.dim
    product = 2.0 * dim * (dim**2 + sum(array.size for array in model.heads.arrays))
    restart = SMALL_KRYLOV * DEPTH * SERIES * product
    return int(min(BUDGET / restart, RESTARTS))


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
        np.linalg.norm(_applied(operator, vector) - value * vector) <= residual
        for value, vector in zip(values, vectors.T, strict=True)
    )


def _applied(operator: LinearOperator, vector: np.ndarray) -> np.ndarray:
    if np.isrealobj(vector):
        return operator @ vector
    return operator @ vector.real + 1j * (operator @ vector.imag)


def _rate(values: np.ndarray, dt: float) -> float:
    if not dt:
        return float(values.real.max())
    radius = np.abs(values).max()
    return float(np.log(radius) / dt) if radius > 0 else -np.inf
