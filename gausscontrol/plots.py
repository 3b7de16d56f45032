"""Pictures of responses and of spectra (Theory 1.6, 2.3, 4.2).

    mu(t) and spec Sigma(t);   { mu + r Sigma^(1/2) u : |u| = 1 };   spec(M + Vbar) and spec(L)

Every function takes `ax=` and `title=` and returns a `ct.ControlPlot`. Without `ax` it draws on the
current figure if that is empty and on a new one otherwise; `ax` may also be a figure, to be filled,
of which pyplot need not know. Colours are those of the matplotlib
style in use; matplotlib's default colours give way to the Okabe-Ito set, which the colour-blind
tell apart. Nothing here shows a window, chooses a backend or changes a setting.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import control as ct
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure, FigureBase
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from scipy.special import ndtri

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis
from gausscontrol.certificates.stability import GlobalStability
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.systems.response import MomentResponse

__all__ = ["ellipse_plot", "moment_plot", "save_picture", "spectrum_plot"]

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# Up to FEW quantities get a colour and a name each, up to MANY a line each, more of them a band.
FEW, MANY = 4, 16
# Quantities that spread over more than this factor are drawn on a logarithmic axis.
LOG_RANGE = 30.0
# Below this share of the largest value on a logarithmic axis there is rounding only.
LOG_FLOOR = 1e-14
ELLIPSES = 12
# Ellipses on the way to an escape are drawn until they are this many times the first.
OUTGROWN = 8.0
# More poles than this are drawn small.
CROWD = 200
# Legends stand outside the axes of a figure made here.
ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}
# What the command line writes.
PICTURES = ("moments.png", "ellipses.png", "spectrum.png")
PICTURE_SIZE = (6.4, 4.8)  # inches
PICTURE_DPI = 150


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
    _check_response(resp)
    _check_equilibrium(equilibrium, resp)
    figure, axes, own = _axes(ax, 2)
    upper, lower = axes[:, 0]
    mean = None if equilibrium is None else equilibrium.mean
    spectrum = None if equilibrium is None else _eigenvalues(equilibrium.covariance)
    label = _equilibrium_label(equilibrium)
    lines = np.empty((2, 1), dtype=object)
    lines[0, 0] = _draw_family(upper, resp.t, resp.mean, r"$\mu$", mean, label)
    lines[1, 0] = _draw_spectrum(lower, resp, spectrum, label)
    upper.set_ylabel("mean [x]")
    lower.set_ylabel(r"eigenvalues of $\Sigma$ [x]$^2$")
    lower.set_xlabel("depth t")
    for axis in (upper, lower):
        _mark_escape(axis, resp)
        _finish(axis)
    upper.tick_params(labelbottom=not own)
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if own else {}
    legends = np.array([[_legend(upper, **place)], [_legend(lower, **place)]], dtype=object)
    _set_title(figure, upper, own, title, resp.title)
    return ct.ControlPlot(lines, axes, figure, legend=legends)


def ellipse_plot(
    resp: MomentResponse,
    *,
    coordinates: tuple[int, int] | None = None,
    equilibrium: Equilibrium | None = None,
    confidence: float = 0.95,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    """Plot confidence ellipses along the depth in a plane.

    The curve mu + r Sigma^(1/2) u, |u| = 1, projected on two coordinates, holds the tokens with
    the given probability. Ellipses follow each other at equal steps of change, and their colour
    says the depth. A covariance of rank 1 gives segments; on the way to a finite escape drawing
    stops at eight times the first size. In one dimension the interval
    mu +- r sigma is drawn against the depth instead.

    Parameters
    ----------
    resp : MomentResponse
        Mean [x] and covariance [x]^2.
    coordinates : (int, int), optional
        By default 0 and 1 if d = 2; otherwise the two leading principal directions of the
        equilibrium, or of the last covariance if no equilibrium is given.
    equilibrium : Equilibrium, optional
        Its ellipse is drawn dashed.
    confidence : float, optional
        Probability that a token lies inside.
    ax : Axes or Figure, optional
        Where to draw.
    title : str, optional
        By default the title of the response, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines, axes (1, 1), figure, legend.

    Raises
    ------
    ParameterError, ShapeError
        If an argument is of the wrong type or dimension, or a coordinate does not exist.

    Notes
    -----
    Theory 1.6: the number of nonzero axes of an ellipsoid never changes.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    >>> resp = gct.moment_response(model, np.linspace(0, 5, 50), (np.ones(2), 0.1 * np.eye(2)))
    >>> plot = gct.ellipse_plot(resp)
    >>> plot.axes[0, 0].get_xlabel()
    'coordinate x[0] [x]'
    >>> plt.close(plot.figure)
    """
    _check_response(resp)
    _check_equilibrium(equilibrium, resp)
    if not 0 < confidence < 1:
        raise ParameterError(
            f"confidence: expected a probability between 0 and 1, found {confidence!r}"
        )
    dim = resp.mean.shape[0]
    pair = _read_coordinates(coordinates, dim)
    figure, axes, own = _axes(ax, 1)
    axis = axes[0, 0]
    if dim == 1:
        drawn = _draw_interval(axis, resp, equilibrium, confidence)
    else:
        plane, names = _plane(resp, equilibrium, pair)
        drawn = _draw_ellipses(axis, resp, equilibrium, confidence, plane)
        axis.set_xlabel(f"{names[0]} [x]")
        axis.set_ylabel(f"{names[1]} [x]")
        axis.set_aspect("equal", adjustable="datalim")
    _finish(axis)
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = drawn
    legend = _legend(axis, **(ABOVE if own else {}))
    _set_title(figure, axis, own, title, resp.title)
    return ct.ControlPlot(lines, axes, figure, legend=legend)


def spectrum_plot(
    analysis: EquilibriumAnalysis,
    *,
    certificate: GlobalStability | None = None,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    """Plot the poles of the linearisation in the complex plane.

    Covariance poles spec(L) as crosses, mean poles spec(M + Vbar) as circles, with the boundary
    of stability and the abscissa. Where the attention form is negative definite, all covariance
    poles lie in the shaded half-plane Re <= -rate.

    Parameters
    ----------
    analysis : EquilibriumAnalysis
        Poles [1/t], or without unit for dt > 0.
    certificate : GlobalStability, optional
        Its certified rate bounds the shaded half-plane; without it that of the attention form.
    ax : Axes or Figure, optional
        Where to draw.
    title : str, optional
        By default one that names the model, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines (covariance poles, then mean poles), axes (1, 1), figure, legend.

    Raises
    ------
    ParameterError, ShapeError
        If an argument is of the wrong type, or the certificate is one of another model.

    Notes
    -----
    Theory 2.3, 4.2. For dt > 0 the boundary is the unit circle and no half-plane is drawn.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> analysis = gct.analyze(gct.GaussianTransformer(0.5, 1, -0.25))
    >>> plot = gct.spectrum_plot(analysis)
    >>> [bool(np.allclose(line.get_xdata(), x)) for line, x in zip(plot.lines[0, 0], (-1, -0.25))]
    [True, True]
    >>> plt.close(plot.figure)
    """
    if not isinstance(analysis, EquilibriumAnalysis):
        raise ParameterError(
            f"analysis: expected an EquilibriumAnalysis, found {type(analysis).__name__}; "
            "make one with analyze(model)"
        )
    _check_certificate(certificate, analysis)
    figure, axes, own = _axes(ax, 1)
    axis = axes[0, 0]
    dim = analysis.model.dim
    poles = {
        "covariance poles": np.linalg.eigvals(analysis.system.A[dim:, dim:]),
        "mean poles": np.linalg.eigvals(analysis.system.A[:dim, :dim]),
    }
    every = np.concatenate(list(poles.values()))
    size = 6.5 if every.size <= CROWD else 3.5
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = [
        axis.plot(values.real, values.imag, label=label, zorder=3, **style)[0]
        for (label, values), style in zip(poles.items(), _pole_styles(size), strict=True)
    ]
    if analysis.model.dt:
        _draw_circle(axis, analysis, every)
    else:
        _draw_half_planes(axis, analysis, certificate, every)
    _finish(axis)
    legend = _legend(axis, **(ABOVE if own else {}))
    _set_title(figure, axis, own, title, f"Poles of {analysis.model.name or 'the linearisation'}")
    return ct.ControlPlot(lines, axes, figure, legend=legend)


def save_picture(path: str | os.PathLike[str], draw: Callable[..., object]) -> None:
    """Draw a figure and write it to a file.

    The figure is unknown to pyplot, so that no backend is chosen and none is needed.

    Parameters
    ----------
    path : str or path-like
        The suffix says the format.
    draw : callable
        Takes the figure as its keyword `ax`.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    figure = Figure(figsize=PICTURE_SIZE, layout="constrained")
    draw(ax=figure)
    figure.savefig(path, dpi=PICTURE_DPI)


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
    count, colors = len(values), _colors()
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
        final = None if final is None else np.quantile(final, [0, 0.5, 1])
    if final is not None:
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
        return axis.plot(resp.t, np.zeros_like(resp.t), label=r"$\Sigma = 0$", color=_colors()[0])
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


