"""Slices of a certified region of attraction (Theory 4.6).

    Sigma = Sigma* + x E1 + y E2,   where {V < level} is an ellipse inside the cone

The basin behind it is sampled by simulation and certifies nothing.
"""

from __future__ import annotations

from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from gausscontrol.certificates.region import RegionOfAttraction
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.plots.basin import CONVERGES, ESCAPES, sampled_basin
from gausscontrol.plots.figures import (
    ABOVE,
    alarm,
    finish,
    legend_of,
    open_axes,
    palette,
    set_title,
)
from gausscontrol.plots.planes import read_limits
from gausscontrol.plots.region_slice import SMALL, RegionSlice, region_slice

__all__ = ["region_plot"]

# Cells per side, of the picture and of its inset.
GRID, INSET_GRID = 101, 31
# Where a small region is drawn once more.
CORNER = (0.62, 0.6, 0.36, 0.37)


def region_plot(
    roa: RegionOfAttraction,
    *,
    plane: ArrayLike | None = None,
    limits: ArrayLike | None = None,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    """Plot a slice of a certified region of attraction.

    The certified ellipse, the norm bound where sums of squares improved on it, and behind them what
    simulation finds: which starts converge and which escape. The slice is
    Sigma* + x E1 + y E2, by default that in which two eigenvalues change: the largest and the
    smallest of Sigma*, in fixed eigenvectors.

    Parameters
    ----------
    roa : RegionOfAttraction
        d >= 2.
    plane : (2, d, d) array_like, optional
        Two independent symmetric matrices E1, E2. [x]^2
    limits : (2, 2) array_like, optional
        (lowest, highest) across, then upwards. Default: from the edge of the cone to beyond the
        nearest start that does not converge, if one is found, and three times as far as the region
        otherwise. A region that is small in this window is drawn once more
        in a corner.
    ax : Axes or Figure, optional
        Where to draw.
    title : str, optional
        By default one that names the model, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines (edge of the region, that of the norm bound if drawn, the equilibrium), axes (1, 1),
        figure, legend.

    Raises
    ------
    ParameterError, ShapeError
        If d = 1, or an argument is of the wrong type or shape.

    Notes
    -----
    Theory 4.6.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> A, B, V = [[1.0, 2.0], [-2.0, -0.2]], np.diag([1.0, -0.2]), -np.eye(2)
    >>> model = gct.GaussianTransformer(A, B, V)
    >>> region = gct.certify_region_of_attraction(model, np.eye(2), method="norm")
    >>> plot = gct.region_plot(region)
    >>> [text.get_text() for text in plot.legend.get_texts()][:3]
    ['certified region', 'equilibrium', 'converges in simulation']
    >>> plt.close(plot.figure)
    """
    _check_region(roa)
    chosen = region_slice(roa.covariance, plane)
    view = chosen.view(roa) if limits is None else None
    window = view.limits if view is not None else read_limits(limits)
    figure, axes, own = open_axes(ax, 1)
    axis = axes[0, 0]
    kinds = _draw_basin(axis, roa, chosen, window, GRID)
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = _draw_region(axis, roa, chosen)
    axis.set_xlim(window[0])
    axis.set_ylim(window[1])
    axis.set_xlabel(chosen.names[0])
    axis.set_ylabel(chosen.names[1])
    finish(axis)
    small = view is not None and view.multiple > SMALL
    if small:
        _draw_inset(axis, roa, chosen)
    for name, shade in _shades().items():
        if name in kinds:
            axis.plot([], [], "s", color=shade, label=name)
    if view is not None and not view.found:
        axis.plot([], [], " ", label=f"no escape up to {view.searched:.0f} times as far")
    legend = legend_of(axis, **(ABOVE if own else {"loc": "lower right" if small else "best"}))
    set_title(figure, axis, own, title, f"Region of attraction of {roa.model.name or 'the model'}")
    return ct.ControlPlot(lines, axes, figure, legend=legend)


def _draw_basin(
    axis: Axes, roa: RegionOfAttraction, chosen: RegionSlice, window: np.ndarray, cells: int
) -> set[str]:
    """Shade what simulation says of the cells of a window; return which kinds there are."""
    # Cell centres, so that no sample lies on the edge of the cone.
    edges = [np.linspace(*limits, cells + 1) for limits in window]
    middles = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
    x, y = np.meshgrid(*middles)
    starts = chosen.points(x, y)
    verdict = sampled_basin(roa, starts)
    kind = np.select([verdict == CONVERGES, verdict == ESCAPES], [0, 1], 2)
    kind[np.linalg.eigvalsh(starts)[:, 0] <= 0] = 3
    kind = kind.reshape(x.shape)
    shades = _shades()
    axis.pcolormesh(
        *edges,
        kind,
        cmap=mpl.colors.ListedColormap(list(shades.values())),
        vmin=-0.5,
        vmax=len(shades) - 0.5,
        zorder=0,
        rasterized=True,
    )
    if np.ptp(kind):
        # The edge of the basin is seen without colours too.
        ink = mpl.rcParams["text.color"]
        axis.contour(*middles, kind == 0, levels=[0.5], colors=[ink], linewidths=0.7, zorder=1)
    return {name for k, name in enumerate(shades) if (kind == k).any()}


def _shades() -> dict[str, tuple[float, ...]]:
    """Return the colour of each kind of start, the paler the better."""
    colors = palette()
    return {
        "converges in simulation": _mixed(colors[2 % len(colors)], 0.25),
        "escapes in simulation": _mixed(alarm(), 0.5),
        "undecided in simulation": _mixed(colors[4 % len(colors)], 0.35),
        "no covariance": _mixed(mpl.rcParams["text.color"], 0.45),
    }


def _draw_inset(axis: Axes, roa: RegionOfAttraction, chosen: RegionSlice) -> None:
    """Draw a small region once more, larger."""
    edge = chosen.ellipse(roa, roa.level)
    window = np.stack([edge.min(axis=1), edge.max(axis=1)], axis=1)
    window = chosen.centre[:, None] + 1.6 * (window - chosen.centre[:, None])
    inset = axis.inset_axes(CORNER, xlim=window[0], ylim=window[1])
    _draw_basin(inset, roa, chosen, window, INSET_GRID)
    _draw_region(inset, roa, chosen)
    inset.tick_params(labelsize="x-small")
    for one in (inset.xaxis, inset.yaxis):
        one.set_major_locator(MaxNLocator(3))
    axis.indicate_inset_zoom(inset, edgecolor=mpl.rcParams["text.color"], alpha=0.7)


def _draw_region(axis: Axes, roa: RegionOfAttraction, chosen: RegionSlice) -> list[Line2D]:
    color, ink = palette()[0], mpl.rcParams["text.color"]
    edge = chosen.ellipse(roa, roa.level)
    axis.fill(*edge, color=color, alpha=0.45, linewidth=0, zorder=2)
    lines = axis.plot(*edge, color=color, linewidth=1.8, zorder=3, label="certified region")
    if roa.method == "sos" and roa.data["norm_level"] < roa.level:
        inner = chosen.ellipse(roa, roa.data["norm_level"])
        lines += axis.plot(
            *inner, color=ink, linewidth=1.0, linestyle="--", zorder=3, label="by the norm bound"
        )
    lines += axis.plot(
        *chosen.centre[:, None], "+", color=ink, markersize=7, zorder=4, label="equilibrium"
    )
    return lines


def _mixed(color: str, share: float) -> tuple[float, ...]:
    paper, ink = (np.array(mpl.colors.to_rgb(c)) for c in (mpl.rcParams["axes.facecolor"], color))
    return tuple((1 - share) * paper + share * ink)


# -- arguments ------------------------------------------------------------------------------------


def _check_region(roa: Any) -> None:
    if not isinstance(roa, RegionOfAttraction):
        raise ParameterError(
            f"roa: expected a RegionOfAttraction, found {type(roa).__name__}; "
            "make one with certify_region_of_attraction(model, equilibrium)"
        )
    if roa.model.dim < 2:
        low, high = roa.covariance[0, 0] * (1 + roa.radius * np.array([-1.0, 1.0]))
        raise ShapeError(
            "roa: expected d >= 2, found d = 1, where the region is the interval of variances "
            f"{low:.4g} to {high:.4g}; see phase_plot"
        )
