"""Linear analysis of the moment system around an equilibrium (Theory 2.3, 4.2, 7.1c).

    d/dt (dmu, dSigma) = [ M + Vbar   * ] (dmu, dSigma) + B_u u,     y = C (dmu, dSigma)
                         [    0       L ]

Everything is computed from the exact linearisation with slycot. At an unstable point norms and
Gramians do not exist: they are None, and `reasons` says why. For dt > 0 the bilinear transform
carries the discrete system to a continuous one with the same Gramians and H-infinity norm. Beyond
d = 32 the covariance block is not a matrix any more: see `reduced` for what is then done instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import control as ct
import numpy as np

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.finding import find_equilibria, find_equilibrium
from gausscontrol.analysis.form import form_maximum
from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.analysis.linear_report import analysis_text
from gausscontrol.analysis.lyapunov import LyapunovSolution, lyapunov_solution
from gausscontrol.analysis.realisation import Realisation, bilinear
from gausscontrol.analysis.reduced import mean_block, state_count
from gausscontrol.analysis.sensitivity import covariance_shift, sensitivity
from gausscontrol.analysis.spectra import rightmost_poles
from gausscontrol.display import Report
from gausscontrol.errors import GausscontrolError, MatrixEquationError, ParameterError
from gausscontrol.linalg import measures
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.iosys import moment_system

__all__ = ["EquilibriumAnalysis", "analyze"]

# Norms and Gramians cost tens of n^3 operations; beyond this many states they are refused.
LARGEST_SYSTEM = 400
# The stability radius takes a bisection of eigenvalue problems of twice the size.
LARGEST_RADIUS = 80
BIAS_INPUTS = frozenset({"b", "k"})


@dataclass(frozen=True, eq=False)
class EquilibriumAnalysis(Report):
    """Linear analysis of a moment system at an equilibrium.

    Made by `analyze`; figures are computed when they are asked for. Beyond d = 32 it is
    matrix-free: `system` is the mean block alone, which is all that the inputs b and k reach, with
    its exact norms and Gramians; `poles` has all of the mean but only the rightmost ones of the
    covariance, and `lyapunov`, `stability_radius` and `sensitivity` are refused with the limit.

    Attributes
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium
    inputs : tuple of str
        Parameters that act as inputs.
    system : ct.StateSpace
        The exact linearisation, with signal names; of the mean alone if `matrix_free`.
    reasons : dict
        Why a figure is None, by its name; filled as figures are asked for.
    """

    model: GaussianTransformer
    equilibrium: Equilibrium
    inputs: tuple[str, ...]
    system: ct.StateSpace
    reasons: dict[str, str]

    # -- eigenvalues ------------------------------------------------------------------------------

    @property
    def matrix_free(self) -> bool:
        """Whether the covariance block is too large to be a matrix, d > 32."""
        return self.model.dim > DENSE_DIM

    @cached_property
    def poles(self) -> np.ndarray:
        """Eigenvalues of the linearisation, rightmost first. [1/t] (none for dt > 0).

        If `matrix_free`, all of the mean and a few rightmost ones of the covariance; where these
        are clustered beyond resolution or the rank is below d, its abscissa stands for them.
        """
        # Block triangular: two smaller problems give more accurate eigenvalues.
        values = np.concatenate([self.mean_poles, self.covariance_poles])
        key = -np.abs(values) if self.model.dt else -values.real
        return values[np.argsort(key, kind="stable")]

    @property
    def mean_poles(self) -> np.ndarray:
        """Eigenvalues of the mean block. [1/t] (none for dt > 0)."""
        dim = self.model.dim
        return np.linalg.eigvals(self.system.A[:dim, :dim])

    @cached_property
    def covariance_poles(self) -> np.ndarray:
        """Eigenvalues of the covariance block; a few rightmost ones if `matrix_free`. [1/t]."""
        if not self.matrix_free:
            dim = self.model.dim
            return np.linalg.eigvals(self.system.A[dim:, dim:])
        abscissa = self.covariance_abscissa
        fallback = np.array([np.exp(abscissa * self.model.dt) if self.model.dt else abscissa])
        if self.equilibrium.rank < self.model.dim:
            return fallback
        try:
            return rightmost_poles(self.model.whiten(self.equilibrium.covariance))
        except GausscontrolError as error:
            self.reasons["poles"] = str(error)
            return fallback

    @property
    def covariance_abscissa(self) -> float:
        """Largest real part among the covariance poles; log(radius)/dt for dt > 0. [1/t]."""
        return self.equilibrium.covariance_abscissa

    @property
    def mean_abscissa(self) -> float:
        """Largest real part among the mean poles; log(radius)/dt for dt > 0. [1/t]."""
        return self.equilibrium.mean_abscissa

    @property
    def abscissa(self) -> float:
        """The larger of the two. [1/t]."""
        return max(self.covariance_abscissa, self.mean_abscissa)

    @property
    def is_stable(self) -> bool:
        """Whether the equilibrium is locally exponentially stable."""
        return self.equilibrium.is_stable

    @cached_property
    def _rates(self) -> np.ndarray:
        # Poles as continuous rates.
        if not self.model.dt:
            return self.poles.astype(complex)
        with np.errstate(divide="ignore"):
            return np.log(self.poles.astype(complex)) / self.model.dt

    @cached_property
    def damping(self) -> np.ndarray:
        """Damping table, (n, 3): pole (as a rate), natural frequency, damping ratio. [1/t]."""
        rates = self._rates
        frequency = np.abs(rates)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(frequency > 0, -rates.real / frequency, 1.0)
        return np.stack([rates, frequency, ratio], axis=1)

    @cached_property
    def time_constants(self) -> np.ndarray:
        """-1 / Re(pole) for every pole, infinite on the imaginary axis, slowest first. [t]."""
        with np.errstate(divide="ignore"):
            return -1 / self._rates.real

    # -- Lyapunov and the form --------------------------------------------------------------------

    @cached_property
    def lyapunov(self) -> LyapunovSolution | None:
        """Lyapunov matrix of the linearisation with its verified margin."""
        return self._figure("lyapunov", self._lyapunov)

    def _lyapunov(self) -> LyapunovSolution:
        self._check_matrix("a Lyapunov matrix", "certify_local_stability")
        return lyapunov_solution(self.system.A, self.model.dt)

    @cached_property
    def attention_form_margin(self) -> float | None:
        """Margin alpha of Theory 4.2. [1/t].

        Positive means that the covariance is globally stable; for dt > 0 it certifies a set
        instead, see `certify_semiglobal_stability`. None where the covariance is singular.
        """
        if self.equilibrium.rank < self.model.dim:
            self.reasons["attention_form_margin"] = "the covariance is singular"
            return None
        return -form_maximum(self.model.whiten(self.equilibrium.covariance))

    @property
    def optimal_form_margin(self) -> float:
        """The bound tr A / d, which alpha cannot exceed. [1/t]."""
        return float(np.trace(self.model.A)) / self.model.dim

    # -- norms and Gramians -----------------------------------------------------------------------

    @cached_property
    def stability_radius(self) -> float | None:
        """Spectral norm of the smallest complex perturbation of A that destabilises it."""
        return self._figure("stability_radius", self._stability_radius, LARGEST_RADIUS)

    def _check_matrix(self, what: str, instead: str) -> None:
        if self.matrix_free:
            states = state_count(self.model)
            raise MatrixEquationError(
                f"{what} of {states} covariance states takes a matrix of {states}^2 numbers, and "
                f"is computed up to d = {DENSE_DIM}; use {instead}"
            )

    def _stability_radius(self) -> float:
        self._check_matrix("the stability radius", "robustness_radius")
        if not self.model.dt:
            return measures.distance_to_instability(self._whole.A)
        identity = np.eye(len(self.system.A))
        zero = np.zeros_like(identity)
        resolvent = bilinear(self.system.A, identity, identity, zero)
        return 1 / measures.hinf_norm(*resolvent)[0]

    @cached_property
    def hinf_norm(self) -> float | None:
        """H-infinity norm from the inputs to the outputs."""
        return self._figure("hinf_norm", lambda: measures.hinf_norm(*self._driven)[0])

    @cached_property
    def h2_norm(self) -> float | None:
        """H2 norm from the inputs to the outputs."""
        return self._figure("h2_norm", self._h2_norm)

    def _h2_norm(self) -> float:
        driven = self._driven
        if not self.model.dt:
            return measures.h2_norm(driven.A, driven.B, driven.C)
        gramian = measures.controllability_gramian(driven.A, driven.B)
        C = self._rows_driven
        return float(np.sqrt(np.trace(C @ gramian @ C.T)))

    @cached_property
    def controllability_gramian(self) -> np.ndarray | None:
        """Controllability Gramian of the full state; of the mean block if `matrix_free`."""
        return self._figure("controllability_gramian", self._controllability_gramian)

    def _controllability_gramian(self) -> np.ndarray:
        driven = self._driven
        gramian = measures.controllability_gramian(driven.A, driven.B)
        full = np.zeros((self.system.nstates, self.system.nstates))
        full[: len(gramian), : len(gramian)] = gramian
        return full

    @cached_property
    def observability_gramian(self) -> np.ndarray | None:
        """Observability Gramian of the full state; of the mean block if `matrix_free`."""
        return self._figure(
            "observability_gramian",
            lambda: measures.observability_gramian(self._whole.A, self._whole.C),
        )

    @cached_property
    def hankel_singular_values(self) -> np.ndarray | None:
        """Hankel singular values, largest first; zero for what inputs cannot reach."""
        return self._figure("hankel_singular_values", self._hankel_singular_values)

    def _hankel_singular_values(self) -> np.ndarray:
        driven = self._driven
        values = measures.hankel_singular_values(driven.A, driven.B, driven.C)
        return np.concatenate([values, np.zeros(self.system.nstates - len(values))])

    @property
    def covariance_is_controllable(self) -> bool:
        """False when every input is b or k, which do not enter Sigma'."""
        return not set(self.inputs) <= BIAS_INPUTS

    @cached_property
    def _whole(self) -> Realisation:
        return self._realise(slice(None))

    @cached_property
    def _driven(self) -> Realisation:
        # Inputs b and k move the mean only, and the mean does not act on Sigma.
        rows = slice(None) if self.covariance_is_controllable else slice(self.model.dim)
        return self._realise(rows)

    @property
    def _rows_driven(self) -> np.ndarray:
        return self.system.C[:, : len(self._driven.A)]

    def _realise(self, rows: slice) -> Realisation:
        s = self.system
        parts = (s.A[rows, rows], s.B[rows], s.C[:, rows], s.D)
        return bilinear(*parts) if self.model.dt else Realisation(*parts)

    def _figure(self, name: str, compute: Callable[[], Any], largest: int = LARGEST_SYSTEM) -> Any:
        if not self.is_stable:
            self.reasons[name] = f"the equilibrium is not stable (abscissa {self.abscissa:.4g})"
            return None
        if self.system.nstates > largest and not self.matrix_free:
            self.reasons[name] = (
                f"{self.system.nstates} states exceed the {largest} this is computed for"
            )
            return None
        try:
            return compute()
        except MatrixEquationError as error:
            self.reasons[name] = str(error)
            return None

    # -- sensitivity and report -------------------------------------------------------------------

    def sensitivity(self, parameter: str) -> np.ndarray:
        """Return dSigma*/dtheta for a parameter.

        Parameters
        ----------
        parameter : {"A", "V", "B", "b", "k"}

        Returns
        -------
        (d, d, ...) ndarray
            The derivative of Sigma* in each entry of the parameter, whose shape follows: (d, d)
            for A, (h, d, d) for V and B. Zero for b and k, which do not enter Sigma'.

        Raises
        ------
        ParameterError
            If the name is unknown, or the linearisation is singular, so that Sigma* is not a
            differentiable function of the parameters, or too large to be a matrix.

        See Also
        --------
        covariance_shift : The derivative in one direction, at any size.

        Notes
        -----
        Theory 7.1c: dSigma*/dtheta = -L^-1 dF/dtheta.
        """
        return sensitivity(self.model, self.equilibrium, parameter)

    def covariance_shift(self, **changes: Any) -> np.ndarray:
        """Return the first-order change of Sigma* with the parameters.

        E with L(E) = -dF, by GMRES: at any size, since L is never formed.

        Parameters
        ----------
        **changes : array_like
            dA (d, d), dV and dB (h, d, d), as A=, V=, B=.

        Returns
        -------
        (d, d) ndarray
            [x]^2

        Raises
        ------
        ParameterError
            If a name or a shape is wrong, or the rank is below d.
        GausscontrolError
            If the linearisation is singular or too ill-conditioned.

        Notes
        -----
        Theory 7.1c.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
        >>> shift = gct.analyze(model).covariance_shift(A=0.01 * np.eye(2))
        >>> bool(np.allclose(shift, 0.02 * np.eye(2)))
        True
        """
        return covariance_shift(self.model, self.equilibrium, changes)

    def __repr__(self) -> str:
        point = self.equilibrium
        slowest = max(point.covariance_abscissa, point.mean_abscissa)
        return (
            f"<EquilibriumAnalysis, d = {self.model.dim}, rank {point.rank}, abscissa "
            f"{slowest:.4g} per unit depth>"
        )

    def __str__(self) -> str:
        return analysis_text(self)


