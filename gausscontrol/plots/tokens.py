"""Tokens along the depth beside the Gaussian system (Theory 8.3).

eigenvalues of both covariances,    W2 gap over spread,    logits, averaging and collapse
"""

from __future__ import annotations

from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gausscontrol.errors import ParameterError
from gausscontrol.plots.figures import (
    finish,
    legend_of,
    open_axes,
    palette,
    set_title,
)
from gausscontrol.tokens.response import TokenResponse

__all__ = ["token_plot"]

# Up to this many eigenvalues are drawn each; of more, the largest, the median and the smallest.
FEW = 4
# Seen without colours too.
MARKS, DASHES = "os^D", ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)))
# Eigenvalues below this share of the largest are rounding, and have no place on the axis.
LOG_FLOOR = 1e-14
# About this many dots are drawn along the depth.
DOTS = 25


def token_plot(
    token_response: TokenResponse, *, ax: Any = None, title: str | None = None
) -> ct.ControlPlot:
    """Plot tokens along the depth beside the Gaussian system.

    Above, the eigenvalues of the sample covariance as dots, those of the Gaussian system as lines,
    of more than four the largest, the median and the smallest that are not rounding. In the middle,
    the W2 gap between both over the spread of the tokens. Below, the logits' standard deviation,
    the effective sample fraction, the effective rank over d and the mean cosine; the axis is
    logarithmic beyond 1 where logits exceed 10. A vertical line marks where the Gaussian system
    escapes.

    Parameters
    ----------
    token_response : TokenResponse
        As `TokenTransformer.simulate` returns.
    ax : array of three Axes or Figure, optional
        Where to draw, from above.
    title : str, optional
        By default one that says how many tokens there are, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines, axes (3, 1), figure, legend (3, 1); no legend in the middle.

    Raises
    ------
    ParameterError, ShapeError
        If an argument is of the wrong type, or `ax` does not hold three axes.

    Notes
    -----
    Theory 8.3.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    >>> tokens = 0.5 * np.random.default_rng(0).normal(size=(200, 2))
    >>> response = gct.tokens.TokenTransformer(model).simulate(tokens, np.linspace(0, 2, 9))
    >>> plot = gct.token_plot(response)
    >>> [axes.get_ylabel() for axes in plot.axes[:, 0]]
    ['eigenvalues [x]$^2$', 'W2 gap / spread', 'logit sd, fractions']
    >>> plt.close(plot.figure)
    """
    if not isinstance(token_response, TokenResponse):
        raise ParameterError(
            f"token_response: expected a TokenResponse, found {type(token_response).__name__}; "
            "make one with TokenTransformer(model).simulate(tokens, timepts)"
        )
    figure, axes, own = open_axes(ax, 3)
    if own and isinstance(figure, Figure) and figure.get_layout_engine() is None:
        # Legends stand beside the axes.
        figure.set_layout_engine("constrained")
    upper, middle, lower = axes[:, 0]
    lines = np.empty((3, 1), dtype=object)
    lines[0, 0] = _draw_spectra(upper, token_response)
    lines[1, 0] = _draw_gap(middle, token_response)
    lines[2, 0] = _draw_shares(lower, token_response)
    upper.set_ylabel("eigenvalues [x]$^2$")
    middle.set_ylabel("W2 gap / spread")
    lower.set_ylabel("logit sd, fractions")
    lower.set_xlabel("depth t")
    for axis in (upper, middle, lower):
        _mark_escape(axis, token_response, named=axis is upper)
        axis.set_xlim(token_response.t[0], token_response.t[-1])
        finish(axis)
    for axis in (upper, middle):
        axis.tick_params(labelbottom=not own)
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if own else {}
    legends = np.empty((3, 1), dtype=object)
    for row, axis in ((0, upper), (2, lower)):
        legends[row, 0] = legend_of(axis, **place)
    set_title(figure, upper, own, title, _default_title(token_response))
    return ct.ControlPlot(lines, axes, figure, legend=legends)


def _default_title(resp: TokenResponse) -> str:
    causal = ", causal" if resp.causal else ""
    normalised = ", layer norm" if resp.layer_norm else ""
    return f"{resp.count} tokens, d = {resp.mean.shape[0]}{causal}{normalised}"


