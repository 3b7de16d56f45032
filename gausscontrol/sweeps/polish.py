"""Newton's method for many models at once (Theory 3.3, 3.5).

    L(E) = -F(I)  in coordinates whitened at every iterate;    Gauss-Newton below rank d

Iterates, damping and stopping are those of `analysis.newton` and `analysis.singular`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gausscontrol.analysis import newton, singular
from gausscontrol.linalg.symmetric import vech_index
from gausscontrol.sweeps.batch import Stack, transposed

__all__ = ["Roots", "polish", "polish_factors", "smat_stack", "svec_stack", "whitening_stack"]


class Roots(NamedTuple):
    """Solutions of F(Sigma) = 0 (N, d, d), their residuals, and which were found."""

    covariance: np.ndarray
    residual: np.ndarray
    found: np.ndarray


def whitening_stack(S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return S^(-1/2), S^(1/2) and the ascending eigenvalues of S (N, d, d)."""
    values, vectors = np.linalg.eigh(S)
    root = np.sqrt(np.maximum(values, 0))[:, None]
    return (
        _symmetric(vectors / root @ transposed(vectors)),
        _symmetric(vectors * root @ transposed(vectors)),
        values,
    )


def svec_stack(X: np.ndarray) -> np.ndarray:
    """Return svec of symmetric matrices (N, d, d), (N, n)."""
    index = vech_index(X.shape[-1])
    return X[..., index.rows, index.columns] * index.weight


def smat_stack(x: np.ndarray) -> np.ndarray:
    """Undo `svec_stack`."""
    dim = (int(np.sqrt(8 * x.shape[-1] + 1)) - 1) // 2
    index = vech_index(dim)
    return (x / index.weight)[..., index.full].reshape(*x.shape[:-1], dim, dim)


def polish(models: Stack, covariance: np.ndarray) -> Roots:
    """Run Newton's method from a positive definite guess for every model.

    Parameters
    ----------
    models : Stack
    covariance : (N, d, d) ndarray

    Returns
    -------
    Roots
    """
    count, dim = models.count, models.dim
    result = Roots(np.full_like(covariance, np.nan), np.full(count, np.inf), np.zeros(count, bool))
    active, S, unit = np.arange(count), covariance, np.eye(dim)
    with np.errstate(all="ignore"):
        for _ in range(newton.MAX_ITERATIONS):
            finite = np.isfinite(S).all(axis=(1, 2))
            active, S, models = active[finite], S[finite], models.take(np.flatnonzero(finite))
            if not active.size:
                break
            R, root, values = whitening_stack(S)
            fine = values[:, 0] > newton.SINGULAR * values[:, -1]
            # An iterate that has become singular is no root, whatever went before.
            result.residual[active[~fine]] = np.inf
            active, S, R, root, values = (x[fine] for x in (active, S, R, root, values))
            models = models.take(np.flatnonzero(fine))
            if not active.size:
                break
            white = models.transform(R, root)
            rate, residual = _residuals(white)
            known = result.residual[active]
            condition = newton.WHITENING_ERROR * values[:, -1] / values[:, 0]
            tolerance = np.maximum(newton.CONVERGED, np.minimum(condition, newton.LOOSEST))
            stagnant = (known < tolerance) & (residual >= newton.STAGNATION * known)
            better = residual < known
            result.covariance[active[better]] = S[better]
            result.residual[active[better]] = residual[better]
            best = result.residual[active]
            done = stagnant | (best < newton.ROUNDING * dim)
            result.found[active[done]] = True
            going = np.flatnonzero(~done)
            if not going.size:
                active = active[going]
                break
            step = _steps(white.take(going), rate[going])
            S = _symmetric(root[going] @ (unit + step) @ root[going])
            active, models = active[going], models.take(going)
    late = ~result.found & (result.residual < newton.CONVERGED)
    result.found[late] = True
    result.covariance[~result.found] = np.nan
    return result


def _residuals(white: Stack) -> tuple[np.ndarray, np.ndarray]:
    attention = white.attention(np.broadcast_to(np.eye(white.dim), white.A.shape))
    M = white.A + attention
    rate = M + transposed(M)
    scale = 2 * (np.linalg.norm(white.A, axis=(1, 2)) + np.linalg.norm(attention, axis=(1, 2)))
    residual = np.linalg.norm(rate, axis=(1, 2)) / np.where(scale > 0, scale, 1.0)
    return rate, residual


def _steps(white: Stack, rate: np.ndarray) -> np.ndarray:
    unit = np.broadcast_to(np.eye(white.dim), white.A.shape)
    operators = white.jacobians(unit)
    E = smat_stack(solve_each(operators, -svec_stack(rate)))
    _run_chords(white, operators, rate, E)
    finite = np.isfinite(E).all(axis=(1, 2))
    values = np.linalg.eigvalsh(np.where(finite[:, None, None], E, 0.0))
    share = np.minimum(
        np.minimum(1.0, (1 - newton.SHRINK) / np.maximum(-values[:, 0], 1e-300)),
        newton.STRETCH / np.maximum(values[:, -1], 1e-300),
    )
    return share[:, None, None] * E


