"""Where many models' equilibria are looked for: starts, flows and Newton (Theory 3.3).

    the first start forward;   the others forward and all of them backward;   Newton from all
    quick:  the first start forward

from the starts of `analysis.search`, each round for the models that still need it, all its
trajectories at once. Closed forms are not tried here: `structure` tells which models have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gausscontrol.analysis.candidates import FLOW_TOLERANCES, QUICK_STEPS, RANDOM_STARTS
from gausscontrol.analysis.search import FLOW_STEPS, SPREAD
from gausscontrol.linalg.symmetric import RANK_TOLERANCE
from gausscontrol.sweeps.arrival import SETTLED, follow
from gausscontrol.sweeps.batch import Stack, transposed
from gausscontrol.sweeps.polish import Roots, polish

__all__ = ["Starts", "candidates", "default_starts", "factors", "obstructed", "quick_roots"]

# Eigenvalues nearer zero than this share leave a sign to the single path.
CLEARLY = 1e-9


class Starts:
    """Positive definite starts of every model, slot by slot; some models lack some slots.

    Attributes
    ----------
    slots : list of (N, d, d) ndarray
    present : (slots, N) ndarray of bool
    """

    def __init__(self, slots: list[np.ndarray], present: np.ndarray) -> None:
        self.slots, self.present = slots, present

    def take(self, index: np.ndarray) -> Starts:
        """Return the starts of some models."""
        return Starts([slot[index] for slot in self.slots], self.present[:, index])

    def at(self, slots: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return the starts in some slots of some models, (len(index), d, d)."""
        return np.stack(self.slots)[slots, index]


def default_starts(models: Stack) -> Starts:
    """Return the starts of `analysis.search.default_starts`, seed 0."""
    count, dim = models.count, models.dim
    unit = np.broadcast_to(np.eye(dim), models.A.shape)
    with np.errstate(all="ignore"):
        slots = [np.full_like(models.A, np.nan)]
        present = [np.zeros(count, dtype=bool)]
        if models.n_heads == 1:
            V, B = models.V[:, 0], models.B[:, 0]
            fine = (_condition(V) < 1e12) & (_condition(B) < 1e12)
            slots[0][fine] = balanced_covariances(models.take(np.flatnonzero(fine)))
            present[0] = fine & _is_definite(_symmetric(slots[0]))
            slots[0] = _symmetric(slots[0])
        traces = np.trace(models.V, axis1=2, axis2=3)
        key = _symmetric(np.einsum("nh,nhij->nij", traces, models.B))
        present.append((np.linalg.norm(key, axis=(1, 2)) > 0) & (_condition(key) < 1e8))
        values, vectors = np.linalg.eigh(key)
        shape = vectors / np.abs(values)[:, None] @ transposed(vectors)
        slots.append(_rescaled(models, _symmetric(shape)))
        scale = np.trace(_rescaled(models, unit), axis1=1, axis2=2) / dim
    scale = scale[:, None, None]
    slots.append(scale * unit)
    rng = np.random.default_rng(0)
    for _ in range(RANDOM_STARTS):
        Z = rng.normal(size=(dim, 2 * dim))
        drawn = 10 ** rng.uniform(-SPREAD, SPREAD) * _symmetric(Z @ Z.T) / (2 * dim)
        slots.append(scale * drawn)
    present += [np.ones(count, dtype=bool)] * (1 + RANDOM_STARTS)
    return Starts(slots, np.array(present))


def balanced_covariances(models: Stack) -> np.ndarray:
    """Return -V^-1 A B^-1 of one-head models."""
    V, B = models.V[:, 0], models.B[:, 0]
    left = np.linalg.solve(V, models.A)
    return -transposed(np.linalg.solve(transposed(B), transposed(left)))


