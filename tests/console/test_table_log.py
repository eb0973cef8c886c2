"""Test that sizes of versions and partitions agree with the snapshots of each golden table."""

from pathlib import Path

import golden.library
import pytest
from delta_tables.folder_store import FolderStore
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import TableUnreadable
from deltaic.sharing.page import live_rows
from deltaic_ops.console.table_log import Size, partitions, versions


def size_of(snapshot: Snapshot) -> Size:
    size = Size()
    for batch in snapshot.files():
        for row in range(batch.num_rows):
            has_statistics = batch["stats"][row].is_valid
            size += Size(1, batch["size"][row].as_py(), live_rows(batch, row), int(not has_statistics))
    return size


@pytest.mark.parametrize("name", golden.library.names())
def test_versions_and_partitions_add_up(name: str, tmp_path: Path) -> None:
    golden.library.place(golden.library.load(name), tmp_path)
    store = FolderStore(tmp_path / "delta")
    log = DeltaLog(store)
    for limit in (100, 2):
        result = versions(store, limit)
        assert result[-1].number == log.latest_version()
        assert len(result) <= limit
        for version in result:
            snapshot = log.snapshot(version.number)
            assert version.size == size_of(snapshot), version.number
            assert round(version.committed_at.timestamp() * 1000) == snapshot.timestamp
    latest = log.snapshot()
    assert sum(partitions(latest).values(), Size()) == size_of(latest)
    assert all(len(values) == len(latest.metadata.partition_columns) for values in partitions(latest))


def test_folder_without_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(TableUnreadable, match="no Delta log"):
        versions(FolderStore(tmp_path))
