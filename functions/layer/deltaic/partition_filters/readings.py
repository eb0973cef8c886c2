"""Readings of a text as a value of a column: exactly one, several that it may be, or none that is certain.

Delta protocol, "Partition Value Serialization". What a partition value leaves open is not settled here: a time without
a zone is any moment that it is somewhere, and an empty text is null or itself, since writers and readers differ there.
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


class Unreadable(Enum):
    """A partition value that is none of its column's type: readers differ in what they make of it."""

    UNREADABLE = 0


Span: TypeAlias = tuple[Value, Value]
"""The least and the greatest value that it can be; mostly the same one twice."""
Reading: TypeAlias = Span | Unreadable | None

_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_NOT_EXACT: Final = {
    "float": "its values are rounded",
    "double": "its values are rounded",
    "binary": "its values are bytes, which texts cannot tell for certain",
    "string by other rules": "char(n) and collated texts are compared by rules of their own",
}
COMPARED: Final = {*INTEGER_BITS, "decimal", "string", "boolean", "date", "timestamp", "timestamp_ntz"}
"""Types whose values are compared exactly."""


def why_not_compared(type_: ColumnType) -> str | None:
    """Return why columns of a type cannot be in a filter; None if they can."""
    if type_.name in COMPARED:
        return None
    return _NOT_EXACT.get(type_.name, "values of its type cannot be compared")


def value(text: str, type_: ColumnType) -> Value | None:
    """Read a text as the one value of that type that it stands for; None if it is none: out of range, no zone."""
    if type_.name == "string":
        return text
    if type_.name in INTEGER_BITS:
        whole, limit = integer(text), 1 << INTEGER_BITS[type_.name]
        return whole if whole is not None and -limit <= whole < limit else None
    if type_.name == "decimal":
        return _decimal(text, type_)
    if type_.name in {"timestamp", "timestamp_ntz"}:
        moment = microseconds(text)
        return moment[0] if moment is not None and moment[1] == (type_.name == "timestamp") else None
    if type_.name == "date":
        return days(text)
    return boolean(text) if type_.name == "boolean" else None


def _decimal(text: str, type_: ColumnType) -> Value | None:
    found = exact(text)
    if not found:
        return found
    exponent = found.normalize(EXACTLY).as_tuple().exponent
    fits = isinstance(exponent, int) and -exponent <= type_.scale and found.adjusted() < type_.precision - type_.scale
    return found if fits else None


def readings(raw: str | None, type_: ColumnType) -> tuple[Reading, ...]:
    """Return all that a partition value of a file may be."""
    if raw is None:
        return (None,)
    if raw in {"", _HIVE_NULL}:
        return (None, (raw, raw)) if type_.name == "string" else (None,)
    one = value(raw, type_)
    if one is not None:
        return ((one, one),)
    span = partition_point(raw, type_) if type_.name in {"timestamp", "timestamp_ntz"} else None
    return (Unreadable.UNREADABLE if span is None else span,)
