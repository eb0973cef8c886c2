"""Test that commits of a range are fetched once, and again if replaced."""

import os
import shutil
from pathlib import Path

from delta_tables.folder_store import FolderStore
from delta_tables.handmade import HandmadeLog, add, metadata, protocol
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.commit_cache import CommitCache
from deltaic.delta.commit_changes import FileChange
from deltaic.delta.log import DeltaLog

COMMITS = 100
TIME = 1_700_000_000


def write_log(root: Path, name: str = "f") -> HandmadeLog:
    """Write a log whose commits have the same lengths and times for every file name prefix."""
    log = HandmadeLog(root)
    log.commit(protocol(), metadata())
    for number in range(1, COMMITS):
        log.commit(add(f"{name}{number}"))
    for path in log.log.iterdir():
        os.utime(path, (TIME, TIME))
    return log


def paths(log: DeltaLog, start: int = 0, end: int = COMMITS - 1) -> list[str]:
    changes = [change for commit in log.commits(start, end) for change in commit.data()]
    return [change.path for change in changes if isinstance(change, FileChange)]


def expected_paths(name: str, start: int = 1) -> list[str]:
    return [f"{name}{number}" for number in range(start, COMMITS)]


def count_fetched(store: FolderStore) -> int:
    """Return the number of objects fetched since the last call, without listings."""
    calls = [call for call in store.calls if not call.startswith("list")]
    store.calls.clear()
    return len(calls)


def test_commits_are_fetched_once_for_all_requests(tmp_path: Path) -> None:
    log, cache, store = write_log(tmp_path), SnapshotCache(64 << 20), FolderStore(tmp_path)
    assert paths(DeltaLog(store, cache, "t")) == expected_paths("f")
    assert count_fetched(store) == COMMITS
    second_store = FolderStore(tmp_path)
    assert paths(DeltaLog(second_store, cache, "t")) == expected_paths("f")
    assert paths(DeltaLog(second_store, cache, "t"), 50) == expected_paths("f", 50)
    assert count_fetched(second_store) == 0
    log.commit(add("new"))
    assert paths(DeltaLog(second_store, cache, "t"), 50, COMMITS) == [*expected_paths("f", 50), "new"]
    assert count_fetched(second_store) == 1
    assert paths(DeltaLog(second_store, cache, "other"), 98) == expected_paths("f", 98)
    assert count_fetched(second_store) == 2, "the cache key contains the table"


def test_a_recreated_table_at_the_same_location_is_read_again(tmp_path: Path) -> None:
    """The new commits have the same number and lengths; only times differ, and on S3 ETags."""
    cache = SnapshotCache(64 << 20)
    write_log(tmp_path)
    assert paths(DeltaLog(FolderStore(tmp_path), cache, "t")) == expected_paths("f")
    shutil.rmtree(tmp_path / "_delta_log")
    log = write_log(tmp_path, "g")
    for path in log.log.iterdir():
        os.utime(path, (TIME + 1, TIME + 1))
    assert paths(DeltaLog(FolderStore(tmp_path), cache, "t")) == expected_paths("g")


def test_a_rewritten_commit_is_read_again(tmp_path: Path) -> None:
    cache = SnapshotCache(64 << 20)
    log = write_log(tmp_path)
    assert paths(DeltaLog(FolderStore(tmp_path), cache, "t")) == expected_paths("f")
    (log.log / f"{7:020d}.json").write_text((log.log / f"{8:020d}.json").read_text())
    store = FolderStore(tmp_path)
    assert paths(DeltaLog(store, cache, "t"), 7, 8) == ["f8", "f8"]
    assert count_fetched(store) == 1


def test_a_range_above_the_limit_is_not_partly_cached(tmp_path: Path) -> None:
    write_log(tmp_path)
    store = FolderStore(tmp_path)
    size = sum(path.stat().st_size for path in (tmp_path / "_delta_log").iterdir())
    cache = SnapshotCache(16 * size)
    for _ in range(2):
        paths(DeltaLog(store, cache, "t"))
        assert count_fetched(store) == COMMITS
    assert cache.commits._budget.nbytes == 0
    for _ in range(2):
        paths(DeltaLog(store, cache, "t"), 90)
    assert count_fetched(store) == 10


def test_the_memory_limit_is_not_exceeded(tmp_path: Path) -> None:
    write_log(tmp_path)
    cache, store = CommitCache(20_000), FolderStore(tmp_path)
    files = list(store.list_log())
    for start in range(0, COMMITS, 5):
        window = files[start : start + 5]
        contents = [(tmp_path / "_delta_log" / file.name).read_bytes() for file in window]
        assert cache.reader("t", store, window)(window) == contents
        assert 0 < cache._budget.nbytes <= 20_000


def test_at_once_limits_the_first_fetch(tmp_path: Path) -> None:
    write_log(tmp_path)
    store = FolderStore(tmp_path)
    call_counts = []
    for number, _ in enumerate(DeltaLog(store).commits(0, COMMITS - 1).read(1, 2), 1):
        store_calls = len([call for call in store.calls if not call.startswith("list")])
        call_counts.append((number, store_calls))
    assert call_counts[:7] == [(1, 2), (2, 2), (3, 6), (4, 6), (5, 6), (6, 6), (7, 14)]
    assert call_counts[-1] == (COMMITS - 1, COMMITS - 1)
