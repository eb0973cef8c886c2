"""Check schedule expressions (`cron`, `rate` and `at`) by the rules of EventBridge Scheduler.

EventBridge Scheduler itself reports an invalid expression only at deployment, long after the file was checked.
"""

import re
from calendar import monthrange
from collections.abc import Mapping
from datetime import datetime

_EXPRESSION = re.compile(r"(cron|rate|at)\((.*)\)", re.DOTALL)
_RATE = re.compile(r"([1-9]\d*) (minute|hour|day)(s?)")
_LARGEST_YEAR = 2199
_FEBRUARY, _FEBRUARY_DAYS = 2, 28

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


class _CronField:
    def __init__(self, name: str, low: int, high: int, names: Mapping[str, int] | None = None) -> None:
        self.name, self.low, self.high, self.names = name, low, high, names or {}

    def check(self, text: str) -> None:
        for part in text.split(","):
            self._check_part(part)

    def _check_part(self, part: str) -> None:
        """Raise ValueError unless a cron field item is like `5`, `*`, `5-7/2`; for days also `?`, `L`, `15W`, `6#3`."""
        if part in {"*", "?"} and (part == "*" or self.name.startswith("day")):
            return
        if self.name == "day of month" and (part in {"L", "LW"} or re.fullmatch(r"\d+W", part)):
            if part[0] != "L":
                self._number(part[:-1])
            return
        if self.name == "day of week" and part == "L":
            return
        if self.name == "day of week" and (special := re.fullmatch(r"(\w+?)(?:L|#([1-5]))", part)):
            self._number(special[1])
            return
        span, slash, stride = part.partition("/")
        if slash and not (stride.isdigit() and int(stride) > 0):
            raise ValueError(f"the {self.name} field has the step '{stride}': write a whole number above 0")
        first, dash, last = span.partition("-")
        if span == "*" and slash:
            return
        low = self._number(first)
        if dash and self._number(last) < low:
            raise ValueError(f"the {self.name} field has the range '{span}', which ends before it begins")

    def numbers(self, text: str) -> set[int] | None:
        """Return the numbers that a valid cron field matches; None if it matches all, or they depend on the month."""
        values: set[int] = set()
        for part in text.split(","):
            span, _, stride = part.partition("/")
            first, dash, last = span.partition("-")
            if not re.fullmatch(r"\w+", first) or self._value(first) < 0:
                return None
            low = self._value(first)
            high = self._value(last) if dash else self.high if stride else low
            values.update(range(low, high + 1, int(stride or 1)))
        return values

    def _value(self, text: str) -> int:
        return self.names.get(text.upper(), int(text) if text.isdigit() else -1)

    def _number(self, text: str) -> int:
        value = self._value(text)
        if not self.low <= value <= self.high:
            raise ValueError(f"the {self.name} field has '{text}': write {self.low} to {self.high}")
        return value


_FIELDS = (
    _CronField("minutes", 0, 59),
    _CronField("hours", 0, 23),
    _CronField("day of month", 1, 31),
    _CronField("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _CronField("day of week", 1, 7, {name: number for number, name in enumerate(_DAYS, 1)}),
    _CronField("year", 1970, _LARGEST_YEAR),
)


def check_schedule(text: str) -> str:
    """Return a schedule expression if it is valid for EventBridge Scheduler; raises ValueError with the reason."""
    match = _EXPRESSION.fullmatch(text.strip())
    if match is None:
        raise ValueError("write cron(0 6 * * ? *), rate(1 day) or at(2026-12-31T06:00:00)")
    kind, body = match[1], match[2].strip()
    match kind:
        case "rate":
            _check_rate(body)
        case "at":
            _check_at(body)
        case _:
            _check_cron(body)
    return f"{kind}({body})"


def _check_rate(body: str) -> None:
    rate = _RATE.fullmatch(body)
    if rate is None:
        raise ValueError("a rate is a whole number and minutes, hours or days, such as rate(5 minutes)")
    if int(rate[1]) > 1 and not rate[3]:
        raise ValueError(f"write rate({rate[1]} {rate[2]}s)")


def _check_at(body: str) -> None:
    try:
        datetime.strptime(body, "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007 -- its zone is the schedule's
    except ValueError:
        raise ValueError("invalid time: write at(yyyy-mm-ddThh:mm:ss), without a time zone") from None


def _check_cron(body: str) -> None:
    fields = body.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"cron has six fields (minutes, hours, day of month, month, day of week, year), but this has {len(fields)}"
        )
    for field, text in zip(_FIELDS, fields, strict=True):
        field.check(text)
    if (fields[2] == "?") == (fields[4] == "?"):
        raise ValueError("exactly one of day of month and day of week must be '?'")
    if not _has_matching_day(*(field.numbers(text) for field, text in zip(_FIELDS, fields, strict=True))):
        raise ValueError(f"never fires: no month {fields[3]} has a day {fields[2]}")


def _has_matching_day(*numbers: set[int] | None) -> bool:
    """Return whether a date with these days, months and years exists; None matches every number."""
    _, _, days, months, _, years = numbers
    if days is None:
        return True
    leap = any(monthrange(year, _FEBRUARY)[1] > _FEBRUARY_DAYS for year in years or (2000,))
    longest = {month: monthrange(2000, month)[1] for month in months or (1,)}
    return min(days) <= max(_FEBRUARY_DAYS + leap if month == _FEBRUARY else long for month, long in longest.items())
