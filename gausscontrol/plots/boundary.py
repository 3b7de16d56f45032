"""Curves in a plane of two parameters across which the regime is known to change.

    d = 1    s' = 2 (a + g s) s          g = 0, and a = 0 where g < 0              (exactly)
    B_h = c_h B, B = B^T > 0             v_- = 0, v_+ = 0, and where v_+ < 0
                                         a_+ = 0, a_- = 0                   (Theory 3.7, 5.6)

a_-, a_+, v_-, v_+ are the extreme eigenvalues of A + A^T and V + V^T in coordinates where B is the
identity. For d = 1 the two are one, and every curve is where the regime changes; beyond, spectra
decide on one side of each curve and leave the other open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from scipy.interpolate import RegularGridInterpolator

from gausscontrol.certificates.scalar import scalar_regime
from gausscontrol.errors import ParameterError
from gausscontrol.model.structure import common_key
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Curve", "Mesh", "curves_of_function", "curves_of_models", "draw_curves"]

STYLES = ("-", "--", "-.", ":")
EXACT = "exact boundary (d = 1)"
SPECTRAL = (
    "blow-up where $v_- > 0$",
    "bounded where $v_+ < 0$",
    "and collapse where $a_+ < 0$",
    "and an equilibrium where $a_- > 0$",
)


@dataclass(frozen=True, eq=False)
class Mesh:
    """A grid over two parameters.

    Attributes
    ----------
    names : tuple of str
        Across, then upwards.
    x, y : (m,) ndarray, (n,) ndarray
    fixed : dict
        Parameters that have one value.
    """

    names: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    fixed: dict[str, Any]

    def evaluate(self, function: Callable[..., Any]) -> np.ndarray:
        """Return the values of a function of the parameters, an object array (n, m)."""
        values = np.empty((self.y.size, self.x.size), dtype=object)
        for j, y in enumerate(self.y.tolist()):
            for i, x in enumerate(self.x.tolist()):
                values[j, i] = function(**self.fixed, **dict(zip(self.names, (x, y), strict=True)))
        return values


@dataclass(frozen=True, eq=False)
class Curve:
    """The zero set of `level`, as far as `inside` is negative.

    Attributes
    ----------
    label : str or None
    level : (n, m) ndarray
    inside : (n, m) ndarray or None
    """

    label: str | None
    level: np.ndarray
    inside: np.ndarray | None = None


def curves_of_models(models: np.ndarray, kind: str) -> list[Curve] | None:
    """Return the boundaries of a mesh of models.

    Parameters
    ----------
    models : (n, m) ndarray of GaussianTransformer or None
        None where there is none.
    kind : str
        "scalar" or "spectral".

    Returns
    -------
    list of Curve or None
        None if some model is not of that kind.
    """
    read = _scalar_numbers if kind == "scalar" else _spectral_numbers
    count = 2 if kind == "scalar" else 4
    numbers = np.full((count, *models.shape), np.nan)
    for place, model in np.ndenumerate(models):
        if model is None:
            continue
        found = read(model)
        if found is None:
            return None
        numbers[(slice(None), *place)] = found
    if kind == "scalar":
        a, g = numbers
        return [Curve(EXACT, g), Curve(None, a, inside=g)]
    a_low, a_high, v_low, v_high = numbers
    return [
        Curve(SPECTRAL[0], v_low),
        Curve(SPECTRAL[1], v_high),
        Curve(SPECTRAL[2], a_high, inside=v_high),
        Curve(SPECTRAL[3], a_low, inside=v_high),
    ]


def curves_of_function(boundary: Callable[..., Any], mesh: Mesh) -> list[Curve]:
    """Return the zero sets of what a function gives.

    Parameters
    ----------
    boundary : callable
        Of the parameters: a number, or a mapping of labels to numbers.
    mesh : Mesh

    Returns
    -------
    list of Curve
    """
    values = mesh.evaluate(boundary)
    first = values[0, 0]
    labels = list(first) if isinstance(first, Mapping) else ["boundary"]
    curves = []
    for label in labels:
        try:
            read = [value[label] if isinstance(first, Mapping) else value for value in values.flat]
            level = np.array([float(entry) for entry in read]).reshape(values.shape)
        except (KeyError, TypeError, ValueError) as error:
            raise ParameterError(
                "boundary: expected a function that returns a number, or the same labels with "
                f"numbers everywhere, found {type(error).__name__}: {error}; its zeros are drawn"
            ) from error
        curves.append(Curve(str(label), level))
    return curves


def draw_curves(axis: Axes, mesh: Mesh, curves: list[Curve], ink: str, paper: str) -> list[Line2D]:
    """Draw the zero sets, with a halo, and return one line for each that is met.

    Parameters
    ----------
    axis : Axes
    mesh : Mesh
    curves : list of Curve
    ink, paper : color

    Returns
    -------
    list of Line2D
    """
    drawn = []
    labels = [curve.label for curve in curves if curve.label is not None]
    for curve in curves:
        pieces = _pieces(axis, mesh, curve)
        if not pieces:
            continue
        place = labels.index(curve.label) if curve.label is not None else 0
        points = np.concatenate([np.vstack([piece, [[np.nan, np.nan]]]) for piece in pieces])
        drawn += axis.plot(
            *points.T,
            color=ink,
            linestyle=STYLES[place % len(STYLES)],
            linewidth=1.8,
            solid_capstyle="round",
            path_effects=[withStroke(linewidth=3.6, foreground=paper)],
            zorder=4,
            label=curve.label if curve.label is not None else "_nolegend_",
        )
    return drawn


# -- numbers whose signs decide -------------------------------------------------------------------


def _scalar_numbers(model: GaussianTransformer) -> tuple[float, float] | None:
    if model.dim != 1 or model.dt:
        return None
    found = scalar_regime(model)
    return found.rate, found.gain


def _spectral_numbers(model: GaussianTransformer) -> tuple[float, ...] | None:
    """Return a_-, a_+, v_-, v_+."""
    key = None if model.dt else common_key(model)
    if key is None:
        return None
    B, V = key
    L = np.linalg.cholesky(B)
    found: list[float] = []
    for X in (model.A, V):
        # R X R^-1 with R = L^T, in which B becomes the identity.
        Y = scipy.linalg.solve_triangular(L, (L.T @ X).T, lower=True).T
        values = np.linalg.eigvalsh(Y + Y.T)
        found += [float(values[0]), float(values[-1])]
    return tuple(found)


# -- lines ----------------------------------------------------------------------------------------


def _pieces(axis: Axes, mesh: Mesh, curve: Curve) -> list[np.ndarray]:
    """Return the zero set as polylines (k, 2)."""
    level = np.ma.masked_invalid(curve.level)
    if not ((level > 0).any() and (level < 0).any()):
        return []
    contour = axis.contour(mesh.x, mesh.y, level, levels=[0.0])
    lines = [line for line in contour.allsegs[0] if len(line) > 1]
    contour.remove()
    if curve.inside is None:
        return lines
    inside = RegularGridInterpolator((mesh.y, mesh.x), curve.inside)
    return [part for line in lines for part in _kept(line, inside(line[:, ::-1]))]


def _kept(line: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """Return the parts of a polyline along which a function is negative, cut where it is zero."""
    parts, part = [], []
    for k, (point, value) in enumerate(zip(line, values, strict=True)):
        if k and (value < 0) != (values[k - 1] < 0):
            share = values[k - 1] / (values[k - 1] - value)
            part.append(line[k - 1] + share * (point - line[k - 1]))
            if not value < 0:
                parts.append(part)
                part = []
        if value < 0:
            part.append(point)
    return [np.array(part) for part in [*parts, part] if len(part) > 1]
