"""Equilibria of rank below d: zero, rank 1 by a pencil, rank r by the factor flow (Theory 3.5).

    Sigma* = 0            always
    Sigma* = s u u^T      A u = lambda V u,  s = -lambda / (u^T B u) > 0,  |u| = 1     (one head)
    Sigma* = L L^T        M(L L^T) L = L Omega,  Omega skew    (dt > 0: D L = L Q, Q orthogonal)

The covariance linearisation splits there: on the leaf of matrices of the same rank, and across it,
where its eigenvalues are the sums lambda_i + lambda_j of M on R^d / range(Sigma*).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg

from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.analysis.propagator import Linearisation
from gausscontrol.analysis.search import follow_flow
from gausscontrol.analysis.spectra import matrix_abscissa
from gausscontrol.linalg.operators import factor_derivative, to_svec_basis
from gausscontrol.linalg.symmetric import svec, symmetrise, vech_index
from gausscontrol.model.moments import MomentField
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "LeafSpectrum",
    "isotropic_factors",
    "leaf_spectrum",
    "pencil_factors",
    "polish_factor",
    "rank_factors",
]

# Imaginary parts, and u^T B u against |B|, that count as zero.
REAL = 1e-9
NEWTON_STEPS = 30
CONVERGED = 1e-12
FLOW_TOLERANCE, FLOW_STEPS = 1e-2, 150
# Ratio of the singular values of L; an iterate that loses rank converges to below 1e-6 only.
FULL_RANK = 1e-4
# A leaf linearisation with a singular value this small against its largest has a continuum.
SINGULAR = 1e-9


class LeafSpectrum(NamedTuple):
    """Abscissae along and across the leaf, and whether the equilibrium is isolated on it."""

    leaf: float
    transverse: float
    is_isolated: bool


def pencil_factors(model: GaussianTransformer) -> Iterator[np.ndarray]:
    """Yield the rank-1 factors sqrt(s) u that the pencil (A, V) predicts.

    Parameters
    ----------
    model : GaussianTransformer
        One head. For dt > 0 the fixed points with M u = 0 are the same ones.

    Yields
    ------
    (d, 1) ndarray
        One representative for each eigenvector; a multiple eigenvalue belongs to a continuum.
    """
    if model.n_heads != 1:
        return
    balanced, units = _balanced(model)
    A, B, V = balanced.A, balanced.B[0], balanced.V[0]
    (alphas, betas), vectors = scipy.linalg.eig(A, V, homogeneous_eigvals=True)
    for alpha, beta, vector in zip(alphas, betas, vectors.T, strict=True):
        # A singular pencil shows as 0/0, an infinite eigenvalue as V u = 0.
        small_beta = abs(beta) <= REAL * np.linalg.norm(V)
        if small_beta or not abs((alpha / beta).imag) <= REAL * abs(alpha / beta):
            continue
        u = _real_direction(vector)
        if u is None:
            continue
        quotient = u @ B @ u
        scale = -(alpha / beta).real / quotient if quotient else 0.0
        if np.isfinite(scale) and scale > 0 and abs(quotient) > REAL * np.linalg.norm(B):
            yield np.sqrt(scale) * (units * u)[:, None]


def isotropic_factors(model: GaussianTransformer) -> Iterator[np.ndarray]:
    """Yield directions u with A u = 0 along which every s u u^T is an equilibrium.

    Parameters
    ----------
    model : GaussianTransformer

    Yields
    ------
    (d, 1) ndarray
        Unit vectors with sum_h (u^T B_h u) V_h u = 0, found where one key form vanishes on the
        kernel of A (one head), or where all V_h u vanish too.
    """
    balanced, units = _balanced(model)
    for u in _isotropic_directions(balanced):
        direction = units * u
        yield (direction / np.linalg.norm(direction))[:, None]


def rank_factors(
    model: GaussianTransformer, starts: list[np.ndarray], *, both_ways: bool = True
) -> Iterator[np.ndarray]:
    """Yield factors of rank-r equilibria that the factor flow leads to.

    Parameters
    ----------
    model : GaussianTransformer
    starts : list of (d, r) ndarray
        Factors of full column rank.
    both_ways : bool, optional
        Also follow the reversed flow, which finds unstable ones.

    Yields
    ------
    (d, r) ndarray
    """
    flows = [model, model.reversed()] if both_ways and not model.dt else [model]
    for start in starts:
        for flow in flows:
            arrival = follow_flow(flow, start, FLOW_TOLERANCE, FLOW_STEPS)
            root = polish_factor(model, arrival.factor) if arrival.settled else None
            if root is not None:
                yield root


def polish_factor(model: GaussianTransformer, L: np.ndarray) -> np.ndarray | None:
    """Solve F(L L^T) = 0, or Sigma+ = Sigma for dt > 0, by Gauss-Newton on the factor.

    Steps of least norm leave the gauge L -> L Q alone.

    Parameters
    ----------
    model : GaussianTransformer
    L : (d, r) ndarray
        The guess, of full column rank.

    Returns
    -------
    (d, r) ndarray or None
        Of full column rank; None where none is reached.
    """
    field = MomentField.of(model)
    for _ in range(NEWTON_STEPS):
        gap, derivative, right = _factor_equation(field, L)
        attention = field.heads.attention(L @ L.T)
        size = (model.dt or 1.0) * (np.linalg.norm(field.A) + np.linalg.norm(attention))
        if np.linalg.norm(gap) <= CONVERGED * size * np.linalg.norm(L) ** 2:
            return L if _has_full_rank(L) else None
        step = np.linalg.lstsq(derivative, -right, rcond=1e-12)[0].reshape(L.shape)
        share = min(1.0, 0.5 * np.linalg.norm(L) / max(np.linalg.norm(step), 1e-300))
        L = L + share * step
        if not np.isfinite(L).all():
            return None
    return None


def leaf_spectrum(model: GaussianTransformer, L: np.ndarray) -> LeafSpectrum:
    """Split the linearisation at Sigma* = L L^T into leaf and transverse parts.

    Parameters
    ----------
    model : GaussianTransformer
    L : (d, r) ndarray
        Factor of an equilibrium, r < d; r = 0 for Sigma* = 0.

    Returns
    -------
    LeafSpectrum
        Abscissae per unit depth; for dt > 0, log(spectral radius)/dt. [1/t]
    """
    dim, rank = L.shape
    field, S = MomentField.of(model), L @ L.T
    U = np.linalg.svd(L, full_matrices=True)[0] if rank else np.eye(dim)
    across = U[:, rank:]
    M = across.T @ field.drift(S) @ across
    if model.dt:
        D = np.eye(dim - rank) + model.dt * M
        transverse = 2 * matrix_abscissa(D, model.dt)
    else:
        transverse = 2 * matrix_abscissa(M)
    if not rank:
        return LeafSpectrum(-np.inf, transverse, True)
    if dim > DENSE_DIM:
        J = _leaf_operator(model, S, U, rank)
    else:
        tangent = _tangent_basis(U, rank)
        J = tangent.T @ to_svec_basis(field.covariance_jacobian(S)) @ tangent
    fixed = J - np.eye(len(J)) if model.dt else J
    values = np.linalg.svd(fixed, compute_uv=False)
    # Against the size of the terms too: the linearisation may vanish altogether.
    size = np.linalg.norm(model.A, 2) + model.heads.norm_bound() * np.linalg.norm(S, 2)
    threshold = SINGULAR * max(values[0], (model.dt or 1.0) * size)
    return LeafSpectrum(matrix_abscissa(J, model.dt), transverse, bool(values[-1] > threshold))


def _real_direction(vector: np.ndarray) -> np.ndarray | None:
    phase = vector[np.abs(vector).argmax()]
    turned = vector * (abs(phase) / phase)
    if np.linalg.norm(turned.imag) > np.sqrt(REAL) * np.linalg.norm(turned):
        return None
    return turned.real / np.linalg.norm(turned.real)


def _isotropic_directions(model: GaussianTransformer) -> Iterator[np.ndarray]:
    scale = max(np.linalg.norm(model.A), np.finfo(float).tiny)
    kernel = scipy.linalg.null_space(model.A / scale, rcond=1e-12)
    if not kernel.size:
        return
    silent = kernel @ scipy.linalg.null_space(np.concatenate(list(model.V)) @ kernel, rcond=1e-12)
    for u in silent.T:
        yield u
    if model.n_heads != 1:
        return
    values, vectors = np.linalg.eigh(symmetrise(kernel.T @ model.B[0] @ kernel))
    small = np.abs(values) <= REAL * max(np.linalg.norm(model.B[0]), np.finfo(float).tiny)
    for u in (kernel @ vectors[:, small]).T:
        yield u
    if values[0] < 0 < values[-1] and not small[[0, -1]].any():
        for sign in (1.0, -1.0):
            u = np.sqrt(values[-1]) * vectors[:, 0] + sign * np.sqrt(-values[0]) * vectors[:, -1]
            yield kernel @ u / np.linalg.norm(u)


def _balanced(model: GaussianTransformer) -> tuple[GaussianTransformer, np.ndarray]:
    """Return the model with its coordinates rescaled to like size, and the units that undo it.

    The tests for "zero" below are relative to norms, which mean nothing in unlike units.
    """
    size = np.abs(model.A) + np.abs(model.V).sum(axis=0)
    _, (units, _) = scipy.linalg.matrix_balance(size, permute=False, separate=True)
    return model.in_coordinates(np.diag(1 / units), np.diag(units)), units


def _factor_equation(
    field: MomentField, L: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gap F(L L^T), or Sigma+ - Sigma, its derivative in L, and what that acts on."""
    dim = field.dim
    state = np.concatenate([np.zeros(dim), L.reshape(-1)])
    image = field.factor_form(state)[dim:].reshape(L.shape)  # M L, or D L
    by_factor = field.factor_jacobian(state)[dim:, dim:]
    if field.dt:
        gap = image @ image.T - L @ L.T
        derivative = _product_derivative(image) @ by_factor - _product_derivative(L)
        return gap, derivative, svec(gap)
    gap = image @ L.T + L @ image.T
    if dim > DENSE_DIM:
        # gap L = 0 says as much as gap = 0, since gap acts from and into the range of L and M L.
        return gap, _compressed_derivative(image, L, by_factor), (gap @ L).reshape(-1)
    derivative = _product_derivative(L) @ by_factor + _product_derivative(image)
    return gap, derivative, svec(gap)


