"""Delta tables that have only a log: many files that all have the same footer."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import Action, metadata, protocol
from deltaic.delta.log import DeltaLog
from deltaic.iceberg.table_version import MetadataContext, TableVersion
from deltaic.storage.locations import TableLocations

X = pa.schema([pa.field("x", pa.int64())])


def footer(schema: pa.Schema = X, rows: int = 3) -> bytes:
    """Return a small Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(pa.table([pa.nulls(rows, column.type) for column in schema], schema=schema), buffer)
    return buffer.getvalue()


def add(number: int, partition: str | None = None, **fields: Any) -> Action:
    """Return an add action of a file whose column `x` has its number."""
    statistics = {"numRecords": 1, "minValues": {"x": number}, "maxValues": {"x": number}, "nullCount": {"x": 0}}
    path = f"p={partition}/part-{number:05d}.parquet"
    values = {"p": partition}
    action = {"path": path, "partitionValues": values, "size": 100, "modificationTime": 1, "dataChange": True}
    return {"add": action | {"stats": json.dumps(statistics)} | fields}


def remove(number: int, partition: str | None = None) -> Action:
    path = f"p={partition}/part-{number:05d}.parquet"
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}


@dataclass
class ListedTable:
    """A log, and the Iceberg metadata that is generated from it."""

    root: Path
    data_file: bytes = field(default_factory=footer)
    objects: dict[str, bytes] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    """Data files whose footers were read."""

    def __post_init__(self) -> None:
        (self.root / "_delta_log").mkdir(parents=True)
        self._versions = 0
        self.store = _Store(self)

    def commit(self, *actions: Action) -> int:
        """Write a version and return its number; the first version gets protocol and metadata if it has none."""
        if not self._versions and not any("metaData" in action for action in actions):
            actions = (protocol(), metadata(), *actions)
        path = self.root / "_delta_log" / f"{self._versions:020d}.json"
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        self._versions += 1
        return self._versions - 1

    @property
    def context(self) -> MetadataContext:
        locations = TableLocations.parse("s3://lake/table")
        return MetadataContext("s3://made/folder", self._put, locations.uris, self.store)

    def version(self, number: int) -> TableVersion:
        snapshot = DeltaLog(self.store).snapshot(number)
        return TableVersion(number, 1_000 + number, snapshot.metadata, snapshot.files)

    def take_objects(self) -> Mapping[str, bytes]:
        """Return the objects that were written since the last call."""
        written, self.objects = self.objects, {}
        return written

    def _put(self, key: str, content: bytes) -> None:
        self.objects[key] = content


class _Store(FolderStore):
    def __init__(self, table: ListedTable) -> None:
        super().__init__(table.root)
        self._table = table

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        if not path.endswith(".parquet"):
            return super().get_tail(path, length)
        self._table.reads.append(path)
        return self._table.data_file[-length:], len(self._table.data_file)


def uris(numbers: Iterable[int], partition: str | None = None) -> Sequence[str]:
    return [f"s3://lake/table/p={partition}/part-{number:05d}.parquet" for number in numbers]
