"""What `simulate` does: one trajectory, told, drawn and written to a file (Theory 1.1, 1.4).

    mu(0), Sigma(0)  ->  mu(t), Sigma(t),   0 <= t <= depth

The JSON object has these keys; what does not exist is null: file, version; model (name, dim, dt;
heads or layers); initial and final (depth, mean, covariance); method; rank; points; outcome, text;
escape_depth; output (path); plots (paths), plots_missing (reasons by name).

A trajectory file holds t (N,), mean (d, N) and covariance (d, d, N), and blow_up_time where there
is a finite escape; a .csv has one row a depth and one column for each entry of the mean and of the
lower triangle of the covariance.
"""

from __future__ import annotations

import csv
import errno
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol import plots
from gausscontrol._version import __version__
from gausscontrol.cli.observation import Observation, follow, stack_depths
from gausscontrol.cli.report import plain, plot_words, wrapped
from gausscontrol.errors import GausscontrolError, IntegrationError, ParameterError
from gausscontrol.linalg.arrays import real_array, real_vector
from gausscontrol.linalg.symmetric import covariance_matrix, vech, vech_index
from gausscontrol.model.entries import listed
from gausscontrol.model.formats import FORMATS, read_entries
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.iosys import covariance_label
from gausscontrol.systems.response import MomentResponse

__all__ = [
    "OUTPUTS",
    "Run",
    "check_output",
    "draw_run",
    "read_start",
    "run_as_json",
    "run_in_words",
    "simulate",
    "write_run",
]

OUTPUTS = (*FORMATS, ".csv")
POINTS = 201
# Of the table in the report.
ROWS = 6
# Depths this close to a boundary between layers, relative to a layer, lie on it.
WHOLE = 1e-6


@dataclass
class Run:
    """A trajectory and what became of it."""

    file: Path
    model: GaussianTransformer | LayerStack
    start: tuple[np.ndarray, np.ndarray]
    seen: Observation
    output: Path | None = None
    plots: list[Path] = field(default_factory=list)
    plots_missing: dict[str, str] = field(default_factory=dict)

    @property
    def response(self) -> MomentResponse:
        """The moments along the depth."""
        return self.seen.response

    @property
    def title(self) -> str:
        """What to call the model."""
        return getattr(self.model, "name", None) or self.file.stem


def simulate(
    file: Path,
    model: GaussianTransformer | LayerStack,
    start: tuple[np.ndarray, np.ndarray],
    depth: float | None,
    points: int | None,
) -> Run:
    """Compute the trajectory from a start.

    Parameters
    ----------
    file : Path
        Where the model comes from, for the report.
    model : GaussianTransformer or LayerStack
    start : tuple
        (mean, covariance).
    depth : float or None
        None for the whole stack. [t]
    points : int or None
        Of the grid; of residual layers at most as many as there are.

    Returns
    -------
    Run

    Raises
    ------
    ParameterError
        If the depth is missing, not positive, beyond the stack, or no whole number of layers.
    IntegrationError
        If the depth cannot be reached although there is no finite escape.
    """
    seen = follow(model, "the start", start, _grid(model, depth, points), None)
    if seen.response is None:
        raise IntegrationError(seen.text)
    return Run(file, model, start, seen)


def _grid(
    model: GaussianTransformer | LayerStack, depth: float | None, points: int | None
) -> np.ndarray:
    if points is not None and points < 2:
        raise ParameterError(f"--points: expected at least 2, found {points}")
    if depth is not None and not 0 < depth < np.inf:
        raise ParameterError(f"--depth: expected a positive number, found {depth:g}")
    if isinstance(model, LayerStack):
        return _stack_grid(model, depth, points)
    if depth is None:
        raise ParameterError("--depth: expected one for a single layer, found none; give it")
    count = points or POINTS
    if not model.dt:
        return np.linspace(0, depth, count)
    layers = round(depth / model.dt)
    if layers < 1 or abs(depth / model.dt - layers) > WHOLE:
        raise ParameterError(
            f"--depth: expected whole layers of depth {model.dt:g}, found {depth:g}; "
            f"try {max(layers, 1) * model.dt:g}"
        )
    return model.dt * np.unique(np.linspace(0, layers, min(count, layers + 1)).round())


