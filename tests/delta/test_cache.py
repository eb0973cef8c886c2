"""Test that cached snapshots return the same results, and that only new commits are read."""

import hashlib
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import HandmadeLog, add, expected_files, found_files, metadata, protocol, remove, vector
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.delta.store import LogFile

V = vector("ab^-aqEH.-t@S}K{vb[*k^")


def write_log(root: Path) -> HandmadeLog:
    log = HandmadeLog(root)
    log.commit(metadata(), protocol(3, 7, "deletionVectors"))
    log.commit(*[add(f"f{n}", n) for n in range(50)])
    log.classic(1, row_group=9)
    log.commit(remove("f3"), add("g", 3))
    return log


def test_only_new_commits_are_read(tmp_path: Path) -> None:
    log = write_log(tmp_path)
    store = FolderStore(tmp_path)
    cached = DeltaLog(store, SnapshotCache(8 << 20), "t")
    list(cached.snapshot().files())
    steps = [
        [remove("f4"), add("f3", 33)],
        [add("g", 3, vector=V), remove("g")],
        [remove("g", V), metadata({"changed": "yes"})],
        [add("%67", 8)],
    ]
    for actions in steps:
        version = log.commit(*actions)
        store.calls.clear()
        snapshot = cached.snapshot()
        assert found_files(snapshot.files()) == expected_files(log.state())
        assert snapshot.metadata.configuration == (log.state().metadata or {})["configuration"]
        # The listing starts at the cached version, so the hint is not read.
        assert store.calls[0].startswith("list ")
        assert store.calls[1:] == [f"get _delta_log/{version:020d}.json"]
        assert snapshot.totals() == DeltaLog(FolderStore(tmp_path)).snapshot().totals()


def test_versions_are_cached_separately(tmp_path: Path) -> None:
    log = write_log(tmp_path)
    cached = DeltaLog(FolderStore(tmp_path), SnapshotCache(8 << 20), "t")
    log.commit(add("h", 9))
    for version in (3, 2, 3, 1, 2):
        assert found_files(cached.snapshot(version).files()) == expected_files(log.state(version))


def test_a_recreated_table_is_read_again(tmp_path: Path) -> None:
    cached = DeltaLog(FolderStore(tmp_path), SnapshotCache(8 << 20), "t")
    write_log(tmp_path)
    list(cached.snapshot().files())
    shutil.rmtree(tmp_path / "_delta_log")
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    log.commit(*[add(f"f{n}", n + 1) for n in range(50)])
    log.classic(1, row_group=9)
    log.commit(add("other", 1))
    for path in log.log.iterdir():
        os.utime(path, (2_000_000_000, 2_000_000_000))
    assert found_files(cached.snapshot().files()) == expected_files(log.state())


def test_similar_tables_are_cached_separately(tmp_path: Path) -> None:
    cache = SnapshotCache(8 << 20)
    logs = []
    for name in ("one", "two"):
        log = HandmadeLog(tmp_path / name)
        log.commit(metadata(), protocol())
        log.commit(add(name, 5), add("x", 6))
        log.classic(1)
        for path in log.log.iterdir():
            os.utime(path, (2_000_000_000, 2_000_000_000))
        logs.append(log)
    for log in logs * 2:
        files = DeltaLog(FolderStore(log.root), cache, str(log.root)).snapshot().files()
        assert found_files(files) == expected_files(log.state())


def test_the_memory_limit_is_never_exceeded(tmp_path: Path) -> None:
    limit = 96 << 10
    cache = SnapshotCache(limit)
    for name in range(12):
        log = write_log(tmp_path / str(name))
        delta = DeltaLog(FolderStore(log.root), cache, str(name))
        for _ in range(2):
            assert found_files(delta.snapshot().files()) == expected_files(log.state())
            snapshots = sum(snapshot.nbytes for _, snapshot in cache._snapshots.items())
            assert snapshots + cache._row_groups._budget.nbytes + cache.commits._budget.nbytes <= limit


def reads_files(cache: SnapshotCache, log: HandmadeLog, store: FolderStore) -> bool:
    """Read a table to its end, and return whether that fetched any file of the log."""
    store.calls.clear()
    files = DeltaLog(store, cache, str(log.root)).snapshot().files()
    assert found_files(files) == expected_files(log.state())
    return any(not call.startswith("list ") for call in store.calls)