def _eigenvalues(covariance: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(covariance)[::-1]


def _mark_escape(axis: Axes, resp: MomentResponse) -> None:
    if resp.blow_up_time is not None:
        axis.axvline(
            resp.blow_up_time,
            color=_alarm(),
            linestyle="--",
            linewidth=1.2,
            label=f"escape at {resp.blow_up_time:.5g}",
        )


def _equilibrium_label(equilibrium: Equilibrium | None) -> str:
    stable = equilibrium is None or equilibrium.is_stable
    return "equilibrium" if stable else "equilibrium\n(not stable)"


def _indexed(symbol: str, index: int, count: int) -> str:
    return symbol if count == 1 else f"{symbol}[{index}]"


# -- ellipses -------------------------------------------------------------------------------------


def _read_coordinates(coordinates: Any, dim: int) -> tuple[int, int] | None:
    if coordinates is None:
        return (0, 1) if dim == 2 else None
    entries = tuple(coordinates) if np.iterable(coordinates) else (coordinates,)
    valid = (
        len(entries) == 2
        and all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in entries)
        and all(0 <= i < dim for i in entries)
        and entries[0] != entries[1]
    )
    if not valid:
        raise ParameterError(
            f"coordinates: expected two different numbers from 0 to {dim - 1}, found "
            f"{coordinates!r}; leave them out for the leading principal directions"
        )
    return int(entries[0]), int(entries[1])


