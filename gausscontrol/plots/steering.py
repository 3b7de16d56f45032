"""A steering plan: the Gaussian on its way, and what its parameters cost (Theory 6a to 6d).

{ m(t) + r Sigma(t)^(1/2) u : |u| = 1 }  above,     |b(t)|, |A(t)| or |V(t)| or |B(t)|  below
"""

from __future__ import annotations

from typing import Any

import control as ct
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.model.stack import LayerStack
from gausscontrol.plots.ellipses import ellipse, ellipse_plot, plotting_plane, read_coordinates
from gausscontrol.plots.figures import ABOVE, finish, legend_of, open_axes, palette, set_title
from gausscontrol.synthesis.plan import SteeringPlan, parameter_norm
from gausscontrol.systems.response import MomentResponse, moment_response

__all__ = ["steering_plot"]

POINTS = 201
# Norms that spread over more than this factor are drawn on a logarithmic axis.
LOG_RANGE = 30.0
# Room for the legend above the norms, over their range.
HEADROOM = 0.3
# In inches: width of a figure with both pictures above each other, height of the ellipses in it,
# height of the norms, and what labels, legends and the bar of depths take; size with both beside.
PLAIN, HEIGHTS, NORMS, FRAME = 6.4, (2.2, 4.6), 1.1, (1.7, 2.1)
WIDE = (9.0, 4.8)
REGIONS = {0: "point", 1: "segment"}
UNITS = {"b": "[x/t]", "A": "[1/t]", "V": "[1/t]", "B": "[1/x$^2$]"}


