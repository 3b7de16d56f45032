"""Gaussians as the command line takes them: a file, a scale, or the standard one.

    file with covariance (d x d) and, optionally, mean;   s for N(0, s I);   identity for N(0, I)

Files are .npz, .mat or .json, in the formats of model files. The mean is zero unless a file says
otherwise. Sigma and mu are other names of the two. What simulate writes, moments along depths t,
counts as its last one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol.errors import GausscontrolError, ParameterError
from gausscontrol.linalg.arrays import real_array, real_vector
from gausscontrol.linalg.symmetric import covariance_matrix
from gausscontrol.model.entries import Entry, listed
from gausscontrol.model.formats import FORMATS, read_entries

__all__ = ["read_gaussian", "read_gaussian_file"]

NAMES = ("mean", "covariance")
OTHER_NAMES = {"mu": "mean", "Sigma": "covariance"}
# How to obtain a sound file of each format.
AGAIN = {
    ".npz": "write it with numpy.savez(file, mean=mean, covariance=covariance)",
    ".mat": "write it with save(file, 'mean', 'covariance', '-v7') in MATLAB or Octave",
    ".json": 'write {"mean": ..., "covariance": ...}',
}


def read_gaussian(text: str, dim: int, option: str) -> tuple[np.ndarray, np.ndarray]:
    """Read what an option says.

    Parameters
    ----------
    text : str
        "identity", a number s of at least 0 for s I, or the path of a file.
    dim : int
        d.
    option : str
        Its name, for errors.

    Returns
    -------
    (mean, covariance) : tuple of (d,) and (d, d) ndarray

    Raises
    ------
    ParameterError, ShapeError
        If it is none of these, or the file does not hold a Gaussian of this dimension.
    OSError
        If the file cannot be read.
    """
    if text == "identity":
        return np.zeros(dim), np.eye(dim)
    try:
        scale = float(text)
    except ValueError:
        if Path(text).suffix.lower() not in FORMATS:
            raise ParameterError(
                f"{option}: expected identity, a number or a file ending in {listed(FORMATS)}, "
                f"found {text!r}"
            ) from None
        return read_gaussian_file(Path(text), dim)
    if not 0 <= scale < np.inf:
        raise ParameterError(f"{option}: expected a scale of at least 0, found {text}")
    return np.zeros(dim), scale * np.eye(dim)


def read_gaussian_file(path: Path, dim: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Read a Gaussian from a file with covariance and, optionally, mean.

    Parameters
    ----------
    path : Path
        .npz, .mat or .json.
    dim : int, optional
        The dimension d it must have.

    Returns
    -------
    (mean, covariance) : tuple of (d,) and (d, d) ndarray

    Raises
    ------
    ParameterError, ShapeError
        If the file does not hold a Gaussian of this dimension.
    OSError
        If the file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ParameterError(f"{path}: expected a file ending in {listed(FORMATS)}")
    try:
        with path.open("rb") as stream:
            form = replace(FORMATS[suffix], again=AGAIN[suffix])
            entries = read_entries(stream, form, (*NAMES, *OTHER_NAMES), "")
        found = _named(entries)
        for entry in found.values():
            if entry.refusal is not None:
                raise ParameterError(f"{entry.name}: found {entry.refusal}; {entry.advice}")
        if "covariance" not in found:
            size = "d x d" if dim is None else f"{dim} x {dim}"
            raise ParameterError(
                f"expected covariance ({size}) and, optionally, mean, found "
                f"{listed(entry.name for entry in entries) or 'nothing'}; {form.again}"
            )
        values = {name: entry.value for name, entry in found.items()}
        if any(entry.name == "t" for entry in entries):
            values = _last(values)
        covariance = covariance_matrix(values["covariance"], found["covariance"].name, dim)
        if "mean" not in values:
            return np.zeros(len(covariance)), covariance
        # MATLAB has no vectors, only rows and columns.
        mean = real_array(values["mean"], found["mean"].name).reshape(-1)
        return real_vector(mean, "mean", len(covariance)), covariance
    except GausscontrolError as error:
        raise type(error)(f"{path}: {error}") from error


def _named(entries: list[Entry]) -> dict[str, Entry]:
    """Return the entries that matter, by what they are."""
    found: dict[str, Entry] = {}
    for entry in entries:
        name = OTHER_NAMES.get(entry.name, entry.name)
        if name not in NAMES:
            continue
        if name in found:
            raise ParameterError(
                f"{name}: expected one value, found {found[name].name} and {entry.name}; keep one"
            )
        found[name] = entry
    return found


def _last(values: dict[str, Any]) -> dict[str, Any]:
    """Return the moments at the last depth of a trajectory, whose axis of depth is the last."""
    covariance = real_array(values["covariance"], "covariance")
    if covariance.ndim != 3:
        return values
    return {name: real_array(value, name)[..., -1] for name, value in values.items()}
