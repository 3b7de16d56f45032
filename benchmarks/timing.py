"""Timing on a noisy machine: two things in one run, interleaved, medians, one BLAS thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Comparison", "compare", "seconds"]

# One batch of calls should take at least this long, so that the clock does not matter.
BATCH_SECONDS = 2e-3


@dataclass(frozen=True)
class Comparison:
    """Median seconds of two callables, and the ratio second over first."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Seconds of the second over seconds of the first."""
        return self.theirs / self.ours


def compare(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 7
) -> Comparison:
    """Time two callables in alternation.

    Each gets a batch size of its own, so that both are timed over comparable stretches.
    """
    batches = [_batch_size(ours), _batch_size(theirs)]
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, batch, kept in zip((ours, theirs), batches, samples, strict=True):
            kept.append(_timed(work, batch))
    return Comparison(statistics.median(samples[0]), statistics.median(samples[1]))


def seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the median seconds of one call."""
    batch = _batch_size(work)
    return statistics.median(_timed(work, batch) for _ in range(rounds))


def _batch_size(work: Callable[[], object]) -> int:
    work()
    elapsed = _timed(work, 1)
    return max(1, int(BATCH_SECONDS / max(elapsed, 1e-7)))


def _timed(work: Callable[[], object], batch: int) -> float:
    start = time.perf_counter()
    for _ in range(batch):
        work()
    return (time.perf_counter() - start) / batch
