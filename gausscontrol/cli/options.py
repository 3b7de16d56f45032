"""The options of every command, and the help that explains them.

    gausscontrol COMMAND ... -> Namespace with `command` and the options of that command

Nothing here needs the package, so that help is there at once. The choices repeat what the library
offers, which the tests compare.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from gausscontrol._version import __version__

__all__ = [
    "ACTUATORS",
    "FREE",
    "KINDS",
    "MODEL_FILES",
    "PICTURES",
    "REQUIRABLE",
    "RUN_FILES",
    "UsageError",
    "parser",
]

MODEL_FILES = (".npz", ".mat", ".json")
RUN_FILES = (*MODEL_FILES, ".csv")
PICTURES = ("moments.png", "ellipses.png", "spectrum.png")
REQUIRABLE = (
    "globally stable",
    "collapse",
    "semiglobally stable",
    "locally stable",
    "blow-up",
    "bounded",
)
FREE = ("V", "B", "AV", "AB", "VB")
KINDS = ("residual", "hold")
ACTUATORS = ("feedforward", "attention", "keys")

DESCRIPTION = """\
Treat a Transformer layer acting on Gaussian tokens as a control system:

  mu'    = (A + V) mu + V Sigma B mu + b
  Sigma' = A Sigma + Sigma A^T + V Sigma B Sigma + Sigma B^T Sigma V^T

with the feed-forward part x -> A x + b, value matrix V and key-query matrix B.
Where x is the unit of a token and t that of depth, mu has unit [x], Sigma
[x^2], A and V [1/t], B [1/x^2], b [x/t]."""

EPILOG = """\
examples:
  gausscontrol analyze layer.mat
  gausscontrol simulate layer.mat --depth 12 --output run.csv
  gausscontrol design layer.mat --target 2 --output designed.npz
  gausscontrol steer start.npz goal.npz --layers 12 --output stack.npz

A model file (.mat, .npz, .json) holds A, B, V (d x d; several heads d x d x h
in .mat, h x d x d elsewhere) and optionally b, k, dt, name; or the weights W_Q,
W_K, W_V, W_O; or a stack of layers. What design and steer write, analyze and
simulate read. "gausscontrol COMMAND --help" says more.

exit codes:
  0    done
  1    --require is not met, there is no such design, the goal is out of reach
  2    bad input; one line on standard error says what to do
  130  interrupted"""

ANALYZE = """\
Find where the layer in FILE settles, how fast, and from how far.

FILE is .mat, .npz or .json and holds A, B, V (d x d; several heads d x d x h in
.mat, h x d x d elsewhere) and optionally b, k, dt, name; or a stack of layers,
of which each is looked at by itself before a trajectory passes through all."""

ANALYZE_EPILOG = """\
examples:
  gausscontrol analyze layer.mat
  gausscontrol analyze layer.mat --plots out
  gausscontrol analyze layer.mat --json > layer.json
  gausscontrol analyze layer.mat --require "globally stable"

"globally stable" means certified: every covariance Sigma > 0 tends to the
equilibrium; the scope printed beside says whether every mean does too.
"semiglobally stable", for residual layers (dt > 0), where global stability does
not exist: every covariance in a stated set does.
"locally stable": every covariance near the equilibrium does.
"collapse": every covariance tends to zero. "bounded": none escapes to infinity.
"blow-up": all those beyond a stated threshold escape, at a finite depth.
Global stability meets the three others that speak of stability, and it and
collapse meet "bounded"; a stack meets what all its layers meet.
What is only observed along a trajectory is called so and meets none.

Rates and abscissae are per unit depth [1/t], covariances [x^2].

exit codes:
  0  done (without --require: whatever is found)
  1  the layer is not what --require asks for
  2  bad input; one line on standard error says what to do"""

SIMULATE = """\
Compute mean and covariance along the depth of the layer or stack in FILE, in
the formats that analyze reads. A covariance that escapes to infinity ends the
run before it does, with a warning."""

SIMULATE_EPILOG = """\
examples:
  gausscontrol simulate layer.mat --depth 12
  gausscontrol simulate layer.mat --depth 12 --initial 0.1 --output run.csv
  gausscontrol simulate stack.npz --initial start.npz --plots out

