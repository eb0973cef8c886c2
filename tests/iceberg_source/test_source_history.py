"""Test which snapshot a version or time names in tables with a history, and which rows are deleted."""

import json
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from deltaic.delta.deletion_vectors import decode_z85
from deltaic.errors import MalformedRequest, TableUnreadable, UnsupportedOperation
from deltaic.iceberg_source.delete_files import DeleteFiles
from deltaic.iceberg_source.file_statistics import encode_statistics
from deltaic.iceberg_source.manifest_files import SourceManifest, TablePaths, partition_key
from deltaic.iceberg_source.source_log import IcebergLog
from deltaic.iceberg_source.source_metadata import SourceMetadata
from deltaic.lru import Lru, MemoryBudget
from deltaic.partition_filters import parse
from deltaic.pruning.values import column_type
from deltaic.sharing.rights.table_rights import Rights
from deltaic.sharing.rights.table_visibility import visibility_of
from iceberg_source.folder_catalog import FolderCatalog, client_rows, source_of
from iceberg_source.test_refused_sources import ENTRY
from msgspec import convert
from msgspec.structs import replace
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyroaring import BitMap

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


def test_a_refused_file_does_not_matter_to_recipients_of_other_partitions(tmp_path: Path) -> None:
    table = FolderCatalog(tmp_path).create_table("mixed", COLUMNS, partition_spec=BY_COUNTRY)
    _append(table, 1)
    pq.write_table(pa.table({"id": [2], "country": ["PL"]}), tmp_path / "mixed" / "data" / "b.parquet")
    table.add_files([f"{table.location()}/data//b.parquet"])
    with table.transaction() as changes:
        changes.remove_properties("schema.name-mapping.default")
    snapshot = source_of(table).snapshot()
    of_finland = visibility_of(Rights((parse("country = 'FI'"),)), snapshot.metadata).row_filter(None)
    for _ in range(2):  # before and after the refusal
        assert client_rows(snapshot, table.location(), of_finland)["id"].to_pylist() == [1]
        with pytest.raises(UnsupportedOperation, match="the path of a file has an empty"):
            list(snapshot.load_commits().scan())


def test_a_truncated_manifest_is_not_half_a_table(tmp_path: Path) -> None:
    table = FolderCatalog(tmp_path).create_table("truncated", COLUMNS)
    _append(table, 1)
    (path,) = Path(tmp_path, "truncated", "metadata").glob("*-m0.avro")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(whole[-16:]) + 16])  # the header ends with the marker that ends each block
    with pytest.raises(TableUnreadable, match=f"{path.name} is corrupt: its length differs"):
        list(source_of(table).snapshot().load_commits().scan())


def test_the_cache_counts_the_manifests_of_each_version(tmp_path: Path) -> None:
    table = FolderCatalog(tmp_path).create_table("counted", COLUMNS)
    _append(table, 1)
    _append(table, 2)
    log = source_of(table)
    versions = [log.snapshot(version) for version in (1, 2)]
    assert [len(snapshot.manifests) for snapshot in versions] == [1, 2]
    assert versions[0].nbytes < versions[1].nbytes
    budget = MemoryBudget(versions[0].nbytes)
    small = IcebergLog(replace(log.table, cache=Lru(budget)))
    assert small.snapshot(1) is small.snapshot(1)
    assert small.snapshot(2) is not small.snapshot(2)  # it would exceed the budget


def _deletes(folder: Path, partition: dict[str, Any], rows: pa.Table) -> DeleteFiles:
    """Write a file of position deletes for a partition by one double column, with sequence number 2."""
    pq.write_table(rows, folder / "d.parquet")
    schema: Any = deepcopy(ENTRY)
    schema["fields"][1]["type"]["fields"][3]["type"]["fields"] = [{"name": "x", "type": "double"}]
    file = {
        "content": 1, "file_path": "s3://b/t/d.parquet", "file_format": "PARQUET", "partition": partition,
        "record_count": 1, "file_size_in_bytes": 9,
    }  # fmt: skip
    fastavro.writer(content := BytesIO(), schema, [{"status": 1, "data_file": file}])
    counts = {"added": 1, "existing": 0, "deleted": 0}
    manifest = SourceManifest("m", 0, is_deletes=True, sequence_number=2, snapshot_id=7, **counts, summaries=())
    deletes = DeleteFiles(FolderStore(folder), TablePaths("s3://b/t"), Lru(MemoryBudget(0)), "t")
    deletes.add(manifest, content.getvalue())
    return deletes


def test_position_deletes_of_a_nan_partition_apply_to_its_files(tmp_path: Path) -> None:
    rows = pa.table({"file_path": ["s3://b/t/a.parquet"], "pos": [4]})
    deletes = _deletes(tmp_path, {"x": float("nan")}, rows)
    keys = [(sequence_number, partition_key({"x": float("nan")})) for sequence_number in (2, 3)]
    vectors = deletes.vectors(["a.parquet"] * 2, keys, 0)
    assert [vector and vector["cardinality"] for vector in vectors] == [1, None]


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"file_path": pa.array([None], pa.string()), "pos": [4]}),
        pa.table({"file_path": ["s3://b/t/a.parquet"], "pos": pa.array([None], pa.int64())}),
        pa.table({"file_path": ["s3://b/t/a.parquet"], "row": [4]}),
        pa.table({"file_path": ["s3://b/t/a.parquet"], "pos": [1 << 32]}),
        pa.table({"file_path": ["s3://b/t/a.parquet"], "pos": [-1]}),
    ],
)
def test_a_broken_file_of_position_deletes_is_an_error(tmp_path: Path, rows: pa.Table) -> None:
    deletes = _deletes(tmp_path, {"x": 1.5}, rows)
    with pytest.raises(TableUnreadable):
        deletes.vectors(["a.parquet"], [(1, (1.5,))], 0)


@pytest.mark.parametrize("name", ["long", "date", "timestamp", "decimal(4,2)", "double"])
def test_an_empty_bound_is_no_bound(name: str) -> None:
    columns = {1: (("x",), column_type(name)), 2: (("s",), column_type("string"))}
    bounds = {1: pa.array([b""]), 2: pa.array([b""])}
    metrics: Any = (bounds, bounds, {}, {1: pa.array([0])})
    statistics = json.loads(encode_statistics(1, pa.array([1]), columns, metrics)[0].as_py())
    assert statistics["minValues"] == statistics["maxValues"] == {"s": ""}


def test_positions_in_any_order_make_one_vector(tmp_path: Path) -> None:
    positions = [70_000, 3, 3, *range(200_000, 206_000)]
    rows = pa.table({"file_path": ["s3://b/t/a.parquet"] * len(positions), "pos": positions})
    (row,) = _deletes(tmp_path, {"x": 1.5}, rows).vectors(["a.parquet"], [(1, (1.5,))], 0)
    assert row is not None
    assert row["cardinality"] == len(set(positions))
    bitmap = decode_z85(row["pathOrInlineDv"])[: row["sizeInBytes"]]
    assert sorted(BitMap.deserialize(bitmap[16:])) == sorted(set(positions))
