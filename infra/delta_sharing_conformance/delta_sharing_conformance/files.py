"""Parse the file lines of both response formats, with partition values and statistics."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

INTEGER_TYPES = {"long", "integer", "short", "byte"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Value = int | str


@dataclass(frozen=True, slots=True)
class HintColumn:
    """A column that a predicate hint can compare with a literal."""

    name: str
    type: str
    """Type of the column in the Delta schema, such as `integer`, `date` or `string`."""
    partition: bool

    @property
    def value_type(self) -> str:
        """Type of the column in JSON predicates (PROTOCOL.md, "JSON predicates for Filtering")."""
        return {"integer": "int", "short": "int", "byte": "int", "boolean": "bool"}.get(self.type, self.type)

    def value(self, text: object) -> Value | None:
        """Convert a partition value or statistic of the column for comparison; None for null and empty strings."""
        if text is None or text == "":
            return None
        return int(str(text)) if self.type in INTEGER_TYPES else str(text)


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a response that lists a file, in parquet or delta format."""

    action: str
    """Type of action: `add`, `remove` or `cdf`; always `add` for files of a snapshot."""
    id: str
    url: str
    size: int
    version: int | None
    timestamp: int | None
    expiration: int | None
    partition: Mapping[str, Any]
    stats: Mapping[str, Any]
    vector: Mapping[str, Any] | None
    """Descriptor of the deletion vector; None if the file has none."""

    def range(self, column: HintColumn) -> tuple[Value, Value] | None:
        """Return the minimum and maximum of a column in the file; None if statistics do not contain exact values."""
        if column.partition:
            value = column.value(self.partition.get(column.name))
            return None if value is None else (value, value)
        bounds = [column.value(self.stats.get(key, {}).get(column.name)) for key in ("minValues", "maxValues")]
        if self.vector is not None or column.type not in {*INTEGER_TYPES, "date"} or None in bounds:
            return None  # rows can be deleted, and statistics of strings are truncated
        return bounds[0], bounds[1]  # type: ignore[return-value]  # neither is None

    def nulls(self, column: HintColumn) -> tuple[bool, bool]:
        """Return whether statistics prove that the column has a null, and that it has a value that is not null."""
        if column.partition:
            null = column.value(self.partition.get(column.name)) is None
            return null, not null
        rows, count = self.stats.get("numRecords"), self.stats.get("nullCount", {}).get(column.name)
        if self.vector is not None or not isinstance(rows, int) or not isinstance(count, int):
            return False, False
        return count > 0, count < rows

    @property
    def rows(self) -> int | None:
        """Number of rows in the file without deleted ones; None without statistics."""
        rows = self.stats.get("numRecords")
        if not isinstance(rows, int):
            return None
        return rows - int((self.vector or {}).get("cardinality", 0))


def files_of(lines: Sequence[Mapping[str, Any]]) -> Iterator[FileLine]:
    """Yield the files that lines of a response list. Missing fields of a file are empty."""
    for line in lines:
        for kind in ("file", "add", "cdf", "remove"):
            entry = line.get(kind)
            if not isinstance(entry, dict):
                continue
            single = entry.get("deltaSingleAction")
            action, inner = next(iter(single.items()), ("", {})) if isinstance(single, dict) else (kind, entry)
            yield FileLine(
                action={"file": "add", "cdc": "cdf"}.get(action, action),
                id=str(entry.get("id", "")),
                url=str(inner.get("path" if single else "url", "")),
                size=int(inner.get("size") or entry.get("size") or 0),
                version=entry.get("version"),
                timestamp=entry.get("timestamp"),
                expiration=entry.get("expirationTimestamp"),
                partition=inner.get("partitionValues") or {},
                stats=_stats(inner.get("stats")),
                vector=inner.get("deletionVector"),
            )


def columns_of(metadata: Mapping[str, Any]) -> dict[str, HintColumn]:
    """Return the columns that hints can use, by name: those with comparable types and names that need no quotes."""
    try:
        fields = json.loads(metadata["schemaString"])["fields"]
    except (KeyError, TypeError, ValueError):
        return {}
    partition_columns = metadata.get("partitionColumns") or []
    columns = [
        HintColumn(field["name"], field["type"], field["name"] in partition_columns)
        for field in fields
        if _NAME.fullmatch(field["name"]) and isinstance(field["type"], str)
    ]
    return {column.name: column for column in columns if column.type in {*INTEGER_TYPES, "date", "string"}}


def _stats(text: object) -> Mapping[str, Any]:
    try:
        stats = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return stats if isinstance(stats, dict) else {}
