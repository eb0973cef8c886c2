"""Parse and format intervals in Delta table properties, such as `interval 7 days`."""

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
"""Table property: retention of removed data files and of their tombstones in the log."""
DELETED_FILES_DEFAULT = timedelta(days=7)
"""Delta's default for the property DELETED_FILES."""

PART = r"(\d+)\s+(week|day|hour|minute|second|millisecond|microsecond)s?"
INTERVAL = re.compile(rf"(?:interval\s+)?{PART}(?:\s+{PART})*", re.IGNORECASE)


def parse_interval(text: str | None, default: timedelta) -> timedelta:
    """Return a property's interval, or `default` for None; raises InvalidParameter if the text is invalid."""
    if text is None:
        return default
    if not INTERVAL.fullmatch(text.strip()):
        raise InvalidParameter(f"the table property '{text}' is not an interval: write it as 'interval 7 days'")
    return sum((int(count) * UNITS[unit.lower()] for count, unit in re.findall(PART, text, re.IGNORECASE)), timedelta())


def format_interval(duration: timedelta) -> str:
    """Return an interval as a table property, rounded up to whole hours."""
    return f"interval {-(-duration // timedelta(hours=1))} hours"