def write_large_log(root: Path) -> tuple[HandmadeLog, FolderStore, int]:
    """Write a log with a large checkpoint; return log, store and checkpoint size."""
    log = HandmadeLog(root)
    log.commit(metadata(), protocol())
    names = ["".join(hashlib.sha256(f"{n}.{part}".encode()).hexdigest() for part in range(16)) for n in range(5000)]
    log.commit(*[add(name, n) for n, name in enumerate(names)])
    log.classic(1, row_group=1250)
    return log, FolderStore(root), sum(path.stat().st_size for path in log.log.glob("*.parquet"))


@pytest.mark.slow
def test_rows_are_cached_at_the_second_read(tmp_path: Path) -> None:
    log, store, size = write_large_log(tmp_path)
    cache = SnapshotCache(16 * size)
    assert [reads_files(cache, log, store) for _ in range(4)] == [True, True, False, False]


def test_a_checkpoint_above_the_limit_is_not_partly_cached(tmp_path: Path) -> None:
    log, store, size = write_large_log(tmp_path)
    cache = SnapshotCache(2 * size)
    call_counts = []
    for _ in range(4):
        assert reads_files(cache, log, store)
        call_counts.append(len(store.calls))
    assert len(set(call_counts[1:])) == 1


@pytest.mark.slow
def test_a_single_read_evicts_nothing(tmp_path: Path) -> None:
    log, store, size = write_large_log(tmp_path / "often")
    cache = SnapshotCache(8 * size)
    for _ in range(2):
        reads_files(cache, log, store)
    for name in "abc":
        other_log, other_store, _ = write_large_log(tmp_path / name)
        assert reads_files(cache, other_log, other_store)
    assert not reads_files(cache, log, store)


def test_concurrent_requests_agree_while_commits_arrive(tmp_path: Path) -> None:
    log = write_log(tmp_path)
    cache = SnapshotCache(8 << 20)
    errors: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            snapshot = DeltaLog(FolderStore(tmp_path), cache, "t").snapshot()
            files = sum(batch.num_rows for batch in snapshot.files())
            # Version 2 has 50 files, and each later commit adds one.
            if files != 48 + snapshot.version or snapshot.totals().num_files != files:
                errors.append(f"version {snapshot.version}: {files} files, {snapshot.totals()}")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(20):
        # Commits appear atomically, as on object storage.
        path = log.log / f"{len(log.commits):020d}.json"
        log.commits.append([add(f"n{number}", 1)])
        draft = tmp_path / "draft"
        draft.write_bytes(b'{"add":{"path":"n%d","partitionValues":{"p":"a"},"size":1}}\n' % number)
        draft.rename(path)
        if number == 10:
            log.classic(len(log.commits) - 1)
    done.set()
    for reader in readers:
        reader.join()
    assert errors == []


class TaggingStore(FolderStore):
    """Store whose listing has ETags, like an object store."""

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        for file in super().list_log(start_after):
            content = (self.root / "_delta_log" / file.name).read_bytes()
            yield file._replace(etag=hashlib.sha256(content).hexdigest())


def test_a_log_rewritten_within_the_same_second_is_read_again(tmp_path: Path) -> None:
    second = 1_700_000_000_000
    cached = DeltaLog(TaggingStore(tmp_path), SnapshotCache(8 << 20), "t")
    for name in ("old", "new"):
        log = HandmadeLog(tmp_path)
        log.commit(metadata(), protocol(), modified=second)
        log.commit(add(name), modified=second)
        assert found_files(cached.snapshot().files()) == expected_files(log.state())


class WeighingStore(FolderStore):
    """Store that records how many bytes each call returned."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.returned_bytes: list[int] = []

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        contents = super().get_many(paths)
        self.returned_bytes.append(sum(map(len, contents)))
        return contents


def test_large_commits_are_not_in_memory_together(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    for version in range(5):
        log.commit(add(f"f{version}"), add("same", version), {"commitInfo": {"note": "x" * (6 << 20)}})
    store = WeighingStore(tmp_path)
    assert found_files(DeltaLog(store).snapshot().files()) == expected_files(log.state())
    assert len(store.returned_bytes) == 3
    assert max(store.returned_bytes) <= 16 << 20


def test_the_size_includes_the_earlier_tail(tmp_path: Path) -> None:
    log = write_log(tmp_path)
    log.commit(*[add(f"h{n}", n) for n in range(1000)])
    log.checksum(3)
    cached = DeltaLog(FolderStore(tmp_path), SnapshotCache(8 << 20), "t")
    list(cached.snapshot().files())
    log.commit(*[remove(f"h{n}") for n in range(1000)])
    log.checksum(4)
    snapshot = cached.snapshot()
    assert snapshot.nbytes > cached.snapshot(3).nbytes * 0.9
    list(snapshot.files())