def _run_chords(white: Stack, operators: np.ndarray, rate: np.ndarray, E: np.ndarray) -> None:
    """Go on towards L(E) = -F(I) - T(E) E - E T(E)^T wherever the chords contract."""
    going, change = np.arange(len(E)), _norm(E)
    for _ in range(newton.MAX_CHORDS):
        if not going.size:
            break
        models, step = white.take(going), E[going]
        image = models.attention(step) @ step
        right = -rate[going] - image - transposed(image)
        following = smat_stack(solve_each(operators[going], svec_stack(right)))
        moved = _norm(following - step)
        nearer = moved < newton.CONTRACTION * change
        going, change = going[nearer], moved[nearer]
        E[going] = following[nearer]
        left = ~(change < newton.CHORD_TOLERANCE * _norm(E[going]))
        going, change = going[left], change[left]


def solve_each(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve (N, n, n) systems for (N, n) right sides; NaN where a matrix is singular."""
    try:
        return np.linalg.solve(matrices, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        out = np.full_like(right, np.nan)
        for i, (matrix, side) in enumerate(zip(matrices, right, strict=True)):
            try:
                out[i] = np.linalg.solve(matrix, side)
            except np.linalg.LinAlgError:
                continue
        return out


def polish_factors(models: Stack, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve F(L L^T) = 0 by Gauss-Newton on factors below rank d.

    Parameters
    ----------
    models : Stack
    factor : (N, d, r) ndarray

    Returns
    -------
    (N, d, r) ndarray, (N,) ndarray of bool
        Factors, and which solve the equation at full column rank.
    """
    count = models.count
    result, found = np.array(factor), np.zeros(count, dtype=bool)
    active, L = np.arange(count), np.array(factor)
    with np.errstate(all="ignore"):
        for _ in range(singular.NEWTON_STEPS):
            if not active.size:
                break
            S = L @ transposed(L)
            attention = models.attention(S)
            image = (models.A + attention) @ L
            gap = image @ transposed(L)
            gap = gap + transposed(gap)
            size = _norm(models.A) + _norm(attention)
            done = _norm(gap) <= singular.CONVERGED * size * _norm(L) ** 2
            result[active[done]] = L[done]
            values = np.linalg.svd(L[done], compute_uv=False)
            whole = (values[:, -1] > singular.FULL_RANK * values[:, 0]) & (values[:, 0] > 0)
            found[active[done]] = whole
            going = np.flatnonzero(~done)
            active, L, models = active[going], L[going], models.take(going)
            step = _factor_steps(models, L, image[going], gap[going])
            share = np.minimum(1.0, 0.5 * _norm(L) / np.maximum(_norm(step), 1e-300))
            L = L + share[:, None, None] * step
            finite = np.isfinite(L).all(axis=(1, 2))
            active, L, models = active[finite], L[finite], models.take(np.flatnonzero(finite))
    return result, found


def _factor_steps(models: Stack, L: np.ndarray, image: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Return the steps of least norm."""
    count, dim, rank = L.shape
    S = L @ transposed(L)
    drift = models.A + models.attention(S)
    # dL' = M dL + T(dL L^T + L dL^T) L
    block = np.einsum("nij,ab->niajb", drift, np.eye(rank))
    BL = models.B @ L[:, None]
    VL = models.V @ L[:, None]
    block = block + np.einsum("nhij,nhab->niajb", models.V, transposed(transposed(L)[:, None] @ BL))
    block = block + np.einsum("nhib,nhja->niajb", VL, BL)
    block = block.reshape(count, dim * rank, dim * rank)
    matrix = _product_derivative(L) @ block + _product_derivative(image)
    finite = np.isfinite(matrix).all(axis=(1, 2))
    U, values, Wt = np.linalg.svd(np.where(finite[:, None, None], matrix, 0.0), full_matrices=False)
    weights = (transposed(U) @ -svec_stack(gap)[..., None])[..., 0]
    kept = values > 1e-12 * values[:, :1]
    weights = np.where(kept, weights / np.where(kept, values, 1.0), 0.0)
    step = (transposed(Wt) @ weights[..., None]).reshape(count, dim, rank)
    return np.where(finite[:, None, None], step, np.nan)


def _product_derivative(X: np.ndarray) -> np.ndarray:
    count, dim, rank = X.shape
    index, unit = vech_index(dim), np.eye(dim)
    tensor = np.einsum("sp,nsa->nspa", unit[index.rows], X[:, index.columns])
    tensor += np.einsum("sp,nsa->nspa", unit[index.columns], X[:, index.rows])
    return tensor.reshape(count, index.rows.size, dim * rank) * index.weight[:, None]


def _symmetric(X: np.ndarray) -> np.ndarray:
    return X / 2 + transposed(X) / 2


def _norm(X: np.ndarray) -> np.ndarray:
    return np.linalg.norm(X, axis=(1, 2))
