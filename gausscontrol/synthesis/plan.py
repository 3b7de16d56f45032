"""A steering plan: what it is made of, and what it gives (Theory 6a to 6f).

    path t -> (m, L), Sigma = L L^T        from the start to the goal, at constant rank
    M(t) L = L' + L Omega                  one of A, V, B, the others given
    b(t) = m' - (M + Vbar) m - sum V Sigma k

A plan gives parameters at every depth, inputs for python-control, feedback laws, responses and
layers. `steering` makes plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import control as ct
import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.display import Report
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.synthesis import guidance, layers, sensitivity
from gausscontrol.synthesis.actuators import ACTUATORS, Actuation
from gausscontrol.synthesis.crossings import highest
from gausscontrol.synthesis.paths import Geodesic, Path
from gausscontrol.synthesis.reach import rank_note, read_ends
from gausscontrol.systems.response import MomentResponse

__all__ = ["SteeringPlan", "parameter_norm"]

# Depths at which a plan is looked at: for singular actuators, peaks and residuals.
SAMPLES = 101
# Up to this dimension str() computes the amplification.
REPORTED = 16
UNITS = {"b": "x/t", "A": "1/t", "V": "1/t", "B": "1/x^2"}


@dataclass(frozen=True, eq=False)
class SteeringPlan(Report):
    """Depth-varying parameters that turn one Gaussian into another.

    Made by `steer`.

    Attributes
    ----------
    start, goal : tuple
        (mean (d,), covariance (d, d)). [x], [x]^2
    duration : float
        [t]
    actuators : {"feedforward", "attention", "keys"}
    model : GaussianTransformer
        Nominal parameters, which `inputs` are offsets from.
    rank : int
        That of every covariance on the path.
    path : object
        point(t) gives mean, mean_rate, factor and factor_rate; knots, duration, energy.
    actuation : object
        How offsets follow from rates.

    Notes
    -----
    Theory 6a to 6f. Offsets have the least norm that gives the path: Sigma' determines the drift M
    only up to M + K Sigma^-1, K skew, and that freedom is used unless `steer` was told not to.
    """

    start: tuple[np.ndarray, np.ndarray]
    goal: tuple[np.ndarray, np.ndarray]
    duration: float
    actuators: str
    model: GaussianTransformer
    rank: int
    path: Path
    actuation: Actuation

    # -- what the plan is -------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Token dimension d."""
        return self.model.dim

    @property
    def channels(self) -> tuple[str, ...]:
        """What to pass to `moment_system` as inputs: b and the steered parameter."""
        return ("b", ACTUATORS[self.actuators])

    @property
    def knots(self) -> np.ndarray:
        """Depths where the parameters jump, those of the waypoints, (N,). [t]."""
        return np.array(self.path.knots, dtype=float)

    @property
    def energy(self) -> float:
        """Integral over depth of |m'|^2 + |L'|_F^2. [x^2/t].

        L' is the shortest velocity of a factor along the path. On the geodesic this is
        (|m1 - m0|^2 + W2^2 of the covariances) / duration, the least that any path can have.
        """
        return self.path.energy

    @cached_property
    def peak_norms(self) -> dict[str, float]:
        """Largest spectral norms along the depth of b and the steered parameter, by name.

        Looked for at the samples, and followed to the top from the highest of them.
        """
        depths = self.samples
        models = [self.parameters(t) for t in depths]
        peaks = {}
        for key in self.channels:
            norms = np.array([parameter_norm(model, key) for model in models])
            norm = partial(self._norm, key)
            peaks[key] = highest(norm, depths, norms)
        return peaks

    def _norm(self, key: str, t: float) -> float:
        return parameter_norm(self.parameters(t), key)

    @cached_property
    def residual(self) -> float:
        """Largest error of the right side of (1) along the plan, relative.

        |F(Sigma) - Sigma'|_F over |Sigma'|_F + |Sigma|_F / duration, and the same for the mean.
        """
        return max(sensitivity.residual(self, float(t)) for t in self.samples)

    @cached_property
    def amplification(self) -> float:
        """How much the open loop amplifies rounding, an estimate.

        A relative error of the moments made anywhere along the plan, and kept by parameters that
        do not react to it, becomes at most this many times as large at the goal, to first order.
        Above about 1e6 the response and the layers should be used rather than the open loop.
        """
        return sensitivity.amplification(self)

    @cached_property
    def samples(self) -> np.ndarray:
        """Depths at which peaks and residuals are looked for, (N,). [t]."""
        return np.union1d(np.linspace(0, self.duration, SAMPLES), self.knots)

    def mean(self, t: ArrayLike) -> np.ndarray:
        """Return the planned mean.

        Parameters
        ----------
        t : float or (N,) array_like
            Depths from 0 to the duration. [t]

        Returns
        -------
        (d,) or (d, N) ndarray
            [x]

        Raises
        ------
        ParameterError
            If a depth lies outside the plan.
        """
        return self._along(t, "mean")

    def covariance(self, t: ArrayLike) -> np.ndarray:
        """Return the planned covariance.

        Parameters
        ----------
        t : float or (N,) array_like
            Depths from 0 to the duration. [t]

        Returns
        -------
        (d, d) or (d, d, N) ndarray
            [x]^2

        Raises
        ------
        ParameterError
            If a depth lies outside the plan.
        """
        return self._along(t, "covariance")

    def _along(self, t: ArrayLike, name: str) -> np.ndarray:
        depths = self._depths(t)
        if depths.ndim == 0:
            return getattr(self.path.point(float(depths)), name)
        return np.stack([getattr(self.path.point(float(s)), name) for s in depths], axis=-1)

    def _depths(self, t: ArrayLike) -> np.ndarray:
        depths = real_array(t, "t")
        if depths.ndim > 1 or depths.size == 0:
            raise ShapeError(f"t: expected a depth or a vector of depths, found {depths.shape}")
        slack = 1e-9 * self.duration
        if depths.min() < -slack or depths.max() > self.duration + slack:
            raise ParameterError(
                f"t: expected depths from 0 to {self.duration:.6g}, found {depths.min():.6g} to "
                f"{depths.max():.6g}; the plan ends there"
            )
        return np.clip(depths, 0.0, self.duration)

    # -- parameters -------------------------------------------------------------------------------

    def parameters(self, t: float) -> GaussianTransformer:
        """Return the parameters at a depth.

        Parameters
        ----------
        t : float
            From 0 to the duration; at a waypoint those after it. [t]

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        ParameterError
            If the depth lies outside the plan.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> plan = gct.steer(([0.0], [[1.0]]), ([1.0], [[4.0]]), 2)
        >>> print(plan.parameters(0).A, plan.parameters(0).b)
        [[0.5]] [0.5]
        """
        return self._shifted(self._offsets(float(self._depths(t))))

    def inputs(self, timepts: ArrayLike) -> np.ndarray:
        """Return the inputs that replay the plan in python-control.

        Parameters
        ----------
        timepts : (N,) array_like
            Depths from 0 to the duration. [t]

        Returns
        -------
        (ninputs, N) ndarray
            For ``moment_system(plan.model, inputs=plan.channels)``.

        Raises
        ------
        ParameterError
            If a depth lies outside the plan.

        Notes
        -----
        A replay has two errors. `ct.input_output_response` interpolates inputs linearly, so its
        result approaches the plan as the square of the spacing of `timepts`; at `knots` the inputs
        jump, and two close points around each are needed for that. And a replay is an open loop,
        which makes errors of the moments, those of interpolation and rounding, up to
        `amplification` times as large: where that exceeds 1e6, use `controller`, `response` or
        `layers` instead.

        Examples
        --------
        >>> import control as ct
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> plan = gct.steer(([0.0], [[1.0]]), ([1.0], [[4.0]]), 2)
        >>> system = gct.moment_system(plan.model, inputs=plan.channels)
        >>> timepts = np.linspace(0, 2, 201)
        >>> resp = ct.input_output_response(
        ...     system, timepts, plan.inputs(timepts), gct.pack(*plan.start)
        ... )
        >>> bool(np.allclose(resp.states[:, -1], [1, 4], rtol=1e-2))
        True
        """
        offsets = [self._offsets(float(t)) for t in np.atleast_1d(self._depths(timepts))]
        return np.stack([self._input(offset) for offset in offsets], axis=1)

    def feedback(
        self, t: float, mean: ArrayLike, covariance: ArrayLike, *, gain: float | None = None
    ) -> GaussianTransformer:
        """Return parameters recomputed from the current moments.

        They give m' = m'_plan + gain (m_plan - m), and the same for a factor of the covariance
        aligned to the plan's, so that errors decay instead of growing.

        Parameters
        ----------
        t : float
            Depth; beyond the duration the goal is held. [t]
        mean : (d,) array_like
            [x]
        covariance : (d, d) array_like
            Taken at its leading `rank` eigenvalues. [x]^2
        gain : float, optional
            Rate at which errors decay, 10 / duration by default. [1/t]

        Returns
        -------
        GaussianTransformer

        Raises
        ------
        ShapeError, ParameterError
            If the depth or the moments are invalid, the rank is below that of the plan, or the gain
            is negative.
        """
        depth = real_array(t, "t")
        if depth.ndim:
            raise ShapeError(f"t: expected one depth, found shape {depth.shape}; pass a number")
        if depth < 0:
            raise ParameterError(f"t: expected a depth of at least 0, found {float(depth):.6g}")
        mean, L = guidance.read_current(self, mean, covariance)
        gain = guidance.read_gain(self, gain)
        return self._shifted(guidance.corrected(self, float(depth), mean, L, gain))

    def controller(
        self, *, gain: float | None = None, name: str = "steering"
    ) -> ct.NonlinearIOSystem:
        """Return the feedback law as a python-control system.

        Parameters
        ----------
        gain : float, optional
            As in `feedback`.
        name : str, optional
            System name.

        Returns
        -------
        ct.NonlinearIOSystem
            Static, from the outputs of ``moment_system(plan.model, inputs=plan.channels)`` to its
            inputs under the same labels, so that `ct.interconnect` joins both.

        Raises
        ------
        ParameterError
            If the gain is negative.

        Examples
        --------
        >>> import control as ct
        >>> import gausscontrol as gct
        >>> plan = gct.steer(([0.0], [[1.0]]), ([1.0], [[4.0]]), 2)
        >>> layer = gct.moment_system(plan.model, inputs=plan.channels, name="layer")
        >>> loop = ct.interconnect(
        ...     [layer, plan.controller()], inputs=[], outputs=layer.output_labels
        ... )
        >>> loop.nstates
        2
        """
        return guidance.controller(self, guidance.read_gain(self, gain), name)

    def _offsets(self, t: float) -> dict[str, np.ndarray]:
        point = self.path.point(t)
        return self.actuation.offsets(point.mean, point.factor, point.mean_rate, point.factor_rate)

    def _shifted(self, offsets: dict[str, np.ndarray]) -> GaussianTransformer:
        changes = {key: getattr(self.model, key) + value for key, value in offsets.items()}
        return self.model.replace(**changes)

    def _input(self, offsets: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([offsets[key].reshape(-1) for key in self.channels])

    # -- trajectories and layers ------------------------------------------------------------------

    def response(
        self,
        timepts: ArrayLike,
        initial: Any = None,
        *,
        closed_loop: bool = True,
        gain: float | None = None,
        rtol: float = 1e-10,
    ) -> MomentResponse:
        """Compute the moments under the plan.

        Parameters
        ----------
        timepts : (N,) array_like
            Increasing depths from 0 to the duration. [t]
        initial : tuple, optional
            (mean, covariance) at the first depth, by default the planned ones. [x], [x]^2
        closed_loop : bool, optional
            Recompute the parameters from the current moments, as `feedback` does (default), or
            apply those of the plan whatever happens.
        gain : float, optional
            As in `feedback`. [1/t]
        rtol : float, optional
            Relative tolerance of the integration.

        Returns
        -------
        MomentResponse
            Its inputs are the offsets that were applied.

        Raises
        ------
        ShapeError, ParameterError
            If an argument is invalid, or `initial` has another rank.
        IntegrationError
            If the grid cannot be reached although there is no finite escape.

        Warns
        -----
        BlowUpWarning
            If the open loop amplifies errors until the covariance escapes.

        Notes
        -----
        Theory 1.6, 6e. Integrated in the factor form with the exact parameters at every depth,
        not with sampled ones.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> plan = gct.steer(([0.0], [[1.0]]), ([1.0], [[4.0]]), 2)
        >>> resp = plan.response([0, 1, 2])
        >>> bool(np.allclose(resp.covariance[0, 0], [1, 2.25, 4]))
        True
        """
        gain = guidance.read_gain(self, gain)
        return guidance.response(self, timepts, initial, gain if closed_loop else None, rtol=rtol)

    def layers(self, n: int, kind: str = "residual") -> LayerStack:
        """Return a stack of layers that ends exactly at the goal.

        Parameters
        ----------
        n : int
            Number of layers, of depth duration / n each.
        kind : {"residual", "hold"}, optional
            Residual layers, one step x + dt f(x) each; or layers of continuous depth that hold
            their parameters.

        Returns
        -------
        LayerStack
            After layer k the moments are those of the path at depth k duration / n.

        Raises
        ------
        ParameterError
            If n is too small for this kind, held layers under attention are not found, or n is so
            large that the layers of an actuator which amplifies rounding miss the goal by more
            than 1e-8.

        Notes
        -----
        Theory 6f. D_k = I + (L_(k+1) - L_k) L_k^+ moves one factor on the path to the next; a
        residual layer has I + dt M = D_k, a held one exp(dt A) = D_k. Where attention acts during a
        held layer its parameters are found by shooting, layer by layer from the first; they need
        not exist, and the search gives up after a bounded number of evaluations.

        Examples
        --------
        >>> import numpy as np
        >>> import gausscontrol as gct
        >>> plan = gct.steer(([0.0], [[1.0]]), ([1.0], [[4.0]]), 2)
        >>> stack = plan.layers(4)
        >>> resp = gct.moment_response(stack, stack.boundaries, plan.start)
        >>> bool(np.allclose(resp.covariance[0, 0, -1], 4))
        True
        """
        return layers.stack_of(self, n, kind)

    # -- the report -------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return (
            f"<SteeringPlan by {self.actuators}, d = {self.dim}, rank {self.rank}, "
            f"depth {self.duration:g}, energy {self.energy:.4g}>"
        )

    def __str__(self) -> str:
        kind = {"Geodesic": "geodesic", "PiecewiseGeodesic": "geodesics through waypoints"}
        ends = read_ends(self.start, self.goal, self.rank)
        least = Geodesic(ends, self.duration).energy
        path = kind.get(type(self.path).__name__, "given by the user")
        peaks = ", ".join(
            f"|{key}| {value:.4g} [{UNITS[key]}]" for key, value in self.peak_norms.items()
        )
        how = f"by {self.actuators}, depth {self.duration:.6g} [t]"
        lines = [
            f"Steering plan, d = {self.dim}, rank {self.rank}, {how}",
            f"  path           {path}",
            f"  energy         {self.energy:.6g} [x^2/t], least possible {least:.6g}",
            f"  peak norms     {peaks}",
            f"  residual       {self.residual:.1e} relative",
        ]
        if self.dim <= REPORTED or "amplification" in self.__dict__:
            advice = ", use the closed loop" if self.amplification > 1e6 else ""
            lines.append(f"  amplification  {self.amplification:.3g} in open loop{advice}")
        for name, (_, covariance) in (("start", self.start), ("goal", self.goal)):
            if note := rank_note(covariance, name):
                lines.append(f"  near the limit {note}")
        return "\n".join(lines)


def parameter_norm(model: GaussianTransformer, key: str) -> float:
    """Return the spectral norm of a parameter, the largest over heads."""
    value = getattr(model, key)
    if value.ndim == 1:
        return float(np.linalg.norm(value))
    return float(np.linalg.norm(value, 2, axis=(-2, -1)).max())
