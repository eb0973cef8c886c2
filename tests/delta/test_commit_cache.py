"""Commits of a range are fetched once for all its pages, and again where another table lies at the same place."""

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


def written(root: Path, name: str = "f") -> HandmadeLog:
    """Write a log whose commits have the same lengths and times whatever the files are named."""
    log = HandmadeLog(root)
    log.commit(protocol(), metadata())
    for number in range(1, COMMITS):
        log.commit(add(f"{name}{number}"))
    for path in log.log.iterdir():
        os.utime(path, (TIME, TIME))
    return log


def paths(log: DeltaLog, start: int = 0, end: int = COMMITS - 1) -> list[str]:
    changes = [change for commit in log.commits(start, end) for change in commit.data()]
    return [change.action.path for change in changes if isinstance(change, FileChange)]


def named(name: str, start: int = 1) -> list[str]:
    return [f"{name}{number}" for number in range(start, COMMITS)]


def fetched(store: FolderStore) -> int:
    """Return how many objects were fetched since it was last asked; listings aside."""
    found = [call for call in store.calls if not call.startswith("list")]
    store.calls.clear()
    return len(found)


def test_commits_are_fetched_once_for_all_requests(tmp_path: Path) -> None:
    log, cache, store = written(tmp_path), SnapshotCache(64 << 20), FolderStore(tmp_path)
    assert paths(DeltaLog(store, cache, "t")) == named("f")
    assert fetched(store) == COMMITS
    again = FolderStore(tmp_path)
    assert paths(DeltaLog(again, cache, "t")) == named("f")
    assert paths(DeltaLog(again, cache, "t"), 50) == named("f", 50)
    assert fetched(again) == 0
    log.commit(add("new"))
    assert paths(DeltaLog(again, cache, "t"), 50, COMMITS) == [*named("f", 50), "new"]
    assert fetched(again) == 1
    assert paths(DeltaLog(again, cache, "other"), 98) == named("f", 98)
    assert fetched(again) == 2, "another table, as far as names tell"


def test_a_table_made_anew_at_the_same_place_is_read_anew(tmp_path: Path) -> None:
    """As many commits, of the same lengths: only their times tell them apart here, and on S3 their ETags too."""
    cache = SnapshotCache(64 << 20)
    written(tmp_path)
    assert paths(DeltaLog(FolderStore(tmp_path), cache, "t")) == named("f")
    shutil.rmtree(tmp_path / "_delta_log")
    log = written(tmp_path, "g")
    for path in log.log.iterdir():
        os.utime(path, (TIME + 1, TIME + 1))
    assert paths(DeltaLog(FolderStore(tmp_path), cache, "t")) == named("g")


def test_one_commit_written_anew_is_read_anew(tmp_path: Path) -> None:
    cache = SnapshotCache(64 << 20)
    log = written(tmp_path)
    assert paths(DeltaLog(FolderStore(tmp_path), cache, "t")) == named("f")
    (log.log / f"{7:020d}.json").write_text((log.log / f"{8:020d}.json").read_text())
    store = FolderStore(tmp_path)
    assert paths(DeltaLog(store, cache, "t"), 7, 8) == ["f8", "f8"]
    assert fetched(store) == 1


def test_a_range_that_does_not_fit_is_not_kept_in_part(tmp_path: Path) -> None:
    written(tmp_path)
    store = FolderStore(tmp_path)
    size = sum(path.stat().st_size for path in (tmp_path / "_delta_log").iterdir())
    cache = SnapshotCache(16 * size)
    for _ in range(2):
        paths(DeltaLog(store, cache, "t"))
        assert fetched(store) == COMMITS
    assert cache.commits._room.nbytes == 0
    for _ in range(2):
        paths(DeltaLog(store, cache, "t"), 90)
    assert fetched(store) == 10


def test_it_keeps_no_more_bytes_than_it_may(tmp_path: Path) -> None:
    written(tmp_path)
    cache, store = CommitCache(20_000), FolderStore(tmp_path)
    files = list(store.list_log())
    for at in range(0, COMMITS, 5):
        few = files[at : at + 5]
        contents = [(tmp_path / "_delta_log" / file.name).read_bytes() for file in few]
        assert cache.reader("t", store, few)(few) == contents
        assert 0 < cache._room.nbytes <= 20_000


def test_whoever_may_need_few_commits_fetches_few(tmp_path: Path) -> None:
    written(tmp_path)
    store = FolderStore(tmp_path)
    seen = []
    for number, _ in enumerate(DeltaLog(store).commits(0, COMMITS - 1).read(1, 2), 1):
        store_calls = len([call for call in store.calls if not call.startswith("list")])
        seen.append((number, store_calls))
    assert seen[:7] == [(1, 2), (2, 2), (3, 6), (4, 6), (5, 6), (6, 6), (7, 14)]
    assert seen[-1] == (COMMITS - 1, COMMITS - 1)
