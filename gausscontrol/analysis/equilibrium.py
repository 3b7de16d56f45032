"""An equilibrium of the moment system, checked and described (Theory 3).

    F(Sigma*) = 0,      (M(Sigma*) + Vbar) mu* = -(sum_h V_h Sigma* k_h + b)

An `Equilibrium` carries its relative residual, and computes, once it is asked, its stability and,
where Newton-Kantorovich proves it, a radius within which an exact equilibrium exists: for large
layers these cost more than the equilibrium. How equilibria are found is the matter of `finding`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.analysis.enclosure import WhitenedPoint
from gausscontrol.analysis.newton import Root
from gausscontrol.analysis.singular import leaf_spectrum
from gausscontrol.analysis.spectra import covariance_abscissa, matrix_abscissa
from gausscontrol.display import Report
from gausscontrol.errors import ParameterError
from gausscontrol.linalg.arrays import check_scale, real_vector
from gausscontrol.linalg.symmetric import covariance_matrix, symmetrise, whitening
from gausscontrol.model.moments import MomentField
from gausscontrol.model.stack import check_single_model
from gausscontrol.model.structure import common_key
from gausscontrol.model.transformer import GaussianTransformer

if TYPE_CHECKING:
    from gausscontrol.systems.iosys import MomentSystem

__all__ = [
    "Equilibrium",
    "check_model",
    "check_scales",
    "describe",
    "describe_singular",
    "existence_bounds",
    "place_mean",
]

# An abscissa this small against the linearisation is zero to rounding.
NEUTRAL = 1e-12
# Relative size below which the sign of an eigenvalue is left undecided.
NEARLY_SINGULAR = 1e-12
SINGULAR_MEAN = 1e-13


class LeafFacts(NamedTuple):
    """What is known of an equilibrium of rank below d from the start."""

    existence_radius: float | None
    abscissa: float
    is_stable: bool
    leaf_is_stable: bool
    transverse_abscissa: float
    is_isolated: bool


@dataclass(frozen=True, eq=False)
class Equilibrium(Report):
    """An equilibrium (mu*, Sigma*) of the moment system.

    Attributes
    ----------
    model : GaussianTransformer
    mean : (d,) ndarray or None
        None where M + Vbar is singular and the mean equation has no solution. [x]
    covariance : (d, d) ndarray
        [x]^2
    rank : int
    residual : float
        |F(Sigma*)| over the size of its terms, in whitened coordinates.
    existence_radius : float or None
        An exact equilibrium is proven to exist within this Frobenius distance of `covariance`
        (Theory 3.4), None if the test failed or was not made. [x]^2
    method : str
        "lyapunov", "balanced", "newton", "flow", "pencil" or "zero".
    covariance_abscissa, mean_abscissa : float
        Largest real part of the eigenvalues of the covariance linearisation and of M + Vbar;
        with dt > 0, log(spectral radius)/dt. [1/t]
    covariance_is_stable, mean_is_stable : bool
        Whether the abscissa is negative beyond rounding.
    leaf_is_stable : bool
        For rank below d: whether it attracts nearby covariances of the same rank (Theory 3.5);
        covariance_is_stable for rank d.
    transverse_abscissa : float or None
        For rank below d: the largest real part across the leaf, where perturbations raise the
        rank; covariance_abscissa is the larger of the two. None for rank d. [1/t]
    is_isolated : bool or None
        True when it is the only one of its rank nearby, which is proven for rank d and judged by
        the singular values of the linearisation below; False for a continuum; None when undecided.
    mean_is_unique : bool
    """

    model: GaussianTransformer
    mean: np.ndarray | None
    covariance: np.ndarray
    rank: int
    residual: float
    method: str
    mean_abscissa: float
    mean_is_stable: bool
    mean_is_unique: bool
    _leaf: LeafFacts | None = field(default=None, repr=False)

    _matrices = (("covariance [x]^2", "covariance"),)

    @property
    def covariance_abscissa(self) -> float:
        """Abscissa of the covariance linearisation, [1/t]."""
        return self._spectrum[0]

    @property
    def covariance_is_stable(self) -> bool:
        """Whether the covariance abscissa is negative beyond rounding."""
        return self._spectrum[1]

    @property
    def leaf_is_stable(self) -> bool:
        """Whether it attracts nearby covariances of the same rank."""
        return self.covariance_is_stable if self._leaf is None else self._leaf.leaf_is_stable

    @property
    def transverse_abscissa(self) -> float | None:
        """Abscissa across the leaf, [1/t]; None for rank d."""
        return None if self._leaf is None else self._leaf.transverse_abscissa

    @cached_property
    def existence_radius(self) -> float | None:
        """Proven distance of an exact equilibrium, [x]^2, or None."""
        if self._leaf is not None:
            return self._leaf.existence_radius
        point = WhitenedPoint(self.model, self.covariance)
        return point.distance(point.radius) if np.isfinite(point.radius) else None

    @property
    def is_isolated(self) -> bool | None:
        """Whether it is the only one of its rank nearby; None when undecided."""
        if self._leaf is not None:
            return self._leaf.is_isolated
        return None if self.existence_radius is None else True

    @cached_property
    def _spectrum(self) -> tuple[float, bool]:
        # The abscissa, and whether it is negative beyond rounding.
        if self._leaf is not None:
            return self._leaf.abscissa, self._leaf.is_stable
        point = WhitenedPoint(self.model, self.covariance)
        abscissa = covariance_abscissa(point.white)
        size = np.linalg.norm(point.white.A) + point.bound
        return abscissa, bool(abscissa < -NEUTRAL * size)

    @property
    def is_stable(self) -> bool:
        """Whether both mean and covariance are locally exponentially stable."""
        return self.covariance_is_stable and self.mean_is_stable

    def operating_point(self, system: MomentSystem) -> ct.OperatingPoint:
        """Return the equilibrium as an operating point of a system.

        Parameters
        ----------
        system : MomentSystem
            In covariance form, of the same dimension and with zero offsets at the equilibrium.

        Returns
        -------
        ct.OperatingPoint

        Raises
        ------
        ParameterError
            If the system is in factor form, where the state of an equilibrium may keep rotating,
            or of another dimension, or the mean has no equilibrium.

        Examples
        --------
        >>> import control as ct
        >>> import gausscontrol as gct
        >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
        >>> system = gct.moment_system(model)
        >>> point = gct.find_equilibrium(model).operating_point(system)
        >>> linear = ct.linearize(system, point)
        >>> bool(np.allclose(sorted(linear.poles().real), [-1, -0.25]))
        True
        """
        if system.form == "factor":
            raise ParameterError(
                "system: expected the covariance form, found the factor form, whose state keeps "
                "rotating at an equilibrium; use moment_system(model)"
            )
        if system.dim != self.model.dim:
            raise ParameterError(
                f"system: expected d = {self.model.dim}, found d = {system.dim}; "
                "pass the system of this equilibrium's model"
            )
        if self.mean is None:
            raise ParameterError(
                "mean: the mean equation has no solution, so there is no operating point; "
                "choose b with place_mean"
            )
        x = system.state_vector(self.mean, self.covariance)
        u = np.zeros(system.ninputs)
        return ct.OperatingPoint(states=x, inputs=u, outputs=system.output(0, x, u))

    def __repr__(self) -> str:
        stable = "stable" if self.is_stable else "not stable"
        if self.covariance_is_stable and not self.mean_is_stable:
            stable = "covariance stable, mean not"
        return f"<Equilibrium, d = {self.model.dim}, rank {self.rank}, by {self.method}, {stable}>"

    def __str__(self) -> str:
        kind = f"Equilibrium, d = {self.model.dim}, rank {self.rank}, by {self.method}"
        proven = "existence not proven"
        if self.rank == 0:
            proven = "exact"
        elif self.existence_radius is not None:
            proven = f"proven to exist within {self.existence_radius:.1e} [x]^2"
        values = np.maximum(np.linalg.eigvalsh(self.covariance), 0.0)
        values[: self.model.dim - self.rank] = 0.0
        lines = [
            kind,
            f"  residual             {self.residual:.1e} relative, {proven}",
            f"  mean                 {_short(self.mean)}",
            f"  covariance spectrum  {values[0]:.6g} to {values[-1]:.6g} [x]^2",
            f"  covariance abscissa  {_rate(self.covariance_abscissa, self.covariance_is_stable)}",
            f"  mean abscissa        {_rate(self.mean_abscissa, self.mean_is_stable)}",
        ]
        if self.transverse_abscissa is not None:
            leaf = "stable" if self.leaf_is_stable else "not stable"
            lines += [
                f"  on its leaf          {leaf} among covariances of rank {self.rank}",
                f"  across the leaf      {self.transverse_abscissa:.6g} per unit depth",
            ]
        if self.is_isolated is False:
            lines.append("  one of a continuum of equilibria")
        return "\n".join(lines)


def existence_bounds(model: GaussianTransformer) -> tuple[np.ndarray, np.ndarray] | None:
    """Bound a positive definite equilibrium without solving anything.

    In the coordinates B^(1/2), with a- <= a+ the extreme eigenvalues of A + A^T and v- <= v+
    those of V + V^T: if a- > 0 and v+ < 0, the interval
    (a-/|v-|) B^-1 <= Sigma <= (a+/|v+|) B^-1 holds an equilibrium and attracts every Sigma > 0.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth, one head or heads sharing B up to real factors, B = B^T > 0.

    Returns
    -------
    (lower, upper) : tuple of (d, d) ndarray, or None
        In the original coordinates, [x]^2; None where the conditions do not hold.

    Raises
    ------
    ParameterError
        If `model` is no GaussianTransformer.

    Notes
    -----
    Theory 3.7. A sign that is within 1e-12 of its matrix of being zero counts as undecided.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> lower, upper = gct.existence_bounds(gct.GaussianTransformer(0.5, 1, -0.25))
    >>> print(lower, upper)
    [[2.]] [[2.]]
    """
    check_model(model)
    head = common_key(model)
    if head is None or model.dt:
        return None
    B, V = head
    values = np.linalg.eigvalsh(B)
    if not values[0] > NEARLY_SINGULAR * values[-1]:
        return None
    inverse_root, root = whitening(B, "B")
    a = np.linalg.eigvalsh(2 * symmetrise(root @ model.A @ inverse_root))
    v = np.linalg.eigvalsh(2 * symmetrise(root @ V @ inverse_root))
    if not (a[0] > NEARLY_SINGULAR * np.abs(a).max() and -v[-1] > NEARLY_SINGULAR * -v[0]):
        return None
    inverse = symmetrise(inverse_root @ inverse_root)
    return a[0] / -v[0] * inverse, a[-1] / -v[-1] * inverse


def place_mean(
    model: GaussianTransformer, equilibrium: Equilibrium | ArrayLike, mean: ArrayLike
) -> GaussianTransformer:
    """Return the model whose b puts the equilibrium mean at a target.

    b = -(M(Sigma*) + Vbar) mu* - sum_h V_h Sigma* k_h; the covariance is not affected.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium or (d, d) array_like
        The equilibrium, or its covariance. [x]^2
    mean : (d,) array_like
        Target mu*. [x]

    Returns
    -------
    GaussianTransformer

    Raises
    ------
    ShapeError, ParameterError
        If the covariance or the mean is invalid.

    Notes
    -----
    Theory 3.6.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
    >>> moved = gct.place_mean(model, gct.find_equilibrium(model), [3.0])
    >>> bool(np.allclose(gct.find_equilibrium(moved).mean, 3))
    True
    """
    check_model(model)
    value = equilibrium.covariance if isinstance(equilibrium, Equilibrium) else equilibrium
    Sigma = covariance_matrix(value, "equilibrium", model.dim)
    target = real_vector(mean, "mean", model.dim)
    matrix = model.A + model.heads.attention(Sigma) + model.heads.total
    return model.replace(b=-matrix @ target - model.heads.tilt(Sigma, model.k))


# -- describing what was found --------------------------------------------------------------------


def describe(model: GaussianTransformer, root: Root, method: str) -> Equilibrium:
    """Describe a positive definite solution of F(Sigma) = 0."""
    Sigma = root.covariance
    point = WhitenedPoint(model, Sigma)
    white = point.white
    mean, unique = _mean_solution(point)
    mean_matrix = MomentField.of(white).mean_jacobian(np.eye(model.dim))
    mean_abscissa = matrix_abscissa(mean_matrix, model.dt)
    mean_size = np.linalg.norm(white.A) + point.bound + np.linalg.norm(white.heads.total)
    return Equilibrium(
        model=model,
        mean=mean,
        covariance=Sigma,
        rank=model.dim,
        residual=root.residual,
        method=method,
        mean_abscissa=mean_abscissa,
        mean_is_stable=bool(mean_abscissa < -NEUTRAL * mean_size),
        mean_is_unique=unique,
    )


def describe_singular(model: GaussianTransformer, L: np.ndarray, method: str) -> Equilibrium:
    """Describe an equilibrium Sigma* = L L^T of rank below d."""
    Sigma, flow = symmetrise(L @ L.T), MomentField.of(model)
    attention = model.heads.attention(Sigma)
    size = np.linalg.norm(model.A) + np.linalg.norm(attention)
    spectrum = leaf_spectrum(model, L)
    abscissa = max(spectrum.leaf, spectrum.transverse)
    threshold = -NEUTRAL * (size + model.heads.norm_bound() * np.linalg.norm(Sigma))
    matrices = (model.A, model.A + attention, model.heads.total)
    forcing = model.heads.tilt(Sigma, model.k) + model.b
    mean, unique = _solve_mean(matrices, forcing)
    mean_abscissa = matrix_abscissa(flow.mean_jacobian(Sigma), model.dt)
    rate = np.linalg.norm(_rate_of_change(flow, Sigma))
    terms = 2 * size * np.linalg.norm(Sigma)
    return Equilibrium(
        model=model,
        mean=mean,
        covariance=Sigma,
        rank=L.shape[1],
        residual=float(rate / terms) if terms else 0.0,
        method=method,
        mean_abscissa=mean_abscissa,
        mean_is_stable=bool(mean_abscissa < -NEUTRAL * (size + np.linalg.norm(model.heads.total))),
        mean_is_unique=unique,
        _leaf=LeafFacts(
            existence_radius=None if L.size else 0.0,
            abscissa=abscissa,
            is_stable=bool(abscissa < threshold),
            leaf_is_stable=bool(spectrum.leaf < threshold),
            transverse_abscissa=spectrum.transverse,
            is_isolated=spectrum.is_isolated,
        ),
    )


def _rate_of_change(field: MomentField, Sigma: np.ndarray) -> np.ndarray:
    rate = field.covariance_rate(Sigma)
    if not field.dt:
        return rate
    M = field.drift(Sigma)
    return rate + field.dt * M @ Sigma @ M.T


def _mean_solution(point: WhitenedPoint) -> tuple[np.ndarray | None, bool]:
    """Solve the mean equation in whitened coordinates, where "singular" has no unit."""
    white = point.white
    forcing = white.heads.tilt(np.eye(white.dim), white.k) + white.b
    mean, unique = _solve_mean((white.A, point.drift, white.heads.total), forcing)
    return None if mean is None else point.root @ mean, unique


def _solve_mean(
    sizes: tuple[np.ndarray, np.ndarray, np.ndarray], forcing: np.ndarray
) -> tuple[np.ndarray | None, bool]:
    """Solve (M + Vbar) mu = -forcing, given (A, M, Vbar); tell whether it is unique."""
    _, drift, total = sizes
    U, values, Wt = np.linalg.svd(drift + total)
    large = values > SINGULAR_MEAN * len(drift) * max(np.linalg.norm(M, 2) for M in sizes)
    weights = U.T @ -forcing
    mean = Wt[large].T @ (weights[large] / values[large])
    if large.all():
        return mean, True
    missed = np.linalg.norm(weights[~large]) > 1e-10 * np.linalg.norm(forcing)
    return None if missed else mean, False


# -- arguments and words --------------------------------------------------------------------------


def check_model(model: Any) -> None:
    """Refuse anything but a GaussianTransformer."""
    if isinstance(model, ct.InputOutputSystem):
        raise ParameterError(
            f"model: expected a GaussianTransformer, found the system {type(model).__name__}; pass "
            "its model, or find where the system rests with ct.find_operating_point (a "
            "feed-forward part closed at one Gaussian is a model: FeedForward.frozen)"
        )
    check_single_model(model)


def check_scales(model: Any) -> None:
    """Refuse anything but a GaussianTransformer whose squares neither overflow nor vanish."""
    check_model(model)
    check_scale(model.A, "A")
    for array, name in ((model.B, "B"), (model.V, "V")):
        for head, matrix in enumerate(array):
            check_scale(matrix, f"{name}[{head}]" if len(array) > 1 else name)


def _rate(abscissa: float, stable: bool) -> str:
    return f"{abscissa:.6g} per unit depth, {'stable' if stable else 'not stable'}"


def _short(vector: np.ndarray | None) -> str:
    if vector is None:
        return "none: the mean equation has no solution"
    shown = ", ".join(f"{value:.6g}" for value in vector[:6])
    return f"({shown}{', ...' if vector.size > 6 else ''}) [x]"
