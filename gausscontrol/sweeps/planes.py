"""Left-invariant subspaces of many value matrices, along which covariances escape (Theory 5.3).

    U^T V = Lam U^T,   Lam^T Q + Q Lam = U^T B U + shift Q,     sym(Q Lam (x) B^T) > 0

for one head whose key has a definite symmetric part, at the cuts of the spectrum and with the
shifts that `certificates.subspace` tries, in the same balanced coordinates.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.certificates.subspace import SHIFTS
from gausscontrol.sweeps.balance import balanced
from gausscontrol.sweeps.batch import Stack, transposed
from gausscontrol.sweeps.evidence import NO, UNCLEAR, YES, lyapunov_solutions

__all__ = ["growing_planes"]

# Shares of their size beyond which numbers have a sign, and below which a gap is none at all.
CLEAR, NONE = 1e-7, 1e-13


def growing_planes(models: Stack) -> np.ndarray:
    """Tell for which one-head models some plane shows growth, without programmes.

    Parameters
    ----------
    models : Stack

    Returns
    -------
    (N,) ndarray of int
        YES, NO or UNCLEAR.
    """
    found = balanced(models)
    yes, doubt = (np.zeros(models.count, dtype=bool) for _ in range(2))
    with np.errstate(all="ignore"):
        for sign in (1.0, -1.0):
            V, B = sign * found.models.V[:, 0], sign * found.models.B[:, 0]
            keys = np.linalg.eigvalsh((B + transposed(B)) / 2)[:, 0] / _norm(B)
            for rank in range(1, models.dim + 1):
                answer = _plane(V, B, rank)
                yes |= (keys > CLEAR) & (answer == YES)
                doubt |= (np.abs(keys) <= CLEAR) | ((keys > 0) & (answer == UNCLEAR))
    doubt |= ~found.sure
    return np.where(yes & found.sure, YES, np.where(doubt, UNCLEAR, NO))


def _plane(V: np.ndarray, B: np.ndarray, rank: int) -> np.ndarray:
    """Examine the plane of the `rank` rightmost eigenvalues of every V."""
    count, dim, _ = V.shape
    size = _norm(V)
    values, vectors = np.linalg.eig(transposed(V))
    order = np.argsort(-values.real, axis=1, kind="stable")
    real = np.take_along_axis(values.real, order, axis=1)
    below = real[:, rank] if rank < dim else np.full(count, -np.inf)
    gap = np.minimum(real[:, rank - 1] - np.maximum(below, 0.0), real[:, rank - 1]) / size
    chosen = np.where(gap > CLEAR, YES, np.where(gap > NONE, UNCLEAR, NO))
    some = np.flatnonzero(chosen == YES)
    if not some.size:
        return chosen
    V, B, size = V[some], B[some], size[some]
    basis = np.take_along_axis(vectors[some], order[some, None], axis=2)[:, :, :rank]
    U, spread, _ = np.linalg.svd(np.concatenate([basis.real, basis.imag], axis=2))
    U = U[:, :, :rank] if rank < dim else np.broadcast_to(np.eye(dim), V.shape)
    Lam = transposed(U) @ V @ U
    right = transposed(U) @ ((B + transposed(B)) / 2) @ U
    slowest = real[some, rank - 1]
    best, worst = np.full(some.size, -np.inf), np.full(some.size, np.inf)
    for share in SHIFTS:
        shifted = Lam - share * slowest[:, None, None] * np.eye(rank)
        product = lyapunov_solutions(-shifted, right) @ Lam
        form = np.einsum("nij,nlk->nikjl", product, B).reshape(some.size, rank * dim, rank * dim)
        finite = np.isfinite(form).all(axis=(1, 2))
        form = np.where(finite[:, None, None], form, 0.0)
        width = np.linalg.eigvalsh((form + transposed(form)) / 2)
        lowest = width[:, 0] / np.abs(width).max(axis=1)
        lowest = np.where(finite, lowest, 0.0)
        best, worst = np.maximum(best, lowest), np.minimum(worst, np.abs(lowest))
    # Subspaces that are near to turning are not enclosed.
    firm = (spread[:, rank - 1] > 1e-4 * spread[:, 0]) & (gap[some] > 1e-4)
    verdict = np.where(best > CLEAR, YES, np.where((best < 0) & (worst > CLEAR), NO, UNCLEAR))
    chosen[some] = np.where(firm | (verdict == NO), verdict, UNCLEAR)
    return chosen


def _norm(X: np.ndarray) -> np.ndarray:
    return np.linalg.norm(X, axis=(1, 2))
