"""The search for equilibria: closed forms first, then flows finished by Newton (Theory 3).

    Riccati case      one Lyapunov equation, which also decides existence      (3.2)
    balanced case     -V^-1 A B^-1                                             (3.1)
    otherwise         the flow forward and backward, Newton from every start   (3.3)
    rank below d      zero, the pencil (A, V), the kernel of A, the factor flow    (3.5)

What is found is checked and described by `equilibrium`. The search is complete in the Riccati
case, where it ends at an equilibrium that attracts globally, and for rank 1 with one head and a
regular pencil with simple eigenvalues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from numbers import Integral
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.analysis.enclosure import WhitenedPoint, form_evidence
from gausscontrol.analysis.equilibrium import (
    NEARLY_SINGULAR,
    Equilibrium,
    check_model,
    describe,
    describe_singular,
)
from gausscontrol.analysis.newton import Root, polish, scaled_residual
from gausscontrol.analysis.search import balanced_covariance, default_starts, follow_flow
from gausscontrol.analysis.singular import isotropic_factors, pencil_factors, rank_factors
from gausscontrol.analysis.spectra import form_is_degenerate
from gausscontrol.errors import (
    EquilibriumNotFound,
    GausscontrolError,
    MatrixEquationError,
    ParameterError,
)
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import covariance_matrix, factor, symmetrise, whitening
from gausscontrol.model.moments import read_moments
from gausscontrol.model.structure import riccati_gain, trace_obstruction
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["find_equilibria", "find_equilibrium"]

RANDOM_STARTS = 4
# Beyond the first of these sizes the default search is remembered for the last few models; beyond
# the second it is thinner: fewer starts, backward and by Newton alone only from the first.
DENSE_DIM, LARGE_DIM = 32, 64
LARGE_STARTS = 2
# Starts used for each rank below d; flows of low rank that settle nowhere are dear.
SINGULAR_STARTS = 3
# Up to this dimension every rank is searched by default.
ALL_RANKS_DIM = 3
# Flow tolerances at which Newton is tried: near is usually enough, closer when it is not.
FLOW_TOLERANCES = (3e-2, 1e-4)
# Whitened distance below which two solutions are one.
SAME = 1e-6


def find_equilibria(
    model: GaussianTransformer,
    *,
    rank: int | None = None,
    starts: int | Iterable[ArrayLike] | None = None,
    seed: int = 0,
) -> list[Equilibrium]:
    """Find the equilibria that a search comes upon.

    Parameters
    ----------
    model : GaussianTransformer
    rank : int, optional
        Look only for covariances of this rank, 0 to d. By default all ranks up to d = 3, and 0,
        1 and d beyond, where the ranks between are searched when asked for.
    starts : int or iterable of (d, d) array_like, optional
        Covariances to start from, or how many random ones to add to the deterministic ones. For
        a rank r their r leading principal directions are the start.
    seed : int, optional
        Of the random starts.

    Returns
    -------
    list of Equilibrium
        Every distinct one that was found: stable ones first, then of higher rank first, then by
        abscissa. Among positive definite ones the search is complete in the Riccati case, and
        where it ends at one that attracts globally and is therefore the only one (Theory 4.1).
        Of a continuum (`is_isolated` False) representatives are listed.

    Raises
    ------
    ParameterError
        If a start is not a positive definite d x d matrix, or the rank not from 0 to d.

    Notes
    -----
    Theory 3.1 to 3.3: Riccati case by one Lyapunov equation, balanced case, then the flow forward
    and backward from every start, finished by Newton, and Newton straight from every start.
    Theory 3.5 for rank below d: the pencil (A, V) of one head, and the factor flow. Beyond d = 64
    the default search is thinner: two starts, and backward or by Newton alone only from the first;
    pass `starts` for more.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> found = gct.find_equilibria(model)
    >>> bool(np.allclose(found[0].covariance, 2 * np.eye(2)))
    True
    >>> print([e.rank for e in found], found[-1].is_stable)
    [2, 1, 1, 0] False
    """
    check_model(model)
    chosen = _read_starts(model, starts, seed)
    usual = starts is None and seed == 0
    ranks = _default_ranks(model.dim) if rank is None else {_read_rank(rank, model.dim)}
    found = _definite(model, _candidates(model, chosen, usual)) if model.dim in ranks else []
    for r in sorted(ranks - {model.dim}):
        found += _singular(model, r, chosen)
    return sorted(found, key=lambda e: (not e.covariance_is_stable, -e.rank, e.covariance_abscissa))


def find_equilibrium(model: GaussianTransformer, guess: Any = None) -> Equilibrium:
    """Find one positive definite equilibrium.

    Parameters
    ----------
    model : GaussianTransformer
    guess : (d, d) array_like, tuple or packed state, optional
        Covariance, (mean, covariance) or packed state from which Newton's method starts; it
        returns the root it finds, stable or not. By default the search of `find_equilibria`,
        stopped at its first find, stable ones being sought first.

    Returns
    -------
    Equilibrium

    Raises
    ------
    EquilibriumNotFound
        If there is none, or none was found; the message says what was tried.
    ParameterError
        If the guess is not positive definite.

    Notes
    -----
    Theory 3.1 to 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
    >>> found = gct.find_equilibrium(model)
    >>> bool(np.allclose(found.covariance, 2)), found.is_stable
    (True, True)
    """
    check_model(model)
    if guess is not None:
        start = _read_guess(model, guess)
        root = polish(model, start)
        if root is None:
            raise EquilibriumNotFound(
                "guess: Newton's method from it reached no positive definite equilibrium; "
                "try another guess, or none"
            )
        return describe(model, root, "newton")
    for root, method in _candidates(model, _read_starts(model, None, 0), True):
        return describe(model, root, method)
    raise EquilibriumNotFound(_why_not_found(model))


# -- positive definite ----------------------------------------------------------------------------


def _definite(
    model: GaussianTransformer, candidates: Iterable[tuple[Root, str]]
) -> list[Equilibrium]:
    roots: list[tuple[Root, str]] = []
    for root, method in candidates:
        if not any(_is_same(root.covariance, known.covariance) for known, _ in roots):
            roots.append((root, method))
            if _attracts_globally(model, root):
                break
    return [describe(model, root, method) for root, method in roots]


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
    return _Remembered(_search(model, _read_starts(model, None, 0)))


def _candidates(
    model: GaussianTransformer, starts: list[np.ndarray], usual: bool
) -> Iterable[tuple[Root, str]]:
    if usual and model.dim > DENSE_DIM:
        return _usual_candidates(model)
    return _search(model, starts)


def _search(model: GaussianTransformer, starts: list[np.ndarray]) -> Iterator[tuple[Root, str]]:
    closed = _riccati_root(model)
    if closed is not None:
        if closed[0] is not None:
            yield closed[0], "lyapunov"
        return
    if not model.dt and trace_obstruction(model):
        return
    balanced = _balanced_root(model)
    if balanced is not None:
        yield balanced, "balanced"
    for start in starts:
        yield from _flow_roots(model, start, reverse=False)
    few = starts[:1] if model.dim > LARGE_DIM else starts
    if not model.dt:
        for start in few:
            yield from _flow_roots(model, start, reverse=True)
    for start in few:
        root = polish(model, start)
        if root is not None:
            yield root, "newton"


def _riccati_root(model: GaussianTransformer) -> tuple[Root | None] | None:
    """Return (root,) or (None,) when the Lyapunov equation decides, None when it does not."""
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
    model: GaussianTransformer, start: np.ndarray, *, reverse: bool
) -> Iterator[tuple[Root, str]]:
    flowing = model.reversed() if reverse else model
    L = factor(start)
    for tolerance in FLOW_TOLERANCES:
        arrival = follow_flow(flowing, L, tolerance)
        if not arrival.settled:
            return
        L = arrival.factor
        root = polish(model, symmetrise(L @ L.T))
        if root is not None:
            yield root, "flow"
            return


def _attracts_globally(model: GaussianTransformer, root: Root) -> bool:
    # Then no other positive definite equilibrium exists (Theory 4.1), and the search is over.
    if model.dt or form_is_degenerate(model.heads):
        return False
    try:
        return form_evidence(WhitenedPoint(model, root.covariance)).margin > 0
    except GausscontrolError:  # beyond d = 32 the form may not be known: the search goes on
        return False


def _is_same(first: np.ndarray, second: np.ndarray) -> bool:
    R, _ = whitening(second)
    return bool(np.linalg.norm(R @ (first - second) @ R) < SAME * np.sqrt(len(R)))


# -- rank below d ---------------------------------------------------------------------------------


def _singular(model: GaussianTransformer, rank: int, starts: list[np.ndarray]) -> list[Equilibrium]:
    found: list[Equilibrium] = []
    for L, method in _singular_candidates(model, rank, starts):
        S = L @ L.T
        distances = [np.linalg.norm(S - known.covariance) for known in found]
        if not any(distance < SAME * np.linalg.norm(S) for distance in distances):
            found.append(describe_singular(model, L, method))
    return found


def _singular_candidates(
    model: GaussianTransformer, rank: int, starts: list[np.ndarray]
) -> Iterator[tuple[np.ndarray, str]]:
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


# -- arguments and words --------------------------------------------------------------------------


def _read_starts(model: GaussianTransformer, starts: Any, seed: Any) -> list[np.ndarray]:
    if not _is_count(seed):
        raise ParameterError(f"seed: expected an integer of at least 0, found {seed!r}; pass one")
    if starts is None or _is_count(starts):
        if starts is None and model.dim > LARGE_DIM:
            return list(islice(default_starts(model, LARGE_STARTS, int(seed)), LARGE_STARTS))
        count = RANDOM_STARTS if starts is None else int(starts)
        return list(default_starts(model, count, int(seed)))
    scalar = isinstance(starts, np.ndarray) and starts.ndim == 0
    if scalar or isinstance(starts, str) or not isinstance(starts, Iterable):
        raise ParameterError(
            f"starts: expected covariances or a count of at least 0, found {starts!r}; "
            "pass a list of positive definite matrices"
        )
    return [_positive_definite(start, f"starts[{i}]", model.dim) for i, start in enumerate(starts)]


def _default_ranks(dim: int) -> set[int]:
    return set(range(dim + 1)) if dim <= ALL_RANKS_DIM else {0, 1, dim}


def _read_rank(rank: Any, dim: int) -> int:
    if not _is_count(rank) or rank > dim:
        raise ParameterError(f"rank: expected a whole number from 0 to {dim}, found {rank!r}")
    return int(rank)


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 0


def _read_guess(model: GaussianTransformer, guess: Any) -> np.ndarray:
    dim = model.dim
    if isinstance(guess, Equilibrium):
        return _positive_definite(guess.covariance, "guess", dim)
    is_pair = isinstance(guess, tuple) and len(guess) == 2
    array = None if is_pair else real_array(guess, "guess")
    if is_pair or array.shape == (dim + dim * (dim + 1) // 2,):
        return _positive_definite(read_moments(guess, "guess", dim)[1], "guess", dim)
    return _positive_definite(array, "guess", dim)


def _positive_definite(value: ArrayLike, name: str, dim: int) -> np.ndarray:
    covariance = covariance_matrix(value, name, dim)
    whitening(covariance, name)
    return covariance


def _why_not_found(model: GaussianTransformer) -> str:
    head = "model: no positive definite equilibrium"
    if not model.dt:
        decided = _riccati_root(model)
        if decided is not None and decided[0] is None:
            return (
                f"{head}: the Lyapunov equation A^T X + X A = -G has a unique solution X and it "
                "is not positive definite, so none exists"
            )
        obstruction = trace_obstruction(model)
        if obstruction:
            return f"{head}: {obstruction}"
    return (
        f"{head} found: tried the closed forms, the flow forward and backward and Newton's method "
        f"from {len(_read_starts(model, None, 0))} starts; pass a guess, or "
        "find_equilibria(model, starts=...)"
    )
