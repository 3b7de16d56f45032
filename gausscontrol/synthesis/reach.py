"""Which Gaussian can become which: those of the same rank, and no others (Theory 6a).

    N(m0, S0) -> N(m1, S1)  by some depth-varying parameters   <=>   rank S0 = rank S1

Ranks are decided by counting the eigenvalues of the correlation matrix above 1e-13 of the largest,
so that the units of coordinates do not matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.errors import ParameterError, ShapeError, UnreachableError
from gausscontrol.linalg.bures import (
    align,
    moment_pair,
    ranked_factor,
    read_covariance,
    read_pair,
    relative_spectrum,
)
from gausscontrol.linalg.symmetric import RANK_TOLERANCE, positive_spectrum
from gausscontrol.model.packing import read_moments, state_dim, unpack

__all__ = [
    "Ends",
    "is_reachable",
    "lacks_rank",
    "numerical_rank",
    "of_rank",
    "rank_note",
    "read_ends",
    "read_gaussian",
]

# With rank= given, eigenvalues left out may be this share of the largest, as in a covariance whose
# negative ones count as rounding; those counted must be above rounding.
LEFT_OUT = 1e-10
COUNTED = 1e-15
# A deciding eigenvalue within this factor of the tolerance is worth a word.
NEAR = 1e3


class Ends(NamedTuple):
    """Start and goal: means (d,), factors (d, r) with the goal's aligned to the start's."""

    mean0: np.ndarray  # [x]
    mean1: np.ndarray
    L0: np.ndarray  # [x]
    L1: np.ndarray


def is_reachable(start: ArrayLike | tuple, goal: ArrayLike | tuple) -> bool:
    """Tell whether a Transformer can turn one Gaussian into another.

    Some depth-varying parameters steer N(m0, S0) to N(m1, S1) over any depth if and only if
    rank S0 = rank S1.

    Parameters
    ----------
    start, goal : tuple or (d, d) array_like
        (mean [x], covariance [x]^2), a packed state, or a covariance alone.

    Returns
    -------
    bool

    Raises
    ------
    ShapeError, ParameterError
        If an argument is no Gaussian, or the dimensions differ.

    Notes
    -----
    Theory 6a. The rank counts eigenvalues of the correlation matrix above 1e-13 of the largest,
    whatever the units of the coordinates; `steer` says in its error on which side of that tolerance
    a near-singular covariance fell.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> gct.is_reachable(np.diag([1.0, 0.0]), [[1.0, 1.0], [1.0, 1.0]])
    True
    >>> gct.is_reachable(np.diag([1.0, 0.0]), np.eye(2))
    False
    """
    _, S0, _, S1 = read_two(start, goal)
    return numerical_rank(S0) == numerical_rank(S1)


def read_gaussian(
    value: ArrayLike | tuple, name: str, dim: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of what the user passed; a bare covariance has mean zero."""
    value = moment_pair(value, name)
    if not isinstance(value, (tuple, list)) and np.ndim(value) == 1:
        try:
            size = state_dim(np.size(value)) if dim is None else dim
        except ShapeError as error:
            raise ShapeError(str(error).replace("x:", f"{name}:", 1)) from error
        mean, _ = read_moments(value, name, size)
        return mean, read_covariance(unpack(value)[1], name)
    mean, covariance = read_pair(value, name, dim)
    return np.zeros(len(covariance)) if mean is None else mean, covariance


