"""Phase planes of the moment system in one and two dimensions (Theory 1.1, 1.4).

    d = 1    mu' and s' over (mu, s), s the variance
    d = 2    Sigma' over a plane Sigma = x E1 + y E2 through the cone, projected back on it

For dt > 0 an arrow is the change over one layer, divided by dt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from numpy.typing import ArrayLike

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.finding import find_equilibria
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.symmetric import symmetrise
from gausscontrol.model.moments import MomentField
from gausscontrol.model.stack import check_single_model
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.plots.figures import (
    ABOVE,
    alarm,
    finish,
    legend_of,
    open_axes,
    palette,
    set_title,
)

__all__ = ["phase_plot"]

GRID = 41
# The window reaches this many times as far as the equilibria do.
MARGIN = 1.8
# Or, where all are at zero, this many times the size at which T(Sigma) matches A.
WIDE = 4.0
# Share of the speed that leaves a plane, and distance of an equilibrium from it, that are rounding.
IN_PLANE = 1e-7


def phase_plot(
    model: GaussianTransformer,
    *,
    plane: ArrayLike | None = None,
    equilibria: Iterable[Equilibrium] | None = None,
    limits: ArrayLike | None = None,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    r"""Plot the phase plane of a model in one or two dimensions.

    For d = 1 the flow of mean and variance, with its nullclines; above the highest threshold of a
    growing variance the region of finite escape is shaded (dt = 0). For d = 2 the flow of the
    covariance over a plane Sigma = x E1 + y E2, by default that of its eigenvalues in fixed
    eigenvectors. Where the flow leaves the plane, arrows are projected on it and a shade says
    which share of the speed is lost. Filled markers are stable, open ones are not.

    Parameters
    ----------
    model : GaussianTransformer
        d = 1 or 2; for dt > 0 arrows show the change over one layer.
    plane : (2, 2, 2) array_like, optional
        For d = 2, two independent symmetric matrices E1, E2. By default u u^T for the
        eigenvectors u of the first positive definite equilibrium, or the coordinates if there is
        none or it is a multiple of the identity.
    equilibria : iterable of Equilibrium, optional
        Of this model; by default those that `find_equilibria` finds.
    limits : (2, 2) array_like, optional
        (lowest, highest) across, then upwards; by default around the equilibria.
    ax : Axes or Figure, optional
        Where to draw.
    title : str, optional
        By default one that names the model, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines (markers of the equilibria), axes (1, 1), figure, legend.

    Raises
    ------
    ParameterError, ShapeError
        If d is above 2, or an argument is of the wrong type, shape or model.

    Notes
    -----
    Theory 1.1, 1.4. b and k move the mean only, so they show for d = 1.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import gausscontrol as gct
    >>> plot = gct.phase_plot(gct.GaussianTransformer(0.5, 1, -0.25, 1.0))
    >>> plot.axes[0, 0].get_ylabel()
    'variance $\\sigma^2$ [x]$^2$'
    >>> plt.close(plot.figure)
    """
    _check_model(model)
    if plane is not None and model.dim == 1:
        raise ParameterError("plane: expected none for d = 1, whose plane is (mu, variance)")
    found = _read_equilibria(equilibria, model)
    chosen = _HalfPlane(model) if model.dim == 1 else _covariance_plane(model, found, plane)
    shown = [(e, *chosen.coordinates(e)) for e in found]
    window = chosen.window(shown) if limits is None else _read_limits(limits, model.dim)
    figure, axes, own = open_axes(ax, 1)
    axis = axes[0, 0]
    grid = np.linspace(*window[0], GRID), np.linspace(*window[1], GRID)
    samples = np.array([[chosen.rate(x, y) for x in grid[0]] for y in grid[1]])
    arrows = np.where(chosen.depth_inside(grid)[:, :, None] < 0, np.nan, samples[:, :, :2])
    _draw_flow(axis, model, grid, arrows, window)
    chosen.draw_more(axis, grid, samples)
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = _draw_equilibria(axis, shown, window)
    axis.set_xlim(window[0])
    axis.set_ylim(window[1])
    axis.set_xlabel(chosen.names[0])
    axis.set_ylabel(chosen.names[1])
    finish(axis)
    named = bool(axis.get_legend_handles_labels()[0])
    legend = legend_of(axis, **(ABOVE if own else {})) if named else None
    set_title(figure, axis, own, title, f"Phase plane of {model.name or 'the model'}")
    return ct.ControlPlot(lines, axes, figure, legend=legend)


# -- the planes -----------------------------------------------------------------------------------


class _HalfPlane:
    """(mu, variance) of a model with d = 1."""

    names = ("mean $\\mu$ [x]", "variance $\\sigma^2$ [x]$^2$")

    def __init__(self, model: GaussianTransformer) -> None:
        self.model, self.field = model, MomentField.of(model)

    def rate(self, x: float, y: float) -> tuple[float, float, float]:
        S = np.array([[y]])
        mean_rate = self.field.mean_rate(np.array([x]), S, self.field.drift(S))
        return float(mean_rate[0]), float(_covariance_change(self.field, S)[0, 0]), 0.0

    def depth_inside(self, grid: tuple) -> np.ndarray:
        return np.broadcast_to(grid[1][:, None], (GRID, GRID))

    def coordinates(self, equilibrium: Equilibrium) -> tuple[float, float, bool]:
        mean = np.nan if equilibrium.mean is None else float(equilibrium.mean[0])
        return mean, float(equilibrium.covariance[0, 0]), equilibrium.mean is not None

    def window(self, shown: list) -> np.ndarray:
        means = [x for _, x, _, drawn in shown if drawn] or [0.0]
        highest = max((y for _, _, y, _ in shown), default=0.0)
        top = MARGIN * highest or WIDE * _natural_size(self.model)
        centre = (max(means) + min(means)) / 2
        half = max(2 * np.sqrt(top), MARGIN * (max(means) - min(means)) / 2)
        return np.array([[centre - half, centre + half], [0.0, top]])

    def draw_more(self, axis: Axes, grid: tuple, samples: np.ndarray) -> None:
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
class _Plane:
    """Covariances x E1 + y E2."""

    model: GaussianTransformer
    basis: np.ndarray
    names: tuple[str, str]

    def point(self, x: float, y: float) -> np.ndarray:
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
        S = equilibrium.covariance
        x, y = self._project(S)
        return x, y, bool(np.linalg.norm(S - self.point(x, y)) <= IN_PLANE * np.linalg.norm(S))

    def window(self, shown: list) -> np.ndarray:
        places = np.array([[x, y] for _, x, y, drawn in shown if drawn] or [[0.0, 0.0]])
        sizes = np.linalg.norm(self.basis, axis=(1, 2))
        reach = MARGIN * np.abs(places * sizes).max() or WIDE * _natural_size(self.model)
        low = [0.0 if np.linalg.eigvalsh(E)[0] >= -1e-12 else -reach for E in self.basis]
        return np.array([[low[i], reach] / sizes[i] for i in range(2)])

    def draw_more(self, axis: Axes, grid: tuple, samples: np.ndarray) -> None:
        least = self.depth_inside(grid)
        if least.min() < -1e-9 * np.abs(grid).max():
            axis.contourf(*grid, least, levels=[least.min(), 0.0], colors=["0.85"], zorder=0)
            axis.plot([], [], "s", color="0.85", label="no covariance")
        lost = np.where(least >= 0, samples[:, :, 2], 0.0)
        if lost.max() <= IN_PLANE:
            axis.plot([], [], " ", label="the flow stays in this plane")
            return
        axis.plot([], [], " ", label="arrows projected on this plane")
        paper = np.array(to_rgb(mpl.rcParams["axes.facecolor"]))
        strong = (paper + np.array(to_rgb(palette()[4 % len(palette())]))) / 2
        shades = LinearSegmentedColormap.from_list("lost", [paper, strong])
        mesh = axis.pcolormesh(
            *grid, samples[:, :, 2], cmap=shades, vmin=0, vmax=1, shading="gouraud", zorder=-1
        )
        bar = axis.figure.colorbar(mesh, ax=axis, label="share of the speed that leaves the plane")
        bar.outline.set_visible(False)


def _covariance_plane(
    model: GaussianTransformer, found: list[Equilibrium], plane: ArrayLike | None
) -> _Plane:
    if plane is not None:
        basis = _read_plane(plane)
        E = [np.array2string(M, precision=3, separator=", ").replace("\n", "") for M in basis]
        return _Plane(model, basis, (f"x [x]$^2$,  E1 = {E[0]}", f"y [x]$^2$,  E2 = {E[1]}"))
    definite = next((e.covariance for e in found if e.rank == model.dim), np.eye(model.dim))
    values, vectors = np.linalg.eigh(definite)
    if np.ptp(values) <= 1e-9 * values[-1]:
        vectors = np.eye(2)[:, ::-1]
    vectors = vectors[:, ::-1]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])
    basis = np.stack([np.outer(u, u) for u in vectors.T])
    shown = [", ".join(f"{entry:.3g}" for entry in u + 0.0) for u in vectors.T]
    names = [f"eigenvalue of $\\Sigma$ along ({text}) [x]$^2$" for text in shown]
    return _Plane(model, basis, (names[0], names[1]))


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


# -- drawing --------------------------------------------------------------------------------------


def _draw_flow(
    axis: Axes, model: GaussianTransformer, grid: tuple, rates: np.ndarray, window: np.ndarray
) -> None:
    # Lengths are those of the picture, so that a fast escape leaves the rest visible.
    unit = np.ptp(window, axis=1)
    arrows = np.ma.masked_invalid(rates / unit)
    color = palette()[0]
    if not model.dt:
        if np.ma.allequal(arrows, 0):
            return
        axis.streamplot(
            *grid, *np.moveaxis(arrows * unit, -1, 0), color=color, linewidth=0.8, density=1.1
        )
        return
    thin = slice(None, None, 2)
    length = np.ma.sqrt((arrows**2).sum(axis=-1, keepdims=True))
    directions = np.ma.filled(arrows / np.ma.masked_equal(length, 0), 0.0)
    axis.quiver(
        grid[0][thin],
        grid[1][thin],
        *np.moveaxis(directions[thin, thin], -1, 0),
        color=color,
        angles="uv",
        scale=30,
        width=0.003,
    )
    axis.plot([], [], " ", label=f"arrows: direction of one layer, dt = {model.dt:g}")


def _draw_equilibria(axis: Axes, shown: list, window: np.ndarray) -> list:
    ink = mpl.rcParams["text.color"]
    lines = []
    for stable, name in ((True, "stable equilibrium"), (False, "equilibrium, not stable")):
        places = [(x, y) for e, x, y, drawn in shown if drawn and _is_stable(e) == stable]
        if places:
            lines += axis.plot(
                *np.transpose(places),
                "o",
                markersize=8,
                markeredgewidth=1.6,
                markeredgecolor=ink,
                markerfacecolor=ink if stable else mpl.rcParams["axes.facecolor"],
                label=name,
                clip_on=False,
                zorder=5,
            )
    hidden = sum(not drawn for *_, drawn in shown)
    if hidden:
        axis.plot([], [], " ", label=f"not in this plane: {hidden} more")
    return lines


def _is_stable(equilibrium: Equilibrium) -> bool:
    # The plane of d = 2 shows no mean.
    if equilibrium.model.dim == 1:
        return equilibrium.is_stable
    return equilibrium.covariance_is_stable


# -- arguments ------------------------------------------------------------------------------------


def _check_model(model: Any) -> None:
    check_single_model(model)
    if model.dim > 2:
        raise ShapeError(
            f"model: expected d = 1 or 2, found d = {model.dim}; plot a response with moment_plot "
            "or ellipse_plot"
        )


def _read_equilibria(
    equilibria: Iterable[Equilibrium] | None, model: GaussianTransformer
) -> list[Equilibrium]:
    if equilibria is None:
        return find_equilibria(model)
    found = [equilibria] if isinstance(equilibria, Equilibrium) else list(equilibria)
    for i, entry in enumerate(found):
        if not isinstance(entry, Equilibrium):
            raise ParameterError(
                f"equilibria[{i}]: expected an Equilibrium, found {type(entry).__name__}; "
                "make them with find_equilibria(model)"
            )
        if entry.model != model:
            raise ParameterError(
                f"equilibria[{i}]: expected one of this model, found one of another; "
                "find them with find_equilibria(model)"
            )
    return found


def _read_plane(plane: ArrayLike) -> np.ndarray:
    basis = real_array(plane, "plane")
    if basis.shape != (2, 2, 2):
        raise ShapeError(
            f"plane: expected two 2 x 2 matrices, found shape {basis.shape}; pass plane=(E1, E2)"
        )
    if not np.allclose(basis, basis.transpose(0, 2, 1), rtol=0, atol=1e-8 * np.abs(basis).max()):
        raise ParameterError(
            "plane: expected symmetric matrices, found one that is not; symmetrise"
        )
    if np.linalg.matrix_rank(basis.reshape(2, 4), tol=1e-8 * np.linalg.norm(basis)) < 2:
        raise ParameterError("plane: expected independent matrices, found multiples; pass others")
    return np.stack([symmetrise(E) for E in basis])


def _read_limits(limits: ArrayLike, dim: int) -> np.ndarray:
    window = real_array(limits, "limits")
    if window.shape != (2, 2) or not (window[:, 0] < window[:, 1]).all():
        raise ParameterError(
            f"limits: expected ((lowest, highest), (lowest, highest)), found {limits!r}; "
            "pass two increasing pairs"
        )
    if dim == 1 and window[1, 0] < 0:
        raise ParameterError(
            f"limits: expected a variance of at least 0, found {window[1, 0]:g}; start at 0"
        )
    return window
