"""The moments along the depth (Theory 1.1, 1.6).

mu(t) and the nonzero eigenvalues of Sigma(t), whose number never changes
"""

from __future__ import annotations

from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.plots.figures import (
    check_equilibrium,
    check_response,
    depth_colormap,
    equilibrium_label,
    finish,
    legend_of,
    mark_escape,
    open_axes,
    palette,
    set_title,
)
from gausscontrol.systems.response import MomentResponse

__all__ = ["moment_plot"]

# Up to FEW quantities get a colour each, up to MANY a shade, and dashes; more of them a band.
FEW, MANY = 4, 16
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)))
# Rows of a legend beside the axes before it has a second column.
ROWS = 9
# Quantities that spread over more than this factor are drawn on a logarithmic axis.
LOG_RANGE = 30.0
# Below this share of the largest value on a logarithmic axis there is rounding only.
LOG_FLOOR = 1e-14


def moment_plot(
    resp: MomentResponse,
    *,
    equilibrium: Equilibrium | None = None,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    r"""Plot the mean and the covariance spectrum along the depth.

    Above mu(t), below the nonzero eigenvalues of Sigma(t), on a logarithmic axis where they
    spread widely. Each component has a colour of its own, beyond four a shade between dark and
    pale; beyond 16 a band shows their range, middle half and median. A vertical line marks the
    depth of a finite escape.

    Parameters
    ----------
    resp : MomentResponse
        Mean [x] and covariance [x]^2.
    equilibrium : Equilibrium, optional
        Marked at the right edge, in the colour of the component.
    ax : array of two Axes or Figure, optional
        Where to draw, mean first.
    title : str, optional
        By default the title of the response, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines, axes (2, 1), figure, legend (2, 1).

    Raises
    ------
    ParameterError, ShapeError
        If an argument is of the wrong type or dimension, or `ax` does not hold two axes.

    Notes
    -----
    Theory 1.1, 1.6.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(0.5, 1, -0.25)
    >>> resp = gct.moment_response(model, np.linspace(0, 9, 50), ([1.0], [[0.1]]))
    >>> plot = gct.moment_plot(resp, equilibrium=gct.find_equilibrium(model))
    >>> [axes.get_ylabel() for axes in plot.axes[:, 0]]
    ['mean [x]', 'eigenvalues of $\\Sigma$ [x]$^2$']
    >>> plt.close(plot.figure)
    """
    check_response(resp)
    check_equilibrium(equilibrium, resp)
    figure, axes, own = open_axes(ax, 2)
    upper, lower = axes[:, 0]
    mean = None if equilibrium is None else equilibrium.mean
    spectrum = None if equilibrium is None else _eigenvalues(equilibrium)
    label = equilibrium_label(equilibrium)
    lines = np.empty((2, 1), dtype=object)
    lines[0, 0] = _draw_family(upper, resp.t, resp.mean, r"$\mu$", mean, label, own)
    lines[1, 0] = _draw_spectrum(lower, resp, spectrum, label, own)
    upper.set_ylabel("mean [x]")
    lower.set_ylabel(r"eigenvalues of $\Sigma$ [x]$^2$")
    lower.set_xlabel("depth t")
    for axis in (upper, lower):
        mark_escape(axis, resp)
        finish(axis)
    upper.tick_params(labelbottom=not own)
    legends = np.array([[_legend(axis, own)] for axis in (upper, lower)], dtype=object)
    set_title(figure, upper, own, title, resp.title)
    return ct.ControlPlot(lines, axes, figure, legend=legends)


# -- moments along the depth ----------------------------------------------------------------------


def _legend(axis: Axes, own: bool) -> Legend:
    if not own:
        return legend_of(axis)
    columns = 1 if len(axis.get_legend_handles_labels()[0]) <= ROWS else 2
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": columns}
    return legend_of(axis, columnspacing=1.0, handlelength=1.6 if columns > 1 else 2.2, **place)


def _draw_family(
    axis: Axes,
    t: np.ndarray,
    values: np.ndarray,
    symbol: str,
    final: np.ndarray | None,
    label: str,
    own: bool,
) -> list[Line2D]:
    """Draw (n, N) values over t and mark n final ones, with a label."""
    count = len(values)
    if count > MANY:
        lines = _draw_band(axis, t, values, palette()[0])
        final = None if final is None or not final.size else np.quantile(final, [0, 0.5, 1])
        colors = [mpl.rcParams["text.color"]] * 3
    else:
        colors, dashes = _styles(count)
        lines = [
            axis.plot(t, row, color=color, linestyle=dash, label=_indexed(symbol, i, count))[0]
            for i, (row, color, dash) in enumerate(zip(values, colors, dashes, strict=True))
        ]
        if count > FEW and not own:
            # In axes of the user the ends of the shades have to do.
            for line in lines[1:-1]:
                line.set_label("_nolegend_")
    if final is not None and final.size:
        _mark_final(axis, t[-1], final, colors, label)
    return lines


def _styles(count: int) -> tuple[list[Any], list[Any]]:
    """Return a colour and a dash pattern for each of up to MANY lines."""
    if count <= FEW:
        cycle = palette()
        return [cycle[i % len(cycle)] for i in range(count)], list(DASHES[:count])
    # Neighbouring shades differ in their dashes.
    return list(depth_colormap()(np.linspace(0, 1, count))), [DASHES[i % 3] for i in range(count)]


def _mark_final(axis: Axes, t: float, final: np.ndarray, colors: list[Any], label: str) -> None:
    style = {"markersize": 4.5, "markerfacecolor": mpl.rcParams["axes.facecolor"], "zorder": 4}
    for value, color in zip(final, colors, strict=False):
        axis.plot(t, value, "D", markeredgecolor=color, clip_on=False, **style)
    axis.plot([], [], "D", markeredgecolor=mpl.rcParams["text.color"], label=label, **style)


def _draw_band(axis: Axes, t: np.ndarray, values: np.ndarray, color: str) -> list[Line2D]:
    low, lower, median, upper, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1], axis=0)
    axis.fill_between(
        t, low, high, color=color, alpha=0.15, linewidth=0, label=f"range of {len(values)}"
    )
    axis.fill_between(t, lower, upper, color=color, alpha=0.3, linewidth=0, label="middle half")
    return axis.plot(t, median, color=color, label="median")


