"""A steering plan: the parameters that follow a path, and what they give (Theory 6a to 6f).

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

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.synthesis import guidance, layers, sensitivity
from gausscontrol.synthesis.actuators import Actuation
from gausscontrol.synthesis.crossings import highest
from gausscontrol.synthesis.plan_report import plan_report
from gausscontrol.synthesis.planned_path import PlannedPath, depths_within
from gausscontrol.systems.response import MomentResponse

__all__ = ["SteeringPlan", "parameter_norm"]


@dataclass(frozen=True, eq=False)
class SteeringPlan(PlannedPath):
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

    actuators: str
    model: GaussianTransformer
    actuation: Actuation

    # -- what the plan is -------------------------------------------------------------------------

    @property
    def channels(self) -> tuple[str, ...]:
        """What to pass to `moment_system` as inputs: b and the steered parameter."""
        return self.actuation.channels

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
        return self.actuation.shifted(self._offsets(float(depths_within(t, self.duration))))

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
        depths = np.atleast_1d(depths_within(timepts, self.duration))
        signals = [self.actuation.signal(self._offsets(float(t))) for t in depths]
        return np.stack(signals, axis=1)

    def _offsets(self, t: float) -> dict[str, np.ndarray]:
        return self.actuation.along(self.path.point(t))

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
            raise ParameterError(
                f"t: expected a depth of at least 0, found {float(depth):.6g}; a plan begins at 0"
            )
        mean, L = guidance.read_current(self, mean, covariance)
        gain = guidance.read_gain(self, gain)
        return self.actuation.shifted(guidance.corrected(self, float(depth), mean, L, gain))

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
        return plan_report(self)


def parameter_norm(model: GaussianTransformer, key: str) -> float:
    """Return the spectral norm of a parameter, the largest over heads."""
    value = getattr(model, key)
    if value.ndim == 1:
        return float(np.linalg.norm(value))
    return float(np.linalg.norm(value, 2, axis=(-2, -1)).max())
