"""Name mappings: which field a column of a file without field ids is (Iceberg specification, "Column Projection")."""

from collections.abc import Sequence
from typing import Any


def merged(one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return a mapping that holds for files of both; None where a name stands for two fields."""
    fields = {field["field-id"]: field for field in one}
    names = {name: field["field-id"] for field in one for name in field["names"]}
    for field in other:
        if any(names.get(name, field["field-id"]) != field["field-id"] for name in field["names"]):
            return None
        own = fields.setdefault(field["field-id"], field)
        if own is field:
            continue
        if own["names"] != field["names"]:
            return None
        below = merged(own.get("fields", ()), field.get("fields", ()))
        if below is None:
            return None
        fields[field["field-id"]] = {**field, **({"fields": below} if below else {})}
    return list(fields.values())