def _stack_grid(stack: LayerStack, depth: float | None, points: int | None) -> np.ndarray:
    end = stack.depth if depth is None else depth
    if end > stack.depth * (1 + WHOLE):
        raise ParameterError(
            f"--depth: expected at most {stack.depth:.6g}, the depth of the stack, found {end:g}"
        )
    layer = min(int(np.searchsorted(stack.boundaries, end)), len(stack)) - 1
    start, stop = stack.boundaries[layer : layer + 2]
    if stack[layer].dt and not np.isclose(end, [start, stop], rtol=WHOLE, atol=0).any():
        raise ParameterError(
            f"--depth: expected whole layers, found {end:g} inside residual layer {layer}; "
            f"try {stop:.6g}"
        )
    depths = stack_depths(stack, points or POINTS)
    kept = depths[depths <= end * (1 + 1e-12)]
    return kept if abs(kept[-1] - end) <= WHOLE * stack.depth else np.append(kept, end)


# -- the start ------------------------------------------------------------------------------------


def read_start(text: str, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Read what --initial says.

    Parameters
    ----------
    text : str
        "identity", a positive number s for s I, or the path of a file with covariance and,
        optionally, mean.
    dim : int
        d.

    Returns
    -------
    (mean, covariance) : tuple of (d,) and (d, d) ndarray
        The mean is zero unless a file says otherwise.

    Raises
    ------
    ParameterError, ShapeError
        If it is none of these, or the file does not hold a covariance of this dimension.
    OSError
        If the file cannot be read.
    """
    if text == "identity":
        return np.zeros(dim), np.eye(dim)
    try:
        scale = float(text)
    except ValueError:
        return _start_from(Path(text), dim)
    if not 0 <= scale < np.inf:
        raise ParameterError(f"--initial: expected a scale of at least 0, found {text}")
    return np.zeros(dim), scale * np.eye(dim)


def _start_from(path: Path, dim: int) -> tuple[np.ndarray, np.ndarray]:
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise ParameterError(
            f"--initial: expected identity, a number or a file ending in {listed(FORMATS)}, found "
            f"{str(path)!r}"
        )
    names = ("mean", "covariance")
    try:
        with path.open("rb") as stream:
            entries = read_entries(stream, form, names, "")
        found = {entry.name: entry for entry in entries if entry.name in names}
        for entry in found.values():
            if entry.refusal is not None:
                raise ParameterError(f"{entry.name}: found {entry.refusal}; {entry.advice}")
        if "covariance" not in found:
            raise ParameterError(
                f"expected covariance ({dim} x {dim}) and, optionally, mean, found "
                f"{listed(entry.name for entry in entries) or 'nothing'}"
            )
        covariance = covariance_matrix(found["covariance"].value, "covariance", dim)
        if "mean" not in found:
            return np.zeros(dim), covariance
        # MATLAB has no vectors, only rows and columns.
        mean = real_array(found["mean"].value, "mean").reshape(-1)
        return real_vector(mean, "mean", dim), covariance
    except GausscontrolError as error:
        raise type(error)(f"{path}: {error}") from error


# -- files and pictures ---------------------------------------------------------------------------


def check_output(path: Path, suffixes: Iterable[str] = OUTPUTS) -> None:
    """Refuse a file that cannot be written before anything is computed.

    Parameters
    ----------
    path : Path
    suffixes : iterable of str, optional
        What its name may end in.

    Raises
    ------
    ParameterError
        If its suffix is not one of these.
    OSError
        If its folder does not exist or it is a folder.
    """
    if path.suffix.lower() not in suffixes:
        raise ParameterError(
            f"--output: expected a name ending in {listed(suffixes)}, found {str(path)!r}"
        )
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "expected an existing folder, found none; create it", str(path.parent)
        )


def write_run(run: Run, path: Path) -> None:
    """Write the trajectory.

    Parameters
    ----------
    run : Run
        Gets the path.
    path : Path
        Its suffix, one of `OUTPUTS`, says the format.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    response = run.response
    if path.suffix.lower() == ".csv":
        path.write_text(_table(response), newline="")
    else:
        content: dict[str, Any] = {
            "t": response.t,
            "mean": response.mean,
            "covariance": response.covariance,
        }
        if response.blow_up_time is not None:
            content["blow_up_time"] = response.blow_up_time
        stream = io.BytesIO()
        FORMATS[path.suffix.lower()].write(stream, content)
        path.write_bytes(stream.getvalue())
    run.output = path


def _table(response: MomentResponse) -> str:
    dim = response.mean.shape[0]
    names = [f"mu[{i}]" for i in range(dim)]
    names += [covariance_label(n, dim) for n in range(vech_index(dim).rows.size)]
    lower = np.stack([vech(S) for S in np.moveaxis(response.covariance, -1, 0)], axis=1)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["t", *names])
    rows = np.vstack([response.t, response.mean, lower]).T
    writer.writerows([repr(float(value)) for value in row] for row in rows)
    return text.getvalue()


