"""Where equilibria may be, in the order in which they are looked for (Theory 3).

    Riccati case      one Lyapunov equation, which also decides existence      (3.2)
    balanced case     -V^-1 A B^-1                                             (3.1)
    otherwise         the flow forward and backward, Newton from every start   (3.3)
    rank below d      zero, the pencil (A, V), the kernel of A, the factor flow    (3.5)

Roots come as they are found, the same one perhaps several times. What is kept of them, and what is
said of them, is the matter of `finding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from threading import Lock

import numpy as np

from gausscontrol.analysis.equilibrium import NEARLY_SINGULAR
from gausscontrol.analysis.newton import Root, polish, scaled_residual
from gausscontrol.analysis.search import (
    FLOW_STEPS,
    balanced_covariance,
    default_starts,
    follow_flow,
)
from gausscontrol.analysis.singular import isotropic_factors, pencil_factors, rank_factors
from gausscontrol.errors import MatrixEquationError
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import factor, symmetrise
from gausscontrol.model.structure import riccati_gain, trace_obstruction
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "FLOW_TOLERANCES",
    "QUICK_STEPS",
    "RANDOM_STARTS",
    "definite_candidates",
    "quick_candidates",
    "riccati_root",
    "singular_candidates",
    "usual_starts",
]

RANDOM_STARTS = 4
# Beyond the first of these sizes the default search is remembered for the last few models; beyond
# the second it is thinner: fewer starts, backward and by Newton alone only from the first.
DENSE_DIM, LARGE_DIM = 32, 64
LARGE_STARTS = 2
# Starts used for each rank below d; flows of low rank that settle nowhere are dear.
SINGULAR_STARTS = 3
# Flow tolerances at which Newton is tried: near is usually enough, closer when it is not.
FLOW_TOLERANCES = (3e-2, 1e-3)
# Steps of a quick search; flows that settle take some 20 from the natural scale.
QUICK_STEPS = 200


def usual_starts(
    model: GaussianTransformer, count: int | None = None, seed: int = 0
) -> list[np.ndarray]:
    """Return the starts of a search.

    Parameters
    ----------
    model : GaussianTransformer
    count : int, optional
        Of random starts; by default four, and beyond d = 64 two starts in all.
    seed : int, optional

    Returns
    -------
    list of (d, d) ndarray
    """
    return list(_coming_starts(model, count, seed))


def definite_candidates(
    model: GaussianTransformer, starts: list[np.ndarray] | None = None
) -> Iterable[tuple[Root, str]]:
    """Return positive definite roots, with the method, in the order of the search.

    Parameters
    ----------
    model : GaussianTransformer
    starts : list of (d, d) ndarray, optional
        Positive definite; the usual ones by default.

    Returns
    -------
    iterable of (Root, str)
    """
    if starts is None and model.dim > DENSE_DIM:
        return _usual_candidates(model)
    return _search(model, _coming_starts(model) if starts is None else starts)


def quick_candidates(model: GaussianTransformer) -> Iterator[tuple[Root, str]]:
    """Yield positive definite roots of a short search: closed forms, one start, one flow forward.

    The reversed flow leads to what repels every covariance nearby, and Newton's method from afar
    to little; both are left out.

    Parameters
    ----------
    model : GaussianTransformer

    Yields
    ------
    (Root, str)
    """
    yield from _closed_forms(model)
    if not _is_decided(model):
        yield from _flow_roots(model, next(default_starts(model, 0, 0)), QUICK_STEPS)


def riccati_root(model: GaussianTransformer) -> tuple[Root | None] | None:
    """Return (root,) or (None,) when the Lyapunov equation decides, None when it does not.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    (Root or None,) or None
    """
    gain = None if model.dt else riccati_gain(model)
    if gain is None:
        return None
    try:
        X = solve_lyapunov(model.A.T, gain)
    except MatrixEquationError:
        return None
    values, vectors = np.linalg.eigh(X)
    if abs(values[0]) <= NEARLY_SINGULAR * np.abs(values).max():
        return None
    if values[0] < 0:
        return (None,)
    Sigma = symmetrise(vectors / values @ vectors.T)
    return (polish(model, Sigma) or _root_at(model, Sigma),)


def singular_candidates(
    model: GaussianTransformer, rank: int, starts: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, str]]:
    """Yield factors of equilibria of one rank below d, with the method.

    Parameters
    ----------
    model : GaussianTransformer
    rank : int
    starts : list of (d, d) ndarray
        For the factor flow, which is left out where there are none.

    Yields
    ------
    ((d, rank) ndarray, str)
    """
    if rank == 0:
        yield np.zeros((model.dim, 0)), "zero"
        return
    if rank == 1:
        for L in (*pencil_factors(model), *isotropic_factors(model)):
            yield L, "pencil"
        if model.n_heads == 1:
            return
    # Newton between a flow and its limit needs a start of the rank wanted.
    for L in rank_factors(model, [factor(start)[:, :rank] for start in starts[:SINGULAR_STARTS]]):
        yield L, "flow"


class _Remembered:
    """Candidates, searched for only as far as somebody asks for more."""

    def __init__(self, candidates: Iterator[tuple[Root, str]]) -> None:
        self._coming, self._found, self._lock = candidates, [], Lock()

    def __iter__(self) -> Iterator[tuple[Root, str]]:
        position = 0
        while True:
            with self._lock:
                if position == len(self._found):
                    following = next(self._coming, None)
                    if following is None:
                        return
                    self._found.append(following)
            yield self._found[position]
            position += 1


@lru_cache(maxsize=4)
def _usual_candidates(model: GaussianTransformer) -> _Remembered:
    return _Remembered(_search(model, _coming_starts(model)))


def _coming_starts(
    model: GaussianTransformer, count: int | None = None, seed: int = 0
) -> Iterator[np.ndarray]:
    if count is None and model.dim > LARGE_DIM:
        return islice(default_starts(model, LARGE_STARTS, seed), LARGE_STARTS)
    return default_starts(model, RANDOM_STARTS if count is None else count, seed)


def _search(model: GaussianTransformer, starts: Iterable[np.ndarray]) -> Iterator[tuple[Root, str]]:
    yield from _closed_forms(model)
    if _is_decided(model):
        return
    used = []
    for start in starts:  # most searches end at the first
        used.append(start)
        yield from _flow_roots(model, start, FLOW_STEPS)
    few = used[:1] if model.dim > LARGE_DIM else used
    if not model.dt:
        for start in few:
            yield from _flow_roots(model, start, FLOW_STEPS, reverse=True)
    for start in few:
        root = polish(model, start)
        if root is not None:
            yield root, "newton"


def _closed_forms(model: GaussianTransformer) -> Iterator[tuple[Root, str]]:
    closed = riccati_root(model)
    if closed is None:
        balanced = _balanced_root(model)
        if balanced is not None:
            yield balanced, "balanced"
    elif closed[0] is not None:
        yield closed[0], "lyapunov"


def _is_decided(model: GaussianTransformer) -> bool:
    """Tell whether a closed form or the trace leaves nothing to look for."""
    if model.dt:
        return False
    return riccati_root(model) is not None or bool(trace_obstruction(model))


def _balanced_root(model: GaussianTransformer) -> Root | None:
    Sigma = balanced_covariance(model)
    if Sigma is None or np.linalg.norm(Sigma - Sigma.T) > 1e-10 * np.linalg.norm(Sigma):
        return None
    Sigma = symmetrise(Sigma)
    if not np.linalg.eigvalsh(Sigma)[0] > 1e-13 * np.linalg.norm(Sigma):
        return None
    return polish(model, Sigma)


def _root_at(model: GaussianTransformer, Sigma: np.ndarray) -> Root:
    return Root(Sigma, scaled_residual(model.whiten(Sigma))[1])


def _flow_roots(
    model: GaussianTransformer, start: np.ndarray, steps: int, *, reverse: bool = False
) -> Iterator[tuple[Root, str]]:
    flowing = model.reversed() if reverse else model
    L = factor(start)
    for tolerance in FLOW_TOLERANCES:
        arrival = follow_flow(flowing, L, tolerance, steps)
        if not arrival.settled:
            return
        L = arrival.factor
        root = polish(model, symmetrise(L @ L.T))
        if root is not None:
            yield root, "flow"
            return
