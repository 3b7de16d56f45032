"""Scattered Gaussians that all flow to the target of a design (Theory 4.1, 7a).

Every (mu_0, Sigma_0) with Sigma_0 > 0 tends to (mu*, Sigma*); drawn are a few of them, as the
ellipses { mu + r Sigma^(1/2) u : |u| = 1 } along their depths.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gausscontrol.errors import ParameterError
from gausscontrol.linalg.symmetric import factor, whitening
from gausscontrol.model.packing import read_moments
from gausscontrol.plots.ellipses import ellipse
from gausscontrol.plots.figures import (
    ABOVE,
    depth_colormap,
    finish,
    legend_of,
    open_axes,
    palette,
    set_title,
)
from gausscontrol.synthesis.design_result import Design
from gausscontrol.systems.response import moment_response

__all__ = ["design_plot"]

STARTS = 6
# Means start this many standard deviations away, standard deviations at these multiples.
DISTANCE, SPREAD = 4.0, (0.3, 2.0)
# Probability that a token lies inside an ellipse.
CONFIDENCE = 0.68
# A trajectory is drawn until what is left of it is below this, and at so many depths.
LEFT, DEPTHS = 1e-3, 600
# Ellipses on the way of each start, between it and the target.
BETWEEN = 2
MOST_LAYERS = 20_000


def design_plot(
    des: Design,
    *,
    starts: int | Iterable[Any] = STARTS,
    seed: int = 0,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    """Plot scattered Gaussians flowing to the target.

    Ellipses mu + r Sigma^(1/2) u, |u| = 1, that hold 68% of the tokens, in the plane of the two
    leading principal directions of the target (the coordinates for d = 2); for d = 1 curves in
    the plane of mean and standard deviation. The legend tells the certified rates.

    Parameters
    ----------
    des : Design
    starts : int or iterable of (mean, covariance), optional
        How many to scatter, or which to take; (d,) [x] and (d, d) [x]^2.
    seed : int, optional
        Of the scattered ones.
    ax : Axes or Figure, optional
        Where to draw.
    title : str, optional
        By default how many start, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines, axes (1, 1), figure, legend.

    Raises
    ------
    ParameterError, ShapeError
        If `des` is no Design, or a start is no Gaussian of its dimension.

    Notes
    -----
    Theory 4.1: for dt = 0 the covariance of every start converges, not only of those drawn.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> des = gct.design((np.zeros(2), np.eye(2)), A=np.eye(2), B=np.eye(2))
    >>> plot = gct.design_plot(des, starts=3)
    >>> plot.axes[0, 0].get_xlabel()
    'coordinate x[0] [x]'
    >>> plt.close(plot.figure)
    """
    if not isinstance(des, Design):
        raise ParameterError(
            f"des: expected a Design, found {type(des).__name__}; make one with "
            "gausscontrol.design(target, A=..., B=...)"
        )
    chosen = _read_starts(des, starts, seed)
    figure, axes, own = open_axes(ax, 1)
    axis = axes[0, 0]
    paths = [_path(des, start) for start in chosen]
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = _draw_scalar(axis, des, paths) if des.model.dim == 1 else _draw(axis, des, paths)
    finish(axis)
    for name, rate in (("covariance", des.decay_rate), ("mean", des.mean_decay_rate)):
        axis.plot([], [], " ", label=f"{name} decays at {rate:.3g} [1/t]")
    legend = legend_of(axis, **(ABOVE if own else {}))
    set_title(figure, axis, own, title, f"{len(paths)} Gaussians, one target")
    return ct.ControlPlot(lines, axes, figure, legend=legend)


def _read_starts(des: Design, starts: Any, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    dim = des.model.dim
    if isinstance(starts, Iterable):
        return [read_moments(start, f"starts[{i}]", dim) for i, start in enumerate(starts)]
    if not isinstance(starts, int) or isinstance(starts, bool) or starts < 1:
        raise ParameterError(
            f"starts: expected a positive integer or (mean, covariance) pairs, found {starts!r}"
        )
    rng = np.random.default_rng(seed)
    _, root = whitening(des.equilibrium.covariance)
    found = []
    for n in range(starts):
        angle = 2 * np.pi * (n + 0.3 * rng.uniform(-1, 1)) / starts
        direction = np.zeros(dim)
        direction[:2] = [np.cos(angle), np.sin(angle)][: min(dim, 2)]
        if dim > 2:
            direction = _leading(des) @ direction[:2]
            direction = direction / np.linalg.norm(np.linalg.solve(root, direction))
        else:
            direction = root @ direction
        mean = des.equilibrium.mean + DISTANCE * rng.uniform(0.7, 1.3) * direction
        axes, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
        sizes = np.exp(rng.uniform(*np.log(SPREAD), dim))
        L = root @ (axes * sizes)
        found.append((mean, L @ L.T))
    return found


def _path(des: Design, start: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return means (d, N) and factors (d, r, N) along the depth, to where little is left."""
    model = des.model
    slowest = min(des.decay_rate, des.mean_decay_rate)
    end = np.log(1 / LEFT) / slowest
    depths = end * np.linspace(0, 1, DEPTHS) ** 2
    if model.dt:
        layers = min(int(np.ceil(end / model.dt)), MOST_LAYERS)
        depths = model.dt * np.unique((layers * np.linspace(0, 1, DEPTHS) ** 2).round())
    response = moment_response(model, depths, start, rtol=1e-6)
    return response.mean, response.factor


