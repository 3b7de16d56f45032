"""The sufficient conditions for global stability, in order of cost (Theory 4.1, 4.7 to 4.9).

    form           q < 0                                         one eigenvalue problem
    riccati        V_h = v_h I: G <= 0, -A Hurwitz               one Lyapunov equation
    semidefinite   q <= 0 with a kernel known from structure     two eigenvalue problems
    gradient       P A and P T symmetric, P T < 0                one null vector
    extended       V = eta W + p(E) decreases                    a semidefinite programme

Each finds what decides it (a witness) and checks that; the check alone repeats a verdict, and the
proof does so in ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

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
from gausscontrol.certificates.rigorous.extended import prove_extended
from gausscontrol.certificates.rigorous.stability import prove_form, prove_riccati
from gausscontrol.certificates.rigorous.structure import prove_gradient, prove_semidefinite
from gausscontrol.certificates.semidefinite import (
    semidefinite_shortfall,
    semidefinite_stability,
)
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.certificates.stability import GlobalStability

__all__ = ["CRITERIA", "Criterion"]


class Criterion(NamedTuple):
    """One condition: how to find its witness, check it, prove it, and say why it fails.

    `refusal` is what to say of a model that the condition does not concern, or None.
    """

    find: Callable[[GaussianTransformer, np.ndarray, int | None], Evidence]
    check: Callable[[GaussianTransformer, np.ndarray, Any], Evidence]
    prove: Callable[[GlobalStability], bool]
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
        find=lambda model, Sigma, degree: form_stability(model, Sigma),
        check=lambda model, Sigma, witness: form_stability(model, Sigma),
        prove=lambda c: prove_form(
            c.model, c.covariance, c.radius, rate=c.rate, mean=c.mean_stable
        ),
        shortfall=form_shortfall,
    ),
    "riccati": Criterion(
        find=lambda model, Sigma, degree: riccati_stability(model, Sigma),
        check=lambda model, Sigma, witness: riccati_stability(model, Sigma),
        prove=lambda c: prove_riccati(c.model, c.covariance, c.radius, mean=c.mean_stable),
        shortfall=lambda model, evidence: riccati_shortfall(evidence),
        refusal=_not_riccati,
    ),
    "semidefinite": Criterion(
        find=lambda model, Sigma, degree: semidefinite_stability(model, Sigma),
        check=lambda model, Sigma, witness: semidefinite_stability(model, Sigma),
        prove=lambda c: prove_semidefinite(c.model, c.covariance, c.radius, mean=c.mean_stable),
        shortfall=semidefinite_shortfall,
    ),
    "gradient": Criterion(
        find=lambda model, Sigma, degree: gradient_stability(model, Sigma),
        check=gradient_check,
        prove=lambda c: prove_gradient(
            c.model, c.covariance, c.witness, c.radius, mean=c.mean_stable
        ),
        shortfall=lambda model, evidence: gradient_shortfall(evidence),
    ),
    "extended": Criterion(
        find=extended_stability,
        check=check_extended,
        prove=lambda c: prove_extended(
            c.model, c.covariance, c.witness, c.radius, rate=c.rate, mean=c.mean_stable
        ),
        shortfall=lambda model, evidence: extended_shortfall(evidence),
        needs_solver=True,
    ),
}
