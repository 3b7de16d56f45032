"""A progress bar on the terminal: by tqdm if it is installed, otherwise one plain line."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

__all__ = ["Progress"]

# Seconds between rewritings of the plain line.
INTERVAL = 0.2


class Progress:
    """Counts items as they come back; silent where standard error is not a terminal.

    Parameters
    ----------
    total, done : int
        All items, and those that are there already.
    wanted : bool
    label : str
    """

    def __init__(self, total: int, done: int, wanted: bool, label: str) -> None:
        self.total, self.done, self.failed, self.label = total, done, 0, label
        self._bar: Any = None
        self._line = False
        self._written = -INTERVAL
        if not wanted:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._line = sys.stderr is not None and sys.stderr.isatty()
        else:
            # disable=None: only on a terminal, or in a notebook.
            self._bar = tqdm(total=total, initial=done, desc=label, unit="item", disable=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._line:
            self._write("\n")

    def step(self, failed: bool) -> None:
        """Count one more item.

        Parameters
        ----------
        failed : bool
        """
        self.done += 1
        self.failed += failed
        if self._bar is not None:
            if failed:
                self._bar.set_postfix_str(f"failed {self.failed}", refresh=False)
            self._bar.update()
        elif self._line and time.monotonic() - self._written >= INTERVAL:
            self._write("")
            self._written = time.monotonic()

    def _write(self, end: str) -> None:
        failed = f", failed {self.failed}" if self.failed else ""
        sys.stderr.write(f"\r{self.label}: {self.done} of {self.total}{failed}{end}")
        sys.stderr.flush()
