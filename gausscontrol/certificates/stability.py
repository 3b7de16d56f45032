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

from gausscontrol.analysis.enclosure import WhitenedPoint, form_evidence, inverse_norm
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates.base import (
    Certificate,
    certified_covariance,
    hurwitz_margin,
    not_enclosed,
)
from gausscontrol.errors import (
    GausscontrolError,
    MatrixEquationError,
    NotCertified,
    ParameterError,
)
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import (
    covariance_matrix,
    symmetric_operator,
    symmetrise,
    vech_index,
    whitening,
)
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "GlobalStability",
    "LocalStability",
    "certify_global_stability",
    "certify_local_stability",
]

METHODS = ("auto", "form")
# Up to this size the linearisation is formed and its Lyapunov equation solved.
DENSE_DIM = 32


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
        "form": the attention form is negative definite (Theory 4.1).
    rate : float
        Certified exponential decay rate of |Sigma - Sigma*| near the equilibrium, in whitened
        Frobenius norm. [1/t]
    optimal_rate : float
        2 tr A / d, the largest rate this method can certify for the given A. [1/t]
    mean_stable : bool
        Whether M(Sigma*) + Vbar is verified to be Hurwitz, so that the mean converges too.
    """

    covariance: np.ndarray
    radius: float
    method: str
    rate: float
    optimal_rate: float
    mean_stable: bool

    def lyapunov_function(self, Sigma: Any) -> float:
        """Return W(Sigma) = tr(X Sigma) - log det(X Sigma) - d with X the inverse of Sigma*.

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
        """
        Sigma = covariance_matrix(Sigma, "Sigma", self.model.dim)
        whitening(Sigma, "Sigma")
        R, _ = whitening(self.covariance)
        values = np.linalg.eigvalsh(symmetrise(R @ Sigma @ R))
        return float(np.sum(values - np.log(values) - 1))

    def verify(self) -> bool:
        """Repeat the check from the model and the covariance.

        Returns
        -------
        bool
        """
        try:
            evidence = _form_evidence(self.model, self.covariance)
        except NotCertified:
            return False
        return _supports(evidence, self) and _form_rate(evidence) >= (1 - 1e-9) * self.rate

    def _details(self) -> list[str]:
        return [
            f"  method  {self.method}",
            f"  rate    {self.rate:.6g} per unit depth, optimum {self.optimal_rate:.6g} (2 tr A/d)",
        ]


@dataclass(frozen=True, eq=False)
class LocalStability(Certificate):
    """The equilibrium attracts every covariance near it, exponentially.

    Attributes
    ----------
    covariance : (d, d) ndarray
        The computed equilibrium. [x]^2
    radius : float
        An exact equilibrium lies within this whitened Frobenius distance.
    lyapunov_matrix : (n, n) ndarray
        P > 0 with J^T P + P J < 0, for the linearisation J in vech coordinates.
    mean_stable : bool
        Whether M(Sigma*) + Vbar is verified to be Hurwitz.
    """

    covariance: np.ndarray
    radius: float
    lyapunov_matrix: np.ndarray
    mean_stable: bool

    def verify(self) -> bool:
        """Repeat the check from the model, the covariance and P.

        Returns
        -------
        bool
        """
        P = _in_whitened_svec(self.lyapunov_matrix, self.covariance)
        try:
            return _supports(_local_evidence(self.model, self.covariance, P), self)
        except NotCertified:
            return False


@dataclass(frozen=True)
class _Evidence:
    # What a check found; the margin is positive when it holds.
    margin: float
    radius: float
    mean_stable: bool
    data: dict[str, Any]


def _supports(evidence: _Evidence, certificate: GlobalStability | LocalStability) -> bool:
    """Tell whether a fresh check bears out what a certificate says, its scope included."""
    return bool(
        evidence.margin > 0
        and evidence.radius <= (1 + 1e-9) * certificate.radius
        and evidence.mean_stable >= certificate.mean_stable
    )


def certify_global_stability(
    model: GaussianTransformer, equilibrium: Any, *, method: str = "auto"
) -> GlobalStability:
    """Certify that an equilibrium attracts every positive definite covariance.

    With q(E) = <E, T(E)> in coordinates whitened at Sigma*: if q(E) < 0 for all symmetric E != 0,
    every solution with Sigma_0 > 0 exists for all depths and tends to Sigma*.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2
    method : {"auto", "form"}, optional
        "form" is one eigenvalue problem on the symmetric matrices.

    Returns
    -------
    GlobalStability
        The verdict concerns the covariance; `scope` says whether it extends to the mean.

    Raises
    ------
    NotCertified
        If the form is not negative definite by more than rounding, if no exact equilibrium is
        proven nearby, or if the depth is discrete, where no equilibrium attracts globally.
    ParameterError
        If the method is unknown or the covariance is not positive definite.

    Notes
    -----
    Theory 4.1 to 4.3, 4.10, 9.1. The verdict does not change under head gauge.

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
    evidence = _form_evidence(model, Sigma)
    if not evidence.margin > 0:
        raise NotCertified(_form_shortfall(model, evidence), margin=evidence.margin)
    return GlobalStability(
        model=model,
        statement=_global_statement(evidence.mean_stable),
        scope=_scope(evidence.mean_stable),
        margin=evidence.margin,
        data=evidence.data,
        covariance=Sigma,
        radius=evidence.radius,
        method="form",
        rate=_form_rate(evidence),
        optimal_rate=2 * float(np.trace(model.A)) / model.dim,
        mean_stable=evidence.mean_stable,
    )


