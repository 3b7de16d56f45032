"""Slices of the cone through an equilibrium, and how much of one to show (Theory 4.6).

    Sigma = base + x E1 + y E2,   {V < level} = { c + sqrt(level) L^-T u : |u| <= 1 },   L L^T the
    form of V on the slice

The window reaches beyond the certified region as far as simulation first finds a start that does
not converge, so that both are in view.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.certificates.region import RegionOfAttraction
from gausscontrol.linalg.symmetric import whitening
from gausscontrol.plots.basin import CONVERGES, sampled_basin
from gausscontrol.plots.planes import eigen_plane, read_plane

__all__ = ["SMALL", "RegionSlice", "View", "region_slice"]

POINTS = 241
# Directions and distances at which a start is looked for that does not converge: up to FARTHEST
# times as far as the region, and to where Sigma* has changed by WIDE times itself.
DIRECTIONS, DISTANCES, FARTHEST, WIDE = 24, 24, 30.0, 5.0
# The window reaches this much beyond the nearest of them, and at least so many regions.
BEYOND, LEAST = 1.5, 3.0
# Where nothing escapes, a slice that is bounded by the cone is shown as a whole.
UNBOUNDED = 1e6
# A region is small in a window that reaches more than so many times as far.
SMALL = 10.0
# In a plane that was given, the window shows this much more than what the cone allows.
OUTSIDE = 1.2


@dataclass(frozen=True, eq=False)
class View:
    """A window on a slice.

    Attributes
    ----------
    limits : (2, 2) ndarray
        (lowest, highest) across, then upwards.
    multiple : float
        How many times as far as the region it reaches.
    searched : float
        How many times as far simulation looked for a start that does not converge.
    found : bool
        Whether there was one.
    """

    limits: np.ndarray
    multiple: float
    searched: float
    found: bool


@dataclass(frozen=True, eq=False)
class RegionSlice:
    """Covariances base + x E1 + y E2.

    Attributes
    ----------
    base : (d, d) ndarray
        [x]^2
    basis : (2, d, d) ndarray
    centre : (2,) ndarray
        Coordinates of the equilibrium.
    names : tuple of str
        What the axes are called.
    slack : float
        How much more than the cone allows a window shows.
    """

    base: np.ndarray
    basis: np.ndarray
    centre: np.ndarray
    names: tuple[str, str]
    slack: float

    def points(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the matrices at coordinates of equal shape, as (N, d, d)."""
        return self.base + np.einsum("pk,pij->kij", np.stack([x.ravel(), y.ravel()]), self.basis)

    def form(self, roa: RegionOfAttraction) -> np.ndarray:
        """Return the form of V on the slice, (2, 2), exactly."""
        R, _ = whitening(roa.covariance)
        E1, E2 = R @ self.basis @ R
        both = [roa.level_of(E[None])[0] for E in (E1, E2, E1 + E2)]
        mixed = (both[2] - both[0] - both[1]) / 2
        return np.array([[both[0], mixed], [mixed, both[1]]])

    def ellipse(self, roa: RegionOfAttraction, level: float) -> np.ndarray:
        """Return points of {V = level}, shape (2, K), exactly."""
        angle = np.linspace(0, 2 * np.pi, POINTS)
        circle = np.stack([np.cos(angle), np.sin(angle)])
        L = np.linalg.cholesky(self.form(roa))
        return self.centre[:, None] + np.sqrt(level) * np.linalg.solve(L.T, circle)

    def view(self, roa: RegionOfAttraction) -> View:
        """Return the default window: the region and the nearest start that does not converge."""
        half = np.sqrt(roa.level * np.diag(np.linalg.inv(self.form(roa))))
        R, _ = whitening(roa.covariance)
        change = half * np.linalg.norm(R @ self.basis @ R, 2, axis=(1, 2))
        farthest = max(FARTHEST, WIDE / change.min())
        nearest = self._nearest_other(roa, half, farthest)
        cone = self.slack * self._cone(roa)
        if nearest is None:
            whole = (np.abs(cone) / half[:, None]).max()
            multiple = float(whole) if whole < UNBOUNDED else LEAST
        else:
            multiple = max(LEAST, BEYOND * nearest)
        reach = multiple * half
        limits = np.stack([np.maximum(-reach, cone[:, 0]), np.minimum(reach, cone[:, 1])], axis=1)
        return View(self.centre[:, None] + limits, multiple, farthest, nearest is not None)

    def _cone(self, roa: RegionOfAttraction) -> np.ndarray:
        """Return how far one goes along E1 and E2 from the equilibrium within the cone, (2, 2)."""
        R, _ = whitening(roa.covariance)
        spectra = np.linalg.eigvalsh(R @ self.basis @ R)
        with np.errstate(divide="ignore"):
            low = -1 / np.maximum(spectra[:, -1], 0.0)
            high = -1 / np.minimum(spectra[:, 0], -1e-12)
        return np.stack([low, high], axis=1)

    def _nearest_other(
        self, roa: RegionOfAttraction, half: np.ndarray, farthest: float
    ) -> float | None:
        angle = np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
        distance = np.geomspace(1.2, farthest, DISTANCES)
        x, y = (
            c + h * np.multiply.outer(distance, wave(angle))
            for c, h, wave in zip(self.centre, half, (np.cos, np.sin), strict=True)
        )
        starts = self.points(x, y)
        least = np.linalg.eigvalsh(starts)[:, 0]
        (inside,) = np.nonzero(least > 1e-9 * np.linalg.norm(roa.covariance, 2))
        other = inside[sampled_basin(roa, starts[inside]) != CONVERGES]
        return float(np.repeat(distance, DIRECTIONS)[other].min()) if other.size else None


def region_slice(Sigma: np.ndarray, plane: ArrayLike | None) -> RegionSlice:
    """Return the slice through a covariance along a plane.

    Parameters
    ----------
    Sigma : (d, d) ndarray
        [x]^2
    plane : (2, d, d) array_like or None
        None for that in which the largest and the smallest eigenvalue change.

    Returns
    -------
    RegionSlice
    """
    if plane is not None:
        basis = read_plane(plane, len(Sigma))
        names = ("x [x]$^2$", "y [x]$^2$,  $\\Sigma = \\Sigma_* + x E_1 + y E_2$")
        return RegionSlice(Sigma, basis, np.zeros(2), names, OUTSIDE)
    basis, centre, names = eigen_plane(Sigma)
    return RegionSlice(Sigma - np.einsum("p,pij->ij", centre, basis), basis, centre, names, 1.0)
