"""Files and folders that a command writes: refused before anything is computed, never by surprise.

A file that is there is replaced only with --force. A folder for pictures is made if need be, and
only pictures of the command's own names are replaced in it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

from gausscontrol.errors import ParameterError
from gausscontrol.model.entries import listed

__all__ = ["check_output", "make_folder", "write_file"]


def check_output(path: Path, suffixes: Iterable[str], force: bool) -> None:
    """Refuse a file that cannot be written, or must not be.

    Parameters
    ----------
    path : Path
    suffixes : iterable of str
        What its name may end in.
    force : bool
        Whether a file that is there may be replaced.

    Raises
    ------
    ParameterError
        If its suffix is not one of these.
    OSError
        If its folder does not exist, it is a folder, or it is a file and `force` is false.
    """
    if path.suffix.lower() not in suffixes:
        raise ParameterError(
            f"--output: expected a name ending in {listed(suffixes)}, found {str(path)!r}"
        )
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "expected an existing folder, found none; create it", str(path.parent)
        )
    if path.exists() and not force:
        raise _taken(path)


def write_file(path: Path, content: bytes, force: bool) -> None:
    """Write a file that `check_output` let pass.

    Parameters
    ----------
    path : Path
    content : bytes
    force : bool
        Whether a file that is there by now may be replaced.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    try:
        with path.open("wb" if force else "xb") as stream:
            stream.write(content)
    except FileExistsError as error:
        raise _taken(path) from error


def make_folder(path: Path) -> None:
    """Make the folder for --plots.

    Parameters
    ----------
    path : Path

    Raises
    ------
    OSError
        If it is a file, or cannot be made.
    """
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, "expected a folder for --plots, found a file; name another", str(path)
        )
    path.mkdir(parents=True, exist_ok=True)


def _taken(path: Path) -> FileExistsError:
    advice = "it exists and is not overwritten; name another, or add --force"
    return FileExistsError(errno.EEXIST, advice, str(path))