def _leading(des: Design) -> np.ndarray:
    """Return the plane of the two leading principal directions of the target, (d, 2)."""
    directions = np.linalg.eigh(des.equilibrium.covariance)[1][:, :-3:-1]
    largest = np.abs(directions).argmax(axis=0)
    return directions * np.sign(directions[largest, [0, 1]])


def _draw(axis: Axes, des: Design, paths: list[tuple[np.ndarray, np.ndarray]]) -> list[Line2D]:
    plane, names = np.eye(2), ("coordinate x[0]", "coordinate x[1]")
    if des.model.dim > 2:
        plane = _leading(des)
        names = ("principal direction 1 of the target", "principal direction 2")
    colors, ink = _colors(len(paths)), mpl.rcParams["text.color"]
    lines = []
    for (n, (means, factors)), color in zip(enumerate(paths), colors, strict=True):
        means = plane.T @ means
        factors = np.einsum("ia,irn->arn", plane, factors)
        first, *between = _spread_out(means, factors)
        x, y = _ellipse(means[:, first], factors[:, :, first])
        lines += axis.plot(x, y, color=color, linewidth=1.6, label=_once("starts", n))
        axis.fill(x, y, color=color, alpha=0.15, linewidth=0)
        for m, index in enumerate(between):
            x, y = _ellipse(means[:, index], factors[:, :, index])
            style = {"linewidth": 0.8, "alpha": 0.6, "linestyle": (0, (4, 2))}
            lines += axis.plot(x, y, color=color, label=_once("on the way", n + m), **style)
        lines += axis.plot(*means, color=color, linewidth=1.3, label=_once("means", n))
        axis.plot(*means[:, 0], "o", color=color, markersize=3.5)
    x, y = _ellipse(plane.T @ des.equilibrium.mean, plane.T @ factor(des.equilibrium.covariance))
    lines += axis.plot(x, y, color=ink, linewidth=2.6, label="target", zorder=5)
    axis.plot(*(plane.T @ des.equilibrium.mean), "o", color=ink, markersize=5, zorder=5)
    axis.set_xlabel(f"{names[0]} [x]")
    axis.set_ylabel(f"{names[1]} [x]")
    axis.set_aspect("equal", adjustable="datalim")
    return lines


def _draw_scalar(
    axis: Axes, des: Design, paths: list[tuple[np.ndarray, np.ndarray]]
) -> list[Line2D]:
    colors, ink = _colors(len(paths)), mpl.rcParams["text.color"]
    lines = []
    for (n, (means, factors)), color in zip(enumerate(paths), colors, strict=True):
        deviation = np.abs(factors[0, 0])
        label = "along the depth" if n == 0 else None
        lines += axis.plot(means[0], deviation, color=color, label=label)
        label = "starts" if n == 0 else None
        axis.plot(means[0, 0], deviation[0], "o", color=color, markersize=5, label=label)
    target = des.equilibrium.mean[0], np.sqrt(des.equilibrium.covariance[0, 0])
    lines += axis.plot(*target, "*", color=ink, markersize=12, label="target", zorder=5)
    axis.set_xlabel("mean [x]")
    axis.set_ylabel("standard deviation [x]")
    return lines


def _colors(count: int) -> list[Any]:
    """Return a colour for each start, no two alike."""
    few = list(dict.fromkeys(palette()))
    if count <= len(few):
        return few[:count]
    return list(depth_colormap()(np.linspace(0, 1, count)))


def _once(label: str, n: int) -> str | None:
    """Return the label of what is drawn for the first start, for the legend."""
    return label if n == 0 else None


def _spread_out(means: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Choose depths between which the mean and the size change by equal amounts."""
    sizes = np.linalg.norm(factors, axis=(0, 1))
    steps = np.hypot(np.linalg.norm(np.diff(means, axis=1), axis=0), np.diff(sizes))
    travelled = np.concatenate([[0.0], np.cumsum(steps)])
    shares = np.arange(BETWEEN + 1) / (BETWEEN + 1)
    return np.unique(np.searchsorted(travelled, travelled[-1] * shares))


def _ellipse(mean: np.ndarray, L: np.ndarray) -> np.ndarray:
    return ellipse(mean, L, float(np.sqrt(-2 * np.log1p(-CONFIDENCE))))
