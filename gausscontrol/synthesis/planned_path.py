"""Where a plan leads: the Gaussian of every depth from start to goal (Theory 6a, 6b).

    path t -> (m, L), Sigma = L L^T        from the start to the goal, at constant rank

What steers along it is in `plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.display import Report
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.synthesis.paths import Path

__all__ = ["PlannedPath", "depths_within"]

# Depths at which a plan is looked at: for singular actuators, peaks and residuals.
SAMPLES = 101


@dataclass(frozen=True, eq=False)
class PlannedPath(Report):
    """A path of Gaussians between two given ones.

    Attributes
    ----------
    start, goal : tuple
        (mean (d,), covariance (d, d)). [x], [x]^2
    duration : float
        [t]
    rank : int
        That of every covariance on the path.
    path : object
        point(t) gives mean, mean_rate, factor and factor_rate; knots, duration, energy.
    """

    start: tuple[np.ndarray, np.ndarray]
    goal: tuple[np.ndarray, np.ndarray]
    duration: float
    rank: int
    path: Path

    @property
    def dim(self) -> int:
        """Token dimension d."""
        return self.start[0].size

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
        depths = depths_within(t, self.duration)
        if depths.ndim == 0:
            return getattr(self.path.point(float(depths)), name)
        return np.stack([getattr(self.path.point(float(s)), name) for s in depths], axis=-1)


def depths_within(t: ArrayLike, duration: float) -> np.ndarray:
    """Return depths that lie in a plan, those that rounding puts outside moved to its ends.

    Raises
    ------
    ShapeError, ParameterError
        If it is no depth or vector of depths, or one lies outside.
    """
    depths = real_array(t, "t")
    if depths.ndim > 1 or depths.size == 0:
        raise ShapeError(
            f"t: expected a depth or a vector of depths, found shape {depths.shape}; pass a number "
            "or a one-dimensional array"
        )
    slack = 1e-9 * duration
    if depths.min() < -slack or depths.max() > duration + slack:
        raise ParameterError(
            f"t: expected depths from 0 to {duration:.6g}, found {depths.min():.6g} to "
            f"{depths.max():.6g}; the plan ends there"
        )
    return np.clip(depths, 0.0, duration)
