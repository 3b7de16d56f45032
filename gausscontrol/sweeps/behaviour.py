"""Collapse, boundedness and blow-up of many models without structure (Theory 5.1 to 5.4).

    y = tr(P Sigma),   q_P(S) <= -Phi(S) < 0,   P A + A^T P <= 2 a P:     y' <= 2 (a y - k y^2)

for the same matrices P that the single path tries without programmes, in the same balanced
coordinates. Models whose heads share a key, on which other criteria bear, are not for this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gausscontrol.certificates.decay import WEIGHTS
from gausscontrol.sweeps.balance import BalancedStack, balanced
from gausscontrol.sweeps.batch import Stack, transposed
from gausscontrol.sweeps.evidence import NO, UNCLEAR, YES, hurwitz, lyapunov_solutions
from gausscontrol.sweeps.planes import growing_planes
from gausscontrol.sweeps.polish import svec_stack

__all__ = ["Answer", "blow_up", "bounded", "collapse", "is_hurwitz"]

# Shares of their size beyond which eigenvalues have a sign, and within which two numbers tie.
CLEAR, TIE = 1e-7, 1e-6


class Answer(NamedTuple):
    """YES, NO or UNCLEAR for every model, and what is known of its mean likewise."""

    holds: np.ndarray
    mean: np.ndarray


class _Offers(NamedTuple):
    # What one P shows: whether q_P is definite, the rate a, the bounds of y and of the balanced
    # trace; all (N,), and whether there is such a P at all.
    definite: np.ndarray
    rate: np.ndarray
    bound: np.ndarray
    reach: np.ndarray


def is_hurwitz(A: np.ndarray) -> np.ndarray:
    """Tell which matrices (N, d, d) have their spectra clearly to the left, or clearly not."""
    abscissa = np.linalg.eigvals(A).real.max(axis=1)
    doubt = CLEAR * np.linalg.norm(A, axis=(1, 2))
    return np.where(abscissa < -doubt, YES, np.where(abscissa > doubt, NO, UNCLEAR))


def collapse(models: Stack) -> Answer:
    """Tell which covariances all tend to zero.

    Parameters
    ----------
    models : Stack

    Returns
    -------
    Answer
    """
    feed = is_hurwitz(models.A)
    holds, mean = np.where(feed == NO, NO, UNCLEAR), np.full(models.count, UNCLEAR)
    possible = _may_dissipate(models)
    holds[~possible] = NO
    left = np.flatnonzero((feed == YES) & possible)
    if left.size:
        found = balanced(models.take(left))
        offers = [_verdict(x.definite, _sign(-x.rate, CLEAR)) for x in _offers(found)]
        holds[left] = np.where(found.sure, _any(offers), UNCLEAR)
        matrices = _mean_matrices(models.take(left), found)
        mean[left] = hurwitz(matrices, np.zeros(left.size))[0]
    return Answer(holds, mean)


def bounded(models: Stack) -> Answer:
    """Tell which covariances all stay bounded.

    Parameters
    ----------
    models : Stack

    Returns
    -------
    Answer
    """
    holds, mean = np.full(models.count, NO), np.full(models.count, UNCLEAR)
    left = np.flatnonzero(_may_dissipate(models))
    if left.size:
        holds[left], mean[left] = _bounded(models.take(left))
    return Answer(holds, mean)


def _bounded(models: Stack) -> Answer:
    found = balanced(models)
    offers = list(_offers(found))
    holds = np.where(found.sure, _any([x.definite for x in offers]), UNCLEAR)
    mean = np.full(models.count, UNCLEAR)
    # The offer with the least bound speaks of the mean; ties, and doubts about others, are unclear.
    bounds = np.array([np.where(x.definite == YES, x.bound, np.inf) for x in offers])
    doubtful = np.array([x.definite == UNCLEAR for x in offers]).any(axis=0)
    least = bounds.argmin(axis=0)
    reach = np.array([x.reach for x in offers])[least, np.arange(models.count)]
    ordered = np.sort(bounds, axis=0)
    tied = ordered[1] <= ordered[0] * (1 + TIE)
    V, B = found.models.V, found.models.B
    norms = (_spectral(V) * _spectral(B)).sum(axis=1)
    matrices = _mean_matrices(models, found)
    change = norms * reach
    sure, _ = hurwitz(matrices, change * (1 + TIE))
    fails = _decay(matrices) < 2 * change * (1 - TIE)
    known = np.where(sure == YES, YES, np.where(fails | (sure == NO), NO, UNCLEAR))
    clear = (holds == YES) & ~doubtful & ~tied
    mean[clear] = known[clear]
    return Answer(holds, mean)


def blow_up(models: Stack) -> Answer:
    """Tell which large covariances are certified to escape, without programmes.

    With several heads that share no key nothing is tried. With one head P = U Q U^T needs
    sym(s B) > 0 for a sign s, and an eigenvalue of s V to the right.

    Parameters
    ----------
    models : Stack

    Returns
    -------
    Answer
    """
    mean = np.full(models.count, NO)
    if models.n_heads > 1:
        return Answer(np.full(models.count, NO), mean)
    holds = np.full(models.count, NO)
    index = np.flatnonzero(_signs_agree(models, np.max))
    if index.size:
        holds[index] = growing_planes(models.take(index))
    return Answer(holds, mean)


def _may_dissipate(models: Stack) -> np.ndarray:
    """Tell where <E, P T(E)> < 0 is not excluded for every P > 0.

    At E = s s^T it is s^T B s times s^T P V s: with one head B has a sign, and V the other.
    """
    if models.n_heads > 1:
        return np.ones(models.count, dtype=bool)
    return _signs_agree(models._replace(V=-models.V), np.min)


def _signs_agree(models: Stack, extreme: Callable[..., np.ndarray]) -> np.ndarray:
    """Tell where B has a sign, up to doubt, and the least or largest Re lambda(V) may have it."""
    V, B = models.V[:, 0], models.B[:, 0]
    keys = np.linalg.eigvalsh((B + transposed(B)) / 2)
    doubt = CLEAR * np.linalg.norm(B, axis=(1, 2))
    values = np.linalg.eigvals(V).real
    size = CLEAR * np.linalg.norm(V, axis=(1, 2))
    possible = np.zeros(models.count, dtype=bool)
    for sign in (1.0, -1.0):
        definite = (sign * keys).min(axis=1) > -doubt
        possible |= definite & (extreme(sign * values, axis=1) > -size)
    return possible


def _offers(found: BalancedStack) -> Iterator[_Offers]:
    with np.errstate(all="ignore"):
        for P, present in _candidates(found.models):
            yield _evaluated(found, P, present)


def _candidates(models: Stack) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield P (N, d, d) of norm 1, and YES, NO or UNCLEAR for whether the single path has it."""
    count, dim = models.count, models.dim
    unit = np.broadcast_to(np.eye(dim), models.A.shape)
    yield unit, np.full(count, YES)
    traces = np.trace(models.B, axis1=2, axis2=3) / dim
    V = np.einsum("nh,nhij->nij", traces, models.V)
    for X in (V, *(models.A + weight * V for weight in WEIGHTS)):
        P = lyapunov_solutions(X)
        fine = np.isfinite(P).all(axis=(1, 2))
        P = np.where(fine[:, None, None], P / np.linalg.norm(P, axis=(1, 2), keepdims=True), unit)
        # P > 0 if and only if X is Hurwitz.
        yield P, np.where(fine, is_hurwitz(X), UNCLEAR)


