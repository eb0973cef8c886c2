"""The intervals that Delta's table properties hold (`interval 7 days`, `1 week 12 hours`), and one such property."""

import re
from datetime import timedelta

from deltaic.errors import InvalidParameter

UNITS = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
    "microsecond": timedelta(microseconds=1),
}
DELETED_FILES = "delta.deletedFileRetentionDuration"
"""How long files that were removed stay, and the log's word of it: their tombstones."""
DELETED_FILES_UNSAID = timedelta(days=7)
"""Delta's own default, for everybody who reads the table without asking a server."""

PART = r"(\d+)\s+(week|day|hour|minute|second|millisecond|microsecond)s?"
WHOLE = re.compile(rf"(?:interval\s+)?{PART}(?:\s+{PART})*", re.IGNORECASE)


def parse_interval(text: str | None, default: timedelta) -> timedelta:
    """Return what a property says, or `default` where there is none; raises InvalidParameter for what Delta refuses."""
    if text is None:
        return default
    if not WHOLE.fullmatch(text.strip()):
        raise InvalidParameter(f"the table property '{text}' is no interval: write it as 'interval 7 days'")
    return sum((int(count) * UNITS[unit.lower()] for count, unit in re.findall(PART, text, re.IGNORECASE)), timedelta())


def format_interval(duration: timedelta) -> str:
    """Return an interval as Delta takes it, rounded up to whole hours."""
    return f"interval {-(-duration // timedelta(hours=1))} hours"
