"""One call that says what a layer does, and on what evidence (Theory 3 to 5).

    spectral comparison -> equilibria -> global, semiglobal, local -> blow-up, boundedness, collapse

in the order of `policy`, stopping as soon as what follows could add nothing. A regime is certified,
or it is "singular limit", an estimate from the linearisation or from trajectories, or "undecided".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gausscontrol.analysis.equilibrium import Equilibrium, check_scales
from gausscontrol.analysis.finding import (
    ALL_RANKS_DIM,
    find_equilibria,
    find_equilibrium,
    quick_equilibria,
)
from gausscontrol.analysis.search import default_starts, follow_flow
from gausscontrol.analysis.singular import polish_factor
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.blow_up import certify_blow_up
from gausscontrol.certificates.classification_report import SEE_FOR_YOURSELF, classification_html
from gausscontrol.certificates.discrete import certify_semiglobal_stability
from gausscontrol.certificates.local import certify_local_stability
from gausscontrol.certificates.policy import (
    BLOW_UP,
    BOUNDED,
    COLLAPSE,
    EQUILIBRIUM,
    GLOBAL,
    LOCAL,
    QUICK_COLLAPSE,
    REGIMES,
    SEMIGLOBAL,
    SINGULAR,
    UNDECIDED,
    next_step,
)
from gausscontrol.certificates.regime import certify_boundedness, certify_collapse
from gausscontrol.certificates.stability import certify_global_stability
from gausscontrol.display import Report
from gausscontrol.errors import EquilibriumNotFound, NotCertified
from gausscontrol.linalg.symmetric import factor
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["REGIMES", "START_FACTOR", "Classification", "classify"]

# What else a regime says of every covariance it speaks of.
IMPLIED = {
    GLOBAL: {SEMIGLOBAL, LOCAL, BOUNDED},
    SEMIGLOBAL: {LOCAL},
    COLLAPSE: {BOUNDED},
}
# The set of a semiglobal certificate is the one that holds this multiple of Sigma*.
START_FACTOR = 4.0
# What is tried where no equilibrium is needed.
BEHAVIOURS: dict[str, Callable[..., Certificate]] = {
    BLOW_UP: certify_blow_up,
    COLLAPSE: certify_collapse,
    BOUNDED: certify_boundedness,
}
# Equilibria named in the report.
LISTED = 6
# Trajectories that must all flatten for a singular limit to be called one.
FLATTENING_STARTS, FLATTENING_STEPS = 4, 100
# Share at which one counts as settled below full rank, where Newton's method has the last word. At
# full rank it never does: it may be creeping towards a singular limit.
LOW_TOLERANCE, NEVER = 1e-2, 0.0
# Ratio of singular values of a factor below which a direction is dropped; above that at which
# the flow calls a trajectory singular; and where Newton's method finds no limit of the full rank.
NEGLIGIBLE, FADING = 1e-4, 1e-2


@dataclass(frozen=True, eq=False)
class Classification(Report):
    """What a layer does to covariances, and how that is known.

    Attributes
    ----------
    model : GaussianTransformer
    regime : str
        Concerns the covariance. "globally stable": every Sigma_0 > 0 tends to the equilibrium;
        "collapse": every covariance tends to zero; "semiglobally stable" (dt > 0): every
        covariance of a stated set tends to the equilibrium; "locally stable": those near it do;
        "blow-up": covariances beyond a stated threshold escape at a finite depth; "bounded": none
        escapes; all these are certified. "singular limit": an estimate, covariances tend to a
        singular matrix; "undecided": none of these is certified.
    scope : str or None
        "covariance and mean" or "covariance"; None without a certificate.
    certificate : Certificate or None
        Behind the regime.
    certificates : dict
        Every certificate obtained, by regime: a layer can be locally stable and bounded.
    refused : dict
        The reason, a `NotCertified`, for each regime that was tried and not certified.
    equilibria : list of Equilibrium
        As found, stable ones first.
    no_equilibrium : str or None
        Why there is no positive definite one.
    """

    model: GaussianTransformer
    regime: str
    certificates: dict[str, Certificate]
    refused: dict[str, NotCertified] = field(repr=False)
    equilibria: list[Equilibrium] = field(repr=False)
    no_equilibrium: str | None = None

    @property
    def certificate(self) -> Certificate | None:
        """The one behind the regime."""
        return self.certificates.get(self.regime)

    @property
    def scope(self) -> str | None:
        """Whether the regime extends to the mean."""
        return None if self.certificate is None else self.certificate.scope

    @property
    def equilibrium(self) -> Equilibrium | None:
        """The first positive definite one, a stable one if there is any."""
        return next((e for e in self.equilibria if e.rank == self.model.dim), None)

    def satisfies(self, regime: str) -> bool:
        """Tell whether a regime is certified, or implied by one that is.

        Parameters
        ----------
        regime : str

        Returns
        -------
        bool
        """
        return any(name == regime or regime in IMPLIED.get(name, ()) for name in self.certificates)

    def __str__(self) -> str:
        model = self.model
        heads = f"{model.n_heads} head{'s' if model.n_heads > 1 else ''}"
        lines = [f"{self.regime.capitalize()}: d = {model.dim}, {heads}"]
        if self.regime == SINGULAR:
            lines.append("  an estimate: covariances tend to a singular matrix; not certified")
        for regime, certificate in self.certificates.items():
            lines.append(f"  {regime}: {certificate.statement}")
            lines.append(f"    scope {certificate.scope}, margin {certificate.margin:.3g}")
        for regime, error in self.refused.items():
            lines.append(f"  not certified as {regime}: {error}")
        ranks = ", ".join(_described(e) for e in self.equilibria[:LISTED])
        more = f" and {len(self.equilibria) - LISTED} more" if len(self.equilibria) > LISTED else ""
        lines.append(f"  equilibria: {ranks or 'none found'}{more}")
        if self.no_equilibrium:
            lines.append(f"  {self.no_equilibrium}")
        if self.regime == UNDECIDED and model.dt:
            lines.append(f"  {SEE_FOR_YOURSELF}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return classification_html(self)


def _described(equilibrium: Equilibrium) -> str:
    word = "stable" if equilibrium.covariance_is_stable else "not stable"
    return f"rank {equilibrium.rank} ({word})"


def classify(
    model: GaussianTransformer, *, sdp: bool = True, thorough: bool | None = None
) -> Classification:
    """Say what a layer does to covariances, with the evidence.

    Parameters
    ----------
    model : GaussianTransformer
    sdp : bool, optional
        Whether semidefinite programmes may be solved; without them fewer models are decided, at
        a fraction of the cost.
    thorough : bool, optional
        Whether equilibria are looked for as `find_equilibria` does; otherwise by closed forms and
        by the flow forward from one start, and then among zero and the pencil (A, V). As `sdp` by
        default.

    Returns
    -------
    Classification

    Raises
    ------
    ParameterError
        If it is not a GaussianTransformer.

    Notes
    -----
    In order of cost: spectral comparison (Theory 5.6), equilibria (3), global certificates (4.1,
    4.7 to 4.9), local ones (4.5, 4.10), blow-up and boundedness (5.1 to 5.3, 5.6).

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> found = gct.classify(gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2)))
    >>> found.regime, found.scope
    ('globally stable', 'covariance and mean')
    >>> gct.classify(gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2))).regime
    'collapse'
    """
    check_scales(model)
    return _Inquiry(model, sdp, sdp if thorough is None else thorough).run()


class _Inquiry:
    """Certificates and refusals, gathered until the regime is known."""

    def __init__(self, model: GaussianTransformer, sdp: bool, thorough: bool) -> None:
        self.model, self.sdp = model, sdp
        self.search = _equilibria if thorough else quick_equilibria
        self.certificates: dict[str, Certificate] = {}
        self.refused: dict[str, NotCertified] = {}
        self.equilibria: list[Equilibrium] = []
        self.missing: str | None = None
        self.point: Equilibrium | None = None
        self.hurried: NotCertified | None = None  # why there was no quick collapse

    def run(self) -> Classification:
        known: dict[str, bool] = {}
        step = next_step(known, layers=bool(self.model.dt))
        while step.question is not None:
            known[step.question] = self._answer(step.question)
            step = next_step(known, layers=bool(self.model.dt))
        if known.get(QUICK_COLLAPSE):
            self.equilibria = find_equilibria(self.model, rank=0)
            self.missing = "no positive definite equilibrium: every covariance tends to zero"
        return Classification(
            self.model,
            step.regime,
            self.certificates,
            self.refused,
            self.equilibria,
            self.missing,
        )

    def _answer(self, question: str) -> bool:
        if question == EQUILIBRIUM:
            return self._search()
        if question == SINGULAR:
            return _flattens(self.model, self.equilibria)
        if question == QUICK_COLLAPSE:
            return self._quick_collapse()
        if question == COLLAPSE and not self.sdp and self.hurried is not None:
            # The same call with the same answer.
            self.refused[COLLAPSE] = self.hurried
            return False
        return self._try(question, self._certify(question))

    def _certify(self, regime: str) -> Callable[..., Certificate]:
        if regime in (BLOW_UP, COLLAPSE, BOUNDED):
            return partial(BEHAVIOURS[regime], sdp=self.sdp)
        if regime == GLOBAL:
            method = "auto" if self.sdp else "cheap"
            return partial(certify_global_stability, equilibrium=self.point, method=method)
        if regime == SEMIGLOBAL:
            start = START_FACTOR * self.point.covariance
            return partial(certify_semiglobal_stability, equilibrium=self.point, Sigma0=start)
        return partial(certify_local_stability, equilibrium=self.point)

    def _search(self) -> bool:
        self.equilibria, self.missing = self.search(self.model)
        self.point = next((e for e in self.equilibria if e.rank == self.model.dim), None)
        return self.point is not None

    def _quick_collapse(self) -> bool:
        try:
            self.certificates[COLLAPSE] = certify_collapse(self.model, sdp=False)
        except NotCertified as error:
            self.hurried = error
            return False
        return True

    def _try(self, regime: str, certify: Callable[..., Certificate]) -> bool:
        try:
            self.certificates[regime] = certify(self.model)
        except NotCertified as error:
            self.refused[regime] = error
            return False
        if BOUNDED in {regime, *IMPLIED.get(regime, ())}:
            self.refused.pop(BLOW_UP, None)  # what is bounded leaves no doubt about that
        return True


def _equilibria(model: GaussianTransformer) -> tuple[list[Equilibrium], str | None]:
    """Return the equilibria found and, if none is positive definite, why."""
    try:
        find_equilibrium(model)  # stops at the first, and says why there is none
    except EquilibriumNotFound as error:
        # The search among positive definite ones is over; it need not be repeated.
        ranks = range(model.dim) if model.dim <= ALL_RANKS_DIM else (0, 1)
        singular = [e for rank in reversed(ranks) for e in find_equilibria(model, rank=rank)]
        return sorted(singular, key=lambda e: not e.covariance_is_stable), str(error)
    return find_equilibria(model), None


def _flattens(model: GaussianTransformer, equilibria: list[Equilibrium]) -> bool:
    """Estimate whether covariances tend to a singular limit."""
    if any(e.covariance_is_stable for e in equilibria):
        return True
    starts = list(default_starts(model, FLATTENING_STARTS, 0))[-FLATTENING_STARTS:]
    return all(_limit_rank(model, factor(start)) < model.dim for start in starts)


def _limit_rank(model: GaussianTransformer, L: np.ndarray) -> float:
    """Return the rank of the limit of a trajectory; infinite if none is reached.

    Directions that have become negligible are dropped, and what is left must settle near an
    equilibrium of its rank: a trajectory also flattens while it escapes.
    """
    while L.shape[1]:
        rank = L.shape[1]
        tolerance = LOW_TOLERANCE if rank < model.dim else NEVER
        arrival = follow_flow(model, L, tolerance, FLATTENING_STEPS)
        is_limit = arrival.settled and rank < model.dim
        if is_limit and polish_factor(model, arrival.factor) is not None:
            return rank
        if not is_limit and arrival.reason != "singular":
            return np.inf
        U, values, _ = np.linalg.svd(arrival.factor, full_matrices=False)
        keep = values > (FADING if is_limit else NEGLIGIBLE) * values[0]
        if keep.all():  # it is no limit, or it shrinks as a whole
            return np.inf if is_limit else 0
        L = U[:, keep] * values[keep]
    return 0
