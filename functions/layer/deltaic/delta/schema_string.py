"""Parse a table's schema; an invalid schema raises the same error everywhere."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from deltaic.errors import TableUnreadable

TYPES: Final = ("type", "elementType", "keyType", "valueType", "sqlType")
"""Keys in a schema's JSON whose value is a type: the type's name, or a JSON object."""


def read_schema(schema_string: str) -> dict[str, Any]:
    """Parse a schema (JSON of a struct), and check that it has names and types at every level.

    Raises TableUnreadable for any other string.
    """
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        schema = json.loads(schema_string)
        parts = nested_parts(schema)
        if schema["type"] == "struct" and isinstance(schema["fields"], list) and all(map(_is_valid, parts)):
            return dict(schema)
    raise TableUnreadable("the table's log cannot be read: the schemaString in metaData is not a valid schema")


def nested_parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a schema: itself, its columns and their nested types, at every level."""
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending += [part[name] for name in TYPES if name in part]
            pending += part.get("fields") or ()


def _is_valid(part: dict[str, Any]) -> bool:
    fields = part.get("fields") or []
    return (
        isinstance(fields, list)
        and all(isinstance(field, dict) and isinstance(field.get("name"), str) and "type" in field for field in fields)
        and all(isinstance(part[name], str | dict) for name in TYPES if name in part)
        and isinstance(part.get("metadata") or {}, dict)
    )
