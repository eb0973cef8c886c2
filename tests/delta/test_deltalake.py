"""Test that deltaic and deltalake read the same tables at every version."""

import json
import urllib.parse
from pathlib import Path

import pyarrow as pa
import pytest
from delta_tables.folder_store import FolderStore
from deltaic.delta.log import DeltaLog
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake

PARTITIONS = ["plain", "x y", "per%cent", "a+b", "c=d", 'q"uote', "ünïcode/slash", "", None, "10:20", "\u2028"]


def write_history(root: Path) -> DeltaTable:
    """Write appends, deletes, an overwrite, an optimize and a schema change, with special partition values."""
    path = str(root)
    for number in range(3):
        rows = {"p": PARTITIONS, "x": list(range(number, number + len(PARTITIONS)))}
        write_deltalake(path, pa.table(rows), partition_by=["p"], mode="append")
    table = DeltaTable(path)
    table.delete("x = 4")
    table.delete("p = 'x y'")
    table.optimize.compact()
    wider = pa.table({"p": ["plain"], "x": [7], "y": [1.5]})
    write_deltalake(path, wider, mode="append", schema_mode="merge")
    write_deltalake(path, wider, mode="overwrite", predicate="p = 'plain'", commit_properties=CommitProperties({}))
    return DeltaTable(path)


def deltalake_files(root: Path, version: int) -> list[tuple[str, int]]:
    actions = pa.table(DeltaTable(str(root), version).get_add_actions())
    return sorted(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))


def log_files(root: Path, version: int) -> list[tuple[str, int]]:
    batches = DeltaLog(FolderStore(root)).snapshot(version).files()
    return sorted((row["path"], row["size"]) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("checkpoint", [None, 2, 5, "last"], ids=["commits_only", "early", "middle", "last"])
def test_files_agree_at_every_version(tmp_path: Path, checkpoint: int | str | None) -> None:
    table = write_history(tmp_path)
    latest = table.version()
    if checkpoint is not None:
        DeltaTable(str(tmp_path), latest if checkpoint == "last" else int(checkpoint)).create_checkpoint()
    assert DeltaLog(FolderStore(tmp_path)).latest_version() == latest
    for version in range(latest + 1):
        assert log_files(tmp_path, version) == deltalake_files(tmp_path, version)


def test_paths_decode_to_existing_files(tmp_path: Path) -> None:
    latest = write_history(tmp_path).version()
    for path, size in log_files(tmp_path, latest):
        assert (tmp_path / urllib.parse.unquote(path)).stat().st_size == size


def test_metadata_agrees(tmp_path: Path) -> None:
    table = write_history(tmp_path)
    table.create_checkpoint()
    snapshot = DeltaLog(FolderStore(tmp_path)).snapshot()
    expected = table.metadata()
    assert (snapshot.metadata.id, snapshot.metadata.name) == (str(expected.id), expected.name)
    assert snapshot.metadata.partition_columns == expected.partition_columns
    assert snapshot.metadata.configuration == expected.configuration
    assert json.loads(snapshot.metadata.raw)["createdTime"] == expected.created_time
    assert Schema.from_json(snapshot.metadata.schema_string) == table.schema()
    assert snapshot.protocol.min_reader_version == table.protocol().min_reader_version


def test_partition_values_equal_the_written_ones(tmp_path: Path) -> None:
    rows = pa.table({"p": PARTITIONS, "x": list(range(len(PARTITIONS)))})
    write_deltalake(str(tmp_path), rows, partition_by=["p"])
    DeltaTable(str(tmp_path)).create_checkpoint()
    snapshot = DeltaLog(FolderStore(tmp_path)).snapshot()
    values = {dict(row["partitionValues"])["p"] for batch in snapshot.files() for row in batch.to_pylist()}
    # Delta protocol, "Partition Value Serialization": an empty string is a null.
    assert {value or None for value in values} == {value or None for value in PARTITIONS}
