"""The command line: `gausscontrol COMMAND ...`.

Each command is a parser in `options` and a module that is loaded when the command is given, with a
function from its options to an exit code: 0 done, 1 a requirement is not met or there is no such
design or plan, 2 bad input, 130 interrupted. Errors and warnings are one line each on standard
error, with no traceback.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from gausscontrol.cli.options import UsageError, parser
from gausscontrol.cli.streams import complain, emit, one_line, plain_warnings
from gausscontrol.errors import GausscontrolError, InfeasibleDesign, UnreachableError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments, by default those of the process.

    Returns
    -------
    int
        Exit code: 0 done, 1 a requirement is not met, 2 bad input, 130 interrupted.

    Examples
    --------
    >>> from gausscontrol.cli import main
    >>> code = main(["--version"])
    gausscontrol ...
    >>> code
    0
    """
    try:
        with plain_warnings():
            return _run(parser().parse_args(argv))
    except SystemExit as stop:  # argparse has printed help or the version
        return int(stop.code or 0)
    except (GausscontrolError, OSError, UsageError) as error:
        complain(one_line(error))
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return 130


def _run(options: argparse.Namespace) -> int:
    command = import_module(f"gausscontrol.cli.{options.command}")
    try:
        return command.run(options)
    except (InfeasibleDesign, UnreachableError) as error:
        reason = one_line(error)
        if options.json:
            from gausscontrol.cli.jsontext import failure_text

            emit(failure_text(options.command, error, reason))
        complain(reason)
        return 1
