"""Parse partition values, including ambiguous ones (Delta protocol, "Partition Value Serialization").

Writers and readers interpret some partition values differently: a timestamp without a time zone can be any instant
with this local time, and an empty string can be null or an empty string.
"""

from enum import Enum
from typing import Final, TypeAlias

from deltaic.pruning.values import (
    EXACTLY,
    INTEGER_BITS,
    ColumnType,
    Value,
    boolean,
    days,
    exact,
    integer,
    microseconds,
    partition_point,
)


class InvalidValue(Enum):
    """A partition value that is invalid for its column's type. Clients differ in how they interpret it."""

    INVALID = 0


Span: TypeAlias = tuple[Value, Value]
"""Smallest and largest possible value; equal if the value is certain."""
Reading: TypeAlias = Span | InvalidValue | None

_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_NOT_EXACT: Final = {
    "float": "floating-point values are rounded",
    "double": "floating-point values are rounded",
    "binary": "partition values do not represent bytes reliably",
    "string by other rules": "char(n) and collated strings have special comparison rules",
}
COMPARABLE: Final = {*INTEGER_BITS, "decimal", "string", "boolean", "date", "timestamp", "timestamp_ntz"}
"""Types whose values are compared exactly."""


def incomparable_reason(type_: ColumnType) -> str | None:
    """Return why filters cannot use columns of a type; None if they can."""
    if type_.name in COMPARABLE:
        return None
    return _NOT_EXACT.get(type_.name, "filters do not support this type")


def value(text: str, type_: ColumnType) -> Value | None:
    """Parse a value of this type; None if it is invalid, out of range or lacks its time zone."""
    if type_.name == "string":
        return text
    if type_.name in INTEGER_BITS:
        number, limit = integer(text), 1 << INTEGER_BITS[type_.name]
        return number if number is not None and -limit <= number < limit else None
    if type_.name == "decimal":
        return _decimal(text, type_)
    if type_.name in {"timestamp", "timestamp_ntz"}:
        instant = microseconds(text)
        return instant[0] if instant is not None and instant[1] == (type_.name == "timestamp") else None
    if type_.name == "date":
        return days(text)
    return boolean(text) if type_.name == "boolean" else None


def _decimal(text: str, type_: ColumnType) -> Value | None:
    number = exact(text)
    if not number:
        return number
    exponent = number.normalize(EXACTLY).as_tuple().exponent
    fits = isinstance(exponent, int) and -exponent <= type_.scale and number.adjusted() < type_.precision - type_.scale
    return number if fits else None


def readings(raw: str | None, type_: ColumnType) -> tuple[Reading, ...]:
    """Return the possible meanings of a file's partition value: a range of values, null or InvalidValue."""
    if raw is None:
        return (None,)
    if raw in {"", _HIVE_NULL}:
        return (None, (raw, raw)) if type_.name == "string" else (None,)
    exact_value = value(raw, type_)
    if exact_value is not None:
        return ((exact_value, exact_value),)
    span = partition_point(raw, type_) if type_.name in {"timestamp", "timestamp_ntz"} else None
    return (InvalidValue.INVALID if span is None else span,)
