"""Files and folders that a command writes: refused before anything is computed, never by surprise.

A file that is there is replaced only with --force. A folder for pictures is made if need be, and
only pictures of the command's own names are replaced in it.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gausscontrol.cli.kept import finished
from gausscontrol.errors import ParameterError
from gausscontrol.model.entries import listed

__all__ = ["check_output", "make_folder", "write_file"]


def check_output(
    path: Path, suffixes: Iterable[str], force: bool, inputs: Iterable[Path | str | None] = ()
) -> None:
    """Refuse a file that cannot be written, or must not be.

    Parameters
    ----------
    path : Path
    suffixes : iterable of str
        What its name may end in.
    force : bool
        Whether a file that is there may be replaced.
    inputs : iterable of Path, str or None, optional
        What the command reads, which it does not replace in any case.

    Raises
    ------
    ParameterError
        If its suffix is not one of these, or it is one of the inputs.
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
    if path.exists() and any(_same(path, source) for source in inputs):
        raise ParameterError(
            f"--output: expected a file other than those that are read, found {str(path)!r}; "
            "name another"
        )
    if path.exists() and not force:
        raise _taken(path)


def write_file(path: Path, content: bytes, force: bool) -> None:
    """Write a file that `check_output` let pass, whole or not at all.

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
    if force:
        _replace(path, content)
    else:
        _create(path, content)
    finished(path)


def _create(path: Path, content: bytes) -> None:
    try:
        stream = path.open("xb")
    except FileExistsError as error:
        raise _taken(path) from error
    try:
        with stream:
            stream.write(content)
    except BaseException:
        path.unlink(missing_ok=True)  # A part of a file is worse than none.
        raise


def _replace(path: Path, content: bytes) -> None:
    """Write beside the file and then take its place, so that no failure costs the old one."""
    target = path.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        beside.chmod(target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _same(path: Path, source: Path | str | None) -> bool:
    return source is not None and Path(source).exists() and path.samefile(source)


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
