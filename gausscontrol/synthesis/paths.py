"""Paths of Gaussians of constant rank, with their velocities (Theory 6a, 6b).

    geodesic     m = (1 - s) m0 + s m1,  L = (1 - s) L0 + s L1 Q,  s = t / T
    waypoints    geodesics one after another, at constant speed

L^T L' is symmetric along both: L' is the shortest velocity of a factor that gives Sigma', and
|m'|^2 + |L'|_F^2 is the kinetic energy of the tokens. At a waypoint the velocity jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gausscontrol.linalg.bures import align
from gausscontrol.synthesis.reach import Ends

__all__ = ["Geodesic", "Path", "PathPoint", "PiecewiseGeodesic", "chain"]


class PathPoint(NamedTuple):
    """A Gaussian N(m, L L^T) on a path, and how it moves."""

    mean: np.ndarray  # (d,) [x]
    mean_rate: np.ndarray  # (d,) [x/t]
    factor: np.ndarray  # (d, r) [x]
    factor_rate: np.ndarray  # (d, r) [x/t]

    @property
    def covariance(self) -> np.ndarray:
        """Sigma = L L^T, (d, d). [x]^2."""
        return self.factor @ self.factor.T

    @property
    def covariance_rate(self) -> np.ndarray:
        """Sigma' = L' L^T + L L'^T, (d, d). [x^2/t]."""
        product = self.factor_rate @ self.factor.T
        return product + product.T

    @property
    def power(self) -> float:
        """|m'|^2 + |L'|_F^2. [x/t]^2."""
        return float(np.sum(self.mean_rate**2) + np.sum(self.factor_rate**2))


class Path(Protocol):
    """What a plan needs of a path."""

    duration: float
    knots: tuple[float, ...]
    energy: float

    def point(self, t: float) -> PathPoint:
        """Return the Gaussian at a depth; at a knot with the velocity after it."""
        ...


class Geodesic:
    """The Bures-Wasserstein geodesic, the path of least kinetic energy.

    Parameters
    ----------
    ends : Ends
        With the factor of the goal aligned to that of the start.
    duration : float
        [t]
    """

    knots: tuple[float, ...] = ()

    def __init__(self, ends: Ends, duration: float) -> None:
        self.ends, self.duration = ends, duration
        self._mean_rate = (ends.mean1 - ends.mean0) / duration
        self._factor_rate = (ends.L1 - ends.L0) / duration

    @property
    def energy(self) -> float:
        """(|m1 - m0|^2 + W2^2 of the covariances) / duration. [x^2/t]."""
        return float(self.duration * self.point(0.0).power)

    def point(self, t: float) -> PathPoint:
        """Return the Gaussian at a depth."""
        ends, s = self.ends, t / self.duration
        mean, L = ((1 - s) * X + s * Y for X, Y in ((ends.mean0, ends.mean1), (ends.L0, ends.L1)))
        return PathPoint(mean, self._mean_rate, L, self._factor_rate)


class PiecewiseGeodesic:
    """Geodesics from each Gaussian to the next, all at the same speed.

    Parameters
    ----------
    pieces : sequence of Ends
        Each starting with the mean and factor that the one before ends with.
    duration : float
        [t]

    Notes
    -----
    At constant speed the energy is (sum of the distances)^2 / duration, the least for the given
    Gaussians. Pieces of no length take no depth.
    """

    def __init__(self, pieces: Sequence[Ends], duration: float) -> None:
        lengths = np.array([np.sqrt(Geodesic(ends, 1.0).energy) for ends in pieces])
        moving = lengths > 0
        if not moving.any():
            moving[0] = True
            lengths = moving.astype(float)
        spans = duration * lengths[moving] / lengths.sum()
        bounds = np.concatenate([[0.0], np.cumsum(spans)])
        bounds[-1] = duration
        self.duration, self._bounds = duration, bounds
        kept = [ends for ends, moves in zip(pieces, moving, strict=True) if moves]
        self._parts = [
            Geodesic(ends, span) for ends, span in zip(kept, np.diff(bounds), strict=True)
        ]
        self.knots = tuple(float(t) for t in bounds[1:-1])

    @property
    def energy(self) -> float:
        """Sum over the pieces. [x^2/t]."""
        return float(sum(part.energy for part in self._parts))

    def point(self, t: float) -> PathPoint:
        """Return the Gaussian at a depth; at a waypoint with the velocity after it."""
        last = len(self._parts) - 1
        i = min(max(int(np.searchsorted(self._bounds, t, side="right")) - 1, 0), last)
        return self._parts[i].point(t - self._bounds[i])


def chain(gaussians: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[Ends]:
    """Return the pieces between Gaussians (mean, factor), each factor aligned to the one before.

    Parameters
    ----------
    gaussians : sequence of tuple
        Mean (d,) and factor (d, r), all of one rank.

    Returns
    -------
    list of Ends
    """
    mean, L = gaussians[0]
    pieces = []
    for next_mean, next_factor in gaussians[1:]:
        ends = Ends(mean, next_mean, L, align(L, next_factor))
        pieces.append(ends)
        mean, L = ends.mean1, ends.L1
    return pieces
