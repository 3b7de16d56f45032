"""The planes of a phase portrait: what their points are, and how fast these move (Theory 1.1, 1.4).

    d = 1    (mu, s), s the variance:  mu' and s'
    d = 2    Sigma = x E1 + y E2:      Sigma', projected back on the plane

For dt > 0 a rate is the change over one layer, divided by dt.
"""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from numpy.typing import ArrayLike

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.model.moments import MomentField
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.plots.figures import alarm, palette
from gausscontrol.plots.planes import eigen_plane, read_plane

__all__ = ["GRID", "CovariancePlane", "HalfPlane", "covariance_plane"]

# Points per side at which rates are evaluated.
GRID = 41
# The window reaches this many times as far as the equilibria do.
MARGIN = 1.8
# Or, where all are at zero, this many times the size at which T(Sigma) matches A.
WIDE = 4.0
# Share of the speed that leaves a plane, and distance of an equilibrium from it, that are rounding.
IN_PLANE = 1e-7


class HalfPlane:
    """(mu, variance) of a model with d = 1.

    Parameters
    ----------
    model : GaussianTransformer
    """

    names = ("mean $\\mu$ [x]", "variance $\\sigma^2$ [x]$^2$")

    def __init__(self, model: GaussianTransformer) -> None:
        self.model, self.field = model, MomentField.of(model)

    def rate(self, x: float, y: float) -> tuple[float, float, float]:
        """Return mu', s' and the share of the speed that leaves the plane, which is none."""
        S = np.array([[y]])
        mean_rate = self.field.mean_rate(np.array([x]), S, self.field.drift(S))
        return float(mean_rate[0]), float(_covariance_change(self.field, S)[0, 0]), 0.0

    def depth_inside(self, grid: tuple) -> np.ndarray:
        """Return the variance on the grid; below zero there is none."""
        return np.broadcast_to(grid[1][:, None], (GRID, GRID))

    def coordinates(self, equilibrium: Equilibrium) -> tuple[float, float, bool]:
        """Return the place of an equilibrium, and whether it has a mean to be drawn at."""
        mean = np.nan if equilibrium.mean is None else float(equilibrium.mean[0])
        return mean, float(equilibrium.covariance[0, 0]), equilibrium.mean is not None

    def window(self, shown: list) -> np.ndarray:
        """Return the default limits, around the equilibria."""
        means = [x for _, x, _, drawn in shown if drawn] or [0.0]
        highest = max((y for _, _, y, _ in shown), default=0.0)
        top = MARGIN * highest or WIDE * _natural_size(self.model)
        centre = (max(means) + min(means)) / 2
        half = max(2 * np.sqrt(top), MARGIN * (max(means) - min(means)) / 2)
        return np.array([[centre - half, centre + half], [0.0, top]])

    def draw_more(self, axis: Axes, grid: tuple, samples: np.ndarray) -> None:
        """Draw the nullclines, and shade what escapes."""
        names = ("$\\mu' = 0$", "$(\\sigma^2)' = 0$")
        for i, (name, style) in enumerate(zip(names, ("--", ":"), strict=True)):
            color = palette()[(i + 1) % len(palette())]
            if np.ptp(np.sign(samples[:, :, i])):
                axis.contour(*grid, samples[:, :, i], levels=[0], colors=color, linestyles=style)
                axis.plot([], [], color=color, linestyle=style, label=name)
        self._shade_escape(axis, grid)

    def _shade_escape(self, axis: Axes, grid: tuple) -> None:
        # s' = 2 (a + g s) s escapes in finite depth above max(0, -a/g) if g > 0.
        gain, pull = float(self.model.attention(np.eye(1))[0, 0]), float(self.model.A[0, 0])
        if self.model.dt or not gain > 0:
            return
        threshold, top = max(0.0, -pull / gain), grid[1][-1]
        if threshold < top:
            axis.axhspan(
                threshold, top, color=alarm(), alpha=0.1, linewidth=0, label="escapes to infinity"
            )


