"""Any function over a grid, on any executor, with nothing lost.

    item i:   function(*point_i, **named_i)     with a seed that only `seed` and i decide

Items are handed to the executor a few hundred at a time and taken back as they finish. Whatever an
item raises is recorded and the rest goes on.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Container, Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import closing
from itertools import chain
from queue import SimpleQueue
from typing import Any

from gausscontrol.errors import ParameterError
from gausscontrol.sweeps.grid import read_grid, read_seed, seeded_names
from gausscontrol.sweeps.identity import function_name
from gausscontrol.sweeps.items import Failed, Finished, Item, ItemError, run_item
from gausscontrol.sweeps.journal import Journal, check_path
from gausscontrol.sweeps.progress import Progress
from gausscontrol.sweeps.result import SweepResult

__all__ = ["sweep"]

AGAIN = "run the sweep again with a new executor; with resume, what finished is not repeated"


def sweep(
    function: Callable[..., Any],
    grid: Any,
    *,
    executor: Any = None,
    progress: bool = True,
    seed: int = 0,
    resume: str | os.PathLike[str] | None = None,
    in_flight: int = 512,
) -> SweepResult:
    """Call a function at every point of a grid, here or elsewhere.

    Parameters
    ----------
    function : callable
        Of the parameters that the grid names. If it has a parameter `rng`, it receives a
        `numpy.random.Generator` there; if it has one called `seed`, an integer below 2^64; unless
        the grid gives a parameter of that name.
    grid : mapping or iterable
        A mapping of names to values: every combination, the last name changing fastest. Or a list
        of points: mappings, passed by keyword; tuples, passed by position; or single arguments.
    executor : object, optional
        Anything with the `submit` of `concurrent.futures.Executor`: a pool of threads or of
        processes, or `client.get_executor()` of a Dask cluster. It is not shut down. Default: this
        process, one item after the other.
    progress : bool, optional
        Show a bar where standard error is a terminal: that of tqdm if it is installed.
    seed : int, optional
        From which each item's own seed is derived, by its place in the grid alone: neither the
        executor, nor the order of work, nor what was read from a file changes it.
    resume : str or path-like, optional
        A file that holds every finished item. If it exists, only what it lacks is computed, which
        includes items that failed. Values are then what the file gives back, see Notes.
    in_flight : int, optional
        Most items that the executor holds at a time.

    Returns
    -------
    SweepResult

    Raises
    ------
    ParameterError
        If the function does not take the parameters of the grid; the executor is closed or none;
        the file is of another grid, seed or function, damaged or in use; or the first result is of
        a kind that it does not hold.
    OSError
        If the file cannot be read or written.

    Notes
    -----
    A failed item has an `ItemError` with its traceback and does not stop the others. If a pool
    breaks because a worker was killed, what has finished stays; everything else is in `errors`, to
    be run again with a new pool. A Dask cluster runs the tasks of a worker that died on others, so
    that an item may run twice, and gives up on one that kills several. KeyboardInterrupt cancels
    what is not running and is raised.

    The file is text, a line of JSON for each item, and is never unpickled. It holds numbers, text,
    None, NumPy arrays, models, and lists, tuples, dicts, dataclasses and namedtuples of these. All
    come back exactly, with the last two as dicts, scalars of NumPy as Python's, and a
    `Classification` as a `Verdict`. A later result that it cannot hold is a failed item. Each line
    has a checksum.

    A file belongs to a function by its qualified name, and by what it holds: arguments that are
    fixed, the object of a method, enclosing variables and defaults, and the body of one that is
    not found under its name. What holds anything but numbers, text, arrays, models, dataclasses
    and functions cannot be told from others, and is refused with `resume`.

    Items that were with an executor when it broke are noted in the file. The next call sends them
    after all others and one at a time, so that one that kills its worker stops no other for long.

    Each item receives copies of its arguments, so that a function that changes them changes
    neither `points` nor other items; what cannot be copied, and models, are passed as they are.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> def regime(a, v):
    ...     return gct.classify(gct.GaussianTransformer(a, 1, v), sdp=False).regime
    >>> result = gct.sweep(regime, {"a": [-1.0, 1.0], "v": [-1.0, 1.0]})
    >>> result.array().tolist()
    [['collapse', 'blow-up'], ['globally stable', 'blow-up']]
    """
    limit = _check_options(function, executor, in_flight)
    read, number = read_grid(grid), read_seed(seed)
    names = seeded_names(function, read)
    journal = None if resume is None else Journal(check_path(resume), function, read, number)
    collected = _Collected(journal)
    done = len(collected.values)
    mark = uuid.uuid4().hex
    lost = {} if journal is None else dict(journal.lost)
    # Items that may have broken an executor come last, those that were there most often at the end.
    order = sorted(range(len(read.points)), key=lambda i: lost.get(i, 0))
    calls = (
        Item(function, *read.arguments(i), names, number, i, mark)
        for i in order
        if i not in collected.values
    )
    outcomes = _here(calls) if executor is None else _there(calls, executor, limit, lost)
    try:
        # Closing cancels what the executor still holds.
        with closing(outcomes), Progress(len(read.points), done, progress, "sweep") as bar:
            for index, outcome in outcomes:
                bar.step(collected.take(index, outcome))
    finally:
        if journal is not None:
            journal.close()
    return SweepResult(
        function=function_name(function),
        grid=read.axes,
        points=read.points,
        values=tuple(collected.values.get(i) for i in range(len(read.points))),
        errors=collected.item_errors(read.points),
        shape=read.shape,
        seed=number,
        resumed=done,
    )


class _Lost(Failed):
    """An item that was not run to its end: no fault of the function, as far as is known."""


class _Broken(_Lost):
    """An item that was with an executor when that broke, and may be why."""


class _Collected:
    """Values and errors by item, and the file that keeps them."""

    def __init__(self, journal: Journal | None) -> None:
        self.journal = journal
        self.values: dict[int, Any] = {} if journal is None else dict(journal.finished)
        self.errors: dict[int, Failed] = {}

    def take(self, index: int, outcome: Finished | Failed) -> bool:
        """Keep what came of an item; True if it failed."""
        if isinstance(outcome, Finished):
            outcome = self._stored(index, outcome)
        if isinstance(outcome, Finished):
            self.values[index] = outcome.value
            return False
        if self.journal is not None and isinstance(outcome, _Broken):
            self.journal.write_lost(index)
        elif self.journal is not None and not isinstance(outcome, _Lost):
            self.journal.write_error(index, outcome.type, outcome.message, outcome.traceback)
        self.errors[index] = outcome
        return True

    def item_errors(self, points: tuple) -> tuple[ItemError, ...]:
        """Return the errors in the order of their items."""
        return tuple(
            ItemError(i, points[i], failed.type, failed.message, failed.traceback)
            for i, failed in sorted(self.errors.items())
        )

    def _stored(self, index: int, outcome: Finished) -> Finished | Failed:
        if self.journal is None:
            return outcome
        try:
            return Finished(self.journal.write(index, outcome.value))
        except ParameterError as error:
            if not self.values:  # the others will be of this kind too
                raise ParameterError(f"function: at item {index}, {error}") from error
            return Failed.of(error)


# -- where the work is done -----------------------------------------------------------------------


def _here(calls: Iterator[Item]) -> Iterator[tuple[int, Finished | Failed]]:
    for item in calls:
        yield item.index, run_item(item)


def _there(
    calls: Iterator[Item], executor: Any, limit: int, alone: Container[int]
) -> Iterator[tuple[int, Finished | Failed]]:
    """Keep up to `limit` items with the executor, and yield them as they come back.

    Those of `alone`, which are the last ones, are with it one at a time.
    """
    pending: dict[Future, int] = {}
    arrived: SimpleQueue[Future] = SimpleQueue()
    broken: Exception | None = None
    accepted = False
    waiting: Item | None = None
    try:
        while True:
            while broken is None and len(pending) < limit:
                item = next(calls, None) if waiting is None else waiting
                waiting = item if item and pending and item.index in alone else None
                if item is None or waiting:
                    break
                try:
                    future = executor.submit(run_item, item)
                except Exception as error:
                    if not _is_closed(error):
                        yield item.index, Failed.of(error, before="not sent to the executor: ")
                        continue
                    if not accepted:
                        raise ParameterError(
                            f"executor: expected one that takes work, found {error}; make a new one"
                        ) from error
                    broken = error
                    yield item.index, _lost(error)
                else:
                    accepted = True
                    pending[future] = item.index
                    future.add_done_callback(arrived.put)
            if not pending:
                break
            future = arrived.get()
            yield pending.pop(future), _outcome(future)
        for item in calls if waiting is None else chain([waiting], calls):
            yield item.index, _lost(broken)
    finally:
        for future in pending:
            future.cancel()


def _outcome(future: Future) -> Finished | Failed:
    if future.cancelled():
        return _Lost("CancelledError", f"cancelled before it finished; {AGAIN}")
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, BrokenExecutor):
        return _lost(error, _Broken)
    if not isinstance(error, Exception):
        raise error
    return Failed.of(error, before="no result came back: ")


def _lost(error: BaseException | None, kind: type[_Lost] = _Lost) -> _Lost:
    message = f"not finished, since the executor broke ({error}); {AGAIN}"
    return kind(type(error).__qualname__, message)


def _is_closed(error: Exception) -> bool:
    """Whether an executor is broken or shut down, and will take no other item either."""
    return isinstance(error, BrokenExecutor) or type(error) is RuntimeError


def _check_options(function: Any, executor: Any, in_flight: Any) -> int:
    """Return the number of items in flight."""
    if not callable(function):
        raise ParameterError(
            f"function: expected a callable, found {type(function).__name__}; pass a function"
        )
    if executor is not None:
        _check_executor(executor)
    if isinstance(in_flight, bool) or not isinstance(in_flight, int) or in_flight < 1:
        raise ParameterError(
            f"in_flight: expected an integer of at least 1, found {in_flight!r}; pass 512, say"
        )
    return in_flight


def _check_executor(executor: Any) -> None:
    if hasattr(executor, "get_executor"):
        raise ParameterError(
            "executor: expected one with the submit of concurrent.futures, found a Dask "
            f"{type(executor).__name__}; pass client.get_executor()"
        )
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ParameterError(
            f"executor: expected one with the submit of concurrent.futures, found {executor!r}; "
            "pass a ProcessPoolExecutor(), say"
        )