def _draw_spectrum(
    axis: Axes, resp: MomentResponse, final: np.ndarray | None, label: str, own: bool
) -> list[Line2D]:
    values = _response_eigenvalues(resp)
    if len(values) == 0:
        axis.set_ylim(-1, 1)
        return axis.plot(resp.t, np.zeros_like(resp.t), label=r"$\Sigma = 0$", color=palette()[0])
    lines = _draw_family(axis, resp.t, values, r"$\lambda$", final, label, own)
    if len(values) < resp.mean.shape[0]:
        axis.plot([], [], " ", label=f"rank {len(values)} of {resp.mean.shape[0]}")
    low, high = values.min(), values.max()
    if high > LOG_RANGE * low:
        axis.set_yscale("log")
        if low < LOG_FLOOR * high:
            axis.set_ylim(bottom=LOG_FLOOR * high)
    return lines


def _response_eigenvalues(resp: MomentResponse) -> np.ndarray:
    """Return the eigenvalues that are nonzero by rank, (rank, N), largest first."""
    # Singular values of the factor keep small eigenvalues to full relative accuracy.
    factors = np.moveaxis(resp.factor, -1, 0)
    return (np.linalg.svd(factors, compute_uv=False) ** 2).T[: resp.rank]


def _eigenvalues(equilibrium: Equilibrium) -> np.ndarray:
    # The nonzero ones: zero has no place on a logarithmic axis.
    return np.linalg.eigvalsh(equilibrium.covariance)[::-1][: equilibrium.rank]


def _indexed(symbol: str, index: int, count: int) -> str:
    return symbol if count == 1 else f"{symbol}[{index}]"
