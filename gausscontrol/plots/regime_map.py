"""Regimes over two parameters, from a sweep.

Each point of the grid colours the cell around it, see `regime_cells`; hatched cells are certified.
Lines are where a formula says that the regime changes, see `boundary`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import control as ct
import matplotlib as mpl
import numpy as np

from gausscontrol.certificates.classify import Classification
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
from gausscontrol.plots.regime_cells import (
    REGIME_COLORS,
    draw_cells,
    handles_of,
    is_geometric,
    scale_axes,
)
from gausscontrol.plots.regime_sweep import arranged, check_sweep, mesh_of, regimes_of
from gausscontrol.sweeps.result import SweepResult
from gausscontrol.sweeps.verdict import Verdict

__all__ = ["REGIME_COLORS", "regime_map"]

# Points per side at which a formula is evaluated, where a function gives models or levels.
FINE = 101
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
    names = check_sweep(sweep_result, parameters)
    mesh = mesh_of(sweep_result, names)
    values = arranged(sweep_result, names)
    regimes, certified = regimes_of(sweep_result, values)
    found = _boundary(sweep_result, mesh, values, model, boundary)
    figure, axes, own = open_axes(ax, 1)
    axis = axes[0, 0]
    scale_axes(axis, mesh)
    lines = np.empty((1, 1), dtype=object)
    lines[0, 0] = draw_cells(axis, mesh, regimes, certified)
    ink, paper = mpl.rcParams["text.color"], mpl.rcParams["axes.facecolor"]
    drawn = [line for fine, curves in found for line in draw_curves(axis, fine, curves, ink, paper)]
    lines[0, 0] += drawn
    axis.set_xlim(mesh.x[0], mesh.x[-1])
    axis.set_ylim(mesh.y[0], mesh.y[-1])
    axis.set_xlabel(names[0])
    axis.set_ylabel(names[1])
    handles = handles_of(regimes, certified) + [
        line for line in drawn if not line.get_label().startswith("_")
    ]
    legend = legend_of(axis, handles=handles, handleheight=1.2, **BESIDE)
    set_title(figure, axis, own, title, f"Regimes over {names[0]} and {names[1]}")
    return ct.ControlPlot(lines, axes, figure, legend=legend)


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
        if is_geometric(values)
        else np.linspace(values[0], values[-1], FINE)
        for values in (mesh.x, mesh.y)
    )
    return Mesh(mesh.names, x, y, mesh.fixed)
