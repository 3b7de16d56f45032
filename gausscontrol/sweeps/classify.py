"""The regimes of many models, equal to what `classify` says of each (Theory 3 to 5).

    policy -> question -> YES, NO or UNCLEAR for every model -> ... -> regime, or the single path

The order of the questions is that of `certificates.policy`. Answers are vectorised, and are given
where no rounding, and no structure that has to hold exactly, can change them; every other model is
handed to `classify(model, sdp=False)`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.certificates.classify import classify
from gausscontrol.certificates.policy import (
    BLOW_UP,
    BOUNDED,
    COLLAPSE,
    EQUILIBRIUM,
    GLOBAL,
    LOCAL,
    QUICK_COLLAPSE,
    REGIMES,
    SINGULAR,
    UNDECIDED,
    next_step,
)
from gausscontrol.display import Report
from gausscontrol.sweeps.batch import Stack, blocks, read_stack
from gausscontrol.sweeps.behaviour import Answer, blow_up, bounded, collapse
from gausscontrol.sweeps.evidence import NO, UNCLEAR, YES, Points, size_of
from gausscontrol.sweeps.limits import flattens
from gausscontrol.sweeps.search import default_starts, obstructed, quick_roots
from gausscontrol.sweeps.structure import is_structured, may_be_gradient

__all__ = ["BatchClassification", "classify_batch"]

# Beyond this dimension every model is classified by itself: its own arrays are large enough.
LARGEST_DIM = 8


@dataclass(frozen=True, eq=False)
class BatchClassification(Report):
    """The regimes of many models.

    Attributes
    ----------
    regime : (N,) ndarray of str
        As in `Classification`.
    scope : (N,) ndarray of object
        "covariance and mean", "covariance", or None without a certificate.
    single : (N,) ndarray of bool
        Models that were handed to `classify` one by one.
    """

    regime: np.ndarray
    scope: np.ndarray
    single: np.ndarray

    @property
    def counts(self) -> dict[str, int]:
        """Number of models of each regime that occurs, most stable first."""
        found = Counter(self.regime.tolist())
        return {regime: found[regime] for regime in REGIMES if found[regime]}

    def __len__(self) -> int:
        return len(self.regime)

    def __str__(self) -> str:
        lines = [f"{len(self)} models, {int(self.single.sum())} of them classified one by one"]
        for regime, count in self.counts.items():
            scope = self.scope[self.regime == regime]
            both = int((scope == "covariance and mean").sum())
            mean = f", of mean and covariance {both}" if both else ""
            lines.append(f"  {regime:<20} {count:8d}  {count / len(self):6.1%}{mean}")
        return "\n".join(lines)


def classify_batch(
    A: ArrayLike, B: ArrayLike, V: ArrayLike, b: ArrayLike | None = None
) -> BatchClassification:
    """Say what each of many layers does to covariances.

    Parameters
    ----------
    A : (N, d, d) array_like
        Feed-forward matrices. [1/t]
    B, V : (N, d, d) or (N, h, d, d) array_like
        Key-query matrices [1/x^2] and value matrices [1/t].
    b : (N, d) array_like, optional
        Biases, zero by default; no verdict depends on them. [x/t]

    Returns
    -------
    BatchClassification
        Regime and scope of every model are those of `classify(model, sdp=False)`.

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ParameterError
        If an entry is not a finite real number.

    Notes
    -----
    Theory 3 to 5, continuous depth. Models with structure that must hold exactly (symmetric keys
    shared by all heads, values that are multiples of the identity, ...), and models near a margin,
    are classified one by one and take as long as they do alone; `single` tells which. So are all
    models beyond d = 8.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> a, v = np.array([0.5, -1.0, 1.0]), np.array([-0.25, -1.0, 2.0])
    >>> found = gct.classify_batch(a[:, None, None], np.ones((3, 1, 1)), v[:, None, None])
    >>> print(*found.regime, sep=", ")
    globally stable, collapse, blow-up
    """
    models = read_stack(A, B, V, b)
    if models.dim == 1:
        return _scalar(models)
    if models.dim > LARGEST_DIM:
        return _one_by_one(models, np.full(models.count, None), np.full(models.count, None))
    unknowns = size_of(size_of(models.dim))
    found = []
    for index in blocks(models.count, unknowns**2):
        # What is singular becomes infinite or NaN, which no comparison takes for an answer.
        with np.errstate(all="ignore"):
            inquiry = _Inquiry(models.take(index))
            inquiry.run()
        found.append(inquiry.result())
    return BatchClassification(
        *(
            np.concatenate([getattr(x, name) for x in found])
            for name in ("regime", "scope", "single")
        )
    )


class _Inquiry:
    """Answers, gathered group by group until the regimes are known."""

    def __init__(self, models: Stack) -> None:
        self.models, count = models, models.count
        self.structured = is_structured(models)
        self.starts = default_starts(models)
        self.decided = np.full(count, None, dtype=object)
        self.scope = np.full(count, None, dtype=object)
        # Of mean and covariance, by regime, as far as it is asked for.
        self.means = {
            regime: np.full(count, UNCLEAR)
            for regime in (GLOBAL, COLLAPSE, LOCAL, BOUNDED, BLOW_UP)
        }
        self.answers = {question: np.full(count, UNCLEAR) for question in (GLOBAL, LOCAL)}

    def run(self) -> None:
        groups: list[tuple[np.ndarray, dict[str, bool]]] = [(np.arange(self.models.count), {})]
        while groups:
            index, known = groups.pop()
            if not index.size:
                continue
            step = next_step(known, layers=False, thorough=False)
            if step.question is None:
                self._settle(index, step.regime)
                continue
            answer = self._answer(step.question, index, known)
            for verdict in (YES, NO):
                groups.append((index[answer == verdict], known | {step.question: verdict == YES}))

    def result(self) -> BatchClassification:
        return _one_by_one(self.models, self.decided, self.scope)

    def _settle(self, index: np.ndarray, regime: str) -> None:
        if regime in (SINGULAR, UNDECIDED):
            self.decided[index] = regime
            return
        mean = self.means[regime][index]
        for verdict, scope in ((YES, "covariance and mean"), (NO, "covariance")):
            some = index[mean == verdict]
            self.decided[some], self.scope[some] = regime, scope

    def _answer(self, question: str, index: np.ndarray, known: dict[str, bool]) -> np.ndarray:
        models = self.models.take(index)
        if question == QUICK_COLLAPSE:
            return self._behaviour(COLLAPSE, collapse, index)
        if question == EQUILIBRIUM:
            return self._search(index)
        if question in (GLOBAL, LOCAL):
            return self.answers[question][index]
        if question == BLOW_UP:
            answer = self._behaviour(BLOW_UP, blow_up, index)
            left = np.flatnonzero(answer == UNCLEAR)
            # What is bounded does not escape.
            excluded = self._behaviour(BOUNDED, bounded, index[left])
            answer[left[excluded == YES]] = NO
            return answer
        if question == COLLAPSE:  # without programmes this is the question asked first
            return np.full(index.size, NO)
        if question == BOUNDED:
            return self._behaviour(BOUNDED, bounded, index)
        return flattens(models, self.starts.take(index))

    def _behaviour(self, regime: str, examine, index: np.ndarray) -> np.ndarray:
        """Answer where there is no structure, or where structure cannot matter."""
        answer = np.full(index.size, UNCLEAR)
        plain = np.flatnonzero(~self.structured[index])
        if plain.size:
            found: Answer = examine(self.models.take(index[plain]))
            answer[plain] = found.holds
            self.means[regime][index[plain]] = found.mean
        if regime == COLLAPSE:
            special = np.flatnonzero(self.structured[index])
            abscissa = np.linalg.eigvals(self.models.A[index[special]]).real.max(axis=1)
            size = np.linalg.norm(self.models.A[index[special]], axis=(1, 2))
            answer[special[abscissa > 1e-7 * size]] = NO
        return answer

    def _search(self, index: np.ndarray) -> np.ndarray:
        return _Search(self, index).run()


class _Search:
    """The equilibrium of every model that the quick search comes to, and what it decides."""

    def __init__(self, inquiry: _Inquiry, index: np.ndarray) -> None:
        self.inquiry, self.index = inquiry, index
        self.plain = ~inquiry.structured[index]

    def run(self) -> np.ndarray:
        """Answer whether there is an equilibrium, and take note of what attracts to it."""
        holds, near = obstructed(self.inquiry.models.take(self.index))
        looking = np.flatnonzero(~holds & ~near)
        known = self.index[looking]
        roots = quick_roots(self.inquiry.models.take(known), self.inquiry.starts.take(known))
        answer = np.full(self.index.size, UNCLEAR)
        # Where there is structure a closed form may have found what the flow does not.
        answer[holds & ~near & self.plain] = NO
        answer[looking[~roots.found]] = np.where(self.plain[looking[~roots.found]], NO, UNCLEAR)
        hit = looking[roots.found]
        answer[hit] = self._examined(hit, roots.covariance[roots.found])
        return answer

    def _examined(self, position: np.ndarray, S: np.ndarray) -> np.ndarray:
        inquiry, known = self.inquiry, self.index[position]
        models = inquiry.models.take(known)
        points = Points.at(models, S)
        inquiry.means[GLOBAL][known] = inquiry.means[LOCAL][known] = points.mean
        inquiry.answers[LOCAL][known] = points.local
        # A negative form attracts everything, and there is no other root.
        everywhere = (points.form == YES) & (points.mean != UNCLEAR)
        # A root whose form is not negative excludes that, unless structure helps.
        other = self.plain[position] & (points.exists == YES) & (points.form == NO)
        some = np.flatnonzero(other)
        other[some] = ~may_be_gradient(models.take(some), S[some])
        inquiry.answers[GLOBAL][known] = np.where(everywhere, YES, np.where(other, NO, UNCLEAR))
        return np.where(everywhere | other, YES, UNCLEAR)


def _scalar(models: Stack) -> BatchClassification:
    """Classify models of one dimension by signs: s' = 2 s (a + g s), g = sum_h v_h b_h."""
    A, V, B = models.A[:, 0, 0], models.V[..., 0, 0], models.B[..., 0, 0]
    gain, size = (V * B).sum(axis=1), np.abs(V * B).sum(axis=1)
    total, width = V.sum(axis=1), np.abs(V).sum(axis=1)
    clear = (np.abs(gain) > 1e-9 * size) & (A != 0) & (size > 0)
    regime = np.full(models.count, None, dtype=object)
    scope = np.full(models.count, None, dtype=object)
    for regime_of, where, slope in (
        (GLOBAL, (A > 0) & (gain < 0), total),
        (COLLAPSE, (A < 0) & (gain < 0), A + total),
        (BLOW_UP, gain > 0, None),
    ):
        sure = clear & where
        if slope is not None:
            sure &= np.abs(slope) > 1e-9 * (np.abs(A) + width)
            stable = sure & (slope < 0)
            scope[stable] = "covariance and mean"
            scope[sure & ~stable] = "covariance"
        else:
            scope[sure] = "covariance"
        regime[sure] = regime_of
    return _one_by_one(models, regime, scope)


def _one_by_one(models: Stack, regime: np.ndarray, scope: np.ndarray) -> BatchClassification:
    """Hand models without a regime to the single path."""
    single = np.equal(regime, None)
    for i in np.flatnonzero(single):
        found = classify(models.model(i), sdp=False)
        regime[i], scope[i] = found.regime, found.scope
    return BatchClassification(regime.astype("<U19"), scope, single)
