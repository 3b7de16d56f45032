"""Local stability of a positive definite equilibrium (Theory 4.5, 7.1a).

    P > 0 with J^T P + P J < 0  (dt = 0),   J^T P J < P  (dt > 0)

J is the covariance linearisation, at one model or at every triple of vertices of a polytope of
parameters. Up to d = 32 P is a matrix. Beyond that it is one of two kinds that need none:
E -> X E X for a d x d matrix X, or int_0^t e^(J^T s) e^(J s) ds for a depth t (see `propagation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gausscontrol.certificates.base import (
    ROUGHEST,
    Certificate,
    certified_covariance,
    finished,
    guarded,
)
from gausscontrol.certificates.evidence import RADIUS_SLACK, Evidence, supports
from gausscontrol.certificates.linearisation import (
    DENSE_DIM,
    in_vech,
    in_whitened_svec,
    linear_stability,
    lyapunov_candidate,
)
from gausscontrol.certificates.polytope import (
    check_polytope,
    common_lyapunov,
    given_lyapunov,
    polytope_statement,
)
from gausscontrol.certificates.propagation import dissipation, horizon_for, metrics, propagation
from gausscontrol.certificates.rigorous.polytope import prove_polytope
from gausscontrol.certificates.rigorous.stability import prove_local
from gausscontrol.errors import NotCertified
from gausscontrol.linalg.arrays import symmetric_matrix
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["LocalStability", "certify_local_stability"]


@dataclass(frozen=True, eq=False)
class LocalStability(Certificate):
    """The equilibrium attracts every covariance near it.

    Attributes
    ----------
    covariance : (d, d) ndarray
        The computed equilibrium. [x]^2
    radius : float
        An exact equilibrium lies within this whitened Frobenius distance; infinite where only the
        linearisations of a polytope are spoken of.
    lyapunov_matrix : (n, n) ndarray or None
        P > 0 with J^T P + P J < 0 (J^T P J < P for dt > 0), for the linearisation J in vech
        coordinates. Your own comes back as you gave it; the margin is that of P at norm 1 in
        whitened coordinates. None beyond d = 32, where `metric` or `horizon` stands for it.
    mean_stable : bool
        Whether the mean is verified to converge too.
    metric : (d, d) ndarray or None
        X > 0 of the Lyapunov function tr(X E X E); the margin is that of -sym J in the coordinates
        X^(1/2) x, per unit depth. [1/x^2]
    horizon : float
        t of the Lyapunov function int_0^t |e^(Js) E|^2 ds in whitened coordinates; the margin is
        that of 1 - |e^(Jt)|. Zero where another Lyapunov function serves. [t]
    vertices : tuple of GaussianTransformer
        Of the polytope of parameters that P serves; empty for the model alone.
    """

    covariance: np.ndarray
    radius: float
    lyapunov_matrix: np.ndarray | None
    mean_stable: bool
    vertices: tuple[GaussianTransformer, ...] = field(default=(), kw_only=True, repr=False)
    metric: np.ndarray | None = field(default=None, kw_only=True, repr=False)
    horizon: float = field(default=0.0, kw_only=True)

    @property
    def method(self) -> str:
        """Which Lyapunov function: "lyapunov" (P), "dissipation" (X) or "propagator" (t)."""
        if self.lyapunov_matrix is not None:
            return "lyapunov"
        return "dissipation" if self.metric is not None else "propagator"

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        if self.vertices:
            return polytope_statement(len(self.vertices), self.radius)
        return (
            "an equilibrium exists within the stated radius and attracts every covariance near "
            f"it{' and every mean' if self.mean_stable else ''}, exponentially"
        )

    def _recheck(self) -> float:
        """Repeat the check from the model, the covariance and P, X or t."""
        given = (self.lyapunov_matrix is not None, self.metric is not None, self.horizon > 0)
        if sum(given) != 1:
            return -np.inf
        if self.lyapunov_matrix is None:
            if self.vertices or self.model.dt:
                return -np.inf
            evidence = _matrix_free(self.model, self.covariance, self.metric, self.horizon)
            repeated = supports(evidence, self) and np.isfinite(self.radius)
            return evidence.margin if repeated else -np.inf
        P = in_whitened_svec(self.lyapunov_matrix, self.covariance)
        if not self.vertices:
            evidence = linear_stability(self.model, self.covariance, P)
            repeated = supports(evidence, self) and np.isfinite(self.radius)
            return evidence.margin if repeated else -np.inf
        found = check_polytope(self.model, self.covariance, self.vertices, P)
        # Without a radius the linearisations alone are spoken of.
        held = found.equilibria and found.radius <= RADIUS_SLACK * self.radius
        repeated = (held or self.radius == np.inf) and not self.mean_stable
        return found.margin if repeated else -np.inf

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        if self.lyapunov_matrix is None:
            raise _unprovable(self.model)
        if self.vertices:
            radius = self.radius if np.isfinite(self.radius) else None
            return prove_polytope(
                self.model, self.vertices, self.covariance, self.lyapunov_matrix, radius
            )
        return prove_local(
            self.model, self.covariance, self.lyapunov_matrix, self.radius, mean=self.mean_stable
        )

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        serves = f", for {len(self.vertices)} vertices" if self.vertices else ""
        if not np.isfinite(self.radius):
            return [f"  serves  {len(self.vertices)} vertices and the model"]
        lines = [f"  radius  {self.radius:.1e} (whitened), holds an exact equilibrium{serves}"]
        if self.method == "dissipation":
            lines.append("  method  dissipation: tr(X E X E) decreases, matrix-free")
        elif self.method == "propagator":
            lines.append(f"  method  propagator over a depth of {self.horizon:.4g}, matrix-free")
        return lines


@guarded
def certify_local_stability(
    model: GaussianTransformer,
    equilibrium: Any,
    *,
    vertices: Sequence[GaussianTransformer] | None = None,
    lyapunov_matrix: Any = None,
    rigorous: bool = False,
) -> LocalStability:
    """Certify that an equilibrium is locally exponentially stable.

    Solves J^T P + P J = -I for the covariance linearisation J (or takes P = I where its
    symmetric part is clearly negative) and then checks P > 0 and J^T P + P J < 0. For dt > 0 the
    map of a layer is shown to contract in the norm of P, J^T P J < P, which also proves that its
    exact fixed point exists. Beyond d = 32, dt = 0, no n x n matrix is formed: two d x d metrics X
    are tried first, then the propagator e^(Jt) is shown to contract over some depth t.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2
    vertices : sequence of GaussianTransformer, optional
        Models whose A_i, V_j and B_k are combined in every triple; one common P is sought by a
        semidefinite programme, for all A, V and B in the three convex hulls. It is said of the
        linearisations at this Sigma*, unless equilibria of all these models are proven near it.
    lyapunov_matrix : (n, n) array_like, optional
        A Lyapunov matrix of your own in vech coordinates, n = d(d+1)/2; it is checked instead of
        one that is solved for, and stored as it is.
    rigorous : bool, optional
        Repeat the check in ball arithmetic; needs the extra "rigorous".

    Returns
    -------
    LocalStability

    Raises
    ------
    NotCertified
        If J is not Hurwitz (a contraction for dt > 0) by more than rounding, or no exact
        equilibrium is proven nearby.
    ParameterError
        If the covariance is not positive definite, the vertices do not fit the model or are too
        many, or lyapunov_matrix is no symmetric n x n matrix.

    Notes
    -----
    Theory 4.5, 4.10, 7.1a, 9.1, 9.3. Matrix-free, eigenvalues and norms come from Lanczos: pairs
    are checked by their residuals and two starts must agree, but no rounding bound covers them, so
    that rigorous=True is refused there.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> gct.certify_local_stability(model, 2 * np.eye(2)).scope
    'covariance and mean'
    """
    Sigma = certified_covariance(model, equilibrium)
    given = None
    if lyapunov_matrix is not None:
        given_lyapunov(lyapunov_matrix, model, Sigma)
        size = model.dim * (model.dim + 1) // 2
        given = symmetric_matrix(lyapunov_matrix, "lyapunov_matrix", size)
    if model.dim > DENSE_DIM:
        return _large(model, Sigma, vertices, given, rigorous)
    if vertices is not None:
        return finished(_polytope(model, Sigma, vertices, given), rigorous)
    _check_fixed_point(model, Sigma)
    P = given
    if P is None:
        P = in_vech(lyapunov_candidate(model, Sigma), Sigma)
    # What is stored decides, as it will when the check is repeated.
    evidence = linear_stability(model, Sigma, in_whitened_svec(P, Sigma))
    if not evidence.margin > 0:
        raise NotCertified(_shortfall(model, evidence, given is not None), margin=evidence.margin)
    certificate = LocalStability(
        model=model,
        margin=evidence.margin,
        data=evidence.data,
        covariance=Sigma,
        radius=evidence.radius,
        lyapunov_matrix=P,
        mean_stable=evidence.mean_stable,
    )
    return finished(certificate, rigorous)


# -- beyond d = 32 ----------------------------------------------------------------------------


def _large(
    model: GaussianTransformer, Sigma: np.ndarray, vertices: Any, given: Any, rigorous: bool
) -> LocalStability:
    """Certify without a matrix of the linearisation, or say what the limit is."""
    size = f"d = {model.dim}, where J has {model.dim * (model.dim + 1) // 2} states"
    limit = f"found {size}, and matrices of J are formed up to d = {DENSE_DIM}"
    if vertices is not None:
        raise NotCertified(f"vertices: a common P of a polytope is an n x n matrix; {limit}")
    if given is not None:
        raise NotCertified(
            f"lyapunov_matrix: an n x n matrix is checked against one of J; {limit}; "
            "leave it out to have another Lyapunov function sought"
        )
    if rigorous:
        raise _unprovable(model)
    if model.dt:
        raise NotCertified(
            f"dt: a layer is shown to contract by an n x n matrix P; {limit}; "
            "use model.replace(dt=0), or certify_semiglobal_stability"
        )
    return propagated_stability(model, Sigma)


def propagated_stability(
    model: GaussianTransformer, Sigma: np.ndarray, *, metric: bool = True
) -> LocalStability:
    """Certify local stability without a matrix of the linearisation, at any size.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Computed equilibrium. [x]^2
    metric : bool, optional
        Whether the metrics X are tried before the propagator.

    Returns
    -------
    LocalStability

    Raises
    ------
    NotCertified
        If neither Lyapunov function is verified, or no exact equilibrium is proven nearby.
    """
    for X in metrics(model, Sigma) if metric else ():
        evidence = dissipation(model, Sigma, X)
        if evidence.margin > 0:
            return _without_matrix(model, Sigma, evidence, metric=X)
    horizon = horizon_for(model, Sigma)
    evidence = propagation(model, Sigma, horizon)
    if not evidence.margin > 0:
        raise NotCertified(
            f"equilibrium: the propagator over t = {horizon:.4g} has norm "
            f"{evidence.data['norm']:.3g}, and with what is allowed for it misses 1 by "
            f"{-evidence.margin:.3g}; look at the poles with analyze(model, equilibrium)",
            margin=evidence.margin,
        )
    return _without_matrix(model, Sigma, evidence, horizon=horizon)


def _without_matrix(
    model: GaussianTransformer, Sigma: np.ndarray, evidence: Evidence, **stored: Any
) -> LocalStability:
    return LocalStability(
        model=model,
        margin=evidence.margin,
        data=evidence.data,
        covariance=Sigma,
        radius=evidence.radius,
        lyapunov_matrix=None,
        mean_stable=evidence.mean_stable,
        **stored,
    )


def _matrix_free(
    model: GaussianTransformer, Sigma: np.ndarray, metric: np.ndarray | None, horizon: float
) -> Evidence:
    if metric is not None:
        return dissipation(model, Sigma, metric)
    return propagation(model, Sigma, horizon)


def _unprovable(model: GaussianTransformer) -> NotCertified:
    return NotCertified(
        f"rigorous: expected at most d = {DENSE_DIM}, where the linearisation is a matrix of balls,"
        f" found d = {model.dim}; eigenvalues and norms without a matrix come from Lanczos, which "
        "is no proof; use rigorous=False"
    )


# -- polytopes and refusals ---------------------------------------------------------------------


def _polytope(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    vertices: Sequence[GaussianTransformer],
    given: np.ndarray | None,
) -> LocalStability:
    models = (vertices,) if isinstance(vertices, GaussianTransformer) else tuple(vertices)
    P = given
    if P is None:
        P = in_vech(common_lyapunov(model, Sigma, models)[0], Sigma)
    found = check_polytope(model, Sigma, models, in_whitened_svec(P, Sigma))
    if not found.margin > 0:
        raise NotCertified(
            f"lyapunov_matrix: J^T P + P J < 0 fails by {-found.margin:.3g} at the worst "
            "triple of vertices; leave it out to have one sought",
            margin=found.margin,
        )
    return LocalStability(
        model=model,
        margin=found.margin,
        data={**found.data, "equilibria": found.equilibria},
        covariance=Sigma,
        radius=found.radius,
        lyapunov_matrix=P,
        mean_stable=False,
        vertices=models,
    )


def _check_fixed_point(model: GaussianTransformer, Sigma: np.ndarray) -> None:
    """Refuse a covariance that the layer visibly moves."""
    if not model.dt:
        return
    white = model.whiten(Sigma)
    step = np.eye(model.dim) + model.dt * white.drift(np.eye(model.dim))
    moved = float(np.linalg.norm(step @ step.T - np.eye(model.dim)))
    if moved > ROUGHEST:
        raise NotCertified(
            f"equilibrium: expected a fixed point of the layer, found one that it moves by "
            f"{moved:.2g} in whitened coordinates; polish it with find_equilibrium(model, guess)",
            margin=-moved,
        )


def _shortfall(model: GaussianTransformer, evidence: Evidence, given: bool) -> str:
    wanted = "J^T P J < P" if model.dt else "J^T P + P J < 0"
    if given:
        return (
            f"lyapunov_matrix: {wanted} fails by {-evidence.margin:.3g} for the linearisation J; "
            "leave it out to have one solved for"
        )
    return (
        f"equilibrium: the linearisation is not verified to be stable: {wanted} fails by "
        f"{-evidence.margin:.3g}; look at the poles with analyze(model, equilibrium)"
    )