@dataclass(frozen=True)
class CovariancePlane:
    """Covariances x E1 + y E2.

    Attributes
    ----------
    model : GaussianTransformer
        d = 2.
    basis : (2, 2, 2) ndarray
        E1, E2. [x]^2
    names : tuple of str
        What the axes are called.
    """

    model: GaussianTransformer
    basis: np.ndarray
    names: tuple[str, str]

    def point(self, x: float, y: float) -> np.ndarray:
        """Return the matrix at coordinates."""
        return x * self.basis[0] + y * self.basis[1]

    def rate(self, x: float, y: float) -> tuple[float, float, float]:
        """Return the projected rate and the share of the speed that leaves the plane."""
        change = _covariance_change(MomentField.of(self.model), self.point(x, y))
        across, up = self._project(change)
        speed = np.linalg.norm(change)
        lost = np.linalg.norm(change - self.point(across, up)) / speed if speed else 0.0
        return across, up, float(lost)

    def depth_inside(self, grid: tuple) -> np.ndarray:
        """Return the least eigenvalue on the grid; below zero there is no covariance."""
        points = [[self.point(x, y) for x in grid[0]] for y in grid[1]]
        return np.linalg.eigvalsh(np.array(points))[:, :, 0]

    def _project(self, S: np.ndarray) -> tuple[float, float]:
        x, y = np.linalg.lstsq(self.basis.reshape(2, -1).T, S.reshape(-1), rcond=None)[0]
        return float(x), float(y)

    def coordinates(self, equilibrium: Equilibrium) -> tuple[float, float, bool]:
        """Return the place of an equilibrium, and whether it lies in the plane."""
        S = equilibrium.covariance
        x, y = self._project(S)
        return x, y, bool(np.linalg.norm(S - self.point(x, y)) <= IN_PLANE * np.linalg.norm(S))

    def window(self, shown: list) -> np.ndarray:
        """Return the default limits: the cone as far as the equilibria and beyond."""
        places = np.array([[x, y] for _, x, y, drawn in shown if drawn] or [[0.0, 0.0]])
        sizes = np.linalg.norm(self.basis, axis=(1, 2))
        reach = MARGIN * np.abs(places * sizes).max() or WIDE * _natural_size(self.model)
        low = [0.0 if np.linalg.eigvalsh(E)[0] >= -1e-12 else -reach for E in self.basis]
        return np.array([[low[i], reach] / sizes[i] for i in range(2)])

    def draw_more(self, axis: Axes, grid: tuple, samples: np.ndarray) -> None:
        """Shade what is no covariance, and what share of the speed leaves the plane."""
        least = self.depth_inside(grid)
        if least.min() < -1e-9 * np.abs(grid).max():
            axis.contourf(*grid, least, levels=[least.min(), 0.0], colors=["0.85"], zorder=0)
            axis.plot([], [], "s", color="0.85", label="no covariance")
        lost = np.where(least >= 0, samples[:, :, 2], 0.0)
        if lost.max() <= IN_PLANE:
            axis.plot([], [], " ", label="the flow stays in this plane")
            return
        axis.plot([], [], " ", label="arrows are projections")
        paper = np.array(to_rgb(mpl.rcParams["axes.facecolor"]))
        strong = (paper + np.array(to_rgb(palette()[4 % len(palette())]))) / 2
        shades = LinearSegmentedColormap.from_list("lost", [paper, strong])
        mesh = axis.pcolormesh(
            *grid, samples[:, :, 2], cmap=shades, vmin=0, vmax=1, shading="gouraud", zorder=-1
        )
        bar = axis.figure.colorbar(mesh, ax=axis, label="share of speed off the plane")
        bar.outline.set_visible(False)


def covariance_plane(
    model: GaussianTransformer, found: list[Equilibrium], plane: ArrayLike | None
) -> CovariancePlane:
    """Return the plane that was given, or that of the eigenvectors of the first equilibrium.

    Parameters
    ----------
    model : GaussianTransformer
        d = 2.
    found : list of Equilibrium
    plane : (2, 2, 2) array_like or None

    Returns
    -------
    CovariancePlane
    """
    if plane is not None:
        basis = read_plane(plane, model.dim)
        E = [np.array2string(M, precision=3, separator=", ").replace("\n", "") for M in basis]
        names = (f"x [x]$^2$,  E1 = {E[0]}", f"y [x]$^2$,  E2 = {E[1]}")
        return CovariancePlane(model, basis, names)
    definite = next((e.covariance for e in found if e.rank == model.dim), np.eye(model.dim))
    basis, _, names = eigen_plane(definite)
    return CovariancePlane(model, basis, names)


def _covariance_change(field: MomentField, S: np.ndarray) -> np.ndarray:
    rate = field.covariance_rate(S)
    if field.dt:
        M = field.drift(S)
        rate = rate + field.dt * M @ S @ M.T
    return rate


def _natural_size(model: GaussianTransformer) -> float:
    gain = float(np.linalg.norm(model.attention(np.eye(model.dim)), 2))
    pull = float(np.linalg.norm(model.A, 2))
    return pull / gain if pull and gain else 1.0
