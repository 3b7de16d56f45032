"""The sufficient conditions for global stability, in order of cost (Theory 4.1, 4.7 to 4.9).

    form           q < 0                                         one eigenvalue problem
    riccati        V_h = v_h I: G <= 0, -A Hurwitz               one Lyapunov equation
    semidefinite   q <= 0 with a kernel known from structure     two eigenvalue problems
    gradient       P A and P T symmetric, P T < 0                one null vector
    extended       V = eta W + p(E) decreases                    a semidefinite programme

Each finds what proves it (a witness) and checks that; the check alone repeats a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gausscontrol.certificates.evidence import (
    Evidence,
    form_shortfall,
    form_stability,
    is_riccati,
    riccati_shortfall,
    riccati_stability,
)
from gausscontrol.certificates.extended import (
    check_extended,
    extended_shortfall,
    extended_stability,
)
from gausscontrol.certificates.gradient import (
    gradient_check,
    gradient_shortfall,
    gradient_stability,
)
from gausscontrol.certificates.semidefinite import (
    semidefinite_shortfall,
    semidefinite_stability,
)
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["CRITERIA", "Criterion"]


class Criterion(NamedTuple):
    """One condition: how to find its witness, check it, and say why it fails.

    `refusal` is what to say of a model that the condition does not concern, or None.
    """

    find: Callable[[GaussianTransformer, np.ndarray, int | None], Evidence]
    check: Callable[[GaussianTransformer, np.ndarray, Any], Evidence]
    shortfall: Callable[[GaussianTransformer, Evidence], str]
    refusal: Callable[[GaussianTransformer], str | None] = lambda model: None
    needs_solver: bool = False


def _not_riccati(model: GaussianTransformer) -> str | None:
    if is_riccati(model):
        return None
    return (
        "method: 'riccati' needs every value matrix to be a multiple of the identity; "
        "use method='auto'"
    )


CRITERIA = {
    "form": Criterion(
        lambda model, Sigma, degree: form_stability(model, Sigma),
        lambda model, Sigma, witness: form_stability(model, Sigma),
        form_shortfall,
    ),
    "riccati": Criterion(
        lambda model, Sigma, degree: riccati_stability(model, Sigma),
        lambda model, Sigma, witness: riccati_stability(model, Sigma),
        lambda model, evidence: riccati_shortfall(evidence),
        _not_riccati,
    ),
    "semidefinite": Criterion(
        lambda model, Sigma, degree: semidefinite_stability(model, Sigma),
        lambda model, Sigma, witness: semidefinite_stability(model, Sigma),
        semidefinite_shortfall,
    ),
    "gradient": Criterion(
        lambda model, Sigma, degree: gradient_stability(model, Sigma),
        gradient_check,
        gradient_shortfall,
    ),
    "extended": Criterion(
        extended_stability,
        check_extended,
        lambda model, evidence: extended_shortfall(evidence),
        needs_solver=True,
    ),
}
