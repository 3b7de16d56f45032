"""Global stability of a positive definite equilibrium of (1) (Theory 4.1 to 4.3, 4.7 to 4.9).

    Sigma(t) -> Sigma* from every Sigma_0 > 0

by the first of the `criteria` that holds. Each is evaluated at the computed equilibrium with a
margin that covers the exact one nearby, whose existence is part of what is certified.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gausscontrol.certificates.base import Certificate, certified_covariance, finished, guarded
from gausscontrol.certificates.criteria import CRITERIA
from gausscontrol.certificates.divergence import divergence
from gausscontrol.certificates.evidence import LOCAL_ADVICE, supports
from gausscontrol.errors import NotCertified, ParameterError
from gausscontrol.linalg.symmetric import covariance_matrix, whitening
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.arguments import choice

__all__ = ["GlobalStability", "certify_global_stability"]

METHODS = ("auto", "cheap", *CRITERIA)


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
        "form": the attention form is negative definite (Theory 4.1); "riccati": the criterion for
        scalar values (4.7); "semidefinite": the form has a kernel known from structure (4.7);
        "gradient": attention climbs a concave function (4.9); "extended": a Lyapunov function
        eta W + p was found (4.8).
    rate : float
        Decay rate of |Sigma - Sigma*| near the equilibrium, in whitened Frobenius norm: certified
        for "form" and "extended", that of the linearisation for the others. [1/t]
    optimal_rate : float or None
        2 tr A / d, the largest rate the form can certify for the given A; None for other
        methods. [1/t]
    mean_stable : bool
        Whether M(Sigma*) + Vbar is verified to be Hurwitz, so that the mean converges too.
    witness : object or None
        What the check needs beside the covariance: an `ExtendedWitness`, or the matrix P of the
        gradient case.
    reading : str
        Ending of the statement where structure is read from rounded numbers; empty if it is exact.
    """

    covariance: np.ndarray
    radius: float
    method: str
    rate: float
    optimal_rate: float | None
    mean_stable: bool
    witness: Any = field(default=None, kw_only=True, repr=False)
    reading: str = field(default="", kw_only=True, repr=False)

    def lyapunov_function(self, Sigma: Any) -> float:
        """Return the Lyapunov function at a covariance.

        W = tr(X Sigma) - log det(X Sigma) - d with X the inverse of Sigma*; for "extended"
        V = eta W + p(E), and for "gradient" Phi(Sigma*) - Phi(Sigma).

        Parameters
        ----------
        Sigma : (d, d) array_like
            Positive definite. [x]^2

        Returns
        -------
        float
            Zero at the equilibrium only; never increases along a solution. W is twice the
            Kullback-Leibler divergence between the zero-mean Gaussians.

        Raises
        ------
        ParameterError
            If Sigma is not positive definite.

        Notes
        -----
        Theory 4.1, 4.8, 4.9.
        """
        if self.method == "extended":
            return self.witness.lyapunov_function(self._whitened(Sigma))
        if self.method == "gradient":
            # Phi is quadratic and stationary at Sigma*.
            E = covariance_matrix(Sigma, "Sigma", self.model.dim) - self.covariance
            return -float(np.sum(E * (self.witness @ self.model.attention(E)))) / 2
        return divergence(self.covariance, Sigma)

    def _whitened(self, Sigma: Any) -> np.ndarray:
        Sigma = covariance_matrix(Sigma, "Sigma", self.model.dim)
        whitening(Sigma, "Sigma")
        R, _ = whitening(self.covariance)
        return R @ Sigma @ R

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        whose = "" if self.mean_stable else "the covariance of "
        return (
            f"{whose}every Gaussian with Sigma_0 > 0 tends to the one positive definite "
            f"equilibrium{self.reading}"
        )

    def _recheck(self) -> float:
        """Repeat the check from the model, the covariance and the witness."""
        criterion = CRITERIA[self.method]
        if self.model.dt or criterion.refusal(self.model):
            return -np.inf
        evidence = criterion.check(self.model, self.covariance, self.witness)
        repeated = (
            supports(evidence, self)
            and 0 < (1 - 1e-9) * self.rate <= evidence.rate
            and self.optimal_rate == _optimal_rate(self.model, self.method)
            and self.reading == evidence.data.get("reading", "")
        )
        return evidence.margin if repeated else -np.inf

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        return CRITERIA[self.method].prove(self)

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        return [
            f"  method  {self.method}",
            f"  rate    {self.rate:.6g} per unit depth{self._beside()}",
        ]

    def _beside(self) -> str:
        if self.optimal_rate is None:
            return ""
        return f", optimum {self.optimal_rate:.6g} (2 tr A/d)"


