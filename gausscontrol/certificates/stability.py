"""Global and local stability of a positive definite equilibrium (Theory 4.1 to 4.5).

    global   q(E) = <E, T(E)> < 0 for all symmetric E != 0 (whitened)  =>  Sigma(t) -> Sigma*
    local    P > 0 with J^T P + P J < 0, J the covariance linearisation

Both are evaluated at the computed equilibrium with a margin that covers the exact one nearby,
whose existence is part of what is certified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gausscontrol.certificates.base import Certificate, certified_covariance
from gausscontrol.certificates.discrete import divergence
from gausscontrol.certificates.evidence import (
    Evidence,
    form_shortfall,
    form_stability,
    is_riccati,
    riccati_shortfall,
    riccati_stability,
)
from gausscontrol.certificates.linearisation import (
    in_vech,
    in_whitened_svec,
    linear_stability,
    lyapunov_candidate,
)
from gausscontrol.errors import NotCertified, ParameterError
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "GlobalStability",
    "LocalStability",
    "certify_global_stability",
    "certify_local_stability",
]

CRITERIA = {"form": form_stability, "riccati": riccati_stability}
METHODS = ("auto", *CRITERIA)
# A repeated check may find the radius larger by this factor, from rounding of the stored P.
RADIUS_SLACK = 1.01


@dataclass(frozen=True, eq=False)
class GlobalStability(Certificate):
    """Every covariance Sigma_0 > 0 converges to the equilibrium.

    Attributes
    ----------
    covariance : (d, d) ndarray
        The computed equilibrium. [x]^2
    radius : float
        An exact equilibrium lies within this whitened Frobenius distance.
    method : str
        "form": the attention form is negative definite (Theory 4.1); "riccati": the criterion of
        Theory 4.7 for scalar values holds.
    rate : float
        Certified exponential decay rate of |Sigma - Sigma*| near the equilibrium, in whitened
        Frobenius norm. [1/t]
    optimal_rate : float or None
        2 tr A / d, the largest rate the form can certify for the given A; None for other
        methods. [1/t]
    mean_stable : bool
        Whether M(Sigma*) + Vbar is verified to be Hurwitz, so that the mean converges too.
    """

    covariance: np.ndarray
    radius: float
    method: str
    rate: float
    optimal_rate: float | None
    mean_stable: bool

    def lyapunov_function(self, Sigma: Any) -> float:
        """Return the Lyapunov function W(Sigma).

        W = tr(X Sigma) - log det(X Sigma) - d with X the inverse of Sigma*.

        Parameters
        ----------
        Sigma : (d, d) array_like
            Positive definite. [x]^2

        Returns
        -------
        float
            Twice the Kullback-Leibler divergence between the zero-mean Gaussians; decreases
            along every solution.

        Raises
        ------
        ParameterError
            If Sigma is not positive definite.

        Notes
        -----
        Theory 4.1.
        """
        return divergence(self.covariance, Sigma)

    def _recheck(self) -> bool:
        """Repeat the check from the model and the covariance."""
        try:
            evidence = CRITERIA[self.method](self.model, self.covariance)
        except NotCertified:
            return False
        return _supports(evidence, self) and evidence.rate >= (1 - 1e-9) * self.rate

    def _details(self) -> list[str]:
        return [
            f"  method  {self.method}",
            f"  rate    {self.rate:.6g} per unit depth{self._beside()}",
        ]

    def _beside(self) -> str:
        if self.optimal_rate is None:
            return ""
        return f", optimum {self.optimal_rate:.6g} (2 tr A/d)"


@dataclass(frozen=True, eq=False)
class LocalStability(Certificate):
    """The equilibrium attracts every covariance near it.

    Attributes
    ----------
    covariance : (d, d) ndarray
        The computed equilibrium. [x]^2
    radius : float
        An exact equilibrium lies within this whitened Frobenius distance.
    lyapunov_matrix : (n, n) ndarray
        P > 0 with J^T P + P J < 0 (J^T P J < P for dt > 0), for the linearisation J in vech
        coordinates.
    mean_stable : bool
        Whether the mean is verified to converge too.
    """

    covariance: np.ndarray
    radius: float
    lyapunov_matrix: np.ndarray
    mean_stable: bool

    def _recheck(self) -> bool:
        """Repeat the check from the model, the covariance and P."""
        P = in_whitened_svec(self.lyapunov_matrix, self.covariance)
        try:
            return _supports(linear_stability(self.model, self.covariance, P), self)
        except NotCertified:
            return False


def _supports(evidence: Evidence, certificate: GlobalStability | LocalStability) -> bool:
    """Tell whether a fresh check bears out what a certificate says, its scope included."""
    return bool(
        evidence.margin > 0
        and evidence.radius <= RADIUS_SLACK * certificate.radius
        and evidence.mean_stable >= certificate.mean_stable
    )


def certify_global_stability(
    model: GaussianTransformer, equilibrium: Any, *, method: str = "auto"
) -> GlobalStability:
    """Certify that an equilibrium attracts every Sigma > 0.

    With q(E) = <E, T(E)> in coordinates whitened at Sigma*: if q(E) < 0 for all symmetric E != 0,
    every solution with Sigma_0 > 0 exists for all depths and tends to Sigma*.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2
    method : {"auto", "form", "riccati"}, optional
        "form" is one eigenvalue problem on the symmetric matrices; "riccati" decides the case of
        scalar values, if and only if; "auto" takes the first that certifies.

    Returns
    -------
    GlobalStability
        The verdict concerns the covariance; `scope` says whether it extends to the mean.

    Raises
    ------
    NotCertified
        If no method certifies by more than rounding, if no exact equilibrium is proven nearby,
        or if the depth is discrete, where no equilibrium attracts globally.
    ParameterError
        If the method is unknown or the covariance is not positive definite.

    Notes
    -----
    Theory 4.1 to 4.3, 4.7, 4.10, 9.1. The verdict does not change under head gauge.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> certificate = gct.certify_global_stability(model, 2 * np.eye(2))
    >>> bool(np.allclose(certificate.rate, 2)), certificate.scope
    (True, 'covariance and mean')
    """
    Sigma = certified_covariance(model, equilibrium)
    if method not in METHODS:
        raise ParameterError(f"method: expected one of {', '.join(METHODS)}, found {method!r}")
    if model.dt:
        raise NotCertified(
            f"dt: no equilibrium attracts globally at dt = {model.dt:g}, since one layer can "
            "overshoot from far away (Theory 4.10); use model.replace(dt=0)"
        )
    method, evidence = _decide(model, Sigma, method)
    return GlobalStability(
        model=model,
        statement=_global_statement(evidence),
        scope=_scope(evidence.mean_stable),
        margin=evidence.margin,
        data=evidence.data,
        covariance=Sigma,
        radius=evidence.radius,
        method=method,
        rate=evidence.rate,
        optimal_rate=2 * float(np.trace(model.A)) / model.dim if method == "form" else None,
        mean_stable=evidence.mean_stable,
    )


def certify_local_stability(model: GaussianTransformer, equilibrium: Any) -> LocalStability:
    """Certify that an equilibrium is locally exponentially stable.

    Solves J^T P + P J = -I for the covariance linearisation J (or takes P = I where its
    symmetric part is already negative) and then checks P > 0 and J^T P + P J < 0. For dt > 0 the
    map of a layer is shown to contract in the norm of P, J^T P J < P, which also proves that its
    exact fixed point exists.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2

    Returns
    -------
    LocalStability

    Raises
    ------
    NotCertified
        If J is not Hurwitz (a contraction for dt > 0) by more than rounding, or no exact
        equilibrium is proven nearby.
    ParameterError
        If the covariance is not positive definite.

    Notes
    -----
    Theory 4.5, 4.10, 9.1.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> gct.certify_local_stability(model, 2 * np.eye(2)).scope
    'covariance and mean'
    """
    Sigma = certified_covariance(model, equilibrium)
    P = lyapunov_candidate(model, Sigma)
    evidence = linear_stability(model, Sigma, P)
    if not evidence.margin > 0:
        wanted = "J^T P J < P" if model.dt else "J^T P + P J < 0"
        raise NotCertified(
            f"equilibrium: the linearisation is not verified to be stable: {wanted} fails by "
            f"{-evidence.margin:.3g}; look at the poles with analyze(model, equilibrium)",
            margin=evidence.margin,
        )
    return LocalStability(
        model=model,
        statement=(
            "an equilibrium exists within the stated radius and attracts every covariance near "
            f"it{' and every mean' if evidence.mean_stable else ''}, exponentially"
        ),
        scope=_scope(evidence.mean_stable),
        margin=evidence.margin,
        data=evidence.data,
        covariance=Sigma,
        radius=evidence.radius,
        lyapunov_matrix=in_vech(P, Sigma),
        mean_stable=evidence.mean_stable,
    )


def _decide(model: GaussianTransformer, Sigma: np.ndarray, method: str) -> tuple[str, Evidence]:
    """Return the method that certifies, in order of cost, or raise what the last one said."""
    scalar = is_riccati(model)
    if method == "riccati" and not scalar:
        raise NotCertified(
            "method: 'riccati' needs every value matrix to be a multiple of the identity; "
            "use method='auto'"
        )
    if method != "riccati":
        evidence = form_stability(model, Sigma)
        if evidence.margin > 0:
            return "form", evidence
        if method == "form" or not scalar:
            raise NotCertified(form_shortfall(model, evidence), margin=evidence.margin)
    evidence = riccati_stability(model, Sigma)
    if not evidence.margin > 0:
        raise NotCertified(riccati_shortfall(evidence), margin=evidence.margin)
    return "riccati", evidence


def _global_statement(evidence: Evidence) -> str:
    whose = "" if evidence.mean_stable else "the covariance of "
    data = evidence.data
    semidefinite = data.get("largest_gain", -np.inf) > -data["rounding"]
    reading = ", where G <= 0 is read up to rounding" if semidefinite else ""
    return (
        f"{whose}every Gaussian with Sigma_0 > 0 tends to the one positive definite "
        f"equilibrium{reading}"
    )


def _scope(mean_stable: bool) -> str:
    return "covariance and mean" if mean_stable else "covariance"