def _chosen(dim: int, rank: int) -> list[tuple[int, str]]:
    """Return which eigenvalues are drawn, from the largest, and what they are called."""
    if dim <= FEW:
        return [(i, r"$\lambda$" if dim == 1 else rf"$\lambda$[{i}]") for i in range(dim)]
    if rank <= FEW:
        return [(i, rf"$\lambda$[{i}] of {dim}") for i in range(rank)]
    among = "" if rank == dim else f" of {rank}"
    return [(0, "largest"), (rank // 2, f"median{among}"), (rank - 1, f"smallest{among}")]


def _mark_escape(axis: Axes, resp: TokenResponse, *, named: bool) -> None:
    if resp.gaussian is None or resp.gaussian.blow_up_time is None:
        return
    depth = resp.gaussian.blow_up_time
    label = f"Gaussian system\nescapes at {depth:.5g}" if named else None
    axis.axvline(depth, color=mpl.rcParams["text.color"], linestyle=":", linewidth=1.6, label=label)


def _plain_logarithmic(axis: Axes) -> None:
    # Few ticks, without powers of ten.
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    narrow = high < 30 * low
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=6))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _say(axis: Axes, text: str) -> None:
    axis.text(0.5, 0.5, text, ha="center", va="center", transform=axis.transAxes)
    axis.set_yticks([])


def _spectrum(covariance: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(np.moveaxis(covariance, -1, 0)).T[::-1]


def _draw_spectra(axis: Axes, resp: TokenResponse) -> list[Line2D]:
    tokens, colors = _spectrum(resp.covariance), palette()
    floor = LOG_FLOOR * tokens[0].max()
    stride = max(1, resp.t.size // DOTS)
    lines = []
    rank = int((tokens > floor).any(axis=1).sum())
    for n, (i, name) in enumerate(_chosen(len(tokens), rank)):
        color = colors[n % len(colors)]
        shown = np.where(tokens[i] > floor, tokens[i], np.nan)
        lines += axis.plot(
            resp.t[::stride], shown[::stride], MARKS[n], markersize=3.5, color=color, label=name
        )
        if resp.gaussian is not None:
            values = _spectrum(resp.gaussian.covariance)[i]
            shown = np.where(values > floor, values, np.nan)
            lines += axis.plot(resp.gaussian.t, shown, color=color, linewidth=1.2)
    proxy = {"color": mpl.rcParams["text.color"], "markersize": 3.5}
    axis.plot([], [], "o", label="tokens", **proxy)
    if resp.gaussian is not None:
        without = "\nwithout mask and norm" if resp.causal or resp.layer_norm else ""
        axis.plot([], [], "-", linewidth=1.2, label=f"Gaussian system{without}", **proxy)
    # The axis is that of the tokens; a Gaussian that escapes leaves through the top.
    visible = tokens[tokens > floor]
    if not visible.size:
        _say(axis, "tokens are one point")
        return lines
    axis.set_ylim(visible.min() / 2, 3 * visible.max())
    _plain_logarithmic(axis)
    return lines


def _draw_gap(axis: Axes, resp: TokenResponse) -> list[Line2D]:
    if resp.relative_gap is None:
        closed = resp.no_gaussian.startswith("it ")
        _say(axis, "no Gaussian system" if closed else "no closure of this part")
        return []
    gap = resp.relative_gap
    # Zero at the start has no place on a logarithmic axis, nor has infinity past an escape.
    visible = (gap > LOG_FLOOR) & np.isfinite(gap)
    if not visible.any():
        _say(axis, "none")
        return []
    lines = axis.plot(resp.t, np.where(visible, gap, np.nan), color=palette()[0])
    axis.set_ylim(gap[visible].min() / 1.5, 1.5 * gap[visible].max())
    _plain_logarithmic(axis)
    return lines


def _draw_shares(axis: Axes, resp: TokenResponse) -> list[Line2D]:
    colors = palette()
    curves = {
        "logit standard\ndeviation": resp.logit_std,
        "effective sample\nfraction": resp.effective_fraction,
        "effective rank / d": resp.effective_rank / resp.mean.shape[0],
        "mean cosine": resp.cosine_similarity,
    }
    lines = []
    for n, (name, values) in enumerate(curves.items()):
        style = {"color": colors[n % len(colors)], "linestyle": DASHES[n]}
        lines += axis.plot(resp.t, values, label=name, **style)
    if resp.logit_std.max() > 10:
        axis.set_yscale("symlog", linthresh=1.0)
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.annotate(
            "logarithmic above 1",
            (0.01, 0.97),
            xycoords="axes fraction",
            va="top",
            fontsize="small",
        )
    return lines