def _plane(
    resp: MomentResponse, equilibrium: Equilibrium | None, pair: tuple[int, int] | None
) -> tuple[np.ndarray, tuple[str, str]]:
    """Return an orthonormal basis (d, 2) of the plane to draw in, and what its axes are called."""
    if pair is not None:
        identity = np.eye(resp.mean.shape[0])
        return identity[:, pair], (f"coordinate x[{pair[0]}]", f"coordinate x[{pair[1]}]")
    reference, whose = resp.covariance[:, :, -1], "the last covariance"
    if equilibrium is not None:
        reference, whose = equilibrium.covariance, "the equilibrium"
    directions = np.linalg.eigh(reference)[1][:, :-3:-1]
    # An eigenvector has no sign of its own; the largest entry is made positive.
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, [0, 1]])
    return directions, (f"principal direction 1 of {whose}", "principal direction 2")


def _draw_ellipses(
    axis: Axes,
    resp: MomentResponse,
    equilibrium: Equilibrium | None,
    confidence: float,
    plane: np.ndarray,
) -> list[Line2D]:
    radius = float(np.sqrt(-2 * np.log1p(-confidence)))
    means = plane.T @ resp.mean
    factors = np.einsum("ia,irn->arn", plane, resp.factor)
    shown = _shown_depths(resp, factors)
    chosen = _spread_out(means[:, :shown], factors[:, :, :shown])
    norm, colormap = Normalize(resp.t[0], resp.t[chosen[-1]]), _depth_colormap()
    ending = "last" if shown == resp.t.size else "last drawn"
    lines = []
    for n in chosen:
        last, first = n == chosen[-1], n == chosen[0]
        label = f"{100 * confidence:g}% ellipse, "
        label = f"{label}{ending} (t = {resp.t[n]:.4g})" if last else f"{label}start"
        x, y = _ellipse(means[:, n], factors[:, :, n], radius)
        style = {"linewidth": 2.4 if last else 1.1, "color": colormap(norm(resp.t[n]))}
        lines += axis.plot(x, y, label=label if first or last else None, **style)
    ink = mpl.rcParams["text.color"]
    lines += axis.plot(*means[:, :shown], color=ink, linewidth=0.8, alpha=0.7, label="mean")
    axis.plot(*means[:, shown - 1], "o", color=ink, markersize=3)
    if equilibrium is not None:
        L = np.linalg.cholesky(equilibrium.covariance)
        mean = resp.mean[:, -1] if equilibrium.mean is None else equilibrium.mean
        name = _equilibrium_label(equilibrium)
        x, y = _ellipse(plane.T @ mean, plane.T @ L, radius)
        lines += axis.plot(x, y, color=ink, linestyle=(0, (4, 3)), label=name, zorder=4)
    bar = axis.figure.colorbar(mpl.cm.ScalarMappable(norm, colormap), ax=axis, label="depth t")
    bar.outline.set_visible(False)
    if resp.blow_up_time is not None:
        axis.plot([], [], " ", label=f"escape at t = {resp.blow_up_time:.5g}")
    return lines


