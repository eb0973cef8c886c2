"""How a moment reads in a message, whichever part of the package writes it."""

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def format_ms(milliseconds: int) -> str:
    """Return milliseconds since the epoch as messages show them, in UTC: `9999-01-01 00:00:00.0`."""
    try:
        moment = EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # 9999-12-31 with a negative offset lies in the year 10000
        return f"{milliseconds} ms since 1970"
    fraction = f"{moment.microsecond // 1000:03d}".rstrip("0") or "0"
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}.{fraction}"
