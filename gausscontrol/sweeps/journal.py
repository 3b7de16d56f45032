"""The file that a sweep resumes from: one line of JSON for each item, appended as items finish.

    {"format": "gausscontrol sweep", "version": 2, "function": ..., "seed": ..., ...}
    {"item": 12, "value": ..., "crc": "0a1b2c3d"}
    {"item": 13, "error": {"type": ..., "message": ..., "traceback": ...}, "crc": ...}
    {"item": 14, "lost": true, "crc": ...}       with an executor that broke

A line reaches the operating system before the next item is looked at, so that killing the process
loses none; it reaches the disk within a second, which is what a failing machine may cost. A last
line that was cut short is dropped, and its item computed again. The last line on an item counts.
The checksum of a line is the CRC-32 of the line without it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from gausscontrol.errors import ParameterError
from gausscontrol.sweeps.grid import Grid
from gausscontrol.sweeps.identity import function_name, held
from gausscontrol.sweeps.storage import decode, encode

try:
    import fcntl
except ImportError:  # not on this operating system: two sweeps on one file are not told apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["Journal", "check_path"]

FORMAT, VERSION = "gausscontrol sweep", 2
# What a file begins with that a sweep wrote; a shorter one is somebody else's.
BEGINNING = b'{"format":"gausscontrol sweep"'
CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"}\Z')
KINDS = ("value", "error", "lost")
# Seconds between writes to the disk itself.
SYNC_INTERVAL = 1.0
# What file systems answer that have no locks; two sweeps on one file are not told apart there.
UNLOCKABLE = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
# What to say of digests that differ.
WORDS = {
    "points": "the values of this grid, found others",
    "fixed": (
        "the arguments that this partial function fixes, or what else the function holds, found "
        "others"
    ),
}
# What file systems and devices answer that do not bring anything to a disk.
UNSYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EROFS)
# Files that sweeps of this process write to, by device and inode.
IN_USE: dict[tuple[int, int], io.FileIO] = {}


def check_path(resume: Any) -> str | os.PathLike[str]:
    """Return the name of a file.

    Parameters
    ----------
    resume : str or path-like

    Returns
    -------
    str or path-like

    Raises
    ------
    ParameterError
        If it is none.
    """
    name = os.fspath(resume) if isinstance(resume, (str, os.PathLike)) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ParameterError(
            f"resume: expected the name of a file, found {resume!r}; pass 'sweep.jsonl', say"
        )
    return name


class Journal:
    """Finished items on disk.

    Parameters
    ----------
    path : str or path-like
        Made if it is not there.
    function : callable
    grid : Grid
    seed : int

    Attributes
    ----------
    finished : dict
        The values that were on disk, by item.
    lost : Counter
        How often an item was with an executor that broke, and has not come back since.

    Raises
    ------
    ParameterError
        If the file is of another sweep, damaged, none of these, or in use.
    OSError
        If the system refuses to read or write it.
    """

    def __init__(self, path: str | os.PathLike[str], function: Any, grid: Grid, seed: int) -> None:
        self.path = Path(path)
        self.finished: dict[int, Any] = {}
        self.lost: Counter[int] = Counter()
        header = _header(function, grid, seed)
        self._file = _opened(self.path)
        status = os.fstat(self._file.fileno())
        self._key = (status.st_dev, status.st_ino)
        try:
            self._lock()
            self._read(header, len(grid.points))
        except BaseException:
            self._release()
            raise
        self._synced = time.monotonic()

    def write(self, index: int, value: Any) -> Any:
        """Store a value, and return it as it will be read.

        Parameters
        ----------
        index : int
        value : object

        Returns
        -------
        object

        Raises
        ------
        ParameterError
            If the file does not hold such values.
        """
        try:
            stored = encode(value)
        except RecursionError as error:
            raise ParameterError(
                "a file of results holds finite nestings, found one without end; return the "
                "numbers of it, or leave resume out"
            ) from error
        self._append({"item": index, "value": stored})
        return decode(stored)

    def write_error(self, index: int, kind: str, message: str, traceback: str) -> None:
        """Store why an item failed.

        Parameters
        ----------
        index : int
        kind, message, traceback : str
        """
        error = {"type": kind, "message": message, "traceback": traceback}
        self._append({"item": index, "error": error})

    def write_lost(self, index: int) -> None:
        """Note that an item was with an executor when that broke, and may have broken it.

        Parameters
        ----------
        index : int
        """
        self._append({"item": index, "lost": True})

    def close(self) -> None:
        """Bring everything to the disk."""
        try:
            self._sync()
        finally:
            self._release()

    def _append(self, record: dict) -> None:
        self._put(_checked(_line(record)))
        if time.monotonic() - self._synced >= SYNC_INTERVAL:
            self._sync()
            self._synced = time.monotonic()

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            if error.errno not in UNSYNCED:
                raise

    def _release(self) -> None:
        if IN_USE.get(self._key) is self._file:
            del IN_USE[self._key]
        self._file.close()

    def _put(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _lock(self) -> None:
        in_use = ParameterError(
            f"resume: expected a file of its own, found {str(self.path)!r} in use by another "
            "sweep; wait for it, or name another file"
        )
        if IN_USE.setdefault(self._key, self._file) is not self._file:
            raise in_use
        if fcntl is None:
            return
        try:
            # Unlike lockf, not lost when anything else in this process reads and closes the file.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise in_use from error
        except OSError as error:
            if error.errno not in UNLOCKABLE:
                raise

    def _read(self, header: dict, items: int) -> None:
        content = self._file.read()
        line = _line(header)
        # New, or stopped before its first line was whole.
        if not content or (line.startswith(content) and content.startswith(BEGINNING)):
            if content:
                self._file.truncate(0)
            self._put(line)
            return
        first, *lines = content.split(b"\n")
        self._compare(first, header)
        if not lines:
            raise self._foreign()
        torn = lines.pop()
        for number, text in enumerate(lines, start=2):
            self._take(*self._record(text, number, items))
        if torn:
            self._file.truncate(len(content) - len(torn))

    def _take(self, index: int, kind: str, value: Any) -> None:
        if kind == "lost":
            self.lost[index] += 1
            return
        del self.lost[index]
        self.finished.pop(index, None)
        if kind == "value":
            self.finished[index] = value

    def _foreign(self) -> ParameterError:
        return ParameterError(
            f"resume: expected a file that a sweep wrote, found {str(self.path)!r}, which is "
            "something else; name another file"
        )

    def _compare(self, first: bytes, header: dict) -> None:
        try:
            found = json.loads(first)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise self._foreign()
        for key, wanted in header.items():
            if found.get(key) != wanted:
                what = WORDS.get(key, f"{wanted!r}, found {found.get(key)!r}")
                raise ParameterError(
                    f"resume: {str(self.path)!r} is of another sweep: {key}: expected {what}; "
                    "repeat the call it began with, or name another file"
                )

    def _record(self, text: bytes, number: int, items: int) -> tuple[int, str, Any]:
        try:
            return _read_record(text, items)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise ParameterError(
                f"resume: line {number} of {str(self.path)!r} is damaged ({error}); "
                "delete that line, and its item is computed again"
            ) from error


def _read_record(text: bytes, items: int) -> tuple[int, str, Any]:
    """Return the item of a line, whether it has a value, and the value."""
    found = CHECKSUM.search(text)
    content = text[: found.start()] + b"}" if found else text
    if not found or zlib.crc32(content) != int(found[1], 16):
        raise ValueError("its checksum is not that of what it holds")
    record = json.loads(content, parse_constant=_no_constant)
    index, (kind,) = record["item"], set(record) - {"item"}
    if type(index) is not int or not 0 <= index < items:
        raise ValueError(f"item {index!r} of {items}")
    if kind not in KINDS:
        raise ValueError(f"an item with {kind!r}")
    return index, kind, decode(record["value"]) if kind == "value" else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _header(function: Any, grid: Grid, seed: int) -> dict[str, Any]:
    """Return what must agree between the sweep that began a file and one that goes on with it."""
    names = list(grid.axes) if grid.axes is not None else None
    try:
        points = encode(grid.axes if grid.axes is not None else list(grid.points))
    except ParameterError as error:
        raise ParameterError(f"grid: cannot be told from others, for resume: {error}") from error
    try:
        fixed = held(function)
    except RecursionError as error:
        raise ParameterError(
            "function: expected one that holds finite nestings, for resume, found one without "
            "end; use a function of a module"
        ) from error
    except ParameterError as error:
        raise ParameterError(f"function: what it holds is unknown, for resume: {error}") from error
    return {
        "format": FORMAT,
        "version": VERSION,
        "function": function_name(function),
        "fixed": _digest(fixed),
        "seed": seed,
        "parameters": names,
        "shape": list(grid.shape),
        "points": _digest(points),
    }


def _digest(stored: Any) -> str:
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


def _line(record: dict) -> bytes:
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _checked(line: bytes) -> bytes:
    """Return a line with its checksum."""
    content = line.removesuffix(b"\n")
    return content[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(content)


def _opened(path: Path) -> io.FileIO:
    # Not buffered: what is written has left this process. A child that ends writes nothing twice.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    return io.FileIO(os.open(path, flags, 0o666), "r+")


def _let_go() -> None:
    """Close the files in a forked process, which would hold their locks beyond its parent."""
    for file in IN_USE.values():
        file.close()
    IN_USE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
