"""Test which rows a version or time has after an upgrade of the format, an expiration, a rename, and a NaN."""

from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from deltaic.errors import MalformedRequest
from deltaic.iceberg_source.delete_files import DeleteFiles
from deltaic.iceberg_source.manifest_files import SourceManifest, TablePaths, partition_key
from deltaic.iceberg_source.source_log import IcebergLog
from deltaic.iceberg_source.source_metadata import SourceMetadata
from deltaic.lru import Lru, MemoryBudget
from iceberg_source.folder_catalog import FolderCatalog, client_rows, source_of
from iceberg_source.test_refused_sources import ENTRY
from msgspec import convert
from msgspec.structs import replace
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

COLUMNS: Final = Schema(NestedField(1, "id", LongType()), NestedField(2, "country", StringType()))
BY_COUNTRY: Final = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country"))


def _append(table: Any, number: int) -> None:
    table.append(pa.table({"id": [number], "country": ["FI"]}))


def _ids(log: IcebergLog, version: int | None = None) -> list[int]:
    return sorted(client_rows(log.snapshot(version), log.metadata.location)["id"].to_pylist())


def test_an_upgraded_table_has_the_rows_of_its_newest_snapshot(tmp_path: Path) -> None:
    table = FolderCatalog(tmp_path).create_table("upgraded", COLUMNS, properties={"format-version": "1"})
    _append(table, 1)
    _append(table, 2)
    with table.transaction() as upgrade:
        upgrade.upgrade_table_version(2)
    old = source_of(table)  # all snapshots of format version 1 have the sequence number 0
    assert (old.latest_version(), _ids(old)) == (0, [1, 2])
    _append(table, 3)
    log = source_of(table)
    assert (log.latest_version(), _ids(log), _ids(log, 0)) == (1, [1, 2, 3], [1, 2])
    first, second, third = [entry.timestamp_ms for entry in table.metadata.snapshot_log]
    assert [log.history.version_at_or_before(time) for time in (second, third)] == [0, 1]
    with pytest.raises(MalformedRequest, match="before the earliest"):
        log.history.version_at_or_before(first)


def test_a_time_before_an_expired_snapshot_names_no_other_snapshot() -> None:
    snapshots = [{"snapshot-id": at, "sequence-number": at, "timestamp-ms": at, "manifest-list": "m"} for at in (1, 3)]
    entries = [{"snapshot-id": at, "timestamp-ms": at} for at in (1, 2, 3)]
    document = {"format-version": 2, "last-updated-ms": 3, "location": "s3://b/t", "current-snapshot-id": 3}
    metadata = convert({**document, "snapshots": snapshots, "snapshot-log": entries}, SourceMetadata)
    assert metadata.timeline == ([3], [3])
    assert sorted(metadata.versions) == [1, 3]


def test_a_rename_changes_the_partition_columns_of_cached_versions(tmp_path: Path) -> None:
    table = FolderCatalog(tmp_path).create_table("renamed", COLUMNS, partition_spec=BY_COUNTRY)
    _append(table, 1)
    before = source_of(table)
    assert client_rows(before.snapshot(1), before.metadata.location)["country"].to_pylist() == ["FI"]
    _append(table, 2)
    with table.update_schema() as update:
        update.rename_column("country", "land")
    after = source_of(table)
    after = IcebergLog(replace(after.table, cache=before.table.cache))
    assert client_rows(after.snapshot(1), after.metadata.location)["country"].to_pylist() == ["FI"]
    assert after.snapshot(1).log_id != before.snapshot(1).log_id  # page tokens and cached lines have the old name


def test_position_deletes_of_a_nan_partition_apply_to_its_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"file_path": ["s3://b/t/a.parquet"], "pos": [4]}), tmp_path / "d.parquet")
    schema: Any = deepcopy(ENTRY)
    schema["fields"][1]["type"]["fields"][3]["type"]["fields"] = [{"name": "x", "type": "double"}]
    file = {
        "content": 1, "file_path": "s3://b/t/d.parquet", "file_format": "PARQUET", "partition": {"x": float("nan")},
        "record_count": 1, "file_size_in_bytes": 9, "value_counts": None, "key_metadata": None,
    }  # fmt: skip
    fastavro.writer(content := BytesIO(), schema, [{"status": 1, "data_file": file}])
    manifest = SourceManifest(
        "m", 0, is_deletes=True, sequence_number=2, snapshot_id=7, added=1, existing=0, deleted=0, summaries=()
    )
    deletes = DeleteFiles(FolderStore(tmp_path), TablePaths("s3://b/t"), Lru(MemoryBudget(0)), "t")
    deletes.add(manifest, content.getvalue())
    keys = [(sequence_number, partition_key({"partition": {"x": float("nan")}})) for sequence_number in (2, 3)]
    vectors = deletes.vectors(["a.parquet"] * 2, keys, 0)
    assert [vector and vector["cardinality"] for vector in vectors] == [1, None]
