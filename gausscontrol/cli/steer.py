"""What `steer` does: layers that turn one Gaussian into another, written to a file (Theory 6).

    N(m0, Sigma0)  ->  parameters along the depth  ->  layers  ->  N(m1, Sigma1)

The JSON object has these keys; what does not exist is null: start, goal (file, mean, covariance);
version; model (path); duration, actuators, rank; energy, least_energy; peak_norms (by parameter);
residual, amplification; kind, layers (number), end_error (of the layers, replayed, relative);
output (path); plots (paths).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol import plots
from gausscontrol._version import __version__
from gausscontrol.cli.report import plain, plot_words, wrapped
from gausscontrol.cli.simulate import check_output
from gausscontrol.errors import GausscontrolError, ParameterError
from gausscontrol.linalg.arrays import real_array, real_vector
from gausscontrol.linalg.bures import bures_wasserstein
from gausscontrol.linalg.symmetric import covariance_matrix
from gausscontrol.model.entries import listed
from gausscontrol.model.files import load_model, save_model
from gausscontrol.model.formats import FORMATS, read_entries
from gausscontrol.model.stack import LayerStack
from gausscontrol.plots.steering import steering_plot
from gausscontrol.synthesis.actuators import ACTUATORS
from gausscontrol.synthesis.layers import KINDS
from gausscontrol.synthesis.plan import SteeringPlan
from gausscontrol.synthesis.steering import steer
from gausscontrol.systems.response import moment_response

__all__ = ["PICTURE", "Steered", "add_steer", "read_moments_file", "run_steer"]

PICTURE = "steering.png"
NAMES = ("mean", "covariance")
# The readers of files speak of models; these files hold a Gaussian.
MODEL_WORDS = '{"A": ..., "B": ..., "V": ...}'
GAUSSIAN_WORDS = '{"mean": ..., "covariance": ...}'
ARRAYS = "mean=mean, covariance=covariance"
AGAIN = {
    ".npz": f"write it with numpy.savez(file, {ARRAYS})",
    ".mat": "write it with save(file, 'mean', 'covariance', '-v7') in MATLAB or Octave",
    ".json": f"write {GAUSSIAN_WORDS}",
}

# Arguments of `steer` and `layers` that an error may name.
OPTIONS = {
    "duration": "--depth",
    "n": "--layers",
    "rank": "--rank",
    "actuators": "--actuators",
    "model": "--model",
}

DESCRIPTION = """\
Find layers that turn the Gaussian in START into that in GOAL, exactly.

Each file (.mat, .npz, .json) holds covariance (d x d) and optionally mean. The
path between them is the one of least energy; it exists if and only if both
covariances have the same rank."""

EXAMPLES = """\
examples:
  gausscontrol steer start.npz goal.npz --layers 12 --output stack.npz
  gausscontrol steer start.npz goal.npz --actuators attention --model layer.mat
  gausscontrol steer start.npz goal.npz --depth 4 --kind hold --plots out

The output is a stack of layers, which simulate and analyze read.

