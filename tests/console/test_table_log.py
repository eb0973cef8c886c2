"""Sizes over versions are those of each version's snapshot, for every golden table; so are those of partitions."""

from pathlib import Path

import golden.library
import pytest
from delta_tables.folder_store import FolderStore
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import TableUnreadable
from deltaic.sharing.page import live_rows
from deltaic_ops.console.table_log import Size, partitions, versions


def counted(snapshot: Snapshot) -> Size:
    size = Size()
    for batch in snapshot.files():
        for place in range(batch.num_rows):
            told = batch["stats"][place].is_valid
            size += Size(1, batch["size"][place].as_py(), live_rows(batch, place), int(not told))
    return size


@pytest.mark.parametrize("name", golden.library.names())
def test_versions_and_partitions_add_up(name: str, tmp_path: Path) -> None:
    golden.library.place(golden.library.load(name), tmp_path)
    store = FolderStore(tmp_path / "delta")
    log = DeltaLog(store)
    for most in (100, 2):
        told = versions(store, most)
        assert told[-1].number == log.latest_version()
        assert len(told) <= most
        for one in told:
            snapshot = log.snapshot(one.number)
            assert one.size == counted(snapshot), one.number
            assert round(one.at.timestamp() * 1000) == snapshot.timestamp
    latest = log.snapshot()
    assert sum(partitions(latest).values(), Size()) == counted(latest)
    assert all(len(values) == len(latest.metadata.partition_columns) for values in partitions(latest))


def test_a_folder_without_a_log_says_so(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(TableUnreadable, match="no Delta log"):
        versions(FolderStore(tmp_path))
