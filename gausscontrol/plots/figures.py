"""Figures, axes and style that all pictures share.

Without `ax` a picture goes on the current figure if that is empty and on a new one otherwise;
`ax` may also be a figure, to be filled, of which pyplot need not know. Colours are those of the
matplotlib style in use; matplotlib's default colours give way to the Okabe-Ito set, which the
colour-blind tell apart. Nothing here shows a window, chooses a backend or changes a setting.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure, FigureBase
from matplotlib.legend import Legend

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.systems.response import MomentResponse
from gausscontrol.tokens.response import TokenResponse

__all__ = [
    "ABOVE",
    "OKABE_ITO",
    "alarm",
    "check_equilibrium",
    "check_response",
    "depth_colormap",
    "equilibrium_label",
    "finish",
    "legend_of",
    "mark_escape",
    "open_axes",
    "palette",
    "save_picture",
    "set_title",
]

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# Legends stand outside the axes of a figure made here.
ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}
PICTURE_SIZE = (6.4, 4.8)  # inches
PICTURE_DPI = 150


def save_picture(
    path: str | os.PathLike[str],
    draw: Callable[..., object],
    size: tuple[float, float] = PICTURE_SIZE,
) -> None:
    """Draw a figure and write it to a file.

    The figure is unknown to pyplot, so that no backend is chosen and none is needed.

    Parameters
    ----------
    path : str or path-like
        The suffix says the format.
    draw : callable
        Takes the figure as its keyword `ax`.
    size : (float, float), optional
        Width and height, in inches.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    figure = Figure(figsize=size, layout="constrained")
    draw(ax=figure)
    figure.savefig(path, dpi=PICTURE_DPI)


# -- figures and style ----------------------------------------------------------------------------


def open_axes(ax: Any, rows: int) -> tuple[FigureBase, np.ndarray, bool]:
    """Return the figure, its axes (rows, 1), and whether they were made here."""
    if ax is None or isinstance(ax, FigureBase):
        figure = ax
        if figure is None:
            figure = plt.gcf()
            figure = plt.figure() if figure.axes else figure
            if figure.get_layout_engine() is None:
                figure.set_layout_engine("constrained")
        return figure, figure.subplots(rows, 1, squeeze=False, sharex=True), True
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).reshape(-1)
    if axes.size != rows:
        raise ShapeError(
            f"ax: expected {rows} axes, found {axes.size}; use plt.subplots({rows}, 1)"
        )
    strangers = [axis for axis in axes if not isinstance(axis, Axes)]
    if strangers:
        raise ParameterError(
            f"ax: expected matplotlib axes, found {type(strangers[0]).__name__}; "
            f"use plt.subplots({rows}, 1)"
        )
    return axes[0].figure, axes.reshape(rows, 1), False


def set_title(figure: FigureBase, axis: Axes, own: bool, title: str | None, default: str) -> None:
    """Title the figure made here, or the axes that were given if a title was."""
    if own:
        figure.suptitle(default if title is None else title, fontsize="medium")
    elif title is not None:
        axis.set_title(title, fontsize="medium")


def finish(axis: Axes) -> None:
    """Lay a faint grid below what is drawn."""
    axis.grid(True, alpha=0.3, linewidth=0.6)
    axis.set_axisbelow(True)


def legend_of(axis: Axes, **place: Any) -> Legend:
    """Add a legend in the style of all pictures."""
    return axis.legend(fontsize="small", framealpha=0.85, **place)


def palette() -> tuple[str, ...]:
    """Return the colours of the matplotlib style, or the Okabe-Ito set for its default."""
    cycle = mpl.rcParams["axes.prop_cycle"]
    if cycle == mpl.rcParamsDefault["axes.prop_cycle"]:
        return OKABE_ITO
    return tuple(cycle.by_key().get("color", OKABE_ITO))


def alarm() -> str:
    """Return the colour of escapes and of what is not stable."""
    return OKABE_ITO[1]


def depth_colormap() -> Colormap:
    """Return the style's colour map without its palest end."""
    # The last tenth of the usual maps is too pale for a line on white.
    whole = mpl.colormaps[mpl.rcParams["image.cmap"]]
    return ListedColormap(whole(np.linspace(0, 0.9, 256)))


def mark_escape(axis: Axes, resp: MomentResponse) -> None:
    """Draw a vertical line at the depth of a finite escape."""
    if resp.blow_up_time is not None:
        axis.axvline(
            resp.blow_up_time,
            color=mpl.rcParams["text.color"],
            linestyle=":",
            linewidth=1.6,
            label=f"escape at {resp.blow_up_time:.5g}",
        )


def equilibrium_label(equilibrium: Equilibrium | None) -> str:
    """Return what a legend calls an equilibrium."""
    stable = equilibrium is None or equilibrium.is_stable
    return "equilibrium" if stable else "equilibrium\n(not stable)"


# -- arguments ------------------------------------------------------------------------------------


def check_response(resp: Any) -> None:
    """Refuse anything but a MomentResponse."""
    if isinstance(resp, TokenResponse):
        raise ParameterError(
            "resp: expected a MomentResponse, found a TokenResponse; pass it to token_plot, or its "
            "attribute gaussian here"
        )
    if not isinstance(resp, MomentResponse):
        raise ParameterError(
            f"resp: expected a MomentResponse, found {type(resp).__name__}; "
            "make one with moment_response(model, timepts, initial)"
        )


def check_equilibrium(equilibrium: Any, resp: MomentResponse) -> None:
    """Refuse anything but an equilibrium of the dimension of the response."""
    if equilibrium is None:
        return
    if not isinstance(equilibrium, Equilibrium):
        raise ParameterError(
            f"equilibrium: expected an Equilibrium, found {type(equilibrium).__name__}; "
            "make one with find_equilibrium(model)"
        )
    if equilibrium.model.dim != resp.mean.shape[0]:
        raise ShapeError(
            f"equilibrium: expected d = {resp.mean.shape[0]} as in the response, found "
            f"d = {equilibrium.model.dim}; pass that of the same model"
        )
