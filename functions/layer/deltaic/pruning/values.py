"""Parse strings to comparable values: column types, literals, partition values, dates and times.

Each value belongs to one Axis, and is compared with values of the same Axis. An ambiguous string (a time without a
zone) becomes an interval, and an unreadable one None; pruning then keeps the file.
"""

import re
import struct
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from enum import Enum
from math import inf, isnan
from typing import Final

import msgspec


class Axis(Enum):
    """Type in which values are compared, and its order."""

    WHOLE = "whole"
    """int64: integers, booleans (0, 1), dates (days since the epoch), timestamps (microseconds since the epoch)."""
    DECIMAL = "decimal"
    DOUBLE = "double"
    TEXT = "text"
    """Strings, ordered by code point, which is the byte order of UTF-8."""


MICROSECONDS_A_DAY: Final = 86_400_000_000
ANY_ZONE: Final = 18 * 3_600_000_000
"""Maximum difference of local time and UTC in microseconds, as in Java."""

_EPOCH: Final = date(1970, 1, 1).toordinal()
INTEGER_BITS: Final = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_DECIMAL_TYPE: Final = re.compile(r"decimal\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,6}))?)? ?"
    r"(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_NOT_FINITE: Final = {"inf": inf, "infinity": inf, "+infinity": inf, "-infinity": -inf, "-inf": -inf}
INT64: Final = 1 << 63
"""Limit of 64-bit integers, which are at least -INT64 and less than INT64."""
MAX_PRECISION: Final = 38
EXACTLY: Final = Context(prec=200)
"""Decimal context without the default rounding to 28 digits."""
MAX_TEXT: Final = 128
"""Maximum number of characters of a number, date or time."""


class ColumnType(msgspec.Struct, frozen=True):
    """A primitive type of a Delta schema; types without an axis support only tests for null."""

    name: str
    precision: int = 0
    scale: int = 0
    was_float: bool = False
    """Whether a double was widened from float, so bounds may have only the digits of a float."""

    @property
    def axis(self) -> Axis | None:
        """Axis on which values of this type are compared; None if they are not comparable."""
        if self.name in {"integer", "long", "short", "byte", "boolean", "date", "timestamp", "timestamp_ntz"}:
            return Axis.WHOLE
        return {"decimal": Axis.DECIMAL, "float": Axis.DOUBLE, "double": Axis.DOUBLE, "string": Axis.TEXT}.get(
            self.name
        )


def column_type(name: str) -> ColumnType:
    """Parse the name of a primitive type in a schema."""
    match = _DECIMAL_TYPE.fullmatch(name)
    if match:
        precision, scale = int(match[1]), int(match[2])
        return ColumnType("decimal", precision, scale) if scale <= precision <= MAX_PRECISION else ColumnType("?")
    return ColumnType("decimal", 10, 0) if name == "decimal" else ColumnType(name)


def is_utf8(text: str) -> bool:
    """Return whether a string has no unpaired surrogate, which Arrow rejects."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def integer(text: str) -> int | None:
    """Parse an integer of any size."""
    return int(text) if _INTEGER.fullmatch(text) else None


def exact(text: str) -> Decimal | None:
    """Parse a decimal number without binary floating point."""
    return Decimal(text) if len(text) <= MAX_TEXT and _DECIMAL.fullmatch(text) else None


def double(text: str) -> float | None:
    """Parse a number or a named infinity; None for NaN, which no interval contains."""
    if len(text) <= MAX_TEXT and _DECIMAL.fullmatch(text):
        return float(text)
    return _NOT_FINITE.get(text.lower())


def single(value: float) -> float | None:
    """Round a number to the nearest 32-bit float; None if it is out of range."""
    if isnan(value):
        return None
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return None


def boolean(text: str) -> int | None:
    """Parse `true` or `false`, ignoring case, as 1 or 0."""
    return {"true": 1, "false": 0}.get(text.lower())


def days(text: str) -> int | None:
    """Parse `YYYY-MM-DD` as days since the epoch; years 1 to 9999."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3])).toordinal() - _EPOCH
    except ValueError:
        return None


def microseconds(text: str) -> tuple[int, bool] | None:
    """Parse a timestamp: return microseconds since the epoch, and whether it has a UTC offset.

    Without an offset, it is read as UTC. Seconds have at most six decimals.
    """
    match = _TIMESTAMP.fullmatch(text)
    day = days(match[1]) if match else None
    if match is None or day is None:
        return None
    seconds = int(match[2] or 0) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
    instant = day * MICROSECONDS_A_DAY + seconds * 1_000_000 + int((match[5] or "0").ljust(6, "0"))
    zone = match[6]
    if zone is None or zone in {"Z", "UTC"}:
        return instant, zone is not None
    offset = (int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)) * 60_000_000
    return (instant + (offset if zone[0] == "-" else -offset), True) if offset <= ANY_ZONE else None


Value = int | Decimal | float | str


def partition_point(text: str, type_: ColumnType) -> tuple[Value, Value] | None:
    """Parse a partition value: return its smallest and largest possible value; None if unreadable.

    Delta protocol, "Partition Value Serialization". A timestamp without an offset is in the writer's unknown zone.
    """
    point: Value | None
    if type_.name in INTEGER_BITS:
        point = integer(text)
    elif type_.name in {"timestamp", "timestamp_ntz"}:
        timestamp = microseconds(text)
        if timestamp is None:
            return None
        spread = 0 if timestamp[1] == (type_.name == "timestamp") else ANY_ZONE
        return timestamp[0] - spread, timestamp[0] + spread
    elif type_.name == "float":
        wide = double(text)
        point = None if wide is None else single(wide)
    else:
        if type_.name == "string":
            return text, text
        readers: dict[str, Callable[[str], Value | None]] = {
            "boolean": boolean,
            "date": days,
            "decimal": exact,
            "double": double,
        }
        point = readers[type_.name](text) if type_.name in readers else None
    return None if point is None else (point, point)
