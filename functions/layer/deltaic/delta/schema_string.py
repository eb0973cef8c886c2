"""Reads the schema in a table's metadata: one reader, so that a broken schema is the same error at every door."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from deltaic.errors import TableUnreadable

TYPES: Final = ("type", "elementType", "keyType", "valueType", "sqlType")
"""Where a part of a schema has a type: a name, or another part."""


def read_schema(schema_string: str) -> dict[str, Any]:
    """Return a schema as JSON: a struct type whose columns have names and types, at every level.

    Raises TableUnreadable for anything else.
    """
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        schema = json.loads(schema_string)
        if schema["type"] == "struct" and isinstance(schema["fields"], list) and all(map(_is_sound, parts_of(schema))):
            return dict(schema)
    raise TableUnreadable("the table's log cannot be read: metaData has a schemaString that is no schema")


def parts_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema, its columns and their types, at every level; primitive types are left out."""
    todo: list[Any] = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            yield part
            todo += [part[name] for name in TYPES if name in part]
            todo += part.get("fields") or ()


def _is_sound(part: dict[str, Any]) -> bool:
    fields = part.get("fields") or []
    return (
        isinstance(fields, list)
        and all(isinstance(field, dict) and isinstance(field.get("name"), str) and "type" in field for field in fields)
        and all(isinstance(part[name], str | dict) for name in TYPES if name in part)
        and isinstance(part.get("metadata") or {}, dict)
    )
