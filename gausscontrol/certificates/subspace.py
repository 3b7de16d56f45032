"""Left-invariant subspaces of V, along which covariances escape (Theory 5.3).

    U^T V = Lam U^T,   P = U Q U^T,   X = U^T S:      q_P(S) = tr(Q Lam X B X^T)

for one effective head. P is singular, so the identity must hold exactly: the computed basis U is
shown to lie near an exact one, U + W X^T with X M - Lam X = -E + X F X in the blocks of V in the
basis [U W], and every number is bounded for that exact basis (Stewart's theorem: if
4 |E| |F| < sep^2, there is an X with |X| <= 2 |E| / sep).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg

from gausscontrol.certificates.balance import Balanced
from gausscontrol.certificates.comparison import EPS, DenseForm, Growth, ProductForm, growth
from gausscontrol.certificates.shared_key import shared_key
from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import is_positive_definite, symmetrise

__all__ = ["Plane", "SubspaceGrowth", "planes", "reference_covariance", "subspace_growth"]

# Shares of the slowest growth rate on the subspace by which Lam is shifted in Q's equation.
SHIFTS = (0.0, 0.5, 0.9)
# Subspaces tried: the cuts of the spectrum with the widest gaps.
CUTS = 8
# Real parts below this share of |V| count as zero.
NEUTRAL = 1e-12
# Keys whose eigenvalues spread further are singular to rounding.
SINGULAR = 1e-12
# Unknowns of the form, and of the equation for X, up to which they are formed densely.
LARGEST_FORM = 400
LARGEST_SEPARATION = 1200


class Plane(NamedTuple):
    """A basis U (d, r) and the weight Q (r, r) of P = U Q U^T, in balanced coordinates."""

    basis: np.ndarray
    weight: np.ndarray

    def value(self, Sigma: np.ndarray, uncertainty: float) -> float:
        """Return a lower bound of tr(P Sigma) for the exact P, Sigma balanced."""
        rough = float(np.sum((self.basis @ self.weight) * (Sigma @ self.basis)))
        rough -= 8 * len(Sigma) * EPS * np.linalg.norm(self.weight) * np.linalg.norm(Sigma)
        largest = max(float(np.linalg.eigvalsh(Sigma)[-1]), 0.0)
        return max(np.sqrt(max(rough, 0.0)) - uncertainty * np.sqrt(largest), 0.0) ** 2


class SubspaceGrowth(NamedTuple):
    """The comparison along a plane.

    sqrt(tr(P Sigma)) of the exact P is at least that of the stored one minus `uncertainty` times
    sqrt(lambda_max(Sigma)).
    """

    growth: Growth
    uncertainty: float
    margin: float
    is_exact: bool


class _Head(NamedTuple):
    V: np.ndarray
    B: np.ndarray
    error: float
    is_symmetric: bool
    is_exact: bool


def planes(found: Balanced) -> Iterator[Plane]:
    """Yield candidates for P; which of them prove anything is for `subspace_growth` to say."""
    for head in _heads(found):
        values = np.linalg.eigvals(head.V).real
        keys = symmetrise(head.B)
        keys = keys if is_positive_definite(keys) else np.eye(found.dim)
        for threshold in _cuts(values, float(np.linalg.norm(head.V))):
            _, Z, rank = scipy.linalg.schur(
                head.V.T, output="real", sort=lambda x, y, least=threshold: x > least
            )
            U = Z[:, :rank] if rank < found.dim else np.eye(found.dim)
            yield from _weighted(U, U.T @ head.V @ U, U.T @ keys @ U)


def _weighted(U: np.ndarray, Lam: np.ndarray, right: np.ndarray) -> Iterator[Plane]:
    """Yield U with Q of Lam^T Q + Q Lam = R + shift Q."""
    slowest = float(np.linalg.eigvals(Lam).real.min())
    for share in SHIFTS:
        shifted = Lam - share * slowest * np.eye(len(Lam))
        try:
            Q = solve_lyapunov(-shifted.T, symmetrise(right))
        except MatrixEquationError:
            continue
        if is_positive_definite(Q):
            yield Plane(U, Q / np.linalg.norm(Q))


def _cuts(values: np.ndarray, size: float) -> list[float]:
    """Return thresholds that separate the spectrum of V in the right half-plane, widest first."""
    values = np.sort(values)[::-1]
    floor = NEUTRAL * size
    positive = values > floor
    if not positive.any():
        return []
    below = np.append(values[1:], -np.inf)
    gaps = np.where(positive, values - np.maximum(below, 0.0), 0.0)
    chosen = [i for i in np.argsort(-gaps)[:CUTS] if gaps[i] > floor]
    # Half-way, but never below half of the least value that is taken in.
    return [float(max((values[i] + below[i]) / 2, values[i] / 2)) for i in chosen]


def _heads(found: Balanced) -> list[_Head]:
    """Return the effective head, with both signs where B is not symmetric."""
    model = found.model
    key = shared_key(model)
    if key is not None:
        return [_Head(key.V, key.B, key.error, True, key.rest == 0)]
    if model.n_heads != 1 or not (model.V.any() and model.B.any()):
        return []
    V, B = model.V[0], model.B[0]
    return [_Head(s * V, s * B, 0.0, False, True) for s in (1.0, -1.0)]


def reference_covariance(found: Balanced) -> np.ndarray:
    """Return the balanced covariance for which thresholds are compared: B^-1, or I."""
    for head in _heads(found):
        values, vectors = np.linalg.eigh(symmetrise(head.B))
        if values[0] > SINGULAR * values[-1]:
            return (vectors / values) @ vectors.T
    return np.eye(found.dim)


def subspace_growth(found: Balanced, plane: Plane) -> SubspaceGrowth | None:
    """Return the comparison along a plane, or None if it shows nothing.

    Parameters
    ----------
    found : Balanced
    plane : Plane

    Returns
    -------
    SubspaceGrowth or None
    """
    results = (_head_growth(head, found.model.A, plane) for head in _heads(found))
    return next((result for result in results if result is not None), None)


def _head_growth(head: _Head, A: np.ndarray, plane: Plane) -> SubspaceGrowth | None:
    U, Q = plane
    rank, dim = len(Q), len(U)
    enclosed = _enclosed(head.V, U, head.error)
    if enclosed is None:
        return None
    Lam, error_Lam, shift = enclosed
    sizes = np.linalg.eigvalsh(Q)
    if not sizes[0] > 8 * rank * EPS * sizes[-1]:
        return None
    size = float(np.linalg.norm(Q))
    product = Q @ Lam
    error = size * error_Lam + 2 * (rank + 2) * EPS * size * np.linalg.norm(Lam)
    form: DenseForm | ProductForm
    if head.is_symmetric:
        form = ProductForm(symmetrise(product), head.B, float(error), 0.0)
    elif rank * dim > LARGEST_FORM:
        return None
    else:
        matrix = symmetrise(np.kron(product, head.B.T))
        form = DenseForm(matrix, float(error * np.linalg.norm(head.B)) * 1.01)
    if not form.usable:
        return None
    v = Q @ U.T
    w = v @ A
    error_v = size * (shift + 2 * (rank + 2) * EPS * np.sqrt(rank))
    error_w = float(np.linalg.norm(A)) * (error_v + 2 * dim * EPS * size * np.sqrt(rank))
    found = growth(form, v, w, error_v, error_w)
    margin = form.lowest / (size * float(np.linalg.norm(head.V) * np.linalg.norm(head.B)))
    return SubspaceGrowth(found, shift * np.sqrt(size), margin, head.is_exact)


def _enclosed(
    V: np.ndarray, U: np.ndarray, error_V: float
) -> tuple[np.ndarray, float, float] | None:
    """Enclose an exact left-invariant subspace of V near the columns of U.

    Returns
    -------
    Lam : (r, r) ndarray
    error_Lam, shift : float
        Frobenius-norm bounds on the distance of the exact Lam, and of the exact basis from U.
    """
    dim, rank = U.shape
    if rank == dim and np.array_equal(U, np.eye(dim)):
        return V, error_V, 0.0
    Z = np.linalg.qr(U, mode="complete")[0]
    Z[:, :rank] = U
    defect = float(np.linalg.norm(Z.T @ Z - np.eye(dim))) + 2 * dim * dim * EPS
    if defect > 1e-3:
        return None
    blocks = Z.T @ V @ Z
    # Z^-1 V Z differs from Z^T V Z by the lack of orthogonality and by rounding.
    noise = 1.1 * ((defect + 4 * dim * dim * EPS) * float(np.linalg.norm(V)) + error_V)
    Lam = blocks[:rank, :rank]
    if rank == dim:
        return Lam, noise, 1.1 * defect
    if rank * (dim - rank) > LARGEST_SEPARATION:
        return None
    corner = float(np.linalg.norm(blocks[:rank, rank:])) + noise
    coupling = float(np.linalg.norm(blocks[rank:, :rank])) + noise
    operator = np.kron(np.eye(rank), blocks[rank:, rank:].T)
    operator -= np.kron(Lam, np.eye(dim - rank))
    singular = np.linalg.svd(operator, compute_uv=False)
    separation = singular[-1] - 2 * noise - 4 * len(operator) * EPS * singular[0]
    if not (separation > 0 and 4 * corner * coupling < separation**2):
        return None
    length = 2 * corner / float(separation)
    return Lam, noise + length * coupling, 1.1 * (defect + length)