def analyze(
    model: GaussianTransformer,
    equilibrium: Equilibrium | None = None,
    *,
    inputs: str | tuple[str, ...] = ("b",),
    outputs: str | tuple[str, ...] | None = None,
) -> EquilibriumAnalysis:
    """Analyse the linearisation at an equilibrium.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium, optional
        By default the first that `find_equilibria` gives, a stable one if there is any.
    inputs, outputs : str or tuple of str, optional
        As in `moment_system`.

    Returns
    -------
    EquilibriumAnalysis

    Raises
    ------
    EquilibriumNotFound
        If none was given and none is found.
    ParameterError
        If the equilibrium is of another model or has no mean, or beyond d = 32 an input is none of
        b and k.

    Notes
    -----
    Theory 2.3. Up to d = 32 the full linearisation is formed; beyond that the analysis is
    matrix-free, and says so. From the inputs ("b",) the covariance cannot be reached, so norms are
    those of the mean; the report says so.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> analysis = gct.analyze(model)
    >>> bool(np.allclose(analysis.abscissa, -0.5)), bool(np.allclose(analysis.hinf_norm, 2))
    (True, True)
    """
    if equilibrium is None:
        found = find_equilibria(model)
        equilibrium = found[0] if found else find_equilibrium(model)
    if not isinstance(equilibrium, Equilibrium):
        raise ParameterError(
            f"equilibrium: expected an Equilibrium, found {type(equilibrium).__name__}; "
            "make one with find_equilibrium(model, guess)"
        )
    if equilibrium.model != model:
        raise ParameterError(
            "equilibrium: expected one of this model, found one of another; "
            "find it again with find_equilibrium(model, equilibrium.covariance)"
        )
    if model.dim > DENSE_DIM:
        if equilibrium.mean is None:
            raise ParameterError(
                "mean: the mean equation has no solution, so there is no operating point; "
                "choose b with place_mean"
            )
        block, channels = mean_block(model, equilibrium, inputs, outputs)
        return EquilibriumAnalysis(model, equilibrium, channels, block, {})
    system = moment_system(model, inputs=inputs, outputs=outputs, name=model.name)
    linear = system.linearize(equilibrium.operating_point(system), copy_names=True)
    return EquilibriumAnalysis(model, equilibrium, system.channels, linear, {})