A start file (.mat, .npz, .json) holds covariance (d x d) [x^2] and optionally
mean (d) [x], zero by default. An output file holds t (N), mean (d x N) and
covariance (d x d x N); a .csv has one row for each depth, with the lower
triangle of the covariance. One that is there is replaced only with --force.

exit codes:
  0  done, with or without an escape
  2  bad input; one line on standard error says what to do"""

DESIGN = """\
Design parameters that make every Gaussian with Sigma_0 > 0 tend to a target,
and certify that they do. Matrices of the layer in FILE are kept unless they are
free; b is always chosen, since it puts the mean at the target."""

DESIGN_EPILOG = """\
examples:
  gausscontrol design layer.mat --target 2 --output designed.npz
  gausscontrol design layer.mat --target target.json --free AV --decay-rate 0.5
  gausscontrol design layer.mat --mean 1 0 --covariance 2 1 --norm-bound V=5
  gausscontrol design layer.mat --target 1 --free VB --heads 2 --plots out

A target file (.mat, .npz, .json) holds covariance (d x d) [x^2] and optionally
mean (d) [x], which --mean replaces; --covariance is given in place of --target,
not beside it.
Without --decay-rate the rate is as large as the norm bounds allow; with it, the
norms are as small as the rate allows. tr A > 0 is necessary unless A is free.
Rates and the norms of A and V are per unit depth [1/t], that of B [1/x^2].

exit codes:
  0  done: designed, certified and written
  1  there is no such design; one line on standard error says why
  2  bad input, or a solver fails; one line on standard error says what to do"""

STEER = """\
Find layers that turn the Gaussian in START into that in GOAL, exactly.

Each file (.mat, .npz, .json) holds covariance (d x d) [x^2] and optionally mean
(d) [x], zero by default. The path between them is the one of least energy; it
exists if and only if both covariances have the same rank."""

STEER_EPILOG = """\
examples:
  gausscontrol steer start.npz goal.npz --layers 12 --output stack.npz
  gausscontrol steer start.npz goal.npz --actuators attention --model layer.mat
  gausscontrol steer start.npz goal.npz --depth 4 --kind hold --plots out

The output is a stack of layers; this takes the start through it to the goal:
  gausscontrol simulate stack.npz --initial start.npz

exit codes:
  0  done
  1  the goal is out of reach: no parameters change a rank
  2  bad input; one line on standard error says what to do"""


class UsageError(Exception):
    """The command line makes no sense."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


