"""A kept snapshot never changes an answer, and a new commit costs a new commit."""

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


def grown(root: Path) -> HandmadeLog:
    log = HandmadeLog(root)
    log.commit(metadata(), protocol(3, 7, "deletionVectors"))
    log.commit(*[add(f"f{n}", n) for n in range(50)])
    log.classic(1, row_group=9)
    log.commit(remove("f3"), add("g", 3))
    return log


def test_new_commits_are_read_and_nothing_else(tmp_path: Path) -> None:
    log = grown(tmp_path)
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
        # The kept version tells where a listing may begin, so the hint is not asked for.
        assert store.calls[0].startswith("list ")
        assert store.calls[1:] == [f"get _delta_log/{version:020d}.json"]
        assert snapshot.totals() == DeltaLog(FolderStore(tmp_path)).snapshot().totals()


def test_older_versions_are_kept_apart(tmp_path: Path) -> None:
    log = grown(tmp_path)
    cached = DeltaLog(FolderStore(tmp_path), SnapshotCache(8 << 20), "t")
    log.commit(add("h", 9))
    for version in (3, 2, 3, 1, 2):
        assert found_files(cached.snapshot(version).files()) == expected_files(log.state(version))


def test_a_table_made_anew_is_read_anew(tmp_path: Path) -> None:
    cached = DeltaLog(FolderStore(tmp_path), SnapshotCache(8 << 20), "t")
    grown(tmp_path)
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


def test_tables_that_look_alike_are_kept_apart(tmp_path: Path) -> None:
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
        found = DeltaLog(FolderStore(log.root), cache, str(log.root)).snapshot().files()
        assert found_files(found) == expected_files(log.state())


def test_the_room_is_never_exceeded(tmp_path: Path) -> None:
    room = 96 << 10
    cache = SnapshotCache(room)
    for name in range(12):
        log = grown(tmp_path / str(name))
        delta = DeltaLog(FolderStore(log.root), cache, str(name))
        for _ in range(2):
            assert found_files(delta.snapshot().files()) == expected_files(log.state())
            snapshots = sum(snapshot.nbytes for _, snapshot in cache._snapshots.items())
            assert snapshots + cache._row_groups._room.nbytes + cache.commits._room.nbytes <= room


def decoded(cache: SnapshotCache, log: HandmadeLog, store: FolderStore) -> bool:
    """Read a table to its end, and tell whether anything was decoded for it: whatever was not kept is fetched."""
    store.calls.clear()
    found = DeltaLog(store, cache, str(log.root)).snapshot().files()
    assert found_files(found) == expected_files(log.state())
    return any(not call.startswith("list ") for call in store.calls)


def large(root: Path) -> tuple[HandmadeLog, FolderStore, int]:
    """Return a log of a checkpoint that is not fetched whole with its footer, its store, and the checkpoint's size."""
    log = HandmadeLog(root)
    log.commit(metadata(), protocol())
    names = ["".join(hashlib.sha256(f"{n}.{part}".encode()).hexdigest() for part in range(16)) for n in range(5000)]
    log.commit(*[add(name, n) for n, name in enumerate(names)])
    log.classic(1, row_group=1250)
    return log, FolderStore(root), sum(path.stat().st_size for path in log.log.glob("*.parquet"))


@pytest.mark.slow
def test_rows_are_kept_when_they_are_read_a_second_time(tmp_path: Path) -> None:
    log, store, size = large(tmp_path)
    cache = SnapshotCache(16 * size)
    assert [decoded(cache, log, store) for _ in range(4)] == [True, True, False, False]


def test_a_checkpoint_that_does_not_fit_is_not_kept_in_part(tmp_path: Path) -> None:
    log, store, size = large(tmp_path)
    cache = SnapshotCache(2 * size)
    asked = []
    for _ in range(4):
        assert decoded(cache, log, store)
        asked.append(len(store.calls))
    assert len(set(asked[1:])) == 1


@pytest.mark.slow
def test_a_table_that_is_read_once_pushes_nothing_out(tmp_path: Path) -> None:
    log, store, size = large(tmp_path / "often")
    cache = SnapshotCache(8 * size)
    for _ in range(2):
        decoded(cache, log, store)
    for name in "abc":
        other, others, _ = large(tmp_path / name)
        assert decoded(cache, other, others)
    assert not decoded(cache, log, store)


def test_concurrent_requests_agree_while_commits_arrive(tmp_path: Path) -> None:
    log = grown(tmp_path)
    cache = SnapshotCache(8 << 20)
    wrong: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            snapshot = DeltaLog(FolderStore(tmp_path), cache, "t").snapshot()
            found = sum(batch.num_rows for batch in snapshot.files())
            # One file came with every commit after version 2, which has 50 files.
            if found != 48 + snapshot.version or snapshot.totals().num_files != found:
                wrong.append(f"version {snapshot.version}: {found} files, {snapshot.totals()}")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(20):
        # Commits appear whole, as on object storage.
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
    assert wrong == []


class Tagging(FolderStore):
    """A store that tells contents apart in its listing, as object stores do."""

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        for file in super().list_log(start_after):
            content = (self.root / "_delta_log" / file.name).read_bytes()
            yield file._replace(etag=hashlib.sha256(content).hexdigest())


def test_a_log_rewritten_within_its_second_is_read_anew(tmp_path: Path) -> None:
    second = 1_700_000_000_000
    cached = DeltaLog(Tagging(tmp_path), SnapshotCache(8 << 20), "t")
    for name in ("old", "new"):
        log = HandmadeLog(tmp_path)
        log.commit(metadata(), protocol(), modified=second)
        log.commit(add(name), modified=second)
        assert found_files(cached.snapshot().files()) == expected_files(log.state())


class Weighing(FolderStore):
    """A store that remembers how many bytes each call handed over."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.handed: list[int] = []

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        contents = super().get_many(paths)
        self.handed.append(sum(map(len, contents)))
        return contents


def test_large_commits_are_not_in_memory_together(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    for version in range(5):
        log.commit(add(f"f{version}"), add("same", version), {"commitInfo": {"note": "x" * (6 << 20)}})
    store = Weighing(tmp_path)
    assert found_files(DeltaLog(store).snapshot().files()) == expected_files(log.state())
    assert len(store.handed) == 3
    assert max(store.handed) <= 16 << 20


def test_what_a_snapshot_is_to_start_from_counts(tmp_path: Path) -> None:
    log = grown(tmp_path)
    log.commit(*[add(f"h{n}", n) for n in range(1000)])
    log.checksum(3)
    cached = DeltaLog(FolderStore(tmp_path), SnapshotCache(8 << 20), "t")
    list(cached.snapshot().files())
    log.commit(*[remove(f"h{n}") for n in range(1000)])
    log.checksum(4)
    started = cached.snapshot()
    assert started.nbytes > cached.snapshot(3).nbytes * 0.9
    list(started.files())
