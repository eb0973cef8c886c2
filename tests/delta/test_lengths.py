"""Test that log files of an unexpected length raise an error and are not cached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import HandmadeLog, add, expected_files, found_files, metadata, protocol, remove
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.delta.scan.parquet_file import Cursor, ParquetFile
from deltaic.errors import TableUnreadable, Unavailable


@dataclass
class FaultyStore(FolderStore):
    """Store that answers 200 with a wrong body for paths that contain `faulty_path`, until that is None."""

    faulty_path: str | None = None
    body: Callable[[bytes], bytes] = bytes

    def get(self, path: str) -> bytes:
        return self._replace(path, super().get(path))

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        content = self._replace(path, self._read(path))
        return content[-length:], len(content)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._replace(path, piece) for piece in super().get_ranges(path, ranges)]

    def _replace(self, path: str, content: bytes) -> bytes:
        return self.body(content) if self.faulty_path is not None and self.faulty_path in path else content


def commits_only(log: HandmadeLog) -> None:
    """Leave the log as it is."""


def classic(log: HandmadeLog) -> None:
    log.classic(2)


def in_parts(log: HandmadeLog) -> None:
    log.multipart(2, 2)


def manifest_in_json(log: HandmadeLog) -> None:
    log.v2(2, "json", 2)


def manifest_in_parquet(log: HandmadeLog) -> None:
    log.v2(2, "parquet", 2)


def checksum(log: HandmadeLog) -> None:
    log.classic(2)
    log.checksum(4)


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "first_line": lambda content: content[: content.find(b"\n") + 1],
    "half": lambda content: content[: len(content) // 2],
    "another_line": lambda content: content + b'{"add":{"path":"foreign","partitionValues":{},"size":1}}\n',
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("kind", "faulty_path"),
    [
        pytest.param(commits_only, "00000000000000000003.json", id="commit"),
        pytest.param(commits_only, "00000000000000000000.json", id="first_commit"),
        pytest.param(classic, "checkpoint.parquet", id="classic"),
        pytest.param(in_parts, "0000000002.0000000002.parquet", id="part"),
        pytest.param(manifest_in_json, ".json", id="manifest"),
        pytest.param(manifest_in_json, "_sidecars/", id="sidecar"),
        pytest.param(manifest_in_parquet, "_sidecars/", id="sidecar_of_parquet"),
        pytest.param(checksum, ".crc", id="checksum"),
    ],
)
def test_a_file_of_another_length_is_a_transient_error_and_not_cached(
    tmp_path: Path, kind: Callable[[HandmadeLog], None], faulty_path: str, fault: str
) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(3, 7, "v2Checkpoint"))
    log.commit(add("f1", 1), add("f2", 2), add("f3", 3))
    log.commit(add("f4", 4))
    log.commit(remove("f1"), add("f5", 5))
    log.commit(add("f6", 6))
    kind(log)
    store = FaultyStore(tmp_path, faulty_path=faulty_path, body=FAULTS[fault])
    table = DeltaLog(store, SnapshotCache(8 << 20), "t")
    for _ in range(2):
        if fault == "empty" and kind in {classic, in_parts}:  # an empty checkpoint is ignored
            assert read_files(table)[0] == expected_files(log.state())
            continue
        with pytest.raises(Unavailable, match="try again"):
            read_files(table)
    store.faulty_path = None
    assert read_files(table) == (expected_files(log.state()), len(expected_files(log.state())))
    log.commit(add("f7", 7))
    assert read_files(table) == (expected_files(log.state()), len(expected_files(log.state())))


def read_files(table: DeltaLog) -> tuple[object, int]:
    snapshot = table.snapshot()
    return found_files(snapshot.files()), snapshot.totals().num_files


@pytest.mark.parametrize("fault", FAULTS)
def test_a_commit_of_another_length_fails_a_range(tmp_path: Path, fault: str) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    log.commit(add("f1", 1), add("f2", 2))
    store = FaultyStore(tmp_path, faulty_path="1.json", body=FAULTS[fault])
    with pytest.raises(Unavailable, match="length differs") as failure:
        list(DeltaLog(store).commits(0, 1))
    assert "_delta_log/00000000000000000001.json" in failure.value.detail


@pytest.mark.parametrize("fault", ["empty", "half"])
def test_a_commit_of_another_length_fails_a_lookup_by_time(tmp_path: Path, fault: str) -> None:
    log = HandmadeLog(tmp_path)
    configuration = {"delta.enableInCommitTimestamps": "true"}
    log.commit({"commitInfo": {"inCommitTimestamp": 1000}}, metadata(configuration), protocol(3, 7))
    log.commit({"commitInfo": {"inCommitTimestamp": 2000}}, add("f1", 1))
    store = FaultyStore(tmp_path)
    table = DeltaLog(store)
    assert table.history.version_at_or_before(2000) == 1
    second_log = DeltaLog(store)
    _ = second_log.history
    store.faulty_path, store.body = "1.json", FAULTS[fault]
    with pytest.raises(Unavailable):
        second_log.history.version_at_or_before(1500)


@pytest.fixture
def large(tmp_path: Path) -> tuple[FaultyStore, int]:
    """Write a Parquet file too large for a single request, and return its store and length."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"n": list(range(600_000))}), path, compression="none", use_dictionary=False)
    return FaultyStore(tmp_path), path.stat().st_size


def test_a_file_of_another_length_fails_before_its_footer_is_read(large: tuple[FaultyStore, int]) -> None:
    store, size = large
    store.faulty_path, store.body = "f.parquet", FAULTS["half"]
    with pytest.raises(Unavailable, match="try again"):
        ParquetFile(store, "f.parquet", size, 64 << 10)


def test_a_footer_with_ranges_beyond_the_end_is_corrupt(large: tuple[FaultyStore, int]) -> None:
    store, size = large
    file = ParquetFile(store, "f.parquet", size, 64 << 10)
    assert sum(batch.num_rows for batch in Cursor(file, file.fetch(file.ranges([0], [0]))).batches(0, [0])) == 600_000
    with pytest.raises(TableUnreadable, match=r"f\.parquet is corrupt"):
        file.fetch([(size - 8, size + 8)])