def certify_local_stability(model: GaussianTransformer, equilibrium: Any) -> LocalStability:
    """Certify that an equilibrium is locally exponentially stable.

    Solves J^T P + P J = -I for the covariance linearisation J (or takes P = I where its
    symmetric part is already negative) and then checks P > 0 and J^T P + P J < 0.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2

    Returns
    -------
    LocalStability

    Raises
    ------
    NotCertified
        If J is not Hurwitz by more than rounding, or no exact equilibrium is proven nearby.
    ParameterError
        If the covariance is not positive definite.

    Notes
    -----
    Theory 4.5, 9.1.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> gct.certify_local_stability(model, 2 * np.eye(2)).scope
    'covariance and mean'
    """
    Sigma = certified_covariance(model, equilibrium)
    if model.dt:
        raise NotCertified(
            f"dt: this certificate is for continuous depth, found dt = {model.dt:g}; "
            "use model.replace(dt=0)"
        )
    P = _lyapunov_candidate(model, Sigma)
    evidence = _local_evidence(model, Sigma, P)
    if not evidence.margin > 0:
        raise NotCertified(
            f"equilibrium: the linearisation is not verified to be Hurwitz: J^T P + P J < 0 fails "
            f"by {-evidence.margin:.3g}; look at the poles with analyze(model, equilibrium)",
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
        lyapunov_matrix=_in_vech(P, Sigma),
        mean_stable=evidence.mean_stable,
    )


# -- the attention form ---------------------------------------------------------------------------


def _form_evidence(model: GaussianTransformer, Sigma: np.ndarray) -> _Evidence:
    point = WhitenedPoint(model, Sigma)
    try:
        form = form_evidence(point)
    except GausscontrolError as error:
        raise NotCertified(f"equilibrium: its attention form is not known ({error})") from error
    if form.margin == -np.inf:
        raise not_enclosed(point)
    data = {
        "alpha": form.alpha,
        "rounding": form.rounding,
        "existence_radius": form.radius,
        "sign_condition": _sign_condition(point.white),
    }
    mean_stable = form.margin > 0 and _mean_margin(point, form.radius) > 0
    return _Evidence(form.margin, form.radius + point.offset, mean_stable, data)


def _form_rate(evidence: _Evidence) -> float:
    # In coordinates whitened at the exact equilibrium |E| shrinks by at most 1 - radius.
    return 2 * evidence.margin * (1 - evidence.data["existence_radius"]) ** 2


def _sign_condition(white: GaussianTransformer) -> float | None:
    """Return the margin of Theory 4.3 for one head; positive implies that the form is negative."""
    if white.n_heads != 1:
        return None
    V, B = white.V[0], white.B[0]
    skew = np.linalg.norm((V - V.T) / 2, 2) * np.linalg.norm((B - B.T) / 2, 2)
    best = -np.inf
    for sign in (1.0, -1.0):
        v = np.linalg.eigvalsh(symmetrise(-sign * V))[0]
        b = np.linalg.eigvalsh(symmetrise(sign * B))[0]
        if v > 0 and b > 0:
            best = max(best, v * b - skew)
    return float(best) if np.isfinite(best) else float(-skew)


