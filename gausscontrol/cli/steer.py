"""What `steer` does: layers that turn one Gaussian into another, written to a file (Theory 6a, 6f).

    N(m0, Sigma0)  ->  parameters along the depth  ->  layers  ->  N(m1, Sigma1)

The keys of the JSON object are described in `schema`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from gausscontrol import plots
from gausscontrol.cli.choices import MODEL_FILES
from gausscontrol.cli.gaussians import read_gaussian_file
from gausscontrol.cli.jsontext import json_text
from gausscontrol.cli.kept import finished
from gausscontrol.cli.outputs import check_output, make_folder
from gausscontrol.cli.report import plot_words, wrapped
from gausscontrol.cli.streams import emit, working
from gausscontrol.cli.wording import by_option
from gausscontrol.errors import GausscontrolError, ParameterError
from gausscontrol.linalg.bures import bures_wasserstein
from gausscontrol.model.files import load_model, save_model
from gausscontrol.model.stack import LayerStack
from gausscontrol.plots.steering import steering_plot
from gausscontrol.synthesis.plan import SteeringPlan
from gausscontrol.synthesis.steering import steer
from gausscontrol.systems.response import moment_response

__all__ = ["PICTURE", "Steered", "run", "steered"]

PICTURE = "steering.png"
# Inches: ellipses have equal axes, and need height.
PICTURE_SIZE = (6.4, 6.4)
# Arguments of `steer` and `layers` that an error may name.
OPTIONS = {
    "duration": "--depth",
    "n": "--layers",
    "rank": "--rank",
    "actuators": "--actuators",
    "model": "--model",
    "kind": "--kind",
}


def run(options: argparse.Namespace) -> int:
    """Plan, make the layers, write what is asked for, and report.

    Parameters
    ----------
    options : argparse.Namespace

    Returns
    -------
    int
        0.

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
        sources = (options.start, options.goal, options.model)
        check_output(options.output, MODEL_FILES, options.force, sources)
    if options.plots is not None:
        make_folder(options.plots)
    with working("planning") as say:
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
            save_model(options.output, result.stack, overwrite=options.force)
            finished(options.output)
            result.output = options.output
        if options.plots is not None:
            say("drawing")
            draw_steered(result, options.plots)
    emit(json_text("steer", steered_as_json(result)) if options.json else steered_in_words(result))
    return 0


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

    @cached_property
    def end_error(self) -> float:
        """By how much the replayed layers miss the covariance of the goal, relative."""
        end = moment_response(self.stack, [0.0, self.stack.depth], self.plan.start, rtol=1e-11)
        goal = self.plan.goal[1]
        return float(np.linalg.norm(end.covariance[:, :, -1] - goal) / (np.linalg.norm(goal) or 1))


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
    start = read_gaussian_file(files[0])
    goal = read_gaussian_file(files[1], start[0].size)
    nominal = None if model is None else load_model(model)
    if isinstance(nominal, LayerStack):
        many = "1 layer" if len(nominal) == 1 else f"{len(nominal)} layers"
        raise ParameterError(
            f"{model}: expected one model, found a stack of {many}; name a file of one layer"
        )
    if nominal is not None and nominal.dt:
        raise ParameterError(
            f"--model: expected continuous depth, found dt = {nominal.dt:g} in {model}; save it "
            "with dt = 0, and --kind says which layers are made"
        )
    try:
        plan = steer(start, goal, duration, actuators=actuators, model=nominal, rank=rank)
        return Steered(files, model, plan, plan.layers(layers, kind))
    except GausscontrolError as error:
        raise type(error)(by_option(str(error), OPTIONS)) from error


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
    plots.save_picture(folder / PICTURE, draw, PICTURE_SIZE)
    finished(folder / PICTURE)
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
    """Return the report as numbers, strings, arrays, lists and dicts.

    Parameters
    ----------
    result : Steered

    Returns
    -------
    dict
        All keys of `schema` but the first three.
    """
    plan = result.plan
    ends = zip(("start", "goal"), result.files, (plan.start, plan.goal), strict=True)
    return {
        **{
            name: {"file": str(file), "mean": mean, "covariance": covariance}
            for name, file, (mean, covariance) in ends
        },
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
