"""A figure, the bar that it is held to, and how both read on a terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; smaller is better unless it counts how many times better than a rival we are."""

    subject: str
    """What it was measured on: `100k files`, `sign + line`, `imports`."""
    name: str
    value: float
    unit: str
    bar: float | None = None
    """What was promised; None: measured for information, or to see it change."""
    rival: str = ""
    theirs: float | None = None
    """The rival's value in the same run and unit."""
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times less than the rival."""
        return None if self.theirs is None or not self.value else self.theirs / self.value

    @property
    def holds(self) -> bool | None:
        """Whether the bar holds; None without one."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.more_is_better else self.value <= self.bar

    def as_json(self) -> dict[str, Any]:
        """Return the figure with what follows from it."""
        return asdict(self) | {"ratio": self.ratio, "holds": self.holds}


def amount(value: float | None, unit: str) -> str:
    """Return a value as people read it: three digits that mean something."""
    if value is None:
        return ""
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2  # noqa: PLR2004 -- decades
    return f"{value:,.{digits}f} {unit}"


def table(figures: Sequence[Figure]) -> str:
    """Return a text table: figure, value, bar, rival, ratio."""
    rows = [("measured", "figure", "value", "bar", "", "rival", "times less")]
    rows += [
        (
            one.subject,
            one.name,
            amount(one.value, one.unit),
            amount(one.bar, one.unit),
            {True: "holds", False: "MISSED", None: ""}[one.holds],
            f"{one.rival}: {amount(one.theirs, one.unit)}" if one.rival else "",
            amount(one.ratio, "x").strip(),
        )
        for one in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def files_named(count: int) -> str:
    """Return `10k files` and the like."""
    return f"{count // 1_000_000}M files" if count >= 1_000_000 else f"{count // 1000}k files"  # noqa: PLR2004 -- a million


def of(figures: Iterable[Figure], subject: str, name: str) -> float | None:
    """Return one figure's value."""
    return next((one.value for one in figures if (one.subject, one.name) == (subject, name)), None)
