"""Reports as JSON: one object on one line, whose keys `schema` describes.

What does not exist or is not finite is null: NaN and infinity are no JSON.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from gausscontrol._version import __version__
from gausscontrol.cli.schema import SCHEMA

__all__ = ["failure_text", "json_text", "plain"]


def json_text(command: str, report: dict[str, Any]) -> str:
    """Return a report as one line of JSON.

    Parameters
    ----------
    command : str
        Which command reports.
    report : dict
        Numbers, strings, arrays, lists and dicts.

    Returns
    -------
    str
        With the command, the number of the schema and the version of the package in front.
    """
    head = {"command": command, "schema": SCHEMA, "version": __version__}
    return json.dumps(plain(head | report), allow_nan=False)


def failure_text(command: str, error: Exception, reason: str) -> str:
    """Return as one line of JSON that there is no such design, or no such plan.

    Parameters
    ----------
    command : str
    error : Exception
    reason : str
        Its message on one line.

    Returns
    -------
    str
    """
    return json_text(command, {"failure": {"kind": type(error).__name__, "reason": reason}})


def plain(value: Any) -> Any:
    """Return what `json` takes: plain numbers and lists, None for what is not finite."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
