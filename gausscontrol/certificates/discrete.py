"""Residual layers, dt = tau > 0: convergence from a set of covariances (Theory 4.10).

    Sigma+ = D Sigma D^T,   D = I + tau M(Sigma),   M(Sigma*) = 0
    W(Sigma) <= W(Sigma_0)   =>   Sigma_k -> Sigma*,     for every tau below a bound

W of Theory 4.1 decreases on a whole sublevel set once tau is small enough; never on all of the
cone, since one layer can overshoot from far away. Local stability of layers is in `contraction`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from gausscontrol.analysis.enclosure import WhitenedPoint
from gausscontrol.analysis.form import form_maximum, form_tolerance
from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.certificates.base import Certificate, certified_covariance, guarded
from gausscontrol.certificates.contraction import schur_margin
from gausscontrol.certificates.divergence import divergence
from gausscontrol.errors import NotCertified, ParameterError
from gausscontrol.linalg.symmetric import (
    covariance_matrix,
    vech_index,
    whitening,
)
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["SemiglobalStability", "certify_semiglobal_stability"]

# A drift M(Sigma*) this small against its terms counts as balanced.
BALANCED = 1e-9
# |M(Sigma*)| relative to alpha |E| beyond which the certificate speaks.
DEFECT_SHARE = 1e-6
# Largest resolution, a whitened distance, at which a certificate still says something.
COARSEST = 1e-2


@dataclass(frozen=True, eq=False)
class SemiglobalStability(Certificate):
    """Every covariance in a sublevel set of W converges.

    Of residual layers, dt > 0.

    Attributes
    ----------
    covariance : (d, d) ndarray
        The balanced equilibrium. [x]^2
    level : float
        The set is {W <= level}, with W of `lyapunov_function`.
    largest_step : float
        Every dt below this serves the whole set. [t]
    resolution : float
        Whitened Frobenius distance from the equilibrium down to which W is certified to decrease;
        it reflects how exactly M(Sigma*) = 0 holds.
    mean_stable : bool
        Whether I + dt (M(Sigma*) + Vbar) is verified to have spectral radius below 1.
    """

    covariance: np.ndarray
    level: float
    largest_step: float
    resolution: float
    mean_stable: bool

    def lyapunov_function(self, Sigma: Any) -> float:
        """Return W(Sigma), as in `GlobalStability.lyapunov_function`.

        Parameters
        ----------
        Sigma : (d, d) array_like
            Positive definite. [x]^2

        Returns
        -------
        float

        Raises
        ------
        ParameterError
            If Sigma is not positive definite.
        """
        return divergence(self.covariance, Sigma)

    def contains(self, Sigma: Any) -> bool:
        """Tell whether a covariance lies in the certified set.

        Parameters
        ----------
        Sigma : (d, d) array_like
            Positive definite. [x]^2

        Returns
        -------
        bool

        Raises
        ------
        ParameterError
            If Sigma is not positive definite.
        """
        return self.lyapunov_function(Sigma) <= self.level

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        return (
            f"under layers of depth {self.model.dt:g} every covariance with W <= {self.level:.6g} "
            "tends to the equilibrium, to the resolution at which it is balanced"
        )

    def _recheck(self) -> float:
        """Repeat the check from the model, the covariance and the level."""
        step, data = _semiglobal_step(self.model, self.covariance, self.level)
        mean = _mean_converges(self.model, self.covariance, data["resolution"])
        repeated = (
            self.model.dt > 0
            and (1 - 1e-9) * self.largest_step <= step
            and data["resolution"] <= (1 + 1e-9) * self.resolution
            and mean >= self.mean_stable
        )
        return step - self.model.dt if repeated else -np.inf

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        return [
            f"  set     W <= {self.level:.6g}",
            f"  step    dt = {self.model.dt:g}, certified below {self.largest_step:.6g}",
        ]


@guarded
def certify_semiglobal_stability(
    model: GaussianTransformer, equilibrium: Any, Sigma0: Any
) -> SemiglobalStability:
    """Certify convergence of residual layers from a set.

    The set is the sublevel set {W <= W(Sigma0)} of W(Sigma) = tr(X Sigma) - log det(X Sigma) - d,
    X the inverse of Sigma*. With alpha of Theory 4.2, t = |T| in whitened coordinates and l the
    root of l - 1 - log l = W(Sigma0) above 1, W decreases on it if dt t sqrt(d) (l - 1) <= 1/2
    and dt < 2 alpha / (t^2 (2 + l)).

    Parameters
    ----------
    model : GaussianTransformer
        dt > 0.
    equilibrium : Equilibrium or (d, d) array_like
        Balanced: M(Sigma*) = 0. [x]^2
    Sigma0 : (d, d) array_like
        Positive definite; the set is as large as it needs to be to hold it. [x]^2

    Returns
    -------
    SemiglobalStability

    Raises
    ------
    NotCertified
        If the equilibrium is not balanced, the attention form not negative definite, or dt too
        large for the set; the message says which dt would do.
    ParameterError
        If dt = 0, or a covariance is not positive definite.

    Notes
    -----
    Theory 4.10.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2), dt=0.01)
    >>> certificate = gct.certify_semiglobal_stability(model, 2 * np.eye(2), 6 * np.eye(2))
    >>> certificate.largest_step > 0.01
    True
    """
    Sigma = certified_covariance(model, equilibrium)
    start = covariance_matrix(Sigma0, "Sigma0", model.dim)
    whitening(start, "Sigma0")
    if not model.dt:
        raise ParameterError(
            "dt: expected residual layers, found continuous depth; "
            "use certify_global_stability, or model.replace(dt=...)"
        )
    level = divergence(Sigma, start)
    step, data = _semiglobal_step(model, Sigma, level)
    if not step > model.dt:
        raise NotCertified(_too_large(model, step, data), margin=step - model.dt)
    mean_stable = _mean_converges(model, Sigma, data["resolution"])
    return SemiglobalStability(
        model=model,
        margin=step - model.dt,
        data=data,
        covariance=Sigma,
        level=level,
        largest_step=step,
        resolution=data["resolution"],
        mean_stable=mean_stable,
    )


def _mean_converges(model: GaussianTransformer, Sigma: np.ndarray, resolution: float) -> bool:
    """Tell whether the mean contracts at every covariance within the resolution."""
    point = WhitenedPoint(model, Sigma)
    matrix = np.eye(model.dim) + model.dt * (point.drift + point.white.heads.total)
    reach = resolution + point.offset
    change = point.bound * reach + point.drift_error + point.total_error
    return schur_margin(matrix, model.dt * change) > 0


def _semiglobal_step(
    model: GaussianTransformer, Sigma: np.ndarray, level: float
) -> tuple[float, dict[str, Any]]:
    """Return the largest dt that is certified on {W <= level}, at most 0 if none is."""
    white = model.whiten(Sigma)
    nu = white.heads.norm_bound()
    rounding = 8 * white.dim * np.finfo(float).eps * nu
    if white.dim > DENSE_DIM:
        rounding += form_tolerance(white.dim) * nu
    alpha = -form_maximum(white) - rounding
    M = white.A + white.heads.attention(np.eye(white.dim))
    defect = float(np.linalg.norm(M)) + rounding * np.sqrt(white.dim)
    data = {"alpha": alpha, "drift": defect, "resolution": np.inf}
    if not alpha > 0 or not defect <= BALANCED * (np.linalg.norm(white.A) + nu):
        return min(alpha, 0.0), data
    share = DEFECT_SHARE * alpha
    if not defect <= COARSEST * share:
        return 0.0, data
    size = _attention_norm(white) + share
    bound = _largest_eigenvalue(level)
    spread = np.sqrt(white.dim) * (bound - 1) if bound > 1 else 0.0
    limits = [2 * (alpha - share) / (size**2 * (2 + bound))]
    if spread > 0:
        limits.append(0.5 / (size * spread))
    data |= {"norm": size, "largest_eigenvalue": bound, "resolution": defect / share}
    return float(min(limits)) * (1 - 1e-12), data


def _attention_norm(white: GaussianTransformer) -> float:
    """Return the norm of E -> T(E) from symmetric matrices to all matrices, Frobenius."""
    index = vech_index(white.dim)
    full = np.einsum("hik,hlj->ijkl", white.V, white.B)
    both = (full + full.transpose(0, 1, 3, 2)) / 2
    columns = both[:, :, index.rows, index.columns] * index.weight
    return float(np.linalg.norm(columns.reshape(white.dim**2, -1), 2))


def _largest_eigenvalue(level: float) -> float:
    """Return l >= 1 with l - 1 - log l = level, rounded up."""
    if level <= 0:
        return 1.0
    upper = 2 + 2 * level
    while upper - 1 - np.log(upper) < level:
        upper *= 2
    root = brentq(lambda l: l - 1 - np.log(l) - level, 1.0, upper, xtol=1e-13, rtol=1e-13)
    return float(root) * (1 + 1e-9)


def _too_large(model: GaussianTransformer, step: float, data: dict[str, Any]) -> str:
    if not data["alpha"] > 0:
        return (
            f"equilibrium: the attention form is not negative definite (alpha = "
            f"{data['alpha']:.4g}), so no step is certified; see certify_local_stability"
        )
    if not step > 0:
        return (
            f"equilibrium: expected a balanced one, M(Sigma*) = 0, found |M(Sigma*)| = "
            f"{data['drift']:.3g} in whitened coordinates; see certify_local_stability"
        )
    return (
        f"dt: {model.dt:g} is too large for this set, which is certified for dt below "
        f"{step:.4g}; use smaller layers or a start nearer the equilibrium"
    )
