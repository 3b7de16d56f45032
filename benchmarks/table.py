"""One line of the benchmark table, as text and as a row of a reStructuredText table."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HEADINGS", "Row", "goal_row"]

HEADINGS = ("work", "d", "ours", "against", "ratio", "over the floor", "goal", "met", "")


@dataclass(frozen=True)
class Row:
    """What was measured, against what, and whether the goal is met.

    `ours` and `theirs` are in seconds, or in megabytes where `unit` says so; `theirs` is None
    where nothing stands beside ours. `floor` is what the bare matrix products of the same work
    take. `goal` is empty where the number is only reported.
    """

    work: str
    dim: int
    ours: float
    theirs: float | None
    against: str
    goal: str
    met: bool
    note: str = ""
    floor: float | None = None
    unit: str = "ms"

    @property
    def verdict(self) -> str:
        """The word for the goal: met, NOT MET, or nothing."""
        return "" if not self.goal else "met" if self.met else "NOT MET"

    @property
    def cells(self) -> tuple[str, ...]:
        """The entries of the row, as `HEADINGS` names them."""
        against = self.against
        if self.theirs is not None:
            against = f"{self._size(self.theirs)} {against}"
        return (
            self.work,
            str(self.dim),
            self._size(self.ours),
            against,
            "" if self.theirs is None else f"{self.theirs / self.ours:.3g}x",
            "" if self.floor is None else f"{self.ours / self.floor:.2f}x",
            self.goal,
            self.verdict,
            self.note,
        )

    def _size(self, amount: float) -> str:
        if self.unit == "MB":
            return f"{amount:.0f} MB"
        if amount >= 1:
            return f"{amount:.3g} s"
        return f"{amount * 1e3:.3g} ms" if amount >= 1e-3 else f"{amount * 1e6:.3g} us"

    def __str__(self) -> str:
        work, dim, ours, against, ratio, floor, goal, verdict, note = self.cells
        floor = f"{floor} floor" if floor else ""
        return (
            f"{work:<26} d={dim:<4} {ours:>8}  {against:<34} {ratio:>7} {floor:>14}  "
            f"{goal:<12} {verdict:<8} {note}"
        ).rstrip()


def goal_row(
    work: str,
    dim: int,
    ours: float,
    theirs: float,
    against: str,
    goal: float,
    note: str = "",
    floor: float | None = None,
) -> Row:
    """Return the row of something that should be `goal` times as fast as what stands beside it."""
    met = theirs / ours >= goal
    return Row(work, dim, ours, theirs, against, f">={goal:g}x", met, note, floor)
