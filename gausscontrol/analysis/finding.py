"""The equilibria of a layer, as far as a search comes upon them (Theory 3).

    F(Sigma) = 0,   distinct ones, stable ones first

out of the roots that `candidates` looks for; each is described by `equilibrium`. The search is
complete in the Riccati case, where it ends at an equilibrium that attracts globally, and for rank 1
with one head and a regular pencil with simple eigenvalues.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.analysis.candidates import (
    definite_candidates,
    quick_candidates,
    riccati_root,
    singular_candidates,
    usual_starts,
)
from gausscontrol.analysis.enclosure import WhitenedPoint, form_evidence
from gausscontrol.analysis.equilibrium import Equilibrium, check_scales, describe, describe_singular
from gausscontrol.analysis.form import form_is_degenerate
from gausscontrol.analysis.newton import Root, polish
from gausscontrol.errors import EquilibriumNotFound, GausscontrolError, ParameterError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.symmetric import covariance_matrix, whitening
from gausscontrol.model.packing import read_moments
from gausscontrol.model.structure import trace_obstruction
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["ALL_RANKS_DIM", "find_equilibria", "find_equilibrium", "quick_equilibria"]

# Up to this dimension every rank is searched by default.
ALL_RANKS_DIM = 3
# Whitened distance below which two solutions are one.
SAME = 1e-6
# What a quick search tries.
QUICK = "the flow forward from one start; a thorough search tries more"


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
    check_scales(model)
    chosen = _read_starts(model, starts, seed)
    usual = starts is None and seed == 0
    ranks = _default_ranks(model.dim) if rank is None else {_read_rank(rank, model.dim)}
    candidates = definite_candidates(model, None if usual else chosen)
    found = _definite(model, candidates) if model.dim in ranks else []
    for r in sorted(ranks - {model.dim}):
        found += _singular(model, r, chosen)
    return sorted(found, key=_stable_first)


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
    check_scales(model)
    if guess is not None:
        start = _read_guess(model, guess)
        root = polish(model, start)
        if root is None:
            raise EquilibriumNotFound(
                "guess: Newton's method from it reached no positive definite equilibrium; "
                "try another guess, or none"
            )
        return describe(model, root, "newton")
    for root, method in definite_candidates(model):
        return describe(model, root, method)
    raise EquilibriumNotFound(_why_not_found(model, _tried(len(usual_starts(model)))))


def quick_equilibria(model: GaussianTransformer) -> tuple[list[Equilibrium], str | None]:
    """Look for equilibria forward from one start, without flows of lower rank.

    Parameters
    ----------
    model : GaussianTransformer

    Returns
    -------
    list of Equilibrium
        Positive definite ones; where there are none, zero and those of the pencil (A, V).
    str or None
        Why there is no positive definite one.
    """
    found = _definite(model, quick_candidates(model))
    if found:
        return sorted(found, key=_stable_first), None
    singular = [e for rank in (1, 0) if rank < model.dim for e in _singular(model, rank, [])]
    return sorted(singular, key=lambda e: not e.covariance_is_stable), _why_not_found(model, QUICK)


# -- positive definite ----------------------------------------------------------------------------


def _stable_first(equilibrium: Equilibrium) -> tuple[bool, int, float]:
    return not equilibrium.covariance_is_stable, -equilibrium.rank, equilibrium.covariance_abscissa


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
    for L, method in singular_candidates(model, rank, starts):
        S = L @ L.T
        distances = [np.linalg.norm(S - known.covariance) for known in found]
        if not any(distance < SAME * np.linalg.norm(S) for distance in distances):
            found.append(describe_singular(model, L, method))
    return found


# -- arguments and words --------------------------------------------------------------------------


def _read_starts(model: GaussianTransformer, starts: Any, seed: Any) -> list[np.ndarray]:
    if not _is_count(seed):
        raise ParameterError(f"seed: expected an integer of at least 0, found {seed!r}; pass one")
    if starts is None or _is_count(starts):
        return usual_starts(model, None if starts is None else int(starts), int(seed))
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
        raise ParameterError(
            f"rank: expected a whole number from 0 to {dim}, found {rank!r}; "
            "it is the rank of the covariance"
        )
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


def _why_not_found(model: GaussianTransformer, tried: str) -> str:
    head = "model: no positive definite equilibrium"
    if not model.dt:
        decided = riccati_root(model)
        if decided is not None and decided[0] is None:
            return (
                f"{head}: the Lyapunov equation A^T X + X A = -G has a unique solution X and it "
                "is not positive definite, so none exists"
            )
        obstruction = trace_obstruction(model)
        if obstruction:
            return f"{head}: {obstruction}"
    return f"{head} found: tried the closed forms, {tried}"


def _tried(starts: int) -> str:
    return (
        f"the flow forward and backward and Newton's method from {starts} starts; "
        "pass a guess, or find_equilibria(model, starts=...)"
    )
