"""Where covariances of many models flatten: stable equilibria below rank d, or trajectories.

    "singular limit":  zero or a rank-1 equilibrium attracts, or four trajectories all flatten

as the quick single path estimates it (Theory 3.5), answered where no eigenvalue is near the axis.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.certificates.classify import (
    FADING,
    FLATTENING_STARTS,
    FLATTENING_STEPS,
    LOW_TOLERANCE,
    NEGLIGIBLE,
    NEVER,
)
from gausscontrol.sweeps.arrival import SETTLED, follow
from gausscontrol.sweeps.arrival import SINGULAR as FLAT
from gausscontrol.sweeps.batch import Stack, transposed
from gausscontrol.sweeps.behaviour import is_hurwitz
from gausscontrol.sweeps.evidence import NO, UNCLEAR, YES
from gausscontrol.sweeps.polish import polish_factors
from gausscontrol.sweeps.search import Starts, factors

__all__ = ["flattens"]

# Shares below which a number has no sign, an eigenvalue no certain realness.
CLEAR = 1e-7


def flattens(models: Stack, starts: Starts) -> np.ndarray:
    """Tell which models without a positive definite equilibrium have a singular limit.

    Parameters
    ----------
    models : Stack
    starts : Starts

    Returns
    -------
    (N,) ndarray of int
        YES, NO or UNCLEAR.
    """
    answer = np.full(models.count, NO)
    for examine in (_vanish, _rank_one, _all_flatten):
        left = np.flatnonzero(answer != YES)
        if left.size:
            found = examine(models.take(left), starts.take(left))
            answer[left] = np.where(found == NO, answer[left], found)
    return answer


def _vanish(models: Stack, starts: Starts) -> np.ndarray:
    return is_hurwitz(models.A)


def _all_flatten(models: Stack, starts: Starts) -> np.ndarray:
    left, slots = np.arange(models.count), starts.slots[-FLATTENING_STARTS:]
    # Most that do not flatten show it from the first start.
    for some in (slots[:1], slots[1:]):
        tasks = np.tile(left, len(some))
        L = factors(np.concatenate([slot[left] for slot in some]))
        ranks = _limit_ranks(models.take(tasks), L).reshape(len(some), -1)
        left = left[(ranks < models.dim).all(axis=0)]
    answer = np.full(models.count, NO)
    answer[left] = YES
    return answer


def _limit_ranks(models: Stack, L: np.ndarray) -> np.ndarray:
    """Return the ranks of the limits of trajectories; infinite where none is reached."""
    ranks = np.full(models.count, np.inf)
    waiting = [(np.arange(models.count), L)]
    while waiting:
        index, L = waiting.pop()
        if not index.size:
            continue
        rank = L.shape[2]
        tolerance = LOW_TOLERANCE if rank < models.dim else NEVER
        arrivals = follow(models.take(index), L, tolerance, FLATTENING_STEPS)
        settled = (arrivals.reason == SETTLED) & (rank < models.dim)
        is_limit = np.flatnonzero(settled)
        if is_limit.size:
            found = polish_factors(models.take(index[is_limit]), arrivals.factor[is_limit])[1]
            is_limit = is_limit[found]
            ranks[index[is_limit]] = rank
        going = (arrivals.reason == FLAT) | settled
        going[is_limit] = False
        index, L, settled = index[going], arrivals.factor[going], settled[going]
        U, values, _ = np.linalg.svd(L, full_matrices=False)
        share = np.where(settled, FADING, NEGLIGIBLE)
        kept = (values > (share * values[:, 0])[:, None]).sum(axis=1)
        ranks[index[(kept == rank) & ~settled]] = 0  # it shrinks as a whole
        for lower in range(1, rank):
            some = kept == lower
            waiting.append((index[some], U[some, :, :lower] * values[some, None, :lower]))
    return ranks


def _rank_one(models: Stack, starts: Starts) -> np.ndarray:
    """Tell whether a stable equilibrium s u u^T comes from the pencil (A, V)."""
    smallest = np.linalg.svd(models.A, compute_uv=False)
    kernel = smallest[:, -1] <= 1e-9 * smallest[:, 0]
    if models.n_heads != 1 or models.dim == 1:
        return np.where(kernel, UNCLEAR, NO)
    V, B = models.V[:, 0], models.B[:, 0]
    spread = np.linalg.svd(V, compute_uv=False)
    regular = (spread[:, -1] > CLEAR * spread[:, 0]) & ~kernel
    answer = np.where(regular, NO, UNCLEAR)
    index = np.flatnonzero(regular)
    if not index.size:
        return answer
    values, vectors = np.linalg.eig(np.linalg.solve(V[index], models.A[index]))
    values, vectors = values.astype(complex), vectors.astype(complex)
    for column in range(models.dim):
        value, u = values[:, column], vectors[:, :, column]
        skew = np.abs(value.imag) / np.abs(value)
        u = u.real / np.linalg.norm(u.real, axis=1, keepdims=True)
        quotient = np.einsum("ni,nij,nj->n", u, B[index], u)
        scale = -value.real / quotient
        here = skew == 0
        # A double eigenvalue has no sure direction, and a vanishing u^T B u no sure scale.
        unsure = (skew > 0) & (skew < CLEAR)
        unsure |= here & (np.abs(quotient) < CLEAR * np.linalg.norm(B[index], axis=(1, 2)))
        found = np.where(unsure, UNCLEAR, NO)
        some = np.flatnonzero(here & ~unsure & (scale > 0))
        L = (np.sqrt(scale[some])[:, None] * u[some])[:, :, None]
        found[some] = _attracts(models.take(index[some]), L)
        answer[index] = _joined(answer[index], found)
    return answer


def _attracts(models: Stack, L: np.ndarray) -> np.ndarray:
    """Tell which equilibria L L^T attract every covariance nearby."""
    if not models.count:
        return np.zeros(0, dtype=int)
    S = L @ transposed(L)
    values = np.linalg.eigvals(models.jacobians(S)).real.max(axis=1)
    norms = np.linalg.norm(models.V, axis=(2, 3)) * np.linalg.norm(models.B, axis=(2, 3))
    size = np.linalg.norm(models.A, axis=(1, 2))
    size = size + norms.sum(axis=1) * np.linalg.norm(S, axis=(1, 2))
    doubt = CLEAR * size
    return np.where(values < -doubt, YES, np.where(values > doubt, NO, UNCLEAR))


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return YES where one is, else UNCLEAR where one is, else NO."""
    yes, doubt = (first == YES) | (second == YES), (first == UNCLEAR) | (second == UNCLEAR)
    return np.where(yes, YES, np.where(doubt, UNCLEAR, NO))