def factors(S: np.ndarray) -> np.ndarray:
    """Return factors (N, d, d) of positive definite S, largest columns first."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0))[:, None])[..., ::-1]


def candidates(
    models: Stack, starts: Starts, seen: Callable[[np.ndarray, Roots, str], None]
) -> Iterator[np.ndarray]:
    """Look for roots of every model, in three rounds.

    Parameters
    ----------
    models : Stack
    starts : Starts
    seen : callable
        Called with (index, roots, method) for what each round found; a model may come several
        times.

    Yields
    ------
    (N,) ndarray of bool
        After each round but the last, all true: set to false where a model needs no more.
    """
    present = np.array(starts.present)
    first = present.argmax(axis=0)
    everyone = np.arange(models.count)
    forward = np.ones(models.count)
    seen(everyone, _flow_roots(models, starts.at(first, everyone), forward), "flow")
    wanted = np.ones(models.count, dtype=bool)
    yield wanted
    slots, index = np.nonzero(present & wanted)
    later = slots != first[index]
    tasks = np.concatenate([index[later], index])
    signs = np.concatenate([np.ones(int(later.sum())), -np.ones(index.size)])
    S = starts.at(np.concatenate([slots[later], slots]), tasks)
    seen(tasks, _flow_roots(models.take(tasks), S, signs), "flow")
    still = np.array(wanted)
    yield still
    slots, index = np.nonzero(present & wanted & still)
    seen(index, polish(models.take(index), starts.at(slots, index)), "newton")


def quick_roots(models: Stack, starts: Starts) -> Roots:
    """Return the root that the flow leads to from the first start of every model.

    Parameters
    ----------
    models : Stack
    starts : Starts

    Returns
    -------
    Roots
    """
    S = starts.at(starts.present.argmax(axis=0), np.arange(models.count))
    return _flow_roots(models, S, np.ones(models.count), QUICK_STEPS)


def _flow_roots(models: Stack, S: np.ndarray, signs: np.ndarray, steps: int = FLOW_STEPS) -> Roots:
    """Follow the flow of every model forward (+1) or backward (-1), and finish by Newton."""
    count, dim = models.count, models.dim
    result = Roots(
        np.full((count, dim, dim), np.nan), np.full(count, np.inf), np.zeros(count, bool)
    )
    L, active = factors(S), np.arange(count)
    # A start that is singular to rounding has no factor of full rank.
    with np.errstate(all="ignore"):
        squares = (L**2).sum(axis=1)
    active = active[squares[:, -1] > RANK_TOLERANCE * squares[:, 0]]
    L = L[active]
    for tolerance in FLOW_TOLERANCES:
        if not active.size:
            break
        arrivals = follow(models.take(active).directed(signs[active]), L, tolerance, steps)
        settled = arrivals.reason == SETTLED
        active, L = active[settled], arrivals.factor[settled]
        roots = polish(models.take(active), _symmetric(L @ transposed(L)))
        hit = active[roots.found]
        result.covariance[hit] = roots.covariance[roots.found]
        result.residual[hit], result.found[hit] = roots.residual[roots.found], True
        active, L = active[~roots.found], L[~roots.found]
    return result


def obstructed(models: Stack) -> tuple[np.ndarray, np.ndarray]:
    """Tell where the trace forbids a positive definite equilibrium, and where that is unclear.

    tr A + tr(W Sigma) = 0 at every equilibrium, W = sym(sum_h B_h V_h).
    """
    products = (models.B @ models.V).sum(axis=1)
    terms = (np.abs(models.B) @ np.abs(models.V)).sum(axis=1)
    W, size = _symmetric(products), _symmetric(terms)
    diagonal = np.sqrt(np.einsum("nii->ni", size))
    positive = (diagonal > 0).all(axis=1)
    scale = 1 / np.where(diagonal > 0, diagonal, 1.0)
    values = np.linalg.eigvalsh(scale[:, :, None] * W * scale[:, None])
    trace = np.trace(models.A, axis1=1, axis2=2)
    spread = np.abs(np.einsum("nii->ni", models.A)).sum(axis=1)
    sign = np.sign(trace) * (np.abs(trace) > CLEARLY * spread)
    low, high = values[:, 0], -values[:, -1]
    extreme = np.where(sign > 0, low, high)
    holds = (sign != 0) & (extreme > CLEARLY) & positive
    near = np.where(sign == 0, np.maximum(low, high) >= -CLEARLY, np.abs(extreme) <= CLEARLY)
    return holds, near | ~positive


def _rescaled(models: Stack, shape: np.ndarray) -> np.ndarray:
    # The multiple s at which tr(A + s T(shape)) = 0, or else |A| = s |T(shape)|.
    attention = models.attention(shape)
    trace = np.trace(attention, axis1=1, axis2=2)
    balance = np.where(trace != 0, -np.trace(models.A, axis1=1, axis2=2) / trace, 0.0)
    norm, drift = (np.linalg.norm(X, axis=(1, 2)) for X in (attention, models.A))
    ratio = np.where((norm > 0) & (drift > 0), drift / norm, 1.0)
    factor = np.where((balance > 0) & np.isfinite(balance), balance, ratio)
    return factor[:, None, None] * shape


def _condition(X: np.ndarray) -> np.ndarray:
    values = np.linalg.svd(X, compute_uv=False)
    return values[:, 0] / values[:, -1]


def _is_definite(X: np.ndarray) -> np.ndarray:
    finite = np.isfinite(X).all(axis=(1, 2))
    return finite & (np.linalg.eigvalsh(np.where(finite[:, None, None], X, 0.0))[:, 0] > 0)


def _symmetric(X: np.ndarray) -> np.ndarray:
    return X / 2 + transposed(X) / 2
