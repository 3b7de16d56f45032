"""The command line: `gausscontrol COMMAND ...`.

Each command is a parser in `options` and a module with a function from its options to an exit code:
0 done, 1 a requirement is not met or there is no such design or plan, 2 bad input, 130 interrupted.
Errors and warnings are one line each on standard error, with no traceback.

The module of a command is imported when the command is given, and nothing that is imported here
needs NumPy or python-control, so that help and version are there at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from gausscontrol.cli.kept import begin, what_is_kept
from gausscontrol.cli.options import parser
from gausscontrol.cli.parsing import UsageError
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
    begin()
    try:
        with plain_warnings():
            return _run(parser().parse_args(argv))
    except SystemExit as stop:  # argparse has printed help or the version
        return int(stop.code or 0)
    except (GausscontrolError, OSError, UsageError) as error:
        complain(one_line(error))
        return 2
    except KeyboardInterrupt:
        complain(f"interrupted; {what_is_kept()}")
        return 130


def _run(options: argparse.Namespace) -> int:
    command = import_module(f"gausscontrol.cli.{options.command}")
    try:
        return command.run(options)
    except (InfeasibleDesign, UnreachableError) as error:
        reason = one_line(error)
        if options.json:
            # Here, since it needs NumPy, which the command has imported by now.
            from gausscontrol.cli.jsontext import failure_text

            emit(failure_text(options.command, error, reason))
        complain(reason)
        return 1
