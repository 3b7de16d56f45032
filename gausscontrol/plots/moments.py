"""The moments along the depth (Theory 1.1, 1.6).

mu(t) and the nonzero eigenvalues of Sigma(t), whose number never changes
"""

from __future__ import annotations

from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.plots.figures import (
    check_equilibrium,
    check_response,
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

# Up to FEW quantities get a colour and a name each, up to MANY a line each, more of them a band.
FEW, MANY = 4, 16
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
    spread widely. Beyond 16 coordinates a band shows their range, middle half and median. A
    vertical line marks the depth of a finite escape.

    Parameters
    ----------
    resp : MomentResponse
        Mean [x] and covariance [x]^2.
    equilibrium : Equilibrium, optional
        Marked at the right edge.
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
    lines[0, 0] = _draw_family(upper, resp.t, resp.mean, r"$\mu$", mean, label)
    lines[1, 0] = _draw_spectrum(lower, resp, spectrum, label)
    upper.set_ylabel("mean [x]")
    lower.set_ylabel(r"eigenvalues of $\Sigma$ [x]$^2$")
    lower.set_xlabel("depth t")
    for axis in (upper, lower):
        mark_escape(axis, resp)
        finish(axis)
    upper.tick_params(labelbottom=not own)
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if own else {}
    legends = np.array([[legend_of(upper, **place)], [legend_of(lower, **place)]], dtype=object)
    set_title(figure, upper, own, title, resp.title)
    return ct.ControlPlot(lines, axes, figure, legend=legends)


# -- moments along the depth ----------------------------------------------------------------------


def _draw_family(
    axis: Axes,
    t: np.ndarray,
    values: np.ndarray,
    symbol: str,
    final: np.ndarray | None,
    label: str,
) -> list[Line2D]:
    """Draw (n, N) values over t and mark n final ones, with a label."""
    count, colors = len(values), palette()
    if count <= FEW:
        lines = [
            axis.plot(t, row, color=colors[i % len(colors)], label=_indexed(symbol, i, count))[0]
            for i, row in enumerate(values)
        ]
    elif count <= MANY:
        lines = axis.plot(t, values.T, color=colors[0], linewidth=0.9, alpha=0.8)
        lines[0].set_label(f"{_indexed(symbol, 0, count)} ... {_indexed(symbol, count - 1, count)}")
    else:
        lines = _draw_band(axis, t, values, colors[0])
        final = None if final is None or not final.size else np.quantile(final, [0, 0.5, 1])
    if final is not None and final.size:
        axis.plot(
            np.full(len(final), t[-1]),
            final,
            "D",
            markersize=4.5,
            markerfacecolor="none",
            markeredgecolor=mpl.rcParams["text.color"],
            label=label,
            clip_on=False,
            zorder=4,
        )
    return lines


def _draw_band(axis: Axes, t: np.ndarray, values: np.ndarray, color: str) -> list[Line2D]:
    low, lower, median, upper, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1], axis=0)
    axis.fill_between(
        t, low, high, color=color, alpha=0.15, linewidth=0, label=f"range of {len(values)}"
    )
    axis.fill_between(t, lower, upper, color=color, alpha=0.3, linewidth=0, label="middle half")
    return axis.plot(t, median, color=color, label="median")


def _draw_spectrum(
    axis: Axes, resp: MomentResponse, final: np.ndarray | None, label: str
) -> list[Line2D]:
    values = _response_eigenvalues(resp)
    if len(values) == 0:
        axis.set_ylim(-1, 1)
        return axis.plot(resp.t, np.zeros_like(resp.t), label=r"$\Sigma = 0$", color=palette()[0])
    lines = _draw_family(axis, resp.t, values, r"$\lambda$", final, label)
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
