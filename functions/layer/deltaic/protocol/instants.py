"""Parse timestamps in requests of the Delta Sharing protocol.

PROTOCOL.md, "Timestamp Format": ISO 8601 in UTC, such as 2022-01-01T00:00:00Z. Like the reference server, it
accepts any UTC offset and requires one, because the server's local time zone is meaningless for clients.
"""

import re
from datetime import date
from typing import Final

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.protocol.parameters import shorten
from deltaic.timestamps import format_ms

_FORM: Final = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[Tt](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<offset_hour>\d\d)(?::?(?P<offset_minute>\d\d))?)",
    re.ASCII,
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_NANOS_PER_MS: Final = 1_000_000
_MAX_OFFSET_MINUTES: Final = 18 * 60


class Instant(msgspec.Struct, frozen=True, order=True):
    """A point in time with nanosecond precision; commit times of the log have milliseconds."""

    nanoseconds: int
    """Nanoseconds since 1970-01-01T00:00:00Z."""

    @property
    def floor_ms(self) -> int:
        """The time rounded down to milliseconds, for "at or before"."""
        return self.nanoseconds // _NANOS_PER_MS

    @property
    def ceil_ms(self) -> int:
        """The time rounded up to milliseconds, for "at or after"."""
        return -(-self.nanoseconds // _NANOS_PER_MS)

    def __str__(self) -> str:
        return format_ms(self.floor_ms)


def parse_instant(text: str, parameter: str) -> Instant:
    """Parse a timestamp; raises InvalidParameter with the name of the parameter."""
    match = _FORM.fullmatch(text)
    nanoseconds = _to_nanoseconds(match) if match else None
    if nanoseconds is None:
        raise InvalidParameter(
            f"Invalid {parameter}: '{shorten(text)}' is not an ISO 8601 date and time with an offset. "
            "Write it as in 2022-01-01T00:00:00Z."
        )
    return Instant(nanoseconds)


def _to_nanoseconds(match: re.Match[str]) -> int | None:
    """Return the time of a string that has the right form; None if a field is out of range."""
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    offset = int(match["offset_hour"] or 0) * 60 + int(match["offset_minute"] or 0)
    if hour > 23 or minute > 59 or second > 59 or int(match["offset_minute"] or 0) > 59 or offset > _MAX_OFFSET_MINUTES:  # noqa: PLR2004 -- the fields of a clock
        return None
    try:
        days = date.fromisoformat(match["date"]).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    if match["sign"] == "-":
        offset = -offset
    seconds = ((days * 24 + hour) * 60 + minute - offset) * 60 + second
    return seconds * 1_000_000_000 + int((match["fraction"] or "0").ljust(9, "0"))