def _form_shortfall(model: GaussianTransformer, evidence: _Evidence) -> str:
    trace = float(np.trace(model.A))
    reason = (
        f"tr A = {trace:.4g} <= 0 rules this method out (Theory 4.4)"
        if trace <= 0
        else "the form is not negative definite"
    )
    return (
        f"equilibrium: not certified as globally stable: {reason}, its largest eigenvalue is "
        f"{-evidence.data['alpha']:.4g} per unit depth; local stability may still hold, see "
        "certify_local_stability"
    )


def _global_statement(mean_stable: bool) -> str:
    subject = "every Gaussian with" if mean_stable else "the covariance of every Gaussian with"
    return f"{subject} Sigma_0 > 0 tends to the one positive definite equilibrium"


def _scope(mean_stable: bool) -> str:
    return "covariance and mean" if mean_stable else "covariance"


def _mean_margin(point: WhitenedPoint, radius: float) -> float:
    error = point.drift_error + point.total_error
    return hurwitz_margin(
        point.drift + point.white.heads.total,
        (point.bound + point.attention_error) * radius + error,
    )


# -- the linearisation ----------------------------------------------------------------------------


def _lyapunov_candidate(model: GaussianTransformer, Sigma: np.ndarray) -> np.ndarray:
    """Return P in svec coordinates whitened at Sigma, scaled to |P| = 1."""
    _check_dense(model.dim)
    J = dense_operator(model.whiten(Sigma))
    if np.linalg.eigvalsh(J + J.T)[-1] < 0:
        return np.eye(J.shape[0])
    try:
        P = solve_lyapunov(J.T, np.eye(J.shape[0]))
    except MatrixEquationError as error:
        raise NotCertified(
            f"equilibrium: the Lyapunov equation of the linearisation has no solution ({error}); "
            "it has eigenvalues on or near the imaginary axis",
            margin=0.0,
        ) from error
    return P / np.linalg.norm(P, 2)


def _local_evidence(model: GaussianTransformer, Sigma: np.ndarray, P: np.ndarray) -> _Evidence:
    point = WhitenedPoint(model, Sigma)
    J = dense_operator(point.white)
    beta = inverse_norm(point, J)
    if not np.isfinite(beta):
        raise NotCertified(
            "equilibrium: its linearisation is singular to working precision, so it is not "
            "isolated or not hyperbolic; no certificate applies",
            margin=0.0,
        )
    radius = point.radius_from(beta)
    if not np.isfinite(radius):
        raise not_enclosed(point)
    unit = 8 * J.shape[0] * np.finfo(float).eps
    size = float(np.linalg.norm(P, 2))
    lowest = float(np.linalg.eigvalsh(P)[0]) / size
    product = P @ J / size
    decay = -float(np.linalg.eigvalsh(product + product.T)[-1])
    # At the exact equilibrium J differs by at most 4 sum_h |V_h| |B_h| |Delta|, and by rounding.
    change = 4 * (point.bound + point.attention_error) * radius
    change += 2 * (point.drift_error + point.attention_error)
    slack = 2 * change + 2 * unit * float(np.linalg.norm(J))
    data = {
        "decay": decay,
        "slack": slack,
        "lowest_eigenvalue": lowest,
        "existence_radius": radius,
    }
    margin = decay - slack if lowest > unit else min(lowest - unit, decay - slack)
    mean_stable = margin > 0 and _mean_margin(point, radius) > 0
    return _Evidence(margin, radius + point.offset, mean_stable, data)


def _check_dense(dim: int) -> None:
    if dim > DENSE_DIM:
        raise NotCertified(
            f"model: the linearisation at d = {dim} has {dim * (dim + 1) // 2} states, more than "
            f"the {DENSE_DIM * (DENSE_DIM + 1) // 2} this certificate solves for; "
            "use certify_global_stability"
        )


def _svec_congruence(Sigma: np.ndarray) -> np.ndarray:
    """Return the map vech(E) -> svec(R E R), R the whitening of Sigma."""
    R, _ = whitening(Sigma)
    operator = symmetric_operator(R[None] / 2, R[None])
    return operator * vech_index(len(R)).weight[:, None]


def _in_vech(P: np.ndarray, Sigma: np.ndarray) -> np.ndarray:
    S = _svec_congruence(Sigma)
    return symmetrise(S.T @ P @ S)


def _in_whitened_svec(P: np.ndarray, Sigma: np.ndarray) -> np.ndarray:
    inverse = np.linalg.inv(_svec_congruence(Sigma))
    return symmetrise(inverse.T @ P @ inverse)
