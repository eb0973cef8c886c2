"""A Delta table with a model of its rows, to check what clients read.

The log and the files are written by hand, with features that deltalake cannot write: column mapping, renamed and
dropped columns, and deletion vectors.
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
class ModelColumn:
    """A column, whose number does not change when it is renamed."""

    name: str
    type: str
    number: int
    is_partition: bool = False

    @property
    def physical(self) -> str:
        return f"col-{self.number}"


@dataclass
class ModelFile:
    """A data file: rows by column number, and positions of deleted rows."""

    name: str
    partition: dict[int, Any]
    rows: list[dict[int, Any]]
    deleted: set[int] = field(default_factory=set)
    add: dict[str, Any] = field(default_factory=dict)


@dataclass
class ModelTable:
    """A Delta table and the rows of its versions; each method writes a version."""

    root: Path
    columns: list[ModelColumn]
    mapped: bool
    files: list[ModelFile] = field(default_factory=list)
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
        """Append rows, with one file for each partition."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(row[column.name] for column in self.columns if column.is_partition), []).append(row)
        self._commit(*(self._write(group) for group in groups.values()))

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete existing rows by their numbers, with deletion vectors; remove files without remaining rows."""
        positions = [(file, row) for file in self.files for row in range(len(file.rows)) if row not in file.deleted]
        actions: list[dict[str, Any]] = []
        by_file: dict[str, set[int]] = {}
        for number in numbers:
            if positions:
                file, row = positions[number % len(positions)]
                by_file.setdefault(file.name, set()).add(row)
        for file in [file for file in self.files if file.name in by_file]:
            actions.append({"remove": {**_key(file.add), "dataChange": True, "deletionTimestamp": 1}})
            file.deleted |= by_file[file.name]
            if len(file.deleted) == len(file.rows):
                self.files.remove(file)
                continue
            file.add = {**file.add, "deletionVector": _vector(file.deleted)}
            actions.append({"add": file.add})
        self._commit(*actions)

    def rename(self, at: int, name: str) -> None:
        self.columns[at % len(self.columns)].name = name
        self._commit(self._metadata())

    def drop(self, at: int) -> None:
        candidates = [column for column in self.columns if not column.is_partition]
        if len(candidates) > 1:
            self.columns.remove(candidates[at % len(candidates)])
        self._commit(self._metadata())

    def add_column(self, name: str, kind: str) -> None:
        self.columns.append(ModelColumn(name, kind, self._numbers))
        self._numbers += 1
        self._commit(self._metadata())

    def _rows(self) -> list[Row]:
        return [
            {column.name: {**file.partition, **row}.get(column.number) for column in self.columns}
            for file in self.files
            for at, row in enumerate(file.rows)
            if at not in file.deleted
        ]

    def _file_name(self, column: ModelColumn) -> str:
        return column.physical if self.mapped else column.name

    def _field(self, column: ModelColumn) -> pa.Field:
        metadata = {b"PARQUET:field_id": str(column.number + 1).encode()} if self.mapped else None
        return pa.field(self._file_name(column), ARROW[column.type], metadata=metadata)

    def _write(self, rows: Sequence[Row]) -> dict[str, Any]:
        data_columns = [column for column in self.columns if not column.is_partition]
        partition = {column.number: rows[0][column.name] for column in self.columns if column.is_partition}
        metadata = [
            {b"PARQUET:field_id": str(column.number + 1).encode()} if self.mapped else None for column in data_columns
        ]
        schema = pa.schema(
            [
                pa.field(self._file_name(column), ARROW[column.type], metadata=field_metadata)
                for column, field_metadata in zip(data_columns, metadata, strict=True)
            ]
        )
        content = pa.table(
            [pa.array([row[column.name] for row in rows], ARROW[column.type]) for column in data_columns], schema=schema
        )
        name = f"part-{self._files:05d}.parquet"
        self._files += 1
        pq.write_table(content, self.root / name)
        numbered = [{column.number: row[column.name] for column in data_columns} for row in rows]
        values = {
            self._file_name(column): _text(rows[0][column.name]) for column in self.columns if column.is_partition
        }
        add = {
            "path": name,
            "partitionValues": values,
            "size": (self.root / name).stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": self._statistics(data_columns, rows),
        }
        self.files.append(ModelFile(name, partition, numbered, add=add))
        return {"add": add}

    def _statistics(self, columns: Sequence[ModelColumn], rows: Sequence[Row]) -> str:
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, int] = {}
        for column in columns:
            present = [row[column.name] for row in rows if row[column.name] is not None]
            nulls[self._file_name(column)] = len(rows) - len(present)
            # Spark treats NaN as the greatest number, and writes no bound that is NaN.
            ordered = sorted(present, key=lambda value: (value != value, value)) if column.type in _BOUNDED else []  # noqa: PLR0124
            for end, bounds in ((ordered[:1], low), (ordered[-1:], high)):
                if end and not (isinstance(end[0], float) and math.isnan(end[0])):
                    bounds[self._file_name(column)] = _bound(end[0])
        told = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
        return json.dumps(told).replace('"#', "").replace('#"', "")

    def _metadata(self) -> dict[str, Any]:
        fields = []
        for column in self.columns:
            mapping = {"delta.columnMapping.id": column.number + 1, "delta.columnMapping.physicalName": column.physical}
            fields.append(
                {"name": column.name, "type": column.type, "nullable": True, "metadata": mapping if self.mapped else {}}
            )
        mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "100"}
        return {
            "metaData": {
                "id": "11111111-2222-3333-4444-555555555555",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [column.name for column in self.columns if column.is_partition],
                "configuration": mode if self.mapped else {},
                "createdTime": 1,
            }
        }

    def _commit(self, *actions: Mapping[str, Any]) -> None:
        path = self.root / "_delta_log" / f"{len(self.versions):020d}.json"
        path.write_text("".join(json.dumps(action) + "\n" for action in actions or ({"commitInfo": {}},)))
        self.versions.append(self._rows())


def _key(add: Mapping[str, Any]) -> dict[str, Any]:
    return {name: add[name] for name in ("path", "deletionVector") if name in add}


def _text(value: Any) -> str | None:
    """Encode a partition value (Delta protocol, "Partition Value Serialization")."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return str(value)


def _bound(value: Any) -> Any:
    """Encode a bound (Delta protocol, "Per-file Statistics"): times in milliseconds, decimals with all digits."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    if isinstance(value, date):
        return value.isoformat()
    return f"#{value}#" if isinstance(value, Decimal) else value


def _vector(deleted: set[int]) -> dict[str, Any]:
    """Return an inline deletion vector (Delta protocol, "Deletion Vector Format")."""
    bitmap = struct.pack("<IQI", 1681511377, 1, 0) + BitMap(deleted).serialize()
    text = encode_z85(bitmap + b"\0" * (-len(bitmap) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bitmap), "cardinality": len(deleted)}
