"""The values of a dataset's variables: read from text by their types, written as literals of SQL.

A value never becomes text of a query: what a literal has of it are digits, or the bytes of a string in hexadecimal.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Literal, TypeAlias

Kind = Literal["string", "integer", "number", "date", "timestamp", "boolean"]
Value: TypeAlias = str | int | float | bool | date | datetime

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    rf"{_DATE.pattern}([T ][0-9]{{2}}(:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?)?(Z|[+-][0-9:]{{2,5}})?)?"
)
_LARGEST = 2**63

EXAMPLES: Mapping[Kind, Value] = {
    "string": "north",
    "integer": 1,
    "number": 1.5,
    "date": date(2026, 11, 22),
    "timestamp": datetime(2026, 11, 22, 6, tzinfo=UTC),
    "boolean": True,
}


def value_of(kind: Kind, given: Value) -> Value:
    """Return a value as one of this type: a text is read, all else must be of it. Raises ValueError."""
    if isinstance(given, str):
        return _read(kind, given)
    match kind, given:
        case "boolean", bool():
            return given
        case (("integer" | "number"), int()) if not isinstance(given, bool) and abs(given) < _LARGEST:
            return given if kind == "integer" else float(given)
        case "number", float() if math.isfinite(given):
            return given
        case "timestamp", datetime():
            return _moment(given)
        case "timestamp", date():
            return datetime(given.year, given.month, given.day, tzinfo=UTC)
        case "date", date() if not isinstance(given, datetime):
            return given
    raise ValueError(_wrong(kind, given))


def _read(kind: Kind, text: str) -> Value:
    try:
        match kind:
            case "string":
                text.encode()
                return text
            case "boolean" if text.lower() in {"true", "false"}:
                return text.lower() == "true"
            case "integer" if _INTEGER.fullmatch(text) and abs(int(text)) < _LARGEST:
                return int(text)
            case "number" if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
                return float(text)
            case "date" if _DATE.fullmatch(text):
                return date.fromisoformat(text)
            case "timestamp" if _TIMESTAMP.fullmatch(text):
                return _moment(datetime.fromisoformat(text))
    except ValueError:  # such as the 30th of February, or what is no UTF-8
        pass
    raise ValueError(_wrong(kind, text))


def _moment(given: datetime) -> datetime:
    return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)


def _wrong(kind: Kind, given: Value) -> str:
    return f"{str(given)!r} is not of the type {kind}: write such as {plain(EXAMPLES[kind])}"


def plain(value: Value) -> str:
    """Return a value as it is written in a path and on a command line."""
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


def literal(value: Value, *, standard: bool = False) -> str:
    """Return a value as a literal of Spark's SQL; `standard`: of any database's, which has none for strings.

    Raises ValueError for those: what ends a string is the database's own.
    """
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            zone = "" if standard else "Z"
            return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}{zone}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str() if standard:
            raise ValueError("a string is not put into a database's query: put a condition into a step")
        case str():
            return f"CAST(X'{value.encode().hex()}' AS STRING)"
        case _:
            text = repr(value) if standard or isinstance(value, int) else f"{value!r}D"
            return f"({text})" if text.startswith("-") else text
