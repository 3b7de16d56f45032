"""The command line: `gausscontrol COMMAND ...`.

Each command is a parser here and a function from its options to an exit code in a module of its
own: 0 done, 1 a requirement is not met, 2 bad input. Errors and warnings are one line each on
standard error, with no traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from gausscontrol._version import __version__
from gausscontrol.cli.design import add_design, run_design
from gausscontrol.cli.findings import REQUIRABLE, draw, investigate
from gausscontrol.cli.observation import one_line
from gausscontrol.cli.report import as_json, in_words
from gausscontrol.cli.simulate import (
    OUTPUTS,
    check_output,
    draw_run,
    read_start,
    run_as_json,
    run_in_words,
    simulate,
    write_run,
)
from gausscontrol.cli.stacks import draw_stack, investigate_stack, stack_as_json, stack_in_words
from gausscontrol.cli.steer import add_steer, run_steer
from gausscontrol.errors import GausscontrolError, InfeasibleDesign, UnreachableError
from gausscontrol.model.files import load_model
from gausscontrol.model.stack import LayerStack
from gausscontrol.plots import PICTURES

__all__ = ["main"]

DESCRIPTION = """\
Treat a Transformer layer acting on Gaussian tokens as a control system:

  mu'    = (A + V) mu + V Sigma B mu + b
  Sigma' = A Sigma + Sigma A^T + V Sigma B Sigma + Sigma B^T Sigma V^T

with the feed-forward part x -> A x + b, value matrix V and key-query matrix B."""

ANALYZE = """\
Find where the layer in FILE settles, how fast, and from how far.

FILE is .mat, .npz or .json and holds A, B, V (d x d; several heads d x d x h in
.mat, h x d x d elsewhere) and optionally b, k, dt, name; or a stack of layers,
of which each is looked at by itself before a trajectory passes through all."""

SIMULATE = """\
Compute mean and covariance along the depth of the layer or stack in FILE, in
the formats that analyze reads. A covariance that escapes to infinity ends the
run before it does, with a warning."""

EXAMPLES_OF_SIMULATE = """\
examples:
  gausscontrol simulate layer.mat --depth 12
  gausscontrol simulate layer.mat --depth 12 --initial 0.1 --output run.csv
  gausscontrol simulate stack.npz --initial start.npz --plots out

A start file (.mat, .npz, .json) holds covariance (d x d) and optionally mean.
An output file holds t (N), mean (d x N) and covariance (d x d x N); a .csv has
one row for each depth, with the lower triangle of the covariance.

exit codes:
  0  done, with or without an escape
  2  bad input; one line on standard error says what to do"""

EXAMPLES = """\
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

