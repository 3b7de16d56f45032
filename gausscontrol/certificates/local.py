"""Local stability of a positive definite equilibrium (Theory 4.5, 7.1a).

    P > 0 with J^T P + P J < 0  (dt = 0),   J^T P J < P  (dt > 0)

J is the covariance linearisation, at one model or at every triple of vertices of a polytope of
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gausscontrol.certificates.base import Certificate, certified_covariance, finished
from gausscontrol.certificates.evidence import Evidence, scope_of, supports
from gausscontrol.certificates.linearisation import (
    in_vech,
    in_whitened_svec,
    linear_stability,
    lyapunov_candidate,
)
from gausscontrol.certificates.polytope import (
    PolytopeEvidence,
    check_polytope,
    common_lyapunov,
    given_lyapunov,
    polytope_statement,
)
from gausscontrol.certificates.rigorous import prove_local
from gausscontrol.certificates.rigorous_polytope import prove_polytope
from gausscontrol.errors import NotCertified
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
        An exact equilibrium lies within this whitened Frobenius distance.
    lyapunov_matrix : (n, n) ndarray
        P > 0 with J^T P + P J < 0 (J^T P J < P for dt > 0), for the linearisation J in vech
        coordinates.
    mean_stable : bool
        Whether the mean is verified to converge too.
    vertices : tuple of GaussianTransformer
        Of the polytope of parameters that P serves; empty for the model alone.
    """

    covariance: np.ndarray
    radius: float
    lyapunov_matrix: np.ndarray
    mean_stable: bool
    vertices: tuple[GaussianTransformer, ...] = field(default=(), kw_only=True, repr=False)

    def _recheck(self) -> bool:
        """Repeat the check from the model, the covariance and P."""
        P = in_whitened_svec(self.lyapunov_matrix, self.covariance)
        try:
            if self.vertices:
                found = check_polytope(self.model, self.covariance, self.vertices, P)
                claimed = self.data["equilibria"]
                return bool(found.margin > 0 and found.equilibria >= claimed)
            return supports(linear_stability(self.model, self.covariance, P), self)
        except NotCertified:
            return False

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        if self.vertices:
            radius = self.radius if self.data["equilibria"] else None
            return prove_polytope(
                self.model, self.vertices, self.covariance, self.lyapunov_matrix, radius
            )
        return prove_local(
            self.model, self.covariance, self.lyapunov_matrix, self.radius, mean=self.mean_stable
        )

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        serves = f", for {len(self.vertices)} vertices" if self.vertices else ""
        return [f"  radius  {self.radius:.1e} (whitened), holds an exact equilibrium{serves}"]


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
    symmetric part is already negative) and then checks P > 0 and J^T P + P J < 0. For dt > 0 the
    map of a layer is shown to contract in the norm of P, J^T P J < P, which also proves that its
    exact fixed point exists.

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
        one that is solved for.
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
    Theory 4.5, 4.10, 7.1, 9.1, 9.3.

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
        given = given_lyapunov(lyapunov_matrix, model, Sigma)
    if vertices is not None:
        return finished(_polytope(model, Sigma, vertices, given), rigorous)
    P = lyapunov_candidate(model, Sigma) if given is None else given
    evidence = linear_stability(model, Sigma, P)
    if not evidence.margin > 0:
        raise NotCertified(_shortfall(model, evidence, given is not None), margin=evidence.margin)
    certificate = LocalStability(
        model=model,
        statement=(
            "an equilibrium exists within the stated radius and attracts every covariance near "
            f"it{' and every mean' if evidence.mean_stable else ''}, exponentially"
        ),
        scope=scope_of(evidence),
        margin=evidence.margin,
        data=evidence.data,
        covariance=Sigma,
        radius=evidence.radius,
        lyapunov_matrix=in_vech(P, Sigma),
        mean_stable=evidence.mean_stable,
    )
    return finished(certificate, rigorous)


def _polytope(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    vertices: Sequence[GaussianTransformer],
    given: np.ndarray | None,
) -> LocalStability:
    if given is None:
        P, found = common_lyapunov(model, Sigma, vertices)
    else:
        P, found = given, check_polytope(model, Sigma, vertices, given)
        if not found.margin > 0:
            raise NotCertified(
                f"lyapunov_matrix: J^T P + P J < 0 fails by {-found.margin:.3g} at the worst "
                "triple of vertices; leave it out to have one sought",
                margin=found.margin,
            )
    return _polytope_certificate(model, Sigma, vertices, P, found)


def _polytope_certificate(
    model: GaussianTransformer,
    Sigma: np.ndarray,
    vertices: Sequence[GaussianTransformer],
    P: np.ndarray,
    found: PolytopeEvidence,
) -> LocalStability:
    models = [vertices] if isinstance(vertices, GaussianTransformer) else vertices
    return LocalStability(
        model=model,
        statement=polytope_statement(found),
        scope="covariance",
        margin=found.margin,
        data={**found.data, "equilibria": found.equilibria},
        covariance=Sigma,
        radius=found.radius,
        lyapunov_matrix=in_vech(P, Sigma),
        mean_stable=False,
        vertices=tuple(models),
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
