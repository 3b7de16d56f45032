"""What `simulate` does: one trajectory, told, drawn and written to a file (Theory 1.1, 1.4).

    mu(0), Sigma(0)  ->  mu(t), Sigma(t),   0 <= t <= depth

A trajectory file holds t (N,), mean (d, N) and covariance (d, d, N), and blow_up_time where there
is a finite escape; a .csv has one row a depth and one column for each entry of the mean and of the
lower triangle of the covariance. The keys of the JSON object are described in `schema`.
"""

from __future__ import annotations

import argparse
import csv
import io
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol import plots
from gausscontrol.cli.choices import RUN_FILES
from gausscontrol.cli.gaussians import read_gaussian
from gausscontrol.cli.jsontext import json_text
from gausscontrol.cli.kept import finished
from gausscontrol.cli.observation import Observation, follow, stack_depths
from gausscontrol.cli.outputs import check_output, make_folder, write_file
from gausscontrol.cli.report import plot_words, wrapped
from gausscontrol.cli.streams import emit, working
from gausscontrol.errors import IntegrationError, ParameterError
from gausscontrol.linalg.symmetric import vech, vech_index
from gausscontrol.model.files import load_model
from gausscontrol.model.formats import FORMATS
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.labels import covariance_label
from gausscontrol.systems.response import MomentResponse

__all__ = ["Run", "run", "simulate"]

POINTS = 201
# Of the table in the report.
ROWS = 6
# A stack of so few layers that the table shows each end.
FEW = 12
# Depths this close to a boundary between layers, relative to a layer, lie on it.
WHOLE = 1e-6


def run(options: argparse.Namespace) -> int:
    """Simulate, write what is asked for, and report.

    Parameters
    ----------
    options : argparse.Namespace

    Returns
    -------
    int
        0.

    Raises
    ------
    ParameterError, ShapeError
        If a file or an option makes no sense.
    IntegrationError
        If the depth cannot be reached although there is no finite escape.
    OSError
        If a file cannot be read or written.
    """
    model = load_model(options.file)
    start = read_gaussian(options.initial, model.dim, "--initial")
    if options.output is not None:
        check_output(options.output, RUN_FILES, options.force, (options.file, options.initial))
    if options.plots is not None:
        make_folder(options.plots)
    with working("following the trajectory") as say:
        result = simulate(options.file, model, start, options.depth, options.points)
        if options.output is not None:
            write_run(result, options.output, options.force)
        if options.plots is not None:
            say("drawing")
            draw_run(result, options.plots)
    emit(json_text("simulate", run_as_json(result)) if options.json else run_in_words(result))
    return 0


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
        raise ParameterError(
            "--depth: expected how deep a single layer acts, found none; add for example --depth 10"
        )
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


# -- files and pictures ---------------------------------------------------------------------------


def write_run(result: Run, path: Path, force: bool) -> None:
    """Write the trajectory.

    Parameters
    ----------
    result : Run
        Gets the path.
    path : Path
        Its suffix, one of `RUN_FILES`, says the format.
    force : bool
        Whether a file that is there may be replaced.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    response = result.response
    if path.suffix.lower() == ".csv":
        content = _table(response).encode()
    else:
        arrays: dict[str, Any] = {
            "t": response.t,
            "mean": response.mean,
            "covariance": response.covariance,
        }
        if response.blow_up_time is not None:
            arrays["blow_up_time"] = response.blow_up_time
        stream = io.BytesIO()
        FORMATS[path.suffix.lower()].write(stream, arrays)
        content = stream.getvalue()
    write_file(path, content, force)
    result.output = path


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


def draw_run(result: Run, folder: Path) -> None:
    """Draw the moments and the ellipses.

    Parameters
    ----------
    result : Run
        Gets the paths.
    folder : Path
        An existing folder, in which nothing else is touched.
    """
    for name, plot in zip(plots.PICTURES, (plots.moment_plot, plots.ellipse_plot), strict=False):
        plots.save_picture(folder / name, partial(plot, result.response, title=result.title))
        finished(folder / name)
        result.plots.append(folder / name)


# -- the report -----------------------------------------------------------------------------------


def run_in_words(result: Run) -> str:
    """Return the report for a terminal.

    Parameters
    ----------
    result : Run

    Returns
    -------
    str
    """
    model, response = result.model, result.response
    if isinstance(model, LayerStack):
        kind = f"stack of {len(model)} layers"
    else:
        heads = f"{model.n_heads} head{'s' if model.n_heads > 1 else ''}"
        kind = f"{heads}, {f'layers of depth {model.dt:g}' if model.dt else 'continuous depth'}"
    lines = [
        f"{result.title}: d = {model.dim}, {kind} ({result.file})",
        f"{_span(response)}, method {response.method}, rank {response.rank}",
        f"Sigma {result.seen.text}.",
    ]
    written = [] if result.output is None else [f"Wrote {result.output}"]
    parts = [lines, _table_of(response), [*written, *plot_words(result)]]
    return "\n\n".join("\n".join(wrapped(part)) for part in parts if part)


def _span(response: MomentResponse) -> str:
    return f"{response.t.size} depths from 0 to {response.t[-1]:.6g}"


def _table_of(response: MomentResponse) -> list[str]:
    rows = [("depth", "|mu| [x]", "tr Sigma [x]^2", "eigenvalues of Sigma [x]^2")]
    shown = response.t.size if response.t.size <= FEW else ROWS
    for n in np.unique(np.linspace(0, response.t.size - 1, shown).round().astype(int)):
        values = np.maximum(np.linalg.eigvalsh(response.covariance[:, :, n]), 0.0)
        figures = response.t[n], np.linalg.norm(response.mean[:, n]), values.sum()
        extremes = f"{values[0]:.4g} to {values[-1]:.4g}"
        rows.append((*(f"{figure:.6g}" for figure in figures), extremes))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {'  '.join(cells)}".rstrip())
    left = response.t.size - shown
    if left:
        lines.append(f"  ... and {left} depths between these; --output writes all")
    return lines


def run_as_json(result: Run) -> dict[str, Any]:
    """Return the report as numbers, strings, arrays, lists and dicts.

    Parameters
    ----------
    result : Run

    Returns
    -------
    dict
        All keys of `schema` but the first three.
    """
    model, response = result.model, result.response
    single = isinstance(model, GaussianTransformer)
    mean, covariance = result.start
    return {
        "file": str(result.file),
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
        "outcome": result.seen.outcome,
        "text": result.seen.text,
        "escape_depth": response.blow_up_time,
        "output": None if result.output is None else str(result.output),
        "plots": [str(path) for path in result.plots],
        "plots_missing": result.plots_missing,
    }
