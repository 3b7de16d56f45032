"""Slices of a certified region of attraction (Theory 4.6).

    Sigma = Sigma* + x E1 + y E2,   where {V < level} is an ellipse inside the cone

The basin behind it is sampled by simulation and certifies nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from gausscontrol.certificates.region import RegionOfAttraction
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.symmetric import symmetrise, whitening
from gausscontrol.plots.basin import CONVERGES, sampled_basin
from gausscontrol.plots.figures import (
    ABOVE,
    alarm,
    finish,
    legend_of,
    open_axes,
    palette,
    set_title,
)

__all__ = ["region_plot"]

GRID = 101
# The window reaches this many times as far as the equilibrium.
MARGIN = 3.0
POINTS = 241


def region_plot(
    roa: RegionOfAttraction,
    *,
    plane: ArrayLike | None = None,
    limits: ArrayLike | None = None,
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    """Plot a slice of a certified region of attraction.

    The certified ellipse, the norm bound where sums of squares improved on it, and behind them the
    basin that simulation finds. The slice is Sigma* + x E1 + y E2, by default that in which two
    eigenvalues change: the largest and the smallest of Sigma*, in fixed eigenvectors.

    Parameters
    ----------
    roa : RegionOfAttraction
        d >= 2.
    plane : (2, d, d) array_like, optional
        Two independent symmetric matrices E1, E2. [x]^2
    limits : (2, 2) array_like, optional
        (lowest, highest) across, then upwards.
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
    >>> [text.get_text() for text in plot.legend.get_texts()]
    ['converges in simulation', 'certified region', 'equilibrium']
    >>> plt.close(plot.figure)
    """
    _check_region(roa)
    chosen = _slice(roa.covariance, plane)
    window = chosen.window() if limits is None else _read_limits(limits)
    figure, axes, own = open_axes(ax, 1)
    axis = axes[0, 0]
    _draw_basin(axis, roa, chosen, window)
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = _draw_region(axis, roa, chosen)
    axis.set_xlim(window[0])
    axis.set_ylim(window[1])
    axis.set_xlabel(chosen.names[0])
    axis.set_ylabel(chosen.names[1])
    finish(axis)
    legend = legend_of(axis, **(ABOVE if own else {"loc": "upper right"}))
    set_title(figure, axis, own, title, f"Region of attraction of {roa.model.name or 'the model'}")
    return ct.ControlPlot(lines, axes, figure, legend=legend)


@dataclass(frozen=True, eq=False)
class _Slice:
    """Covariances base + x E1 + y E2; the equilibrium is at `centre`."""

    base: np.ndarray
    basis: np.ndarray
    centre: np.ndarray
    names: tuple[str, str]

    def points(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the matrices at coordinates of equal shape, as (N, d, d)."""
        return self.base + np.einsum("pk,pij->kij", np.stack([x.ravel(), y.ravel()]), self.basis)

    def window(self) -> np.ndarray:
        """Return the default limits: from the edge of the cone, or as far on both sides."""
        reach = np.abs(self.centre)
        if reach.any():
            return np.stack([np.zeros(2), MARGIN * reach], axis=1)
        # Where Sigma* + x E stops being a covariance, on the nearer side.
        R, _ = whitening(self.base)
        far = np.array([1 / np.abs(np.linalg.eigvalsh(R @ E @ R)).max() for E in self.basis])
        return np.stack([-1.5 * far, 1.5 * far], axis=1)

    def ellipse(self, roa: RegionOfAttraction, level: float) -> np.ndarray:
        """Return points of {V = level}, shape (2, K), exactly."""
        R, _ = whitening(roa.covariance)
        E1, E2 = R @ self.basis @ R
        both = [roa.level_of(E[None])[0] for E in (E1, E2, E1 + E2)]
        mixed = (both[2] - both[0] - both[1]) / 2
        form = np.array([[both[0], mixed], [mixed, both[1]]])
        angle = np.linspace(0, 2 * np.pi, POINTS)
        circle = np.stack([np.cos(angle), np.sin(angle)])
        return self.centre[:, None] + np.sqrt(level) * np.linalg.solve(
            np.linalg.cholesky(form).T, circle
        )


