"""Timing on a shared machine: two things in one run, interleaved, medians, one BLAS thread.

The clock is the processor time of this process, so that what else runs on the machine is not
counted; on one thread of an idle machine it agrees with the wall clock.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Comparison", "Count", "compare", "counting", "interleaved", "once", "seconds"]

Result = TypeVar("Result")

# One batch of calls should take at least this long, so that the clock does not matter.
BATCH_SECONDS = 2e-3
SLOW_SECONDS = 0.1


@dataclass(frozen=True)
class Comparison:
    """Median seconds of two callables, and the ratio second over first."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Seconds of the second over seconds of the first."""
        return self.theirs / self.ours


@dataclass
class Count:
    """How often something was called."""

    calls: int = 0


def compare(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 7
) -> Comparison:
    """Time two callables in alternation."""
    return Comparison(*interleaved((ours, theirs), rounds))


def interleaved(works: tuple[Callable[[], object], ...], rounds: int = 7) -> list[float]:
    """Return the median seconds of one call of each, timed in turns.

    Each gets a batch size of its own, so that all are timed over comparable stretches. Calls that
    are slow by themselves need no warming up, and their first counts.
    """
    batches, samples = [], []
    for work in works:
        elapsed = _timed(work, 1)
        slow = elapsed >= SLOW_SECONDS
        samples.append([elapsed] if slow else [])
        batches.append(1 if slow else _batch_size(work))
    for _ in range(rounds):
        for work, batch, kept in zip(works, batches, samples, strict=True):
            if len(kept) < rounds:
                kept.append(_timed(work, batch))
    return [statistics.median(kept) for kept in samples]


def seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the median seconds of one call."""
    return interleaved((work,), rounds)[0]


def once(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return what a slow call gives, and its seconds."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


@contextmanager
def counting(owner: type, name: str) -> Iterator[Count]:
    """Count the calls of a method while the block runs."""
    method, count = getattr(owner, name), Count()

    def counted(*args, **kwargs):
        count.calls += 1
        return method(*args, **kwargs)

    setattr(owner, name, counted)
    try:
        yield count
    finally:
        setattr(owner, name, method)


def _batch_size(work: Callable[[], object]) -> int:
    return max(1, int(BATCH_SECONDS / max(_timed(work, 1), 1e-7)))


def _timed(work: Callable[[], object], batch: int) -> float:
    start = time.process_time()
    for _ in range(batch):
        work()
    return (time.process_time() - start) / batch
