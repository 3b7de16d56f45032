"""One item of a sweep: computed where the executor puts it, and what came of it.

Whatever the function raises is turned into text where it happens, since an exception need not
survive the way back from another process.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.sweeps.grid import item_keywords

__all__ = ["Failed", "Finished", "Item", "ItemError", "run_item", "shown"]


@dataclass(frozen=True, eq=False)
class Item:
    """A call to make.

    Attributes
    ----------
    function : callable
    args, keywords : tuple, dict
        The point.
    seeded : tuple of str
        Parameters that receive a generator or a seed.
    seed, index : int
    sweep : str
        Tells this sweep from others, for executors that remember equal calls.
    """

    function: Callable
    args: tuple
    keywords: dict[str, Any]
    seeded: tuple[str, ...]
    seed: int
    index: int
    sweep: str


@dataclass(frozen=True, eq=False)
class Finished:
    """What the function returned."""

    value: Any


@dataclass(frozen=True, eq=False)
class Failed:
    """What it raised, or why it was not run to its end."""

    type: str
    message: str
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException, *, frames: int = 0, before: str = "") -> Failed:
        """Describe an exception without its first frames.

        Parameters
        ----------
        error : BaseException
        frames : int, optional
        before : str, optional
            Put before its message.

        Returns
        -------
        Failed
        """
        trace = error.__traceback__
        for _ in range(frames):
            trace = trace if trace is None or trace.tb_next is None else trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace))
        return cls(type(error).__qualname__, before + _message(error), text)


@dataclass(frozen=True)
class ItemError:
    """Why an item of a sweep has no value.

    Attributes
    ----------
    index : int
        Its place in `points`.
    point : dict, tuple or object
    type : str
        Name of the exception.
    message : str
    traceback : str
        As text, from where it was raised; empty if the item was not run.
    """

    index: int
    point: Any
    type: str
    message: str
    traceback: str

    def __str__(self) -> str:
        first = self.message.splitlines()[0] if self.message else ""
        return f"item {self.index} ({shown(self.point)}): {self.type}: {first}".rstrip(": ")


def shown(point: Any, width: int = 60) -> str:
    """Return a point on one short line.

    Parameters
    ----------
    point : dict, tuple or object
    width : int, optional

    Returns
    -------
    str
    """
    if isinstance(point, dict):
        text = ", ".join(f"{name} = {_short(value)}" for name, value in point.items())
    elif isinstance(point, tuple):
        text = ", ".join(map(_short, point))
    else:
        text = _short(point)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."


def run_item(item: Item) -> Finished | Failed:
    """Call the function of an item, here and now.

    Parameters
    ----------
    item : Item

    Returns
    -------
    Finished or Failed
        Of copies of its arguments, which are its own in a thread as they are in another process.
        Only what stops Python itself, such as KeyboardInterrupt, is raised.
    """
    try:
        seeds = item_keywords(item.seeded, item.seed, item.index)
        args = tuple(map(_own, item.args))
        keywords = {name: _own(value) for name, value in item.keywords.items()}
        return Finished(item.function(*args, **keywords, **seeds))
    except (Exception, SystemExit) as error:  # noqa: BLE001, recorded in full, whatever it is
        return Failed.of(error, frames=1)


def _own(value: Any) -> Any:
    """Return a copy of an argument that may be changed, or the argument if it has none."""
    if isinstance(value, (GaussianTransformer, LayerStack)):  # cannot be changed
        return value
    try:
        return copy.deepcopy(value)
    except (TypeError, NotImplementedError, copy.Error):  # a lock, a module, a connection
        return value


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001, some exceptions fail to print themselves
        return "(its message cannot be printed)"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    try:
        return repr(value)
    except Exception:  # noqa: BLE001, what it is called is still known
        return f"<{type(value).__qualname__}>"