exit codes:
  0  done
  1  the goal is out of reach: no parameters change a rank
  2  bad input; one line on standard error says what to do"""


def add_steer(commands: argparse._SubParsersAction, raw: type) -> argparse.ArgumentParser:
    """Add the parser of this command.

    Parameters
    ----------
    commands : argparse action
        What `add_subparsers` returned.
    raw : type
        The formatter class.

    Returns
    -------
    argparse.ArgumentParser
    """
    parser = commands.add_parser(
        "steer",
        help="layers that turn one Gaussian into another",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    add = parser.add_argument
    add("start", metavar="START", type=Path, help="file with the Gaussian to start from")
    add("goal", metavar="GOAL", type=Path, help="file with the Gaussian to end at")
    add("--depth", metavar="T", type=float, default=1.0, help="total depth, by default 1")
    add("--layers", metavar="N", type=int, default=8, help="how many layers, by default 8")
    add("--kind", choices=KINDS, default="residual", help="residual layers, or held parameters")
    add(
        "--actuators",
        choices=tuple(ACTUATORS),
        default="feedforward",
        help="what varies along the depth besides b: A, all V or all B",
    )
    add("--model", metavar="FILE", type=Path, help="a model file, whose other parameters stay")
    add("--rank", metavar="R", type=int, help="rank of both covariances, if counting would err")
    add("--output", metavar="OUT", type=Path, help="write the layers to OUT{.npz,.mat,.json}")
    add("--plots", metavar="DIR", type=Path, help=f"write {PICTURE} into DIR, made if need be")
    add("--json", action="store_true", help="print one JSON object and nothing else")
    return parser


def run_steer(options: argparse.Namespace) -> str:
    """Plan, make the layers, write what is asked for, and return the report.

    Parameters
    ----------
    options : argparse.Namespace
        Of the parser that `add_steer` added; the folder for plots exists.

    Returns
    -------
    str

    Raises
    ------
    UnreachableError
        If the ranks differ.
    ParameterError, ShapeError
        If a file or an option is invalid.
    OSError
        If a file cannot be read or written.
    """
    if options.output is not None:
        check_output(options.output, FORMATS)
    result = steered(
        (options.start, options.goal),
        options.depth,
        layers=options.layers,
        kind=options.kind,
        actuators=options.actuators,
        model=options.model,
        rank=options.rank,
    )
    if options.output is not None:
        write_layers(result, options.output)
    if options.plots is not None:
        draw_steered(result, options.plots)
    if options.json:
        return json.dumps(steered_as_json(result), allow_nan=False)
    return steered_in_words(result)


@dataclass
class Steered:
    """A plan between two files, and its layers."""

    files: tuple[Path, Path]
    model: Path | None
    plan: SteeringPlan
    stack: LayerStack
    output: Path | None = None
    plots: list[Path] = field(default_factory=list)
    plots_missing: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Which kind of layers."""
        return "residual" if self.stack[0].dt else "hold"

    @property
    def end_error(self) -> float:
        """By how much the replayed layers miss the covariance of the goal, relative."""
        end = moment_response(self.stack, [0.0, self.stack.depth], self.plan.start, rtol=1e-11)
        goal = self.plan.goal[1]
        return float(np.linalg.norm(end.covariance[:, :, -1] - goal) / (np.linalg.norm(goal) or 1))


def read_moments_file(path: Path, dim: int | None = None) -> tuple[np.ndarray, np.ndarray]:
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
        The mean is zero unless the file says otherwise.

    Raises
    ------
    ParameterError, ShapeError
        If the file does not hold a Gaussian of this dimension.
    OSError
        If the file cannot be read.
    """
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise ParameterError(f"{path}: expected a file ending in {listed(FORMATS)}")
    try:
        with path.open("rb") as stream:
            form = replace(form, again=AGAIN[path.suffix.lower()])
            entries = read_entries(stream, form, NAMES, "")
        found = {entry.name: entry for entry in entries if entry.name in NAMES}
        for entry in found.values():
            if entry.refusal is not None:
                raise ParameterError(f"{entry.name}: found {entry.refusal}; {entry.advice}")
        if "covariance" not in found:
            raise ParameterError(
                "expected covariance (d x d) and, optionally, mean, found "
                f"{listed(entry.name for entry in entries) or 'nothing'}"
            )
        covariance = covariance_matrix(found["covariance"].value, "covariance", dim)
        if "mean" not in found:
            return np.zeros(len(covariance)), covariance
        # MATLAB has no vectors, only rows and columns.
        mean = real_array(found["mean"].value, "mean").reshape(-1)
        return real_vector(mean, "mean", len(covariance)), covariance
    except GausscontrolError as error:
        words = str(error).replace(MODEL_WORDS, GAUSSIAN_WORDS).replace("A=A, ...", ARRAYS)
        raise type(error)(f"{path}: {words}") from error


def steered(
    files: tuple[Path, Path],
    duration: float,
    *,
    layers: int,
    kind: str,
    actuators: str,
    model: Path | None,
    rank: int | None,
) -> Steered:
    """Plan from the Gaussian of one file to that of another, and make the layers.

    Parameters
    ----------
    files : (Path, Path)
        Start and goal.
    duration : float
        [t]
    layers : int
        How many.
    kind : {"residual", "hold"}
    actuators : {"feedforward", "attention", "keys"}
    model : Path or None
        A model file with the parameters that stay.
    rank : int or None
        As in `gausscontrol.steer`.

    Returns
    -------
    Steered

    Raises
    ------
    UnreachableError
        If the ranks differ.
    ParameterError, ShapeError
        If a file or an option is invalid.
    OSError
        If a file cannot be read.
    """
    start = read_moments_file(files[0])
    goal = read_moments_file(files[1], start[0].size)
    nominal = None if model is None else load_model(model)
    if isinstance(nominal, LayerStack):
        many = "1 layer" if len(nominal) == 1 else f"{len(nominal)} layers"
        raise ParameterError(f"{model}: expected one model, found a stack of {many}")
    try:
        plan = steer(start, goal, duration, actuators=actuators, model=nominal, rank=rank)
        return Steered(files, model, plan, plan.layers(layers, kind))
    except GausscontrolError as error:
        raise type(error)(_by_option(str(error))) from error


def _by_option(message: str) -> str:
    """Return a message with the options of the command in place of the arguments of `steer`."""
    name, colon, rest = message.partition(":")
    words = f"{OPTIONS.get(name, name)}{colon}{rest}"
    return words.replace("kind='residual'", "--kind residual").replace("pass rank=", "pass --rank ")


def write_layers(result: Steered, path: Path) -> None:
    """Write the layers to a model file.

    Parameters
    ----------
    result : Steered
        Gets the path.
    path : Path

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    save_model(path, result.stack)
    result.output = path


