"""Parse the values of a dataset's variables by type, and format them as SQL literals.

A string cannot inject SQL, because its literal contains only hexadecimal digits.
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


def parse_value(kind: Kind, value: Value) -> Value:
    """Convert a value to the type `kind`, by parsing if it is a string; raises ValueError if that is impossible."""
    if isinstance(value, str):
        return _parse_text(kind, value)
    match kind, value:
        case "boolean", bool():
            return value
        case (("integer" | "number"), int()) if not isinstance(value, bool) and abs(value) < _LARGEST:
            return value if kind == "integer" else float(value)
        case "number", float() if math.isfinite(value):
            return value
        case "timestamp", datetime():
            return _in_utc(value)
        case "timestamp", date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        case "date", date() if not isinstance(value, datetime):
            return value
    raise ValueError(_type_message(kind, value))


def _parse_text(kind: Kind, text: str) -> Value:
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
                return _in_utc(datetime.fromisoformat(text))
    except ValueError:  # such as the 30th of February, or invalid UTF-8
        pass
    raise ValueError(_type_message(kind, text))


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _type_message(kind: Kind, value: Value) -> str:
    return f"{str(value)!r} is not of the type {kind}: write a value such as {to_text(EXAMPLES[kind])}"


def to_text(value: Value) -> str:
    """Format a variable's value for a path or a command line."""
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


def literal(value: Value, *, standard: bool = False) -> str:
    """Format a variable's value as a literal of Spark SQL or, with `standard`, of the SQL of any database.

    With `standard`, raises ValueError for strings, because databases differ in how they escape strings.
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
            raise ValueError("strings are not allowed in a database's query: write the condition in a step")
        case str():
            return f"CAST(X'{value.encode().hex()}' AS STRING)"
        case _:
            text = repr(value) if standard or isinstance(value, int) else f"{value!r}D"
            return f"({text})" if text.startswith("-") else text
