"""Format timestamps for messages."""

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def format_ms(milliseconds: int) -> str:
    """Format milliseconds since the epoch as a time in UTC, such as `9999-01-01 00:00:00.0`."""
    try:
        instant = EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # 9999-12-31 with a negative offset is in the year 10000
        return f"{milliseconds} ms since 1970"
    fraction = f"{instant.microsecond // 1000:03d}".rstrip("0") or "0"
    return f"{instant.year:04d}-{instant:%m-%d %H:%M:%S}.{fraction}"