def read_two(start, goal) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return means and covariances of start and goal, of one dimension."""
    mean0, S0 = read_gaussian(start, "start")
    try:
        return mean0, S0, *read_gaussian(goal, "goal", len(S0))
    except ShapeError as error:
        if isinstance(start, (tuple, list)) or np.ndim(start) != 1:
            raise
        d = len(S0)
        raise ShapeError(
            f"{error}; start, a vector of {np.size(start)} entries, was read as a packed state of "
            f"d = {d}, so pass (mean, covariance) if it is a mean"
        ) from error


def read_ends(start, goal, rank: int | None) -> Ends:
    """Return the validated ends of a plan, or raise UnreachableError."""
    mean0, S0, mean1, S1 = read_two(start, goal)
    if rank is not None:
        for name, S in (("start", S0), ("goal", S1)):
            _check_rank(rank, S, name)
    elif numerical_rank(S0) != numerical_rank(S1):
        raise UnreachableError(_refusal(S0, S1))
    L0, L1 = ranked_factor(S0, rank), ranked_factor(S1, rank)
    # Alignment rounds, and what does not move should not.
    return Ends(mean0, mean1, L0, L0 if np.array_equal(S0, S1) else align(L0, L1))


def of_rank(covariance: np.ndarray, L: np.ndarray) -> np.ndarray:
    """Return a covariance itself, or L L^T where its rank is not the number of columns of L."""
    return covariance if numerical_rank(covariance) == L.shape[1] else L @ L.T


def numerical_rank(covariance: np.ndarray) -> int:
    """Return the number of eigenvalues above the tolerance."""
    return int((relative_spectrum(covariance) > RANK_TOLERANCE).sum())


def lacks_rank(covariance: np.ndarray, rank: int) -> bool:
    """Tell whether the last eigenvalue that should count is nothing but rounding."""
    return rank > 0 and bool(relative_spectrum(covariance)[rank - 1] < len(covariance) * COUNTED)


def _left_out(covariance: np.ndarray, rank: int) -> float:
    """Return the share of the largest eigenvalue left out, in the better of both scales."""
    values = positive_spectrum(covariance, "covariance")[0][::-1]
    share = values[rank] / values[0] if values[0] else 0.0
    return float(min(relative_spectrum(covariance)[rank], share))


def _check_rank(rank: int, covariance: np.ndarray, name: str) -> None:
    dim = len(covariance)
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 0 <= rank <= dim:
        raise ParameterError(
            f"rank: expected an integer from 0 to {dim}, found {rank!r}; "
            "leave it out to have ranks counted"
        )
    if rank < dim and (share := _left_out(covariance, rank)) > LEFT_OUT:
        raise UnreachableError(
            f"rank: {name} cannot count as rank {rank}, since its {_ordinal(rank + 1)} singular "
            f"value is {share:.2g} of the largest, above {LEFT_OUT:g}; project it first if that is "
            "meant"
        )
    if lacks_rank(covariance, rank):
        share = relative_spectrum(covariance)[rank - 1]
        raise UnreachableError(
            f"rank: {name} cannot count as rank {rank}, since its {_ordinal(rank)} singular value "
            f"is {share:.2g} of the largest, below rounding; pass a lower rank"
        )


def _ordinal(number: int) -> str:
    words = ("first", "second", "third", "fourth", "fifth", "sixth")
    return words[number - 1] if number <= len(words) else f"{number}th"


def _refusal(S0: np.ndarray, S1: np.ndarray) -> str:
    ranks = numerical_rank(S0), numerical_rank(S1)
    sides = [note for name, S in (("start", S0), ("goal", S1)) if (note := rank_note(S, name))]
    advice = "change one of them"
    if sides:
        advice = f"pass rank={min(ranks)} or rank={max(ranks)} if that side is wrong"
    values = f"{_shown(S0)} of the start's and {_shown(S1)} of the goal's correlation matrix"
    return (
        f"goal: rank {ranks[0]} cannot become rank {ranks[1]}: rank is invariant along (1); "
        f"relative singular values {values}, tolerance {RANK_TOLERANCE:g} of the largest; "
        f"{'; '.join([*sides, advice])}"
    )


def rank_note(covariance: np.ndarray, name: str) -> str:
    """Say on which side of the tolerance the deciding singular values fall, if near it."""
    shares = relative_spectrum(covariance)
    notes = []
    for i, share in enumerate(shares, start=1):
        if RANK_TOLERANCE / NEAR < share < RANK_TOLERANCE * NEAR:
            side = "above" if share > RANK_TOLERANCE else "below"
            which = f"{_ordinal(i)} singular value of the {name}"
            notes.append(f"{which}, {share:.2g} of the largest, is {side} the tolerance")
    return ", ".join(notes)


def _shown(covariance: np.ndarray) -> str:
    values = relative_spectrum(covariance)
    shown = ", ".join(f"{value:.3g}" for value in values[:8])
    return f"({shown}{', ...' if values.size > 8 else ''})"
