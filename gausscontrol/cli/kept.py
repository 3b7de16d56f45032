"""Files that a command has finished, so that an interruption can say what is kept.

    run -> finished(file), finished(file), Ctrl-C -> "interrupted; kept a.npz, b.png"

A file counts once it is complete: what is being written when an interruption comes is not kept.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["begin", "finished", "what_is_kept"]

_files: list[Path] = []


def begin() -> None:
    """Forget the files of an earlier command."""
    _files.clear()


def finished(path: Path) -> None:
    """Note a file that is complete."""
    _files.append(path)


def what_is_kept() -> str:
    """Return in words which files are complete.

    Returns
    -------
    str
    """
    if not _files:
        return "nothing was written"
    return f"kept {', '.join(map(str, _files))}; the report was not printed"