def draw_steered(result: Steered, folder: Path) -> None:
    """Draw the plan and its layers.

    Parameters
    ----------
    result : Steered
        Gets the path.
    folder : Path
        An existing folder, in which nothing else is touched.
    """
    draw = partial(steering_plot, result.plan, layers=result.stack)
    plots.save_picture(folder / PICTURE, draw)
    result.plots.append(folder / PICTURE)


def steered_in_words(result: Steered) -> str:
    """Return the report for a terminal.

    Parameters
    ----------
    result : Steered

    Returns
    -------
    str
    """
    stack = result.stack
    word, end = ("layer", "ends") if len(stack) == 1 else ("layers", "end")
    kinds = {"residual": f"residual {word}", "hold": f"{word} of held parameters"}
    many = f"{len(stack)} {kinds[result.kind]} of depth {stack.durations[0]:.6g}"
    layers = [f"{many} {end} at the goal, relative error {result.end_error:.1e}."]
    written = [] if result.output is None else [f"Wrote {result.output}"]
    parts = [layers, [*written, *plot_words(result)]]
    rest = ["\n".join(wrapped(part)) for part in parts if part]
    return "\n\n".join([f"{result.files[0]} to {result.files[1]}\n{result.plan}", *rest])


def steered_as_json(result: Steered) -> dict[str, Any]:
    """Return the report as plain numbers, strings, lists and dicts.

    Parameters
    ----------
    result : Steered

    Returns
    -------
    dict
        With the keys listed above.
    """
    plan = result.plan
    ends = zip(("start", "goal"), result.files, (plan.start, plan.goal), strict=True)
    return plain(
        {
            **{
                name: {"file": str(file), "mean": mean, "covariance": covariance}
                for name, file, (mean, covariance) in ends
            },
            "version": __version__,
            "model": None if result.model is None else str(result.model),
            "duration": plan.duration,
            "actuators": plan.actuators,
            "rank": plan.rank,
            "energy": plan.energy,
            "least_energy": bures_wasserstein(plan.start, plan.goal) ** 2 / plan.duration,
            "peak_norms": plan.peak_norms,
            "residual": plan.residual,
            "amplification": plan.amplification,
            "kind": result.kind,
            "layers": len(result.stack),
            "end_error": result.end_error,
            "output": None if result.output is None else str(result.output),
            "plots": [str(path) for path in result.plots],
        }
    )
