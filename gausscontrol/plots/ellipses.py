"""The Gaussian along the depth as ellipses in a plane (Theory 1.6).

{ mu + r Sigma^(1/2) u : |u| = 1 },    r^2 = -2 log(1 - confidence)
"""

from __future__ import annotations

from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from scipy.special import ndtri

from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.errors import ParameterError
from gausscontrol.linalg.symmetric import factor
from gausscontrol.plots.figures import (
    ABOVE,
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

__all__ = ["ellipse", "ellipse_plot", "plotting_plane", "read_coordinates"]

ELLIPSES = 12
# Ellipses on the way to an escape are drawn until they are this many times the first.
OUTGROWN = 8.0


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
    check_response(resp)
    check_equilibrium(equilibrium, resp)
    if not 0 < confidence < 1:
        raise ParameterError(
            f"confidence: expected a probability between 0 and 1, found {confidence!r}"
        )
    dim = resp.mean.shape[0]
    pair = read_coordinates(coordinates, dim)
    figure, axes, own = open_axes(ax, 1)
    axis = axes[0, 0]
    if dim == 1:
        drawn = _draw_interval(axis, resp, equilibrium, confidence)
    else:
        plane, names = plotting_plane(resp, equilibrium, pair)
        drawn = _draw_ellipses(axis, resp, equilibrium, confidence, plane)
        axis.set_xlabel(f"{names[0]} [x]")
        axis.set_ylabel(f"{names[1]} [x]")
        axis.set_aspect("equal", adjustable="datalim")
    finish(axis)
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = drawn
    legend = legend_of(axis, **(ABOVE if own else {}))
    set_title(figure, axis, own, title, resp.title)
    return ct.ControlPlot(lines, axes, figure, legend=legend)


# -- ellipses -------------------------------------------------------------------------------------


def read_coordinates(coordinates: Any, dim: int) -> tuple[int, int] | None:
    """Return the two coordinates to draw, or None for the leading plane."""
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


def plotting_plane(
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
    norm, colormap = Normalize(resp.t[0], resp.t[chosen[-1]]), depth_colormap()
    ending = "last" if shown == resp.t.size else "last drawn"
    lines = []
    for n in chosen:
        last, first = n == chosen[-1], n == chosen[0]
        label = f"{100 * confidence:g}% ellipse, "
        label = f"{label}{ending} (t = {resp.t[n]:.4g})" if last else f"{label}start"
        x, y = ellipse(means[:, n], factors[:, :, n], radius)
        style = {"linewidth": 2.4 if last else 1.1, "color": colormap(norm(resp.t[n]))}
        lines += axis.plot(x, y, label=label if first or last else None, **style)
    ink = mpl.rcParams["text.color"]
    lines += axis.plot(*means[:, :shown], color=ink, linewidth=0.8, alpha=0.7, label="mean")
    axis.plot(*means[:, shown - 1], "o", color=ink, markersize=3)
    if equilibrium is not None:
        L = factor(equilibrium.covariance)
        mean = resp.mean[:, -1] if equilibrium.mean is None else equilibrium.mean
        name = equilibrium_label(equilibrium)
        x, y = ellipse(plane.T @ mean, plane.T @ L, radius)
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


def ellipse(mean: np.ndarray, L: np.ndarray, radius: float) -> np.ndarray:
    """Return the points of mean + radius L u, |u| = 1."""
    U, s, _ = np.linalg.svd(L, full_matrices=False)
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])[: s.size]
    return mean[:, None] + radius * (U * s) @ circle


def _draw_interval(
    axis: Axes, resp: MomentResponse, equilibrium: Equilibrium | None, confidence: float
) -> list[Line2D]:
    color, ink = palette()[0], mpl.rcParams["text.color"]
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
                label=None if offset else equilibrium_label(equilibrium),
            )
            lines.append(line)
    axis.set_xlabel("depth t")
    axis.set_ylabel("token x [x]")
    mark_escape(axis, resp)
    return lines
