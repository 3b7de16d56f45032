"""Phase planes of the moment system in one and two dimensions (Theory 1.1, 1.4).

    d = 1    mu' and s' over (mu, s), s the variance
    d = 2    Sigma' over a plane Sigma = x E1 + y E2 through the cone, projected back on it

For dt > 0 an arrow is the change over one layer, divided by dt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.finding import find_equilibria
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.model.stack import check_single_model
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.plots.figures import (
    ABOVE,
    finish,
    legend_of,
    open_axes,
    palette,
    set_title,
)
from gausscontrol.plots.phase_planes import GRID, HalfPlane, covariance_plane
from gausscontrol.plots.planes import read_limits

__all__ = ["phase_plot"]


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
    chosen = HalfPlane(model) if model.dim == 1 else covariance_plane(model, found, plane)
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


def _read_limits(limits: ArrayLike, dim: int) -> np.ndarray:
    window = read_limits(limits)
    if dim == 1 and window[1, 0] < 0:
        raise ParameterError(
            f"limits: expected a variance of at least 0, found {window[1, 0]:g}; start at 0"
        )
    return window