def steering_plot(
    plan: SteeringPlan,
    *,
    layers: LayerStack | int | None = None,
    coordinates: tuple[int, int] | None = None,
    confidence: float = 0.95,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    """Plot the path of a steering plan and its parameter norms.

    First, confidence ellipses of the planned Gaussians, coloured by depth, with the Gaussians
    after each layer dashed on top. Then the spectral norms of b and of the steered parameter
    against depth, with those of the layers as steps: below the ellipses or beside them, whichever
    draws these larger.

    Parameters
    ----------
    plan : SteeringPlan
    layers : LayerStack or int, optional
        Layers of the plan, or how many residual ones to make; by default none are drawn.
    coordinates : (int, int), optional
        As in `ellipse_plot`.
    confidence : float, optional
        Probability that a token lies inside an ellipse.
    ax : array of two Axes or Figure, optional
        Where to draw, ellipses first.
    title : str, optional
        By default one that names the actuators, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines, axes (2, 1), figure, legend (2, 1).

    Raises
    ------
    ParameterError, ShapeError
        If an argument is of the wrong type or dimension.

    Notes
    -----
    Theory 6a, 6d. For d = 1 the upper picture shows the interval of the tokens against depth.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> plan = gct.steer((np.zeros(2), np.eye(2)), (np.ones(2), np.diag([4.0, 0.25])), 2.0)
    >>> plot = gct.steering_plot(plan, layers=4)
    >>> plot.axes[1, 0].get_xlabel()
    'depth t'
    >>> plt.close(plot.figure)
    """
    if not isinstance(plan, SteeringPlan):
        raise ParameterError(
            f"plan: expected a SteeringPlan, found {type(plan).__name__}; "
            "make one with steer(start, goal, duration)"
        )
    stack = _read_layers(layers, plan)
    resp = plan.response(np.linspace(0, plan.duration, POINTS), rtol=1e-7)
    figure, axes, own = _open(ax, _extent(resp, coordinates, confidence))
    upper, lower = axes[:, 0]
    top = ellipse_plot(resp, coordinates=coordinates, confidence=confidence, ax=upper)
    lines = np.empty((2, 1), dtype=object)
    lines[0, 0] = list(top.lines[0, 0])
    for line in lines[0, 0]:
        # Confidence regions of Gaussians on a line, or of a point, are no ellipses.
        words = REGIONS.get(plan.rank, "ellipse")
        line.set_label(str(line.get_label()).replace("ellipse", words))
    if stack is not None:
        lines[0, 0] += _draw_layers(upper, plan, resp, stack, coordinates, confidence)
    lines[1, 0] = _draw_norms(lower, plan, stack, own)
    finish(lower)
    above = ABOVE if own else {}
    # Above the norms too, where there is room; in axes of the user inside, in the headroom.
    beside = {**(ABOVE if own else {"loc": "upper center"}), "ncols": 3}
    legends = np.array([[legend_of(upper, **above)], [legend_of(lower, **beside)]], dtype=object)
    default = f"Steering by {plan.actuators}, rank {plan.rank} of {plan.dim}"
    set_title(figure, upper, own, title, default)
    return ct.ControlPlot(lines, axes, figure, legend=legends)


def _extent(resp: MomentResponse, coordinates: Any, confidence: float) -> np.ndarray | None:
    """Return width and height of all ellipses; for d = 1 there are none."""
    if resp.mean.shape[0] == 1:
        return None
    plane, _ = plotting_plane(resp, None, read_coordinates(coordinates, resp.mean.shape[0]))
    radius = np.sqrt(-2 * np.log1p(-confidence))
    half = radius * np.linalg.norm(np.einsum("ia,irn->arn", plane, resp.factor), axis=1)
    mean = plane.T @ resp.mean
    extent = (mean + half).max(axis=1) - (mean - half).min(axis=1)
    # Gaussians on a line, or at a point, need some room all the same.
    return np.maximum(extent, max(0.1 * extent.max(), np.finfo(float).tiny))


def _open(ax: Any, extent: np.ndarray | None) -> tuple[FigureBase, np.ndarray, bool]:
    if ax is not None and not isinstance(ax, FigureBase):
        return open_axes(ax, 2)
    if ax is None and (not plt.get_fignums() or plt.gcf().axes):
        plt.figure(figsize=_size(extent))
    # Two pictures with horizontal axes of their own, where open_axes would share one.
    figure, placeholder, own = open_axes(ax, 1)
    placeholder[0, 0].remove()
    if extent is not None and _beside(figure.bbox.size / figure.dpi, extent):
        return figure, figure.subplots(1, 2, squeeze=False, width_ratios=(3, 2)).T, own
    lower = NORMS if extent is not None else 2.0
    rest = max(figure.bbox.height / figure.dpi - FRAME[1] - lower, lower)
    return figure, figure.subplots(2, 1, squeeze=False, height_ratios=(rest, lower)), own


def _size(extent: np.ndarray | None) -> tuple[float, float] | None:
    """Return the size of a figure whose axes the ellipses fill, in inches."""
    if extent is None:
        return None
    width, height = extent
    if height > width:
        return WIDE
    inner = float(np.clip((PLAIN - FRAME[0]) * height / width, *HEIGHTS))
    return PLAIN, inner + NORMS + FRAME[1]


def _beside(size: np.ndarray, extent: np.ndarray) -> bool:
    """Return whether ellipses are larger beside the norms than above them, and legends fit."""
    above = (size - [FRAME[0], FRAME[1] + NORMS]) / extent
    beside = (size * [0.6, 1.0] - [FRAME[0], 0.6 * FRAME[1]]) / extent
    return bool(size[0] >= WIDE[0] and beside.min() > above.min())


def _read_layers(layers: Any, plan: SteeringPlan) -> LayerStack | None:
    if layers is None:
        return None
    if isinstance(layers, (int, np.integer)) and not isinstance(layers, bool):
        return plan.layers(int(layers))
    if not isinstance(layers, LayerStack):
        raise ParameterError(
            f"layers: expected a LayerStack or a number of layers, found {type(layers).__name__}; "
            "make them with plan.layers(n)"
        )
    if layers.dim != plan.dim:
        raise ShapeError(
            f"layers: expected d = {plan.dim} as in the plan, found {layers.dim}; "
            "pass layers of this plan"
        )
    return layers


def _draw_layers(
    axis: Axes,
    plan: SteeringPlan,
    planned: MomentResponse,
    stack: LayerStack,
    coordinates: Any,
    confidence: float,
) -> list[Line2D]:
    """Draw the Gaussians between layers, computed by the layers themselves."""
    resp = moment_response(stack, stack.boundaries, plan.start)
    ink = mpl.rcParams["text.color"]
    name = "1 layer" if len(stack) == 1 else f"{len(stack)} layers"
    if plan.dim == 1:
        return axis.plot(resp.t, resp.mean[0], "o", color=ink, markersize=4, label=name)
    radius = float(np.sqrt(-2 * np.log1p(-confidence)))
    plane, _ = plotting_plane(planned, None, read_coordinates(coordinates, plan.dim))
    lines = []
    for n in range(resp.t.size):
        x, y = ellipse(plane.T @ resp.mean[:, n], plane.T @ resp.factor[:, :, n], radius)
        style = {"color": ink, "linewidth": 0.9, "linestyle": (0, (4, 3)), "zorder": 4}
        lines += axis.plot(x, y, label=f"between {name}" if n == 0 else None, **style)
    return lines


def _draw_norms(
    axis: Axes, plan: SteeringPlan, stack: LayerStack | None, own: bool
) -> list[Line2D]:
    depths = np.union1d(np.linspace(0, plan.duration, POINTS), plan.knots)
    models, colors = [plan.parameters(t) for t in depths], palette()
    lines, shown = [], []
    for color, key in zip(colors, plan.channels, strict=False):
        norms = np.array([parameter_norm(model, key) for model in models])
        lines += axis.plot(depths, norms, color=color, label=f"$|{key}|$ {UNITS[key]}")
        shown.append(norms)
        if stack is not None:
            steps = np.array([parameter_norm(layer, key) for layer in stack])
            axis.stairs(
                steps, stack.boundaries, baseline=None, color=color, linestyle="--", linewidth=1.2
            )
            shown.append(steps)
    if stack is not None:
        kind, many = "residual" if stack[0].dt else "held", "layer" if len(stack) == 1 else "layers"
        grey = mpl.rcParams["axes.edgecolor"]
        lines += axis.plot([], [], "--", color=grey, label=f"{len(stack)} {kind} {many}")
    positive = np.concatenate(shown)
    positive = positive[positive > 0]
    spread = positive.size and positive.max() > LOG_RANGE * positive.min()
    axis.set_yscale("log" if spread else "linear")
    axis.margins(y=0.05 if own else HEADROOM)
    if not spread:
        axis.set_ylim(bottom=0)
    axis.set_xlim(0, plan.duration)
    axis.set_xlabel("depth t")
    axis.set_ylabel("spectral norm")
    return lines