def draw_run(run: Run, folder: Path) -> None:
    """Draw the moments and the ellipses.

    Parameters
    ----------
    run : Run
        Gets the paths.
    folder : Path
        An existing folder, in which nothing else is touched.
    """
    for name, plot in zip(plots.PICTURES, (plots.moment_plot, plots.ellipse_plot), strict=False):
        plots.save_picture(folder / name, partial(plot, run.response, title=run.title))
        run.plots.append(folder / name)


# -- the report -----------------------------------------------------------------------------------


def run_in_words(run: Run) -> str:
    """Return the report for a terminal.

    Parameters
    ----------
    run : Run

    Returns
    -------
    str
    """
    model, response = run.model, run.response
    if isinstance(model, LayerStack):
        kind = f"stack of {len(model)} layers"
    else:
        heads = f"{model.n_heads} head{'s' if model.n_heads > 1 else ''}"
        kind = f"{heads}, {f'layers of depth {model.dt:g}' if model.dt else 'continuous depth'}"
    lines = [
        f"{run.title}: d = {model.dim}, {kind} ({run.file})",
        f"{_span(response)}, method {response.method}, rank {response.rank}",
        f"Sigma {run.seen.text}.",
    ]
    written = [] if run.output is None else [f"Wrote {run.output}"]
    parts = [lines, _table_of(response), [*written, *plot_words(run)]]
    return "\n\n".join("\n".join(wrapped(part)) for part in parts if part)


def _span(response: MomentResponse) -> str:
    return f"{response.t.size} depths from 0 to {response.t[-1]:.6g}"


def _table_of(response: MomentResponse) -> list[str]:
    rows = [("depth", "|mu| [x]", "tr Sigma [x]^2", "eigenvalues of Sigma [x]^2")]
    for n in np.unique(np.linspace(0, response.t.size - 1, ROWS).round().astype(int)):
        values = np.maximum(np.linalg.eigvalsh(response.covariance[:, :, n]), 0.0)
        figures = response.t[n], np.linalg.norm(response.mean[:, n]), values.sum()
        extremes = f"{values[0]:.4g} to {values[-1]:.4g}"
        rows.append((*(f"{figure:.6g}" for figure in figures), extremes))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines


def run_as_json(run: Run) -> dict[str, Any]:
    """Return the report as plain numbers, strings, lists and dicts.

    Parameters
    ----------
    run : Run

    Returns
    -------
    dict
        With the keys listed above.
    """
    model, response = run.model, run.response
    single = isinstance(model, GaussianTransformer)
    mean, covariance = run.start
    return plain(
        {
            "file": str(run.file),
            "version": __version__,
            "model": {
                "name": model.name if single else None,
                "dim": model.dim,
                "dt": model.dt if single else None,
                "heads": model.n_heads if single else None,
                "layers": None if single else len(model),
            },
            "initial": {"depth": 0.0, "mean": mean, "covariance": covariance},
            "final": {
                "depth": response.t[-1],
                "mean": response.mean[:, -1],
                "covariance": response.covariance[:, :, -1],
            },
            "method": response.method,
            "rank": response.rank,
            "points": response.t.size,
            "outcome": run.seen.outcome,
            "text": run.seen.text,
            "escape_depth": response.blow_up_time,
            "output": None if run.output is None else str(run.output),
            "plots": [str(path) for path in run.plots],
            "plots_missing": run.plots_missing,
        }
    )
