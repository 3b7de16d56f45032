"""How far the parameters may move before a verdict is lost (Theory 7.1b).

    |A' - A| <= r,   |V'_h - V_h| <= r,   |B'_h - B_h| <= r   for every head h

in spectral norm and in the original coordinates, all at once and independently of one another; or
each of them by at most a share r of the norm of the matrix that moves. Within the largest r found
there is an equilibrium near the old one, and either the attention form stays negative definite
there ("global") or the inequality of one Lyapunov matrix persists ("local"). What is left of the
inequality decreases in r, so r is found by bisection, and the inequality is evaluated again at the
r that is returned. Continuous depth; b and k do not act on the covariance and may be anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gausscontrol.certificates.base import Certificate, certified_covariance, guarded
from gausscontrol.certificates.linearisation import in_vech, in_whitened_svec
from gausscontrol.certificates.persistence import Persistence
from gausscontrol.certificates.perturbation import Moves
from gausscontrol.errors import NotCertified
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Robustness", "robustness_radius"]

# Share of the largest radius that is returned, so that a margin is left.
KEPT = 0.999
BISECTIONS = 16
# Radii below this against the sizes of the matrices are rounding.
SMALLEST = 1e-14


@dataclass(frozen=True, eq=False)
class Robustness(Certificate):
    """How far A, V and B may move before stability is lost.

    Attributes
    ----------
    covariance : (d, d) ndarray
        The computed equilibrium of the model. [x]^2
    kind : str
        "global": every model within the radius has one equilibrium that attracts every Sigma_0 > 0;
        "local": it has an equilibrium near the old one that attracts what is near it.
    radius : float
        Spectral norm by which A, every V_h and every B_h may move, all at once, in the original
        coordinates: [1/t] for A and V, [1/x^2] for B.
    relative_radius : float
        The same where each matrix moves by a share of its own spectral norm; unlike `radius` it
        does not depend on units or on head gauge.
    displacement : float
        The new equilibrium lies within this Frobenius distance of `covariance`, for every model
        within `radius`. [x]^2
    mean_radius : float
        Up to this radius M + Vbar stays Hurwitz too; at most `radius`, 0 if it is not verified to
        be Hurwitz at the model itself.
    lyapunov_matrix : (n, n) ndarray or None
        For "local", the Lyapunov matrix in vech coordinates that serves all models.
    """

    covariance: np.ndarray
    kind: str
    radius: float
    relative_radius: float
    displacement: float
    mean_radius: float
    lyapunov_matrix: np.ndarray | None

    def covers(self, other: GaussianTransformer) -> bool:
        """Tell whether the verdict carries over to a nearby model.

        Evaluates the inequality for the norms by which the matrices of this model differ, each by
        itself, which reaches further than `radius` and `relative_radius`.

        Parameters
        ----------
        other : GaussianTransformer
            Of the same dimension and number of heads, such as a quantised copy.

        Returns
        -------
        bool

        Raises
        ------
        ParameterError
            If the sizes differ or depth is discrete.
        """
        return bool(np.isfinite(self.displacement_of(other)))

    def displacement_of(self, other: GaussianTransformer) -> float:
        """Bound how far the equilibrium of a model is from `covariance`.

        Parameters
        ----------
        other : GaussianTransformer
            Of the same dimension and number of heads.

        Returns
        -------
        float
            In Frobenius norm [x]^2; infinite if the model is not covered.

        Raises
        ------
        ParameterError
            If the sizes differ or depth is discrete.
        """
        moves = Moves.between(self.model, other)
        test = Persistence(self.model, self.covariance, self._witness)
        found = test.at(moves, 1.0)
        return test.point.distance(found.shift) if found.margin > 0 else np.inf

    @property
    def _witness(self) -> np.ndarray | None:
        if self.lyapunov_matrix is None:
            return None
        return in_whitened_svec(self.lyapunov_matrix, self.covariance)

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        moves = (
            f"A, every V_h and every B_h may move by {self.radius:.4g} in spectral norm, or by "
            f"{100 * self.relative_radius:.4g} % of their own, and "
        )
        if self.kind == "global":
            return moves + "one equilibrium still attracts every covariance Sigma_0 > 0"
        return moves + "an equilibrium near this one still attracts every covariance near it"

    @property
    def _holds_for_mean(self) -> bool:
        return self.mean_radius == self.radius

    def _recheck(self) -> float:
        """Repeat the check from the model, the covariance, the radii and P."""
        test = Persistence(self.model, self.covariance, self._witness)
        if self.model.dt or self.kind != ("global" if test.P is None else "local"):
            return -np.inf
        absolute = Moves.equal(self.model)
        found = test.at(absolute, self.radius)
        relative = test.at(Moves.relative(self.model), self.relative_radius)
        repeated = (
            test.point.distance(found.shift) <= self.displacement * (1 + 1e-9)
            and self.mean_radius <= self.radius
            and (self.mean_radius == 0 or test.mean_margin(absolute, self.mean_radius) > 0)
        )
        return min(found.margin, relative.margin) if repeated else -np.inf

    def details(self) -> list[str]:
        """Return the lines that only this report has."""
        return [
            f"  kind    {self.kind}",
            f"  radius  {self.radius:.4g} for |dA|, |dV_h| [1/t] and |dB_h| [1/x^2]",
            f"  mean    up to {self.mean_radius:.4g}",
            f"  or      {100 * self.relative_radius:.4g} % of |A|, |V_h| and |B_h|",
            f"  shift   at most {self.displacement:.4g} [x]^2 within the radius",
        ]


@guarded
def robustness_radius(model: GaussianTransformer, equilibrium: Any) -> Robustness:
    """Certify how far the parameters may move.

    For |A' - A|, |V'_h - V_h|, |B'_h - B_h| <= r (spectral norms, original coordinates, every head)
    an equilibrium persists near the old one, with a negative definite attention form where the
    model has one, else with the same Lyapunov matrix.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2

    Returns
    -------
    Robustness
        `radius`, `relative_radius`, `kind`; `covers(other)` asks about one particular model.

    Raises
    ------
    NotCertified
        If the model itself is not certified as globally (Theory 4.1) or locally stable, or depth
        is discrete.
    ParameterError
        If the covariance is not positive definite.

    Notes
    -----
    Theory 7.1, 7.1b. The radius is a lower bound on what is possible. It concerns the covariance;
    `mean_radius` says how far the mean follows.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    >>> robust = gct.robustness_radius(model, np.eye(2))
    >>> robust.kind, robust.covers(model.replace(V=-1.05 * np.eye(2)))
    ('global', True)
    """
    Sigma = certified_covariance(model, equilibrium)
    if model.dt:
        raise NotCertified(
            f"dt: robustness is certified at continuous depth, found dt = {model.dt:g}; "
            "use model.replace(dt=0), or certify the moved model itself"
        )
    test = Persistence(model, Sigma)
    stored = None
    if test.P is not None:
        # The stored matrix decides, as it will when the check is repeated.
        stored = in_vech(test.P, Sigma)
        test = Persistence(model, Sigma, in_whitened_svec(stored, Sigma))
    absolute, relative = Moves.equal(model), Moves.relative(model)
    radius = _largest(lambda r: test.at(absolute, r).margin > 0, _scale(model))
    share = _largest(lambda r: test.at(relative, r).margin > 0, 1.0)
    if not (radius > 0 and share > 0):
        raise NotCertified(
            "equilibrium: certified, but by too little to let the parameters move beyond rounding; "
            f"the margin is {test.at(absolute, 0.0).margin:.2g}",
            margin=test.at(absolute, 0.0).margin,
        )
    found, other = test.at(absolute, radius), test.at(relative, share)
    mean_radius = radius
    if not test.mean_margin(absolute, radius) > 0:
        mean_radius = _largest(lambda r: test.mean_margin(absolute, r) > 0, radius)
    kind = "global" if test.P is None else "local"
    return Robustness(
        model=model,
        margin=min(found.margin, other.margin),
        data=test.data | {"shift": found.shift, "relative_shift": other.shift},
        covariance=Sigma,
        kind=kind,
        radius=radius,
        relative_radius=share,
        displacement=test.point.distance(found.shift),
        mean_radius=mean_radius,
        lyapunov_matrix=stored,
    )


def _largest(holds: Callable[[float], bool], scale: float) -> float:
    """Return nearly the largest r with holds(r), by bisection; 0 if none beyond rounding."""
    high = scale
    while holds(high):
        high *= 2
    low = high / 2
    while not holds(low):
        high, low = low, low / 2
        if low < SMALLEST * scale:
            return 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return KEPT * low


def _scale(model: GaussianTransformer) -> float:
    moves = Moves.relative(model)
    sizes = [moves.A, *moves.V, *moves.B]
    return float(min(size for size in sizes if size > 0))
