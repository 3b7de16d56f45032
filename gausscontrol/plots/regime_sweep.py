"""What a regime map reads from a sweep: two axes, and a regime for each point.

The values of a sweep are those of `classify`, names of regimes, or mappings with "regime" and,
optionally, "certified".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gausscontrol.certificates.classify import REGIMES, Classification
from gausscontrol.errors import ParameterError
from gausscontrol.plots.boundary import Mesh
from gausscontrol.sweeps.result import SweepResult
from gausscontrol.sweeps.verdict import Verdict

__all__ = ["arranged", "check_sweep", "mesh_of", "regimes_of"]

# Regimes that rest on no certificate.
ESTIMATES = ("singular limit", "undecided")


def check_sweep(result: Any, parameters: tuple[str, str] | None) -> tuple[str, str]:
    """Return the names of the two parameters.

    Parameters
    ----------
    result : SweepResult
    parameters : tuple of str or None
        The one across, then the one upwards.

    Returns
    -------
    tuple of str

    Raises
    ------
    ParameterError
        If the sweep is not over two parameters, or they are others.
    """
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


def mesh_of(result: SweepResult, names: tuple[str, str]) -> Mesh:
    """Return the grid over two parameters.

    Parameters
    ----------
    result : SweepResult
    names : tuple of str

    Returns
    -------
    Mesh

    Raises
    ------
    ParameterError
        If their values are no increasing numbers.
    """
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


def arranged(result: SweepResult, names: tuple[str, str]) -> np.ndarray:
    """Return the values with the second parameter on the rows, None where there is none.

    Parameters
    ----------
    result : SweepResult
    names : tuple of str

    Returns
    -------
    (n, m) ndarray of object
    """
    values = np.empty(len(result), dtype=object)
    for i, value in enumerate(result.values):
        values[i] = value
    order = [list(result.grid).index(name) for name in reversed(names)]
    rest = [k for k in range(len(result.shape)) if k not in order]
    shape = tuple(result.shape[k] for k in order)
    return values.reshape(result.shape).transpose(order + rest).reshape(shape)


def regimes_of(result: SweepResult, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the name of the regime, "" where the item failed, and whether it is certified.

    Parameters
    ----------
    result : SweepResult
    values : (n, m) ndarray of object

    Returns
    -------
    (n, m) ndarray of str, (n, m) ndarray of bool

    Raises
    ------
    ParameterError
        If a value is no regime.
    """
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