class _Schema(argparse.Action):
    """Print the JSON Schema of the reports and leave, as --version does."""

    def __call__(self, parser, namespace, values, option_string=None):
        import json

        from gausscontrol.cli.schema import report_schema
        from gausscontrol.cli.streams import emit

        emit(json.dumps(report_schema(), indent=1))
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Returns
    -------
    argparse.ArgumentParser
        Raises `UsageError` for a command line that makes no sense.
    """
    raw = argparse.RawDescriptionHelpFormatter
    whole = _Parser("gausscontrol", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    whole.add_argument("--version", action="version", version=f"gausscontrol {__version__}")
    whole.add_argument(
        "--schema", action=_Schema, nargs=0, help="print the JSON Schema of the --json reports"
    )
    commands = whole.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for name, add_options, short, description, epilog in (
        ("analyze", _analyze, "where a layer settles, how fast, and from how far", ANALYZE,
         ANALYZE_EPILOG),
        ("simulate", _simulate, "mean and covariance along the depth", SIMULATE, SIMULATE_EPILOG),
        ("design", _design, "parameters that attract every Gaussian to a target", DESIGN,
         DESIGN_EPILOG),
        ("steer", _steer, "layers that turn one Gaussian into another", STEER, STEER_EPILOG),
    ):  # fmt: skip
        command = commands.add_parser(
            name, help=short, description=description, epilog=epilog, formatter_class=raw
        )
        add_options(command)
        command.add_argument(
            "--json", action="store_true", help="print one JSON object and nothing else"
        )
    return whole


def _analyze(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("file", metavar="FILE", type=Path, help="model file")
    _add_plots(command, PICTURES)
    add(
        "--require",
        metavar="REGIME",
        choices=REQUIRABLE,
        help=f"exit with 1 if this is not certified: {', '.join(map(repr, REQUIRABLE))}",
    )


def _simulate(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("file", metavar="FILE", type=Path, help="model file")
    add("--depth", metavar="T", type=float, help="how deep [t]; by default a stack's whole depth")
    add("--points", metavar="N", type=int, help="how many depths, by default about 200")
    add(
        "--initial",
        metavar="START",
        default="identity",
        help="a start file, a number s for mean 0 and covariance s I, or identity (default)",
    )
    _add_output(command, "the trajectory", RUN_FILES)
    _add_plots(command, PICTURES[:2])


def _design(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("file", metavar="FILE", type=Path, help="model file")
    add(
        "--target",
        metavar="TARGET",
        help="a file, a number s for mean 0 and covariance s I, or identity",
    )
    add(
        "--mean",
        metavar="X",
        type=float,
        nargs="+",
        help="target mean, d numbers; replaces that of --target",
    )
    add(
        "--covariance",
        metavar="X",
        type=float,
        nargs="+",
        help="target covariance in place of --target: s for s I, d numbers for a diagonal, or "
        "d x d row by row",
    )
    add(
        "--free",
        metavar="NAMES",
        choices=FREE,
        default="V",
        help=f"what is designed: {', '.join(FREE)} (default V)",
    )
    add("--decay-rate", metavar="R", type=float, help="of the covariance, to be reached [1/t]")
    add("--mean-decay-rate", metavar="R", type=float, help="of the mean, to be reached [1/t]")
    add(
        "--norm-bound",
        metavar="X",
        nargs="+",
        help="bound on spectral norms: one number, or V=5 A=1",
    )
    add("--heads", metavar="H", type=int, help="how many, with --free VB")
    add("--dt", metavar="T", type=float, help="depth of a layer [t], by default the file's")
    add("--near", action="store_true", help="stay near the file's weights, by Frobenius norm")
    _add_output(command, "the layer", MODEL_FILES)
    _add_plots(command, ("design.png",))


def _steer(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("start", metavar="START", type=Path, help="file with the Gaussian to start from")
    add("goal", metavar="GOAL", type=Path, help="file with the Gaussian to end at")
    add("--depth", metavar="T", type=float, default=1.0, help="total depth [t], by default 1")
    add("--layers", metavar="N", type=int, default=8, help="how many layers, by default 8")
    add("--kind", choices=KINDS, default="residual", help="residual layers, or held parameters")
    add(
        "--actuators",
        choices=ACTUATORS,
        default="feedforward",
        help="what varies along the depth besides b: A, all V or all B",
    )
    add("--model", metavar="FILE", type=Path, help="a model file, whose other parameters stay")
    add("--rank", metavar="R", type=int, help="rank of both covariances, if counting would err")
    _add_output(command, "the layers", MODEL_FILES)
    _add_plots(command, ("steering.png",))


def _add_output(command: argparse.ArgumentParser, what: str, suffixes: tuple[str, ...]) -> None:
    command.add_argument(
        "--output",
        metavar="OUT",
        type=Path,
        help=f"write {what} to OUT{{{','.join(suffixes)}}}",
    )
    command.add_argument(
        "--force", action="store_true", help="let --output replace a file that is there"
    )


def _add_plots(command: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    command.add_argument(
        "--plots",
        metavar="DIR",
        type=Path,
        help=f"write {', '.join(names)} into DIR, made if need be",
    )
