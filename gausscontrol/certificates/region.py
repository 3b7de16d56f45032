"""Regions of attraction of a locally stable equilibrium (Theory 4.6, 4.8).

    V(Sigma) = e^T P e,   e = vech(Sigma - Sigma*),   J^T P + P J < 0
    V < level   =>   Sigma(t) -> Sigma*

The level comes from a norm bound on the quadratic part of the equation or, for small d, from
sums of squares. No start of the region is singular: V decreases on its part in the cone, so a
singular start would converge to Sigma* > 0, while rank is constant along (1). The region is convex
and holds Sigma*, hence lies in the open cone, is compact in its closure and invariant.

Assumptions: continuous depth. Everything is checked around the exact equilibrium, whose distance
from the computed one is taken off the level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gausscontrol.certificates.base import (
    Certificate,
    certified_covariance,
    guarded,
)
from gausscontrol.certificates.linearisation import in_vech, in_whitened_svec, lyapunov_candidate
from gausscontrol.certificates.region_ground import Ground
from gausscontrol.certificates.region_identity import Witness
from gausscontrol.certificates.region_search import LARGEST_DIM, LARGEST_PROGRAM
from gausscontrol.certificates.rigorous.region import prove_region
from gausscontrol.errors import NotCertified, ShapeError
from gausscontrol.linalg.symmetric import covariance_matrix, svec, whitening
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.arguments import choice

__all__ = ["RegionOfAttraction", "certify_region_of_attraction"]

METHODS = ("auto", "norm", "sos")
# Relative change of P on the way to vech coordinates and back that is accepted.
PORTABLE = 1e-3
# Up to this size "auto" solves semidefinite programmes: seconds at d = 4, minutes at d = 5.
AUTO_PROGRAM = 4


@dataclass(frozen=True, eq=False)
class RegionOfAttraction(Certificate):
    """Every covariance in a sublevel set of V converges.

    The margin is a rate: V decreases at least like exp(-margin t) on the whole region. [1/t]

    Attributes
    ----------
    covariance : (d, d) ndarray
        The computed equilibrium. [x]^2
    lyapunov_matrix : (n, n) ndarray
        P of V(Sigma) = e^T P e with e = vech(Sigma - covariance). [1/x^4]
    level : float
        The region is {V < level}, an ellipsoid inside the cone of positive definite matrices.
    radius : float
        Of the largest ball around the equilibrium inside the region, in whitened Frobenius norm;
        below 1, for I - u u^T is singular.
    method : str
        "norm" or "sos".
    mean_stable : bool
        Whether M(Sigma*) + Vbar is verified to be Hurwitz; then every mean converges too,
        wherever it starts.
    witness : Witness or None
        The Gram matrices of an "sos" region, which its check reads.
    """

    covariance: np.ndarray
    lyapunov_matrix: np.ndarray
    level: float
    radius: float
    method: str
    mean_stable: bool
    witness: Witness | None

    def lyapunov_function(self, Sigma: Any) -> float:
        """Return V(Sigma) = e^T P e.

        e = vech(Sigma - covariance).

        Parameters
        ----------
        Sigma : (d, d) array_like
            [x]^2

        Returns
        -------
        float
            Decreases along every solution in the region, if centred at the exact equilibrium.

        Raises
        ------
        ParameterError
            If Sigma is no covariance.

        Notes
        -----
        Theory 4.6.
        """
        dim = len(self.covariance)
        R, _ = self._whitening
        E = R @ (covariance_matrix(Sigma, "Sigma", dim) - self.covariance) @ R
        return float(self.level_of(E))

    def level_of(self, E: np.ndarray) -> np.ndarray:
        """Return V for many whitened deviations at once.

        Parameters
        ----------
        E : (N, d, d) or (d, d) array_like
            R (Sigma - covariance) R, with R the inverse square root of the covariance.

        Returns
        -------
        (N,) ndarray
            A single number, of shape (), for one E.

        Raises
        ------
        ShapeError
            If E has another shape.
        """
        E = np.asarray(E, dtype=float)
        size = self.covariance.shape
        if E.ndim not in (2, 3) or E.shape[-2:] != size:
            raise ShapeError(
                f"E: expected shape (N, {size[0]}, {size[0]}) or {size}, found {E.shape}; "
                "pass whitened deviations R (Sigma - covariance) R"
            )
        e = svec(np.moveaxis(E, (-2, -1), (0, 1)))
        return np.einsum("i...,ij,j...->...", e, self._whitened_matrix, e)

    def contains(self, Sigma: Any) -> bool:
        """Tell whether a covariance lies in the certified region.

        Parameters
        ----------
        Sigma : (d, d) array_like
            [x]^2

        Returns
        -------
        bool
            True: a solution that starts there converges. False says nothing.

        Raises
        ------
        ParameterError
            If Sigma is no covariance.
        """
        return self.lyapunov_function(Sigma) < self.level

    @cached_property
    def _whitening(self) -> tuple[np.ndarray, np.ndarray]:
        return whitening(self.covariance)

    @cached_property
    def _whitened_matrix(self) -> np.ndarray:
        return in_whitened_svec(self.lyapunov_matrix, self.covariance)

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        whose = "" if self.mean_stable else "the covariance of "
        return f"{whose}every Gaussian with V(Sigma_0) < {self.level:.6g} tends to the equilibrium"

    def _recheck(self) -> float:
        """Repeat the check from the model, the covariance, P, the level and the witness."""
        ground = Ground(self.model, self.covariance, self.lyapunov_matrix)
        repeated = (
            not self.model.dt
            and self.method == ("norm" if self.witness is None else "sos")
            and self.radius <= ground.ball(self.level) * (1 + 1e-9)
            and ground.mean_stable >= self.mean_stable
        )
        return ground.margin(self.level, self.witness) if repeated else -np.inf

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        return prove_region(self)

    def details(self) -> list[str]:
        """Return the lines of the report on method, region and ball."""
        return [
            f"  method  {self.method}",
            f"  region  V < {self.level:.6g}, V(Sigma) = e^T P e, e = vech(Sigma - Sigma*)",
            f"  ball    |Sigma - Sigma*| < {self.radius:.4g} in whitened Frobenius norm",
        ]


@guarded
def certify_region_of_attraction(
    model: GaussianTransformer, equilibrium: Any, *, method: str = "auto"
) -> RegionOfAttraction:
    """Certify a set of covariances that converge.

    With J the covariance linearisation, J^T P + P J = -I in whitened coordinates (P = I where
    J + J^T < 0) and V = e^T P e, a level is certified such that every solution of (1) with
    V(Sigma_0) < level exists for all depths and tends to the equilibrium. The region lies in the
    cone of positive definite matrices, whatever the level, so its radius is below 1 in whitened
    coordinates.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2
    method : {"auto", "norm", "sos"}, optional
        "norm": V' < 0 where |E| < lambda_min(Q) / (4 sum_h |V_h| |B_h| |P|), in closed form; "sos":
        the largest level for which -V' is shown to be positive by sums of squares, found by
        semidefinite programmes for d <= 5 (a fraction of a second at d = 2, seconds at d = 3 and
        4, minutes at d = 5) and of a simple kind in closed form up to d = 8; "auto": the larger
        of both, with the simple kind from d = 5 on, and the norm bound beyond d = 8.

    Returns
    -------
    RegionOfAttraction
        Of the covariance; the mean needs no region, `scope` says whether it converges too.

    Raises
    ------
    NotCertified
        If the linearisation is not Hurwitz by more than rounding, no exact equilibrium is proven
        nearby, sums of squares certify nothing, or the depth is discrete.
    ParameterError
        If the method is unknown or the covariance is not positive definite.

    Notes
    -----
    Theory 4.6, 4.8, 9.1. The region does not change under head gauge.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> A, B, V = [[1.0, 2.0], [-2.0, -0.2]], np.diag([1.0, -0.2]), -np.eye(2)
    >>> model = gct.GaussianTransformer(A, B, V)
    >>> region = gct.certify_region_of_attraction(model, gct.find_equilibrium(model))
    >>> region.method, region.scope, round(region.radius, 2)
    ('sos', 'covariance and mean', 0.26)
    >>> region.contains(np.diag([1.1, 0.9])), region.contains(np.diag([1.0, 9.0]))
    (True, False)
    """
    Sigma = certified_covariance(model, equilibrium)
    choice(method, "method", METHODS)
    if model.dt:
        raise NotCertified(
            f"dt: regions of attraction are certified for continuous depth, found dt = "
            f"{model.dt:g}; use certify_local_stability, certify_semiglobal_stability or "
            "model.replace(dt=0)"
        )
    if method == "sos" and model.dim > LARGEST_DIM:
        raise NotCertified(
            f"method: 'sos' is for d <= {LARGEST_DIM}, found d = {model.dim}, where its matrices "
            "are too large; use method='norm'"
        )
    P = _portable(lyapunov_candidate(model, Sigma), Sigma)
    ground = Ground(model, Sigma, P)
    level, witness = _largest_level(ground, method, model.dim)
    margin = ground.margin(level, witness)
    if not margin > 0:
        raise NotCertified(_shortfall(method), margin=margin)
    return RegionOfAttraction(
        model=model,
        margin=margin,
        data={
            "existence_radius": ground.existence_radius,
            "decay": ground.decay / ground.largest,
            "norm_level": ground.norm_level,
        },
        covariance=Sigma,
        lyapunov_matrix=P,
        level=level,
        radius=ground.ball(level),
        method="norm" if witness is None else "sos",
        mean_stable=ground.mean_stable,
        witness=witness,
    )


def _largest_level(ground: Ground, method: str, dim: int) -> tuple[float, Witness | None]:
    """Return the level that a method finds, and what its check reads."""
    if method == "norm" or dim > LARGEST_DIM:
        return ground.norm_level, None
    found = ground.sos_level(LARGEST_PROGRAM if method == "sos" else AUTO_PROGRAM)
    if method == "sos" or found[0] > ground.norm_level:
        return found
    return ground.norm_level, None


def _portable(P: np.ndarray, Sigma: np.ndarray) -> np.ndarray:
    """Return P in vech coordinates, refusing a Sigma in whose units it loses its digits."""
    stored = in_vech(P, Sigma)
    lost = np.linalg.norm(in_whitened_svec(stored, Sigma) - P) / np.linalg.norm(P)
    if not lost <= PORTABLE:
        raise NotCertified(
            f"equilibrium: its condition number {np.linalg.cond(Sigma):.1g} is too large for a "
            "Lyapunov matrix in its units; use better scaled coordinates, model.transform(R)"
        )
    return stored


def _shortfall(method: str) -> str:
    if method == "sos":
        return (
            "method: sums of squares certify no region around this equilibrium; use method='norm'"
        )
    return (
        "equilibrium: its region is smaller than the distance to the exact equilibrium or rounding "
        "in V allows; polish it with find_equilibrium(model, guess)"
    )
