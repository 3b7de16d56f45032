"""The options of every command.

    gausscontrol COMMAND ... -> Namespace with `command` and the options of that command

Nothing here needs the rest of the package, so that help is there at once.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gausscontrol._version import __version__
from gausscontrol.cli.choices import (
    ACTUATORS,
    FREE,
    KINDS,
    MODEL_FILES,
    PICTURES,
    REQUIRABLE,
    RUN_FILES,
    bounds,
    free,
    number,
    numbers,
    one_of,
    whole_number,
)
from gausscontrol.cli.manual import ABOUT, MANUAL
from gausscontrol.cli.parsing import Parser

__all__ = ["parser"]


class _Schema(argparse.Action):
    """Print the JSON Schema of the reports and leave, as --version does."""

    def __call__(self, parser, namespace, values, option_string=None):
        # Imported here, since no other option needs them.
        import json

        from gausscontrol.cli.schema import report_schema
        from gausscontrol.cli.streams import emit

        emit(json.dumps(report_schema(), indent=1))
        parser.exit()


def parser() -> Parser:
    """Return the parser of the command line.

    Returns
    -------
    Parser
        Raises `UsageError` for a command line that makes no sense.
    """
    raw = argparse.RawDescriptionHelpFormatter
    description, epilog = ABOUT
    whole = Parser("gausscontrol", description=description, epilog=epilog, formatter_class=raw)
    version = f"gausscontrol {__version__}"
    whole.add_argument("--version", action="version", version=version, help="print the version")
    whole.add_argument(
        "--schema", action=_Schema, nargs=0, help="print the JSON Schema of the --json reports"
    )
    for name, add_options, short in (
        ("analyze", _analyze, "where a layer settles, how fast, and from how far"),
        ("simulate", _simulate, "mean and covariance along the depth"),
        ("design", _design, "parameters that attract every Gaussian to a target"),
        ("steer", _steer, "layers that turn one Gaussian into another"),
    ):
        description, epilog = MANUAL[name]
        command = whole.add_command(
            name, help=short, description=description, epilog=epilog, formatter_class=raw
        )
        add_options(command)
        command.add_argument(
            "--json", action="store_true", help="print one JSON object and nothing else"
        )
    return whole


def _analyze(command: Parser) -> None:
    add = command.add_argument
    add("file", metavar="FILE", type=Path, help="model file")
    _add_plots(command, PICTURES)
    add(
        "--quick",
        action="store_true",
        help="certificates without semidefinite programmes, short searches, no trajectories",
    )
    add(
        "--require",
        metavar="REGIME",
        type=one_of(REQUIRABLE),
        help=f"exit with 1 if this is not certified: {', '.join(map(repr, REQUIRABLE))}",
    )


def _simulate(command: Parser) -> None:
    add = command.add_argument
    add("file", metavar="FILE", type=Path, help="model file")
    add(
        "--depth",
        metavar="T",
        type=number,
        help="how deep [t]; needed for a single layer, by default the whole of a stack",
    )
    add("--points", metavar="N", type=whole_number, help="how many depths, by default about 200")
    add(
        "--initial",
        metavar="START",
        default="identity",
        help="a start file, a number s for mean 0 and covariance s I, or identity (default)",
    )
    _add_output(command, "the trajectory", RUN_FILES)
    _add_plots(command, PICTURES[:2])


def _design(command: Parser) -> None:
    add = command.add_argument
    add("file", metavar="FILE", type=Path, help="model file")
    add(
        "--target",
        metavar="TARGET",
        help="a file, a number s for mean 0 and covariance s I, or identity",
    )
    add(
        "--mean",
        metavar="X...",
        type=numbers,
        several=True,
        help="target mean, d numbers [x]; replaces that of --target",
    )
    add(
        "--covariance",
        metavar="X...",
        type=numbers,
        several=True,
        help="target covariance in place of --target [x^2]: s for s I, d numbers for a diagonal, "
        "or d x d row by row",
    )
    add(
        "--free",
        metavar="NAMES",
        type=free,
        default="V",
        several=True,
        help=f"which matrices are designed: {', '.join(FREE)} (default V)",
    )
    add("--decay-rate", metavar="R", type=number, help="of the covariance, to be reached [1/t]")
    add("--mean-decay-rate", metavar="R", type=number, help="of the mean, to be reached [1/t]")
    add(
        "--norm-bound",
        metavar="X...",
        type=bounds,
        several=True,
        help="largest spectral norm of what is free: one number for all, or V=5 A=1",
    )
    add(
        "--heads",
        metavar="H",
        type=whole_number,
        help="how many to design, with --free VB; by default the fewest that do",
    )
    add(
        "--dt",
        metavar="T",
        type=number,
        help="depth of a residual layer [t], 0 for continuous depth; by default the file's",
    )
    add(
        "--near",
        action="store_true",
        help="of the designs of equal rate take the one nearest to the weights in FILE",
    )
    _add_output(command, "the layer", MODEL_FILES)
    _add_plots(command, ("design.png",))


def _steer(command: Parser) -> None:
    add = command.add_argument
    add("start", metavar="START", type=Path, help="file with the Gaussian to start from")
    add("goal", metavar="GOAL", type=Path, help="file with the Gaussian to end at")
    add("--depth", metavar="T", type=number, default=1.0, help="total depth [t], by default 1")
    add("--layers", metavar="N", type=whole_number, default=8, help="how many, by default 8")
    add(
        "--kind",
        metavar="KIND",
        type=one_of(KINDS),
        default="residual",
        help="residual (default): each layer takes one step, as a Transformer's do; hold: each "
        "holds its parameters over its share of a continuous depth",
    )
    add(
        "--actuators",
        metavar="WHICH",
        type=one_of(ACTUATORS),
        default="feedforward",
        help="what varies from layer to layer besides b: feedforward (default) for A, attention "
        "for V of all heads, keys for B of all heads",
    )
    add(
        "--model",
        metavar="FILE",
        type=Path,
        help="model file with the parameters that do not vary, by default zero where they may be",
    )
    add(
        "--rank",
        metavar="R",
        type=whole_number,
        help="rank that both covariances have, where rounding hides it",
    )
    _add_output(command, "the layers", MODEL_FILES)
    _add_plots(command, ("steering.png",))


def _add_output(command: Parser, what: str, suffixes: tuple[str, ...]) -> None:
    command.add_argument(
        "--output",
        metavar="OUT",
        type=Path,
        help=f"write {what} to this file, {', '.join(suffixes[:-1])} or {suffixes[-1]}",
    )
    command.add_argument(
        "--force", action="store_true", help="let --output replace a file that is there"
    )


def _add_plots(command: Parser, names: tuple[str, ...]) -> None:
    command.add_argument(
        "--plots",
        metavar="DIR",
        type=Path,
        help=f"write {', '.join(names)} into this folder, made if need be",
    )