def _evaluated(found: BalancedStack, P: np.ndarray, present: np.ndarray) -> _Offers:
    models, dim = found.models, found.models.dim
    A = models.A
    L = np.linalg.cholesky(np.where((present == YES)[:, None, None], P, np.eye(dim)))
    inverse = np.linalg.inv(L)
    product = P @ A
    rate = np.linalg.eigvalsh(inverse @ (product + transposed(product)) @ transposed(inverse))
    rate = rate[:, -1] / 2
    form = -Stack(models.A, models.B, P[:, None] @ models.V, models.b).forms()
    values, vectors = np.linalg.eigh(form)
    size = np.abs(values).max(axis=1)
    definite = _sign(values[:, 0] / size, CLEAR)
    v = (transposed(vectors) @ svec_stack(P)[..., None])[..., 0]
    gain = 1 / (v**2 / values).sum(axis=1)
    scaled = inverse / found.scale[:, None]
    bound = np.where(rate < 0, 0.0, rate / gain) * _spectral(scaled) ** 2
    reach = np.where(rate < 0, 0.0, rate / gain) * _spectral(inverse) ** 2
    shown = np.where(present == UNCLEAR, UNCLEAR, _verdict(present, definite))
    return _Offers(shown, rate, bound, reach)


def _mean_matrices(models: Stack, found: BalancedStack) -> np.ndarray:
    """Return A + Vbar in balanced coordinates and depth, but without head gauge."""
    D, depth = found.scale, found.depth[:, None, None]
    V = D[:, :, None] * models.V.sum(axis=1) / D[:, None] * depth
    return found.models.A + V


def _decay(matrices: np.ndarray) -> np.ndarray:
    """Return 1/|P|, P of M^T P + P M = -I: how far M can be moved, up to a factor of two."""
    P = lyapunov_solutions(matrices)
    fine = np.isfinite(P).all(axis=(1, 2))
    return np.where(fine, 1 / _spectral(np.where(fine[:, None, None], P, 1.0)), np.inf)


def _sign(value: np.ndarray, doubt: float) -> np.ndarray:
    return np.where(value > doubt, YES, np.where(value < -doubt, NO, UNCLEAR))


def _verdict(*parts: np.ndarray) -> np.ndarray:
    """Return YES where all are, NO where one is, else UNCLEAR."""
    stacked = np.array(parts)
    no, yes = (stacked == NO).any(axis=0), (stacked == YES).all(axis=0)
    return np.where(no, NO, np.where(yes, YES, UNCLEAR))


def _any(parts: list[np.ndarray]) -> np.ndarray:
    """Return YES where one is, NO where all are, else UNCLEAR."""
    stacked = np.array(parts)
    yes, no = (stacked == YES).any(axis=0), (stacked == NO).all(axis=0)
    return np.where(yes, YES, np.where(no, NO, UNCLEAR))


def _spectral(X: np.ndarray) -> np.ndarray:
    return np.linalg.norm(X, 2, axis=(-2, -1))
