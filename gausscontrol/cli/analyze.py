"""The command `analyze`: what a layer or a stack does, told, drawn, and judged by --require.

model file -> findings, with --quick the cheap ones -> report;
    regime certified -> exit code 0, otherwise 1
"""

from __future__ import annotations

import argparse

from gausscontrol.cli.findings import draw, investigate
from gausscontrol.cli.jsontext import json_text
from gausscontrol.cli.outputs import make_folder
from gausscontrol.cli.report import as_json, in_words
from gausscontrol.cli.stacks import draw_stack, investigate_stack, stack_as_json, stack_in_words
from gausscontrol.cli.streams import complain, emit, working
from gausscontrol.model.files import load_model
from gausscontrol.model.stack import LayerStack

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Analyse what a model file holds.

    Parameters
    ----------
    options : argparse.Namespace

    Returns
    -------
    int
        0, or 1 if what --require asks for is not certified.

    Raises
    ------
    ParameterError, ShapeError
        If the file makes no sense.
    OSError
        If a file cannot be read or written.
    """
    model = load_model(options.file)
    find, picture, numbers, words = (
        (investigate_stack, draw_stack, stack_as_json, stack_in_words)
        if isinstance(model, LayerStack)
        else (investigate, draw, as_json, in_words)
    )
    if options.plots is not None:
        make_folder(options.plots)
    # Pictures need a trajectory.
    followed = not options.quick or options.plots is not None
    found = find(options.file, model, quick=options.quick, followed=followed)
    if options.plots is not None:
        with working("drawing"):
            picture(found, options.plots)
    met = options.require is None or found.satisfies(options.require)
    if options.json:
        requirement = {"regime": options.require, "met": met} if options.require else None
        emit(json_text("analyze", {**numbers(found), "requirement": requirement}))
    else:
        emit(words(found))
    if met:
        return 0
    complain(f"required {options.require}, found {found.regime}: {found.why_not(options.require)}")
    return 1
