"""Reads file lines of both formats, and decides which files certainly have rows for a predicate."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WHOLE_NUMBERS = {"long", "integer", "short", "byte"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Value = int | str


@dataclass(frozen=True, slots=True)
class HintColumn:
    """A column that a hint can name."""

    name: str
    type: str
    """As the schema says: `integer`, `date`, `string`, ..."""
    partition: bool

    @property
    def value_type(self) -> str:
        """As JSON predicates say it ("JSON predicates for Filtering")."""
        return {"integer": "int", "short": "int", "byte": "int", "boolean": "bool"}.get(self.type, self.type)

    def value(self, text: object) -> Value | None:
        """Return a partition value or a statistic as it is compared; None for null and for what has no order here."""
        if text is None or text == "":
            return None
        return int(str(text)) if self.type in WHOLE_NUMBERS else str(text)


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line that names a file, in either format."""

    action: str
    """`add`, `remove` or `cdf`; `add` for files of a snapshot."""
    id: str
    url: str
    size: int
    version: int | None
    timestamp: int | None
    expiration: int | None
    partition: Mapping[str, Any]
    stats: Mapping[str, Any]
    vector: Mapping[str, Any] | None
    """Its deletion vector."""

    def range(self, column: HintColumn) -> tuple[Value, Value] | None:
        """The least and the greatest value of a column that some row has; None where that is not certain."""
        if column.partition:
            value = column.value(self.partition.get(column.name))
            return None if value is None else (value, value)
        ends = [column.value(self.stats.get(which, {}).get(column.name)) for which in ("minValues", "maxValues")]
        if self.vector is not None or column.type not in {*WHOLE_NUMBERS, "date"} or None in ends:
            return None  # deleted rows, and strings are cut
        return ends[0], ends[1]  # type: ignore[return-value]  # neither is None

    def nulls(self, column: HintColumn) -> tuple[bool, bool]:
        """Whether it certainly has a row that is null there, and one that is not."""
        if column.partition:
            null = column.value(self.partition.get(column.name)) is None
            return null, not null
        rows, count = self.stats.get("numRecords"), self.stats.get("nullCount", {}).get(column.name)
        if self.vector is not None or not isinstance(rows, int) or not isinstance(count, int):
            return False, False
        return count > 0, count < rows

    @property
    def rows(self) -> int | None:
        """How many rows it has; None if the statistics do not say."""
        rows = self.stats.get("numRecords")
        if not isinstance(rows, int):
            return None
        return rows - int((self.vector or {}).get("cardinality", 0))


def files_of(lines: Sequence[Mapping[str, Any]]) -> Iterator[FileLine]:
    """Yield the files that lines name; what a line lacks is empty."""
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
    """Return the columns of a metaData whose names need no quoting and whose types hints can compare."""
    try:
        fields = json.loads(metadata["schemaString"])["fields"]
    except (KeyError, TypeError, ValueError):
        return {}
    parts = metadata.get("partitionColumns") or []
    found = [
        HintColumn(field["name"], field["type"], field["name"] in parts)
        for field in fields
        if _NAME.fullmatch(field["name"]) and isinstance(field["type"], str)
    ]
    return {column.name: column for column in found if column.type in {*WHOLE_NUMBERS, "date", "string"}}


def _stats(text: object) -> Mapping[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
