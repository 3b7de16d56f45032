"""Which regime a layer has, given answers; and what to ask next (Theory 3 to 5).

    collapse? -> equilibrium? -> global, semiglobal, local? -> blow-up? bounded? -> singular?

in order of cost, stopping as soon as what follows could add nothing. A question is answered by a
certificate, which may fail, so that "no" means "not certified". Who answers, for one model or for
ten thousand, is no matter of this module.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple

__all__ = [
    "BLOW_UP",
    "BOUNDED",
    "COLLAPSE",
    "EQUILIBRIUM",
    "GLOBAL",
    "LOCAL",
    "QUICK_COLLAPSE",
    "REGIMES",
    "SEMIGLOBAL",
    "SINGULAR",
    "UNDECIDED",
    "Step",
    "next_step",
]

GLOBAL, SEMIGLOBAL, LOCAL = "globally stable", "semiglobally stable", "locally stable"
COLLAPSE, BLOW_UP, BOUNDED = "collapse", "blow-up", "bounded"
SINGULAR, UNDECIDED = "singular limit", "undecided"
# The first of these that holds is the regime.
REGIMES = (GLOBAL, COLLAPSE, SEMIGLOBAL, LOCAL, BLOW_UP, BOUNDED, SINGULAR, UNDECIDED)
# Questions beside the regimes: a collapse that needs no programme, a positive definite equilibrium.
QUICK_COLLAPSE, EQUILIBRIUM = "quick collapse", "equilibrium"


class Step(NamedTuple):
    """What to ask next; None where all is known, and `regime` is then the verdict."""

    question: str | None
    regime: str | None = None


def next_step(known: Mapping[str, bool], *, layers: bool, thorough: bool = True) -> Step:
    """Return the next question, or the regime.

    Parameters
    ----------
    known : mapping of str to bool
        Answers so far, by question: a regime, QUICK_COLLAPSE or EQUILIBRIUM.
    layers : bool
        Residual layers, dt > 0, of which boundedness, collapse and blow-up are not asked.
    thorough : bool, optional
        Whether to ask for what else holds once the regime is known: a layer can be locally stable
        and bounded.

    Returns
    -------
    Step

    Examples
    --------
    >>> next_step({}, layers=False).question
    'quick collapse'
    >>> next_step({"quick collapse": True}, layers=False).regime
    'collapse'
    """
    plan = _plan(layers, thorough)
    question = next(plan)
    try:
        while question in known:
            question = plan.send(known[question])
    except StopIteration as end:
        return Step(None, end.value)
    return Step(question)


def _plan(layers: bool, thorough: bool) -> Generator[str, bool, str]:
    if not layers and (yield QUICK_COLLAPSE):
        return COLLAPSE
    held: set[str] = set()
    point = yield EQUILIBRIUM
    if point:
        if (yield GLOBAL):
            return GLOBAL
        for regime in (SEMIGLOBAL, LOCAL) if layers else (LOCAL,):
            if (yield regime):
                held.add(regime)
                if not thorough:
                    return _first(held)
    if not layers:
        # For as long as one statement does not exclude the next.
        for regime in (BLOW_UP, BOUNDED) if point else (BLOW_UP, COLLAPSE, BOUNDED):
            if (yield regime):
                held.add(regime)
                break
    if not held and not point and (yield SINGULAR):
        return SINGULAR
    return _first(held)


def _first(held: set[str]) -> str:
    return next((regime for regime in REGIMES if regime in held), UNDECIDED)
