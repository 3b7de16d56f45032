"""What a model file holds before anything is known of its meaning: entries, records, refusals.

    file = [Entry(name, value), ...],    a series = one entry with records, each a list of entries

An entry with a refusal is a value that no reader should take for an array; it becomes an error only
if its name turns out to matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gausscontrol.errors import ParameterError

__all__ = ["Entry", "Record", "fault", "listed"]


@dataclass(frozen=True)
class Entry:
    """One named value of a file.

    Parameters
    ----------
    name : str
        Its name in the file.
    value : optional
        The value, None if it was not asked for or is refused.
    refusal : str, optional
        What the value is, where it can be neither numbers nor text.
    advice : str, optional
        What to do about a refusal.
    records : tuple of Record, optional
        The records of a series that was asked for, None if it is no series.
    """

    name: str
    value: Any = None
    refusal: str | None = None
    advice: str = "store an array of real numbers"
    records: tuple[Record, ...] | None = None


@dataclass(frozen=True)
class Record:
    """One record of a series.

    Parameters
    ----------
    place : str
        Where it is, as the user of this format would write it.
    entries : list of Entry
        What it holds.
    """

    place: str
    entries: list[Entry]


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Return names as one short line.

    Parameters
    ----------
    names : iterable of str
        What to list.
    limit : int, optional
        How many are spelled out.

    Returns
    -------
    str
    """
    names = list(names)
    return ", ".join(names[:limit]) + (" and others" if len(names) > limit else "")


def fault(key: str, expected: str, found: str, advice: str) -> ParameterError:
    """Return the error that says key, expected, found and what to do."""
    return ParameterError(f"{key}: expected {expected}, found {found}; {advice}")
