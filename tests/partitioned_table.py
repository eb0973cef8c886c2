"""A table with one partition column of each type, as partition filters see it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TYPES = {
    "region": "string",
    "site": "string",
    "dose": "byte",
    "month": "short",
    "year": "integer",
    "patient": "long",
    "amount": "decimal(10,2)",
    "day": "date",
    "at": "timestamp",
    "clock": "timestamp_ntz",
    "final": "boolean",
}
"""The partition columns that can be filtered by."""
OTHER_COLUMNS = {"weight": "double", "ratio": "float", "code": "binary"}
"""Those that cannot."""


@dataclass(frozen=True)
class Metadata:
    """Metadata of a table, as filters need it."""

    schema_string: str
    partition_columns: Sequence[str]
    configuration: Mapping[str, str] = field(default_factory=dict)


def column(name: str, type_: object, **metadata: object) -> dict[str, object]:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def schema(*columns: Mapping[str, object]) -> str:
    return json.dumps({"type": "struct", "fields": columns})


NESTED = column("place", {"type": "struct", "fields": [column("city", "string")]})
TABLE = Metadata(
    schema(*(column(name, type_) for name, type_ in {**TYPES, **OTHER_COLUMNS, "reaction": "string"}.items()), NESTED),
    [*TYPES, *OTHER_COLUMNS],
)
"""With `reaction` and `place.city` besides, which are no partition columns."""