def _slice(Sigma: np.ndarray, plane: ArrayLike | None) -> _Slice:
    if plane is not None:
        basis = _read_plane(plane, len(Sigma))
        names = ("x [x]$^2$", "y [x]$^2$,  $\\Sigma = \\Sigma_* + x E_1 + y E_2$")
        return _Slice(Sigma, basis, np.zeros(2), names)
    values, vectors = np.linalg.eigh(Sigma)
    if np.ptp(values) <= 1e-9 * values[-1]:
        vectors = np.eye(len(Sigma))[:, ::-1]
    chosen = vectors[:, [-1, 0]]
    chosen = chosen * np.sign(chosen[np.abs(chosen).argmax(axis=0), [0, 1]])
    basis = np.stack([np.outer(u, u) for u in chosen.T])
    centre = values[[-1, 0]]
    shown = [", ".join(f"{entry:.3g}" for entry in u + 0.0) for u in chosen.T]
    names = [f"eigenvalue of $\\Sigma$ along ({text}) [x]$^2$" for text in shown]
    return _Slice(
        Sigma - np.einsum("p,pij->ij", centre, basis), basis, centre, (names[0], names[1])
    )


def _draw_basin(axis: Axes, roa: RegionOfAttraction, chosen: _Slice, window: np.ndarray) -> None:
    # Cell centres, so that no sample lies on the edge of the cone.
    edges = [np.linspace(*limits, GRID + 1) for limits in window]
    x, y = np.meshgrid(*((edge[1:] + edge[:-1]) / 2 for edge in edges))
    starts = chosen.points(x, y)
    outside = np.linalg.eigvalsh(starts)[:, 0] <= 0
    kind = np.where(sampled_basin(roa, starts) == CONVERGES, 1.0, 2.0)
    kind[outside] = 0.0
    shades = ["0.85", _pale(palette()[2 % len(palette())]), _pale(alarm())]
    names = ["no covariance", "converges in simulation", "does not"]
    axis.pcolormesh(
        *edges,
        kind.reshape(x.shape),
        cmap=mpl.colors.ListedColormap(shades),
        vmin=-0.5,
        vmax=2.5,
        zorder=0,
        rasterized=True,
    )
    for value in (1, 2, 0):
        if (kind == value).any():
            axis.plot([], [], "s", color=shades[value], label=names[value])


def _draw_region(axis: Axes, roa: RegionOfAttraction, chosen: _Slice) -> list[Line2D]:
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


def _pale(color: str) -> tuple[float, ...]:
    paper = np.array(mpl.colors.to_rgb(mpl.rcParams["axes.facecolor"]))
    return tuple(0.72 * paper + 0.28 * np.array(mpl.colors.to_rgb(color)))


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


def _read_plane(plane: ArrayLike, dim: int) -> np.ndarray:
    basis = real_array(plane, "plane")
    if basis.shape != (2, dim, dim):
        raise ShapeError(
            f"plane: expected two {dim} x {dim} matrices, found shape {basis.shape}; "
            "pass plane=(E1, E2)"
        )
    if not np.allclose(basis, basis.transpose(0, 2, 1), rtol=0, atol=1e-8 * np.abs(basis).max()):
        raise ParameterError(
            "plane: expected symmetric matrices, found one that is not; symmetrise"
        )
    if np.linalg.matrix_rank(basis.reshape(2, -1), tol=1e-8 * np.linalg.norm(basis)) < 2:
        raise ParameterError("plane: expected independent matrices, found multiples; pass others")
    return np.stack([symmetrise(E) for E in basis])


def _read_limits(limits: ArrayLike) -> np.ndarray:
    window = real_array(limits, "limits")
    if window.shape != (2, 2) or not (window[:, 0] < window[:, 1]).all():
        raise ParameterError(
            f"limits: expected ((lowest, highest), (lowest, highest)), found {limits!r}; "
            "pass two increasing pairs"
        )
    return window
