"""Cells of a regime map: colours, hatches and crosses.

Each point of a grid colours the cell around it, whose edges are half-way to its neighbours; on an
axis whose values are evenly spaced by ratio, half-way by ratio.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from scipy import ndimage

from gausscontrol.certificates.classify import REGIMES
from gausscontrol.plots.boundary import Mesh

__all__ = ["REGIME_COLORS", "draw_cells", "handles_of", "is_geometric", "scale_axes"]

# The set of Okabe and Ito, which the colour-blind tell apart, in the order of REGIMES.
REGIME_COLORS = dict(
    zip(
        REGIMES,
        ("#009E73", "#0072B2", "#56B4E9", "#F0E442", "#D55E00", "#E69F00", "#CC79A7", "#999999"),
        strict=True,
    )
)
# How much of a colour is left on the paper, so that lines and hatches stand out.
STRENGTH = 0.62
HATCH = "////"
# A regime is written into its cells where it takes no more room than there is: the share of the
# axes that a letter takes across, and half a line upwards.
WIDTH, HEIGHT = 0.028, 0.03
# Relative deviation of ratios up to which values count as spaced evenly on a logarithmic axis.
EVEN = 1e-6


def scale_axes(axis: Axes, mesh: Mesh) -> None:
    """Make axes logarithmic whose values are evenly spaced by ratio.

    Parameters
    ----------
    axis : Axes
    mesh : Mesh
    """
    for values, one, set_scale in (
        (mesh.x, axis.xaxis, axis.set_xscale),
        (mesh.y, axis.yaxis, axis.set_yscale),
    ):
        if is_geometric(values):
            set_scale("log")
        else:
            one.set_major_locator(MaxNLocator(6))


def draw_cells(axis: Axes, mesh: Mesh, regimes: np.ndarray, certified: np.ndarray) -> list:
    """Draw the cells, and return what was drawn.

    Parameters
    ----------
    axis : Axes
    mesh : Mesh
    regimes : (n, m) ndarray of str
        "" where an item failed.
    certified : (n, m) ndarray of bool

    Returns
    -------
    list
        Coloured cells, then hatches and crosses as far as there are any.
    """
    edges = _edges(mesh.x), _edges(mesh.y)
    numbers = np.full(regimes.shape, len(REGIMES), dtype=float)
    for k, name in enumerate(REGIMES):
        numbers[regimes == name] = k
    shades = [_shade(color) for color in REGIME_COLORS.values()]
    shades.append(to_rgb(mpl.rcParams["axes.facecolor"]))
    drawn = [
        axis.pcolormesh(
            *edges,
            numbers,
            cmap=ListedColormap(shades),
            vmin=-0.5,
            vmax=len(REGIMES) + 0.5,
            rasterized=True,
            zorder=0,
        )
    ]
    if certified.any():
        patch = PathPatch(_runs(edges, certified), **_hatching(), zorder=1)
        drawn.append(axis.add_patch(patch))
    failed = regimes == ""
    if failed.any():
        rows, columns = np.nonzero(failed)
        size = float(np.clip(250 / max(failed.shape), 3, 7))
        drawn += axis.plot(mesh.x[columns], mesh.y[rows], **_crosses(size), zorder=3, clip_on=False)
    for name in REGIMES:
        _write_name(axis, mesh, name, regimes == name)
    return drawn


def _write_name(axis: Axes, mesh: Mesh, name: str, cells: np.ndarray) -> None:
    """Write a regime into the widest place of its largest patch, if there is room."""
    patches, count = ndimage.label(cells)
    if not count:
        return
    largest = patches == 1 + np.argmax(np.bincount(patches.ravel())[1:])
    # Of cells at the edge of the picture only half is to be seen.
    largest[[0, -1]] = largest[:, [0, -1]] = False
    if not largest.any():
        return
    # Distances to other cells and to the edge of the picture.
    depth = ndimage.distance_transform_edt(np.pad(largest, 1))[1:-1, 1:-1]
    row, column = np.unravel_index(depth.argmax(), depth.shape)
    left = column - np.argmin(np.append(largest[row, column::-1], False)) + 1
    right = column + np.argmin(np.append(largest[row, column:], False))
    if (right - left) / largest.shape[1] < WIDTH * len(name) or depth.max() < HEIGHT * len(cells):
        return
    ink, paper = mpl.rcParams["text.color"], mpl.rcParams["axes.facecolor"]
    halo = [withStroke(linewidth=2.5, foreground=paper)]
    style = {"ha": "center", "va": "center", "fontsize": "small", "color": ink, "zorder": 5}
    place = mesh.x[(left + right) // 2], mesh.y[row]
    axis.text(*place, name, path_effects=halo, clip_on=True, **style)


def _runs(edges: tuple[np.ndarray, np.ndarray], cells: np.ndarray) -> Path:
    """Return one path around all runs of cells in a row, so that hatches go through."""
    x, y = edges
    vertices, codes = [], []
    for j, row in enumerate(cells):
        steps = np.flatnonzero(np.diff(np.concatenate([[False], row, [False]]).astype(int)))
        for start, stop in zip(steps[::2], steps[1::2], strict=True):
            left, right, low, high = x[start], x[stop], y[j], y[j + 1]
            vertices += [(left, low), (right, low), (right, high), (left, high), (left, low)]
            codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(vertices, codes)


def handles_of(regimes: np.ndarray, certified: np.ndarray) -> list:
    """Return what a legend shows of the cells.

    Parameters
    ----------
    regimes : (n, m) ndarray of str
    certified : (n, m) ndarray of bool

    Returns
    -------
    list
    """
    handles: list = []
    for name in REGIMES:
        if (regimes == name).any():
            handles.append(Patch(facecolor=_shade(REGIME_COLORS[name]), label=name))
    if certified.any():
        handles.append(Patch(**_hatching(), label="certified"))
    if (regimes == "").any():
        handles.append(mpl.lines.Line2D([], [], **_crosses(6.0), label="failed"))
    return handles


def _hatching() -> dict[str, Any]:
    ink = to_rgb(mpl.rcParams["text.color"])
    return {"facecolor": "none", "edgecolor": (*ink, 0.28), "hatch": HATCH, "linewidth": 0.0}


def _crosses(size: float) -> dict[str, Any]:
    ink = mpl.rcParams["text.color"]
    return {"color": ink, "marker": "x", "markersize": size, "linestyle": "none"}


def _shade(color: str) -> tuple[float, ...]:
    paper = np.array(to_rgb(mpl.rcParams["axes.facecolor"]))
    return tuple((1 - STRENGTH) * paper + STRENGTH * np.array(to_rgb(color)))


def is_geometric(values: np.ndarray) -> bool:
    """Tell whether values are evenly spaced by ratio, and not by difference.

    Parameters
    ----------
    values : (n,) ndarray
        Increasing.

    Returns
    -------
    bool
    """
    if values.size < 3 or not values[0] > 0:
        return False
    logs, steps = np.log(values[1:] / values[:-1]), np.diff(values)
    uneven = np.ptp(logs) / logs.mean() if logs.min() > 0 else np.inf
    # On a narrow axis even steps are nearly even ratios too: what is clearly more even decides.
    return bool(uneven <= EVEN and 10 * uneven < np.ptp(steps) / steps.mean())


def _edges(values: np.ndarray) -> np.ndarray:
    """Return the edges of cells around values, half-way between them."""
    scaled = np.log(values) if is_geometric(values) else values
    middle = (scaled[1:] + scaled[:-1]) / 2
    ends = 2 * scaled[[0, -1]] - middle[[0, -1]]
    edges = np.concatenate([ends[:1], middle, ends[1:]])
    return np.exp(edges) if is_geometric(values) else edges
