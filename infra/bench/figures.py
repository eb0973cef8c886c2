"""Measured values with their goals, and their formatting."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value. Smaller values are better unless `more_is_better` is true."""

    subject: str
    """What was measured, such as `100k files`, `sign + line` or `imports`."""
    name: str
    value: float
    unit: str
    bar: float | None = None
    """Goal for the value, in the same unit; None if it has no goal."""
    rival: str = ""
    theirs: float | None = None
    """Value of the competitor named `rival`, measured in the same run and unit."""
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """The competitor's value divided by this value."""
        return None if self.theirs is None or not self.value else self.theirs / self.value

    @property
    def holds(self) -> bool | None:
        """True if the value meets its goal; None if it has no goal."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.more_is_better else self.value <= self.bar

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the figure for JSON, with its ratio and whether it meets its goal."""
        return asdict(self) | {"ratio": self.ratio, "holds": self.holds}


def amount(value: float | None, unit: str) -> str:
    """Format a value with its unit, rounded to about three digits."""
    if value is None:
        return ""
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2  # noqa: PLR2004 -- decades
    return f"{value:,.{digits}f} {unit}"


def files_subject(count: int) -> str:
    """Format a number of files as the subject of a figure, such as `10k files`."""
    return f"{count // 1_000_000}M files" if count >= 1_000_000 else f"{count // 1000}k files"  # noqa: PLR2004 -- a million


def value_of(figures: Iterable[Figure], subject: str, name: str) -> float | None:
    """Return the value of the figure with this subject and name; None if it was not measured."""
    return next((figure.value for figure in figures if (figure.subject, figure.name) == (subject, name)), None)