def _leaf_operator(
    model: GaussianTransformer, S: np.ndarray, U: np.ndarray, rank: int
) -> np.ndarray:
    """Return the linearisation along the leaf in the basis of `_tangent_basis`, by columns."""
    linear = Linearisation(model.in_coordinates(U.T, U), U.T @ S @ U)
    dim = len(U)
    pairs = [(i, j) for i in range(dim) for j in range(min(i + 1, rank))]
    rows, columns = np.array(pairs).T
    weight = np.where(rows == columns, 1.0, np.sqrt(2.0))
    J = np.empty((len(pairs), len(pairs)))
    for n, (i, j) in enumerate(pairs):
        E = np.zeros((dim, dim))
        E[i, j] = E[j, i] = 1 / weight[n]
        J[:, n] = linear.apply(E)[rows, columns] * weight
    return J


def _tangent_basis(U: np.ndarray, rank: int) -> np.ndarray:
    """Return an orthonormal basis, in svec, of the matrices U E U^T with E zero off the leaf."""
    dim = len(U)
    index = vech_index(dim)
    columns = []
    for i in range(dim):
        for j in range(min(i + 1, rank)):
            E = np.outer(U[:, i], U[:, j])
            E = E if i == j else (E + E.T) / np.sqrt(2)
            columns.append(E[index.rows, index.columns] * index.weight)
    return np.stack(columns, axis=1)


def _compressed_derivative(W: np.ndarray, L: np.ndarray, by_factor: np.ndarray) -> np.ndarray:
    """Return the derivative of (W L^T + L W^T) L, the first factor's, for W = M L."""
    (_dim, _rank), unit = L.shape, np.eye(len(L))
    # dW L^T L + L dW^T L, then the same with the roles of W and L exchanged.
    outer = np.kron(unit, L.T @ L) + np.einsum("iq,pa->iapq", L, L).reshape(L.size, L.size)
    inner = np.kron(unit, L.T @ W) + np.einsum("iq,pa->iapq", W, L).reshape(L.size, L.size)
    return outer @ by_factor + inner


def _product_derivative(X: np.ndarray) -> np.ndarray:
    """Return dY -> svec(dY X^T + X dY^T) as a matrix on the rows of dY."""
    return factor_derivative(X) * vech_index(len(X)).weight[:, None]


def _has_full_rank(L: np.ndarray) -> bool:
    values = np.linalg.svd(L, compute_uv=False)
    return bool(values[-1] > FULL_RANK * values[0] > 0)
