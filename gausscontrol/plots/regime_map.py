"""Regimes over two parameters, from a sweep.

Each point of the grid colours the cell around it; hatched cells are certified. Lines are where a
formula says that the regime changes, see `boundary`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from gausscontrol.certificates.classify import REGIMES, Classification
from gausscontrol.errors import ParameterError
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.plots.boundary import (
    Curve,
    Mesh,
    curves_of_function,
    curves_of_models,
    draw_curves,
)
from gausscontrol.plots.figures import legend_of, open_axes, set_title
from gausscontrol.sweeps.result import SweepResult
from gausscontrol.sweeps.verdict import Verdict

__all__ = ["REGIME_COLORS", "regime_map"]

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
# Regimes that rest on no certificate.
ESTIMATES = ("singular limit", "undecided")
HATCH = "////"
# Points per side at which a formula is evaluated, where a function gives models or levels.
FINE = 101
# Relative deviation of ratios up to which values count as spaced evenly on a logarithmic axis.
EVEN = 1e-6
BESIDE = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}


def regime_map(
    sweep_result: SweepResult,
    *,
    parameters: tuple[str, str] | None = None,
    model: Callable[..., GaussianTransformer] | None = None,
    boundary: str | Callable[..., Any] | None = "auto",
    ax: Any = None,
    title: str | None = None,
) -> ct.ControlPlot:
    """Plot regimes over two parameters of a sweep.

    Colours say the regime; hatched cells are certified; crosses mark items that failed. On top are
    the lines across which a formula says that the regime changes, where there is one.

    Parameters
    ----------
    sweep_result : SweepResult
        Over a full grid with two parameters of several values; any others have one. Its values are
        those of `classify`, names of regimes, or dicts with "regime" and, optionally, "certified".
        A name alone counts as certified unless it is "singular limit" or "undecided".
    parameters : tuple of str, optional
        The one across, then the one upwards. Default: in the order of the grid.
    model : callable, optional
        The GaussianTransformer at given parameters, by keyword, for the boundary. Default: the
        models that the values of `classify` carry, on the grid of the sweep.
    boundary : str, callable or None, optional
        "scalar": the exact boundary for d = 1. "spectral": what spectra decide for heads that
        share B = B^T > 0, Theory 3.7 and 5.6. "auto": the first of these that applies to every
        model, otherwise none. A function of the parameters, by keyword: its zeros; it returns a
        number, or a dict of labels with numbers. None: no lines.
    ax : Axes or Figure, optional
        Where to draw. The legend stands to the right.
    title : str, optional
        By default one that names the parameters, or none where `ax` is given.

    Returns
    -------
    ct.ControlPlot
        lines (the coloured cells, the hatches, the crosses and the boundary, as far as there are
        any), axes (1, 1), figure, legend.

    Raises
    ------
    ParameterError
        If the sweep is not over two parameters of increasing numbers, or an argument is not what
        is described above.

    Notes
    -----
    Theory 3.7, 5.6: in coordinates where B is the identity, a_- and a_+ are the extreme eigenvalues
    of A + A^T, v_- and v_+ those of V + V^T. Where these lines leave a question open, the colours
    answer it. Lines end at the outermost points of the grid, and so does the picture. Values that
    are evenly spaced by ratio have logarithmic axes.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> def regime(a, v):
    ...     return gct.classify(gct.GaussianTransformer(a, 1, v), sdp=False)
    >>> plot = gct.regime_map(gct.sweep(regime, {"a": [-1.0, 0.5], "v": [-1.0, 0.5]}))
    >>> [text.get_text() for text in plot.legend.get_texts()][:3]
    ['globally stable', 'collapse', 'blow-up']
    >>> plt.close(plot.figure)
    """
    names = _check_sweep(sweep_result, parameters)
    mesh = _mesh(sweep_result, names)
    values = _arranged(sweep_result, names)
    regimes, certified = _regimes(sweep_result, values)
    found = _boundary(sweep_result, mesh, values, model, boundary)
    figure, axes, own = open_axes(ax, 1)
    axis = axes[0, 0]
    _scale(axis, mesh)
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = _draw_cells(axis, mesh, regimes, certified)
    ink, paper = mpl.rcParams["text.color"], mpl.rcParams["axes.facecolor"]
    drawn = [line for fine, curves in found for line in draw_curves(axis, fine, curves, ink, paper)]
    lines[0, 0] += drawn
    axis.set_xlim(mesh.x[0], mesh.x[-1])
    axis.set_ylim(mesh.y[0], mesh.y[-1])
    axis.set_xlabel(names[0])
    axis.set_ylabel(names[1])
    handles = _handles(regimes, certified) + [
        line for line in drawn if not line.get_label().startswith("_")
    ]
    legend = legend_of(axis, handles=handles, handleheight=1.2, **BESIDE)
    set_title(figure, axis, own, title, f"Regimes over {names[0]} and {names[1]}")
    return ct.ControlPlot(lines, axes, figure, legend=legend)


# -- drawing --------------------------------------------------------------------------------------


def _scale(axis: Axes, mesh: Mesh) -> None:
    for values, set_scale in ((mesh.x, axis.set_xscale), (mesh.y, axis.set_yscale)):
        if _is_geometric(values):
            set_scale("log")


def _draw_cells(axis: Axes, mesh: Mesh, regimes: np.ndarray, certified: np.ndarray) -> list:
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
    return drawn


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


def _handles(regimes: np.ndarray, certified: np.ndarray) -> list:
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


def _is_geometric(values: np.ndarray) -> bool:
    if values.size < 3 or not values[0] > 0:
        return False
    logs, steps = np.log(values[1:] / values[:-1]), np.diff(values)
    uneven = np.ptp(logs) / logs.mean() if logs.min() > 0 else np.inf
    # On a narrow axis even steps are nearly even ratios too: what is clearly more even decides.
    return bool(uneven <= EVEN and 10 * uneven < np.ptp(steps) / steps.mean())


def _edges(values: np.ndarray) -> np.ndarray:
    """Return the edges of cells around values, half-way between them."""
    scaled = np.log(values) if _is_geometric(values) else values
    middle = (scaled[1:] + scaled[:-1]) / 2
    ends = 2 * scaled[[0, -1]] - middle[[0, -1]]
    edges = np.concatenate([ends[:1], middle, ends[1:]])
    return np.exp(edges) if _is_geometric(values) else edges


# -- the boundary ---------------------------------------------------------------------------------


def _boundary(
    result: SweepResult,
    mesh: Mesh,
    values: np.ndarray,
    model: Callable[..., GaussianTransformer] | None,
    boundary: str | Callable[..., Any] | None,
) -> list[tuple[Mesh, list[Curve]]]:
    """Return the curves, with the mesh that they are given on."""
    if model is not None and not callable(model):
        raise ParameterError(
            f"model: expected a function of the parameters, found {type(model).__name__}; "
            "pass the one that makes the models of the sweep"
        )
    if boundary is None:
        return []
    if callable(boundary):
        fine = _refined(mesh)
        return [(fine, curves_of_function(boundary, fine))]
    if boundary not in ("auto", "scalar", "spectral"):
        raise ParameterError(
            f"boundary: expected 'auto', 'scalar', 'spectral', a function or None, found "
            f"{boundary!r}; choose one"
        )
    where, models = _models(mesh, values, model)
    for kind in ("scalar", "spectral") if boundary == "auto" else (boundary,):
        if all(entry is None for entry in models.flat):
            break
        curves = curves_of_models(models, kind)
        if curves is not None:
            return [(where, curves)]
    if boundary == "auto":
        return []
    if all(entry is None for entry in models.flat):
        raise ParameterError(
            f"boundary: expected models for {boundary!r}, found none in the values of "
            f"{result.function}; pass model=, a function that makes them"
        )
    wanted = "d = 1" if boundary == "scalar" else "heads that share B = B^T > 0"
    raise ParameterError(
        f"boundary: expected models with {wanted} and continuous depth for {boundary!r}, found "
        "others; pass boundary='auto', a function of your own, or None"
    )


def _models(
    mesh: Mesh, values: np.ndarray, model: Callable[..., GaussianTransformer] | None
) -> tuple[Mesh, np.ndarray]:
    if model is None:
        carried = np.empty(values.shape, dtype=object)
        for place, value in np.ndenumerate(values):
            if isinstance(value, (Classification, Verdict)):
                carried[place] = value.model
        return mesh, carried
    fine = _refined(mesh)
    models = fine.evaluate(model)
    for entry in models.flat:
        if not isinstance(entry, GaussianTransformer):
            raise ParameterError(
                "model: expected a function that returns a GaussianTransformer, found "
                f"{type(entry).__name__}; return the model that the sweep classified"
            )
    return fine, models


def _refined(mesh: Mesh) -> Mesh:
    x, y = (
        np.geomspace(values[0], values[-1], FINE)
        if _is_geometric(values)
        else np.linspace(values[0], values[-1], FINE)
        for values in (mesh.x, mesh.y)
    )
    return Mesh(mesh.names, x, y, mesh.fixed)


# -- arguments ------------------------------------------------------------------------------------


def _check_sweep(result: Any, parameters: tuple[str, str] | None) -> tuple[str, str]:
    """Return the names of the two parameters."""
    if not isinstance(result, SweepResult):
        raise ParameterError(
            f"sweep_result: expected a SweepResult, found {type(result).__name__}; "
            "make one with sweep(function, {'a': [...], 'v': [...]})"
        )
    if result.grid is None:
        raise ParameterError(
            "sweep_result: expected a sweep over a grid, found one over a list of points; "
            "pass a mapping of two names to values to sweep"
        )
    several = tuple(name for name, values in result.grid.items() if len(values) > 1)
    if len(several) != 2:
        raise ParameterError(
            "sweep_result: expected two parameters of several values, found "
            f"{', '.join(several) or 'none'}; give the others one value each"
        )
    if parameters is None:
        return several[0], several[1]
    names = tuple(parameters) if not isinstance(parameters, str) else (parameters,)
    if sorted(names, key=str) != sorted(several):
        raise ParameterError(
            f"parameters: expected {several[0]!r} and {several[1]!r} in either order, found "
            f"{parameters!r}; those are what the sweep is over"
        )
    return names[0], names[1]


def _mesh(result: SweepResult, names: tuple[str, str]) -> Mesh:
    axes = []
    for name in names:
        values = result.grid[name]
        plain = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
        axis = np.array(values, dtype=float) if plain else np.array([np.nan])
        if not (np.isfinite(axis).all() and (np.diff(axis) > 0).all()):
            raise ParameterError(
                f"sweep_result: expected increasing numbers for {name}, found {_shown(values)}; "
                "sort them, or map others to numbers"
            )
        axes.append(axis)
    fixed = {name: values[0] for name, values in result.grid.items() if name not in names}
    return Mesh(names, axes[0], axes[1], fixed)


def _shown(values: tuple) -> str:
    text = ", ".join(map(repr, values[:4]))
    return f"({text}{', ...' if len(values) > 4 else ''})"


def _arranged(result: SweepResult, names: tuple[str, str]) -> np.ndarray:
    """Return the values with the second parameter on the rows, None where there is none."""
    values = np.empty(len(result), dtype=object)
    for i, value in enumerate(result.values):
        values[i] = value
    order = [list(result.grid).index(name) for name in reversed(names)]
    rest = [k for k in range(len(result.shape)) if k not in order]
    shape = tuple(result.shape[k] for k in order)
    return values.reshape(result.shape).transpose(order + rest).reshape(shape)


def _regimes(result: SweepResult, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the name of the regime, "" where the item failed, and whether it is certified."""
    regimes = np.full(values.shape, "", dtype=object)
    certified = np.zeros(values.shape, dtype=bool)
    for place, value in np.ndenumerate(values):
        if value is not None:
            regimes[place], certified[place] = _regime_of(value)
    if None in result.values and len(result.errors) != result.values.count(None):
        raise ParameterError(
            f"sweep_result: expected regimes, found None; let {result.function} return one"
        )
    return regimes, certified


def _regime_of(value: Any) -> tuple[str, bool]:
    if isinstance(value, Classification):
        value = Verdict.of(value)
    if isinstance(value, Verdict):
        return value.regime, value.certified
    name = value.get("regime") if isinstance(value, Mapping) else value
    if not isinstance(name, str) or name not in REGIMES:
        raise ParameterError(
            f"sweep_result: expected regimes, found {name!r}; the function returns what classify "
            f"does, or one of {', '.join(REGIMES)}"
        )
    default = name not in ESTIMATES
    return str(name), bool(value.get("certified", default)) if isinstance(
        value, Mapping
    ) else default
