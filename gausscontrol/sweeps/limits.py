"""Where covariances of many models flatten: stable equilibria below rank d, or trajectories.

    "singular limit":  some equilibrium of rank below d attracts, or four trajectories all flatten

as the single path estimates it (Theory 3.5), answered where no eigenvalue is near the axis.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.analysis import singular
from gausscontrol.analysis.finding import ALL_RANKS_DIM, SINGULAR_STARTS
from gausscontrol.certificates.classify import (
    FLATTENING_STARTS,
    FLATTENING_TOLERANCE,
    NEGLIGIBLE,
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
    # Zero attracts; then trajectories; then the equilibria between, which cost most.
    for examine in (_vanish, _all_flatten, _rank_one, _ranks_between):
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
        arrivals = follow(models.take(index), L, FLATTENING_TOLERANCE)
        ranks[index[arrivals.reason == SETTLED]] = L.shape[2]
        flat = arrivals.reason == FLAT
        index, L = index[flat], arrivals.factor[flat]
        U, values, _ = np.linalg.svd(L, full_matrices=False)
        kept = (values > NEGLIGIBLE * values[:, :1]).sum(axis=1)
        ranks[index[kept == L.shape[2]]] = 0  # it shrinks as a whole
        for rank in range(1, L.shape[2]):
            some = kept == rank
            waiting.append((index[some], U[some, :, :rank] * values[some, None, :rank]))
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


def _ranks_between(models: Stack, starts: Starts) -> np.ndarray:
    """Tell whether a flow of low rank leads to a stable equilibrium."""
    dim, answer = models.dim, np.full(models.count, NO)
    chosen = [(S, np.flatnonzero(present)) for S, present in starts.first(SINGULAR_STARTS)]
    index = np.concatenate([present for _, present in chosen])
    tasks, signs = np.tile(index, 2), np.repeat([1.0, -1.0], index.size)
    L = factors(np.concatenate([S[present] for S, present in chosen]))
    L = np.concatenate([L, L])
    ranks = range(dim - 1, 0, -1) if dim <= ALL_RANKS_DIM else (1,)
    for rank in ranks:
        if rank == 1 and models.n_heads == 1:
            continue
        flowing = models.take(tasks).directed(signs)
        arrivals = follow(flowing, L[:, :, :rank], singular.FLOW_TOLERANCE, singular.FLOW_STEPS)
        settled = np.flatnonzero(arrivals.reason == SETTLED)
        polished, found = polish_factors(models.take(tasks[settled]), arrivals.factor[settled])
        hit = tasks[settled[found]]
        stable = _attracts(models.take(hit), polished[found])
        # One model may come several times: "yes" outdoes "unclear".
        answer[hit[(stable == UNCLEAR) & (answer[hit] != YES)]] = UNCLEAR
        answer[hit[stable == YES]] = YES
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
