"""A Delta table and the rows that it has, kept side by side: what clients read is judged by the rows.

The log and the files are written by hand, with what deltalake cannot write: column mapping, renamed and dropped columns
and deletion vectors.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltaic.delta.deletion_vectors import encode_z85
from pyroaring import BitMap

ARROW = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal(10,2)": pa.decimal128(10, 2),
}
_BOUNDED = {"long", "integer", "double", "string", "date", "timestamp", "decimal(10,2)"}
Row = dict[str, Any]


@dataclass
class Column:
    """A column; its number is what it keeps when it is renamed."""

    name: str
    type: str
    number: int
    is_partition: bool = False

    @property
    def physical(self) -> str:
        return f"col-{self.number}"


@dataclass
class File:
    """A data file: its rows by the columns' numbers, and which of them are deleted."""

    name: str
    partition: dict[int, Any]
    rows: list[dict[int, Any]]
    deleted: set[int] = field(default_factory=set)
    add: dict[str, Any] = field(default_factory=dict)


@dataclass
class ModelTable:
    """Each method makes a version."""

    root: Path
    columns: list[Column]
    mapped: bool
    files: list[File] = field(default_factory=list)
    versions: list[list[Row]] = field(default_factory=list)
    """The rows of each version."""

    def __post_init__(self) -> None:
        (self.root / "_delta_log").mkdir(parents=True)
        self._files = 0
        self._numbers = len(self.columns)
        features = ["columnMapping", "deletionVectors", "timestampNtz"]
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }
        self._commit({"protocol": protocol}, self._metadata())

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows, a file for each partition."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(row[one.name] for one in self.columns if one.is_partition), []).append(row)
        self._commit(*(self._write(group) for group in groups.values()))

    def delete(self, chosen: Sequence[int]) -> None:
        """Delete some of the rows that are there, by their places: by vectors, whole files where nothing is left."""
        places = [(one, at) for one in self.files for at in range(len(one.rows)) if at not in one.deleted]
        actions: list[dict[str, Any]] = []
        by_file: dict[str, set[int]] = {}
        for number in chosen:
            if places:
                one, at = places[number % len(places)]
                by_file.setdefault(one.name, set()).add(at)
        for one in [file for file in self.files if file.name in by_file]:
            actions.append({"remove": {**_key(one.add), "dataChange": True, "deletionTimestamp": 1}})
            one.deleted |= by_file[one.name]
            if len(one.deleted) == len(one.rows):
                self.files.remove(one)
                continue
            one.add = {**one.add, "deletionVector": _vector(one.deleted)}
            actions.append({"add": one.add})
        self._commit(*actions)

    def rename(self, at: int, name: str) -> None:
        self.columns[at % len(self.columns)].name = name
        self._commit(self._metadata())

    def drop(self, at: int) -> None:
        own = [one for one in self.columns if not one.is_partition]
        if len(own) > 1:
            self.columns.remove(own[at % len(own)])
        self._commit(self._metadata())

    def add_column(self, name: str, kind: str) -> None:
        self.columns.append(Column(name, kind, self._numbers))
        self._numbers += 1
        self._commit(self._metadata())

    def _rows(self) -> list[Row]:
        return [
            {one.name: {**file.partition, **row}.get(one.number) for one in self.columns}
            for file in self.files
            for at, row in enumerate(file.rows)
            if at not in file.deleted
        ]

    def _file_name(self, one: Column) -> str:
        return one.physical if self.mapped else one.name

    def _field(self, one: Column) -> pa.Field:
        mark = {b"PARQUET:field_id": str(one.number + 1).encode()} if self.mapped else None
        return pa.field(self._file_name(one), ARROW[one.type], metadata=mark)

    def _write(self, rows: Sequence[Row]) -> dict[str, Any]:
        own = [one for one in self.columns if not one.is_partition]
        partition = {one.number: rows[0][one.name] for one in self.columns if one.is_partition}
        marks = [{b"PARQUET:field_id": str(one.number + 1).encode()} if self.mapped else None for one in own]
        schema = pa.schema(
            [
                pa.field(self._file_name(one), ARROW[one.type], metadata=mark)
                for one, mark in zip(own, marks, strict=True)
            ]
        )
        content = pa.table([pa.array([row[one.name] for row in rows], ARROW[one.type]) for one in own], schema=schema)
        name = f"part-{self._files:05d}.parquet"
        self._files += 1
        pq.write_table(content, self.root / name)
        numbered = [{one.number: row[one.name] for one in own} for row in rows]
        values = {self._file_name(one): _text(rows[0][one.name]) for one in self.columns if one.is_partition}
        add = {
            "path": name,
            "partitionValues": values,
            "size": (self.root / name).stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": self._statistics(own, rows),
        }
        self.files.append(File(name, partition, numbered, add=add))
        return {"add": add}

    def _statistics(self, columns: Sequence[Column], rows: Sequence[Row]) -> str:
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, int] = {}
        for one in columns:
            found = [row[one.name] for row in rows if row[one.name] is not None]
            nulls[self._file_name(one)] = len(rows) - len(found)
            # Spark takes NaN for the greatest number, and writes no bound that is not a number.
            ordered = sorted(found, key=lambda value: (value != value, value)) if one.type in _BOUNDED else []  # noqa: PLR0124
            for end, into in ((ordered[:1], low), (ordered[-1:], high)):
                if end and not (isinstance(end[0], float) and math.isnan(end[0])):
                    into[self._file_name(one)] = _bound(end[0])
        told = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
        return json.dumps(told).replace('"#', "").replace('#"', "")

    def _metadata(self) -> dict[str, Any]:
        fields = []
        for one in self.columns:
            mapping = {"delta.columnMapping.id": one.number + 1, "delta.columnMapping.physicalName": one.physical}
            fields.append(
                {"name": one.name, "type": one.type, "nullable": True, "metadata": mapping if self.mapped else {}}
            )
        mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "100"}
        return {
            "metaData": {
                "id": "11111111-2222-3333-4444-555555555555",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [one.name for one in self.columns if one.is_partition],
                "configuration": mode if self.mapped else {},
                "createdTime": 1,
            }
        }

    def _commit(self, *actions: Mapping[str, Any]) -> None:
        path = self.root / "_delta_log" / f"{len(self.versions):020d}.json"
        path.write_text("".join(json.dumps(one) + "\n" for one in actions or ({"commitInfo": {}},)))
        self.versions.append(self._rows())


def _key(add: Mapping[str, Any]) -> dict[str, Any]:
    return {name: add[name] for name in ("path", "deletionVector") if name in add}


def _text(value: Any) -> str | None:
    """Delta protocol, "Partition Value Serialization"."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return str(value)


def _bound(value: Any) -> Any:
    """Delta protocol, "Per-file Statistics": times cut to milliseconds, decimals numbers with all their digits."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    if isinstance(value, date):
        return value.isoformat()
    return f"#{value}#" if isinstance(value, Decimal) else value


def _vector(deleted: set[int]) -> dict[str, Any]:
    """Delta protocol, "Deletion Vector Format": an inline one, of bitmaps by the upper 32 bits of positions."""
    bitmap = struct.pack("<IQI", 1681511377, 1, 0) + BitMap(deleted).serialize()
    text = encode_z85(bitmap + b"\0" * (-len(bitmap) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bitmap), "cardinality": len(deleted)}