exit codes:
  0  done (without --require: whatever is found)
  1  the layer is not what --require asks for
  2  bad input; one line on standard error says what to do"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments, by default those of the process.

    Returns
    -------
    int
        Exit code: 0 done, 1 a requirement is not met, 2 bad input.

    Examples
    --------
    >>> from gausscontrol.cli import main
    >>> code = main(["--version"])
    gausscontrol ...
    >>> code
    0
    """
    try:
        with _plain_warnings():
            options = _parser().parse_args(argv)
            return options.run(options)
    except SystemExit as stop:  # argparse has printed help or the version
        return int(stop.code or 0)
    except (InfeasibleDesign, UnreachableError) as error:
        _complain(one_line(error))
        return 1
    except (GausscontrolError, OSError, _UsageError) as error:
        _complain(one_line(error))
        return 2
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130


# -- options --------------------------------------------------------------------------------------


class _UsageError(Exception):
    """The command line makes no sense."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message}; see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser("gausscontrol", description=DESCRIPTION, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"gausscontrol {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_analyze(commands, raw)
    _add_simulate(commands, raw)
    add_design(commands, raw).set_defaults(run=_run_design)
    add_steer(commands, raw).set_defaults(run=_run_steer)
    return parser


def _add_analyze(commands: argparse._SubParsersAction, raw: type) -> None:
    analyze_parser = commands.add_parser(
        "analyze",
        help="where a layer settles, how fast, and from how far",
        description=ANALYZE,
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    analyze_parser.add_argument("file", metavar="FILE", type=Path, help="model file")
    analyze_parser.add_argument(
        "--plots",
        metavar="DIR",
        type=Path,
        help=f"write {', '.join(PICTURES)} into DIR, made if need be",
    )
    analyze_parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    analyze_parser.add_argument(
        "--require",
        metavar="REGIME",
        choices=REQUIRABLE,
        help=f"exit with 1 if this is not certified: {', '.join(map(repr, REQUIRABLE))}",
    )
    analyze_parser.set_defaults(run=_run_analyze)


def _add_simulate(commands: argparse._SubParsersAction, raw: type) -> None:
    parser = commands.add_parser(
        "simulate",
        help="mean and covariance along the depth",
        description=SIMULATE,
        epilog=EXAMPLES_OF_SIMULATE,
        formatter_class=raw,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="model file")
    parser.add_argument(
        "--depth", metavar="T", type=float, help="how deep; by default a stack's whole depth"
    )
    parser.add_argument(
        "--points", metavar="N", type=int, help="how many depths, by default about 200"
    )
    parser.add_argument(
        "--initial",
        metavar="START",
        default="identity",
        help="a start file, a number s for mean 0 and covariance s I, or identity (default)",
    )
    parser.add_argument(
        "--output",
        metavar="OUT",
        type=Path,
        help=f"write the trajectory to OUT{{{','.join(OUTPUTS)}}}",
    )
    parser.add_argument(
        "--plots",
        metavar="DIR",
        type=Path,
        help=f"write {' and '.join(PICTURES[:2])} into DIR, made if need be",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    parser.set_defaults(run=_run_simulate)


def _run_analyze(options: argparse.Namespace) -> int:
    model = load_model(options.file)
    find, picture, numbers, words = (
        (investigate_stack, draw_stack, stack_as_json, stack_in_words)
        if isinstance(model, LayerStack)
        else (investigate, draw, as_json, in_words)
    )
    if options.plots is not None:
        _make_folder(options.plots)
    found = find(options.file, model)
    if options.plots is not None:
        picture(found, options.plots)
    met = options.require is None or found.satisfies(options.require)
    if options.json:
        requirement = {"regime": options.require, "met": met} if options.require else None
        report = json.dumps({**numbers(found), "requirement": requirement}, allow_nan=False)
    else:
        report = words(found)
    _print(report)
    if met:
        return 0
    _complain(f"required {options.require}, found {found.regime}: {found.why_not(options.require)}")
    return 1


def _run_simulate(options: argparse.Namespace) -> int:
    model = load_model(options.file)
    start = read_start(options.initial, model.dim)
    if options.output is not None:
        check_output(options.output)
    if options.plots is not None:
        _make_folder(options.plots)
    run = simulate(options.file, model, start, options.depth, options.points)
    if options.output is not None:
        write_run(run, options.output)
    if options.plots is not None:
        draw_run(run, options.plots)
    if options.json:
        _print(json.dumps(run_as_json(run), allow_nan=False))
    else:
        _print(run_in_words(run))
    return 0


def _run_design(options: argparse.Namespace) -> int:
    _print(run_design(options))
    return 0


def _run_steer(options: argparse.Namespace) -> int:
    if options.plots is not None:
        _make_folder(options.plots)
    _print(run_steer(options))
    return 0


def _make_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, "expected a folder for --plots, found a file; name another", str(path)
        )
    path.mkdir(parents=True, exist_ok=True)


# -- streams --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show each warning as one line."""

    def show(message, category, filename, lineno, file=None, line=None):
        _complain(f"warning: {one_line(message)}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield


def _print(text: str) -> None:
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; Python must not complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> None:
    sys.stderr.write(f"gausscontrol: {text}\n")