@guarded
def certify_global_stability(
    model: GaussianTransformer,
    equilibrium: Any,
    *,
    method: str = "auto",
    degree: int | None = None,
    rigorous: bool = False,
) -> GlobalStability:
    """Certify that an equilibrium attracts every Sigma > 0.

    With q(E) = <E, T(E)> in coordinates whitened at Sigma*: if q(E) < 0 for all symmetric E != 0,
    every solution with Sigma_0 > 0 exists for all depths and tends to Sigma*. Where q is not
    negative definite, other Lyapunov functions may still prove the same.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2
    method : str, optional
        "form" (Theory 4.1): one eigenvalue problem on the symmetric matrices; "riccati" (4.7):
        decides the case of scalar values, if and only if; "semidefinite" (4.7); "gradient" (4.9);
        "extended" (4.8): one semidefinite programme. "auto" takes the first that certifies, in
        this order; "cheap" does without the last.
    degree : int, optional
        Of the Lyapunov function of "extended": 2, 4, 6, ...; by default 2, then higher ones while
        they take seconds.
    rigorous : bool, optional
        Repeat the check in ball arithmetic, and take only what is proved; needs the extra
        "rigorous".

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
        If the method or the degree is unknown or the covariance is not positive definite.

    Notes
    -----
    Theory 4.1 to 4.3, 4.7 to 4.10, 9.1, 9.3. The verdict does not change under head gauge
    (Theory 9.2). For P = I and V = c B the gradient case climbs the function of Theory 5.5.

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
    choice(method, "method", METHODS)
    _check_degree(degree)
    if model.dt:
        raise NotCertified(
            f"dt: no equilibrium attracts globally at dt = {model.dt:g}, since one layer can "
            "overshoot from far away (Theory 4.10); use certify_semiglobal_stability, or "
            "model.replace(dt=0)"
        )
    try:
        if method in CRITERIA:
            return finished(_certify(model, Sigma, method, degree), rigorous)
        return _first(model, Sigma, method, degree, rigorous)
    except NotCertified as error:
        _refuse_hope(error, equilibrium)
        raise


def _refuse_hope(error: NotCertified, equilibrium: Any) -> None:
    """Raise the refusal without the advice to try local stability where that is known to fail."""
    abscissa = getattr(equilibrium, "covariance_abscissa", -np.inf)
    if abscissa > 0 and not equilibrium.covariance_is_stable and LOCAL_ADVICE in str(error):
        known = f"by the linearisation it is unstable, with covariance abscissa {abscissa:.4g}"
        text = str(error).replace(LOCAL_ADVICE, f"{known} per unit depth")
        raise NotCertified(text, margin=error.margin) from error


def _first(
    model: GaussianTransformer, Sigma: np.ndarray, method: str, degree: int | None, rigorous: bool
) -> GlobalStability:
    """Return what the first method certifies, or raise what all of them said."""
    refused: dict[str, NotCertified] = {}
    for name, criterion in CRITERIA.items():
        if (method == "cheap" and criterion.needs_solver) or criterion.refusal(model):
            continue
        try:
            return finished(_certify(model, Sigma, name, degree), rigorous)
        except NotCertified as error:
            refused[name] = error
        if name == "riccati":  # if and only if: nothing else can hold
            raise refused[name]
    first = refused.pop("form")
    others = "".join(f"; {name}: {_reason(error)}" for name, error in refused.items())
    raise NotCertified(f"{first}{others}", margin=first.margin) from first


def _certify(
    model: GaussianTransformer, Sigma: np.ndarray, method: str, degree: int | None
) -> GlobalStability:
    criterion = CRITERIA[method]
    refusal = criterion.refusal(model)
    if refusal:
        raise NotCertified(refusal)
    evidence = criterion.find(model, Sigma, degree)
    if not evidence.margin > 0:
        raise NotCertified(criterion.shortfall(model, evidence), margin=evidence.margin)
    return GlobalStability(
        model=model,
        margin=evidence.margin,
        data=evidence.data,
        covariance=Sigma,
        radius=evidence.radius,
        method=method,
        rate=evidence.rate,
        optimal_rate=_optimal_rate(model, method),
        mean_stable=evidence.mean_stable,
        witness=evidence.witness,
        reading=evidence.data.get("reading", ""),
    )


def _check_degree(degree: Any) -> None:
    if degree is None:
        return
    if not isinstance(degree, int | np.integer) or degree < 2 or degree % 2:
        raise ParameterError(
            f"degree: expected 2, 4, 6, ... or None, found {degree!r}; V has even degree"
        )


def _optimal_rate(model: GaussianTransformer, method: str) -> float | None:
    return 2 * float(np.trace(model.A)) / model.dim if method == "form" else None


def _reason(error: NotCertified) -> str:
    """Return what a refusal says after the words that all of them share."""
    return str(error).rpartition("not certified as globally stable ")[2]
