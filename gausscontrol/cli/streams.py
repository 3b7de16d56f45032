"""What the command line says, and on which stream.

    report -> standard output;    errors, warnings, progress -> standard error, one line each

Progress is shown on a terminal only, once something takes longer than a second, on a line that is
wiped when it is over; a pipe or a file never sees it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TextIO

__all__ = ["complain", "emit", "one_line", "plain_warnings", "working"]

PATIENCE, PERIOD = 1.0, 0.5  # seconds before progress is shown, and between its updates


def one_line(error: Any) -> str:
    """Return the message of an exception or warning on one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def emit(text: str) -> None:
    """Write a report to standard output, where it cannot be encoded with escapes."""
    if sys.stdout is None:
        raise OSError("standard output is closed; send it to a file or a pipe")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; Python must not complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """Write one line to standard error."""
    with _line.lock:
        _line.wipe(sys.stderr)
        sys.stderr.write(f"gausscontrol: {text}\n")


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Show each warning as one line."""

    def show(message, category, filename, lineno, file=None, line=None):
        complain(f"warning: {one_line(message)}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done and for how long.

    Parameters
    ----------
    what : str
        In a few words, such as "solving".

    Yields
    ------
    callable
        Takes other words, when the work moves on.
    """
    words, done = [what], threading.Event()
    if not sys.stderr.isatty():
        yield words.append
        return
    ticker = threading.Thread(target=_tick, args=(sys.stderr, words, done), daemon=True)
    ticker.start()
    try:
        yield words.append
    finally:
        done.set()
        ticker.join()


def _tick(stream: TextIO, words: list[str], done: threading.Event) -> None:
    started = time.monotonic()
    wait = PATIENCE
    while not done.wait(wait):
        wait = PERIOD
        with _line.lock:
            _line.show(stream, f"{words[-1]}, {time.monotonic() - started:.0f} s")
    with _line.lock:
        _line.wipe(stream)


class _Line:
    """The line on which progress is shown; hold the lock to touch it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._width = 0

    def show(self, stream: TextIO, text: str) -> None:
        self.wipe(stream)
        stream.write(text)
        stream.flush()
        self._width = len(text)

    def wipe(self, stream: TextIO) -> None:
        if self._width:
            stream.write(f"\r{' ' * self._width}\r")
            stream.flush()
            self._width = 0


_line = _Line()