def _shown_depths(resp: MomentResponse, factors: np.ndarray) -> int:
    """Count the depths to draw: up to an escape ellipses outgrow any picture."""
    if resp.blow_up_time is None:
        return resp.t.size
    sizes = np.linalg.norm(factors, axis=(0, 1))
    grown = np.flatnonzero(sizes > OUTGROWN * sizes[0])
    return max(int(grown[0]), 1) if grown.size else resp.t.size


def _spread_out(means: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Choose depths between which the projected Gaussian changes by equal amounts."""
    U, s, _ = np.linalg.svd(np.moveaxis(factors, -1, 0), full_matrices=False)
    roots = np.einsum("nik,nk,njk->nij", U, s, U)
    steps = np.sqrt(
        (np.diff(roots, axis=0) ** 2).sum(axis=(1, 2)) + (np.diff(means, axis=1) ** 2).sum(axis=0)
    )
    travelled = np.concatenate([[0], np.cumsum(steps)])
    wanted = np.searchsorted(travelled, np.linspace(0, travelled[-1], ELLIPSES))
    return np.unique([0, *np.minimum(wanted, len(steps)), len(steps)])


def _ellipse(mean: np.ndarray, L: np.ndarray, radius: float) -> np.ndarray:
    U, s, _ = np.linalg.svd(L, full_matrices=False)
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])[: s.size]
    return mean[:, None] + radius * (U * s) @ circle


def _draw_interval(
    axis: Axes, resp: MomentResponse, equilibrium: Equilibrium | None, confidence: float
) -> list[Line2D]:
    color, ink = _colors()[0], mpl.rcParams["text.color"]
    radius = float(ndtri((1 + confidence) / 2))
    mean, half = resp.mean[0], radius * np.sqrt(resp.covariance[0, 0])
    label = f"{100 * confidence:g}% interval"
    axis.fill_between(resp.t, mean - half, mean + half, color=color, alpha=0.2, label=label)
    lines = axis.plot(resp.t, mean, color=color, label="mean")
    if equilibrium is not None and equilibrium.mean is not None:
        edge = radius * np.sqrt(equilibrium.covariance[0, 0])
        for offset in (-edge, 0.0, edge):
            line = axis.axhline(
                equilibrium.mean[0] + offset,
                color=ink,
                linewidth=1,
                linestyle=(0, (4, 3)),
                label=None if offset else _equilibrium_label(equilibrium),
            )
            lines.append(line)
    axis.set_xlabel("depth t")
    axis.set_ylabel("token x [x]")
    _mark_escape(axis, resp)
    return lines


# -- poles ----------------------------------------------------------------------------------------


def _pole_styles(size: float) -> tuple[dict[str, Any], dict[str, Any]]:
    colors = _colors()
    common = {"linestyle": "none", "markersize": size, "markeredgewidth": size / 4.5}
    return (
        {**common, "marker": "x", "color": colors[0]},
        {**common, "marker": "o", "color": colors[1 % len(colors)], "markerfacecolor": "none"},
    )


def _draw_half_planes(
    axis: Axes,
    analysis: EquilibriumAnalysis,
    certificate: GlobalStability | None,
    poles: np.ndarray,
) -> None:
    rate = 2 * analysis.attention_form_margin if certificate is None else certificate.rate
    shown = [0.0, *poles.real, *([-rate] if rate > 0 else [])]
    width = (max(shown) - min(shown)) or 1.0
    left, right = min(shown) - 0.12 * width, max(shown) + 0.12 * width
    height = max(1.25 * np.abs(poles.imag).max(), 0.1 * width)
    axis.set_xlim(left, right)
    axis.set_ylim(-height, height)
    axis.axvline(0, color=mpl.rcParams["axes.edgecolor"], linewidth=1.2, zorder=2)
    color = _alarm() if analysis.abscissa >= 0 else mpl.rcParams["text.color"]
    stable = "" if analysis.is_stable else ", not stable"
    axis.axvline(
        analysis.abscissa,
        color=color,
        linestyle=":",
        linewidth=1.4,
        label=f"abscissa {analysis.abscissa:.4g}{stable}",
        zorder=2,
    )
    if rate > 0:
        word = "by the form" if certificate is None else "certified"
        green = _colors()[2 % len(_colors())]
        axis.axvspan(left, -rate, color=green, alpha=0.12, linewidth=0, zorder=0)
        axis.axvline(
            -rate,
            color=green,
            linestyle="--",
            linewidth=1.4,
            label=rf"covariance, {word}: $\leq$ {-rate:.4g}",
            zorder=2,
        )
    axis.set_xlabel("real part [1/t], per unit depth")
    axis.set_ylabel("imaginary part [1/t]")


def _draw_circle(axis: Axes, analysis: EquilibriumAnalysis, poles: np.ndarray) -> None:
    angle = np.linspace(0, 2 * np.pi, 361)
    axis.plot(
        np.cos(angle), np.sin(angle), color=mpl.rcParams["axes.edgecolor"], linewidth=1.2, zorder=2
    )
    radius = np.abs(poles).max()
    stable = "" if analysis.is_stable else ", not stable"
    axis.plot(
        radius * np.cos(angle),
        radius * np.sin(angle),
        color=_alarm() if radius >= 1 else mpl.rcParams["text.color"],
        linestyle=":",
        linewidth=1.4,
        label=f"spectral radius {radius:.4g}{stable}",
        zorder=2,
    )
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xlabel(f"real part, per layer of depth {analysis.model.dt:g}")
    axis.set_ylabel("imaginary part")


# -- figures and style ----------------------------------------------------------------------------


def _axes(ax: Any, rows: int) -> tuple[FigureBase, np.ndarray, bool]:
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


def _set_title(figure: FigureBase, axis: Axes, own: bool, title: str | None, default: str) -> None:
    if own:
        figure.suptitle(default if title is None else title, fontsize="medium")
    elif title is not None:
        axis.set_title(title, fontsize="medium")


def _finish(axis: Axes) -> None:
    axis.grid(True, alpha=0.3, linewidth=0.6)
    axis.set_axisbelow(True)


def _legend(axis: Axes, **place: Any) -> Legend:
    return axis.legend(fontsize="small", framealpha=0.85, **place)


def _colors() -> tuple[str, ...]:
    cycle = mpl.rcParams["axes.prop_cycle"]
    if cycle == mpl.rcParamsDefault["axes.prop_cycle"]:
        return OKABE_ITO
    return tuple(cycle.by_key().get("color", OKABE_ITO))


def _alarm() -> str:
    return OKABE_ITO[1]


def _depth_colormap() -> Colormap:
    # The last tenth of the usual maps is too pale for a line on white.
    whole = mpl.colormaps[mpl.rcParams["image.cmap"]]
    return ListedColormap(whole(np.linspace(0, 0.9, 256)))


# -- arguments ------------------------------------------------------------------------------------


def _check_response(resp: Any) -> None:
    if not isinstance(resp, MomentResponse):
        raise ParameterError(
            f"resp: expected a MomentResponse, found {type(resp).__name__}; "
            "make one with moment_response(model, timepts, initial)"
        )


def _check_equilibrium(equilibrium: Any, resp: MomentResponse) -> None:
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


def _check_certificate(certificate: Any, analysis: EquilibriumAnalysis) -> None:
    if certificate is None:
        return
    if not isinstance(certificate, GlobalStability):
        raise ParameterError(
            f"certificate: expected a GlobalStability, found {type(certificate).__name__}; "
            "make one with certify_global_stability(model, equilibrium)"
        )
    if certificate.model != analysis.model:
        raise ParameterError(
            "certificate: expected one of the analysed model, found one of another; "
            "certify analysis.model"
        )
