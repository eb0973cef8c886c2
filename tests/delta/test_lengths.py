"""A file of the log that came cut, empty or too long answers nobody and is not kept: the next request reads it anew."""

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
class Faulty(FolderStore):
    """A store that answers 200 with the wrong body for names that contain `of`, until `of` is None."""

    of: str | None = None
    body: Callable[[bytes], bytes] = bytes

    def get(self, path: str) -> bytes:
        return self._played(path, super().get(path))

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        content = self._played(path, self._read(path))
        return content[-length:], len(content)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._played(path, piece) for piece in super().get_ranges(path, ranges)]

    def _played(self, path: str, content: bytes) -> bytes:
        return self.body(content) if self.of is not None and self.of in path else content


def commits_only(log: HandmadeLog) -> None:
    """Add nothing to the commits."""


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
    ("kind", "of"),
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
def test_a_file_of_another_length_is_a_passing_failure_and_never_kept(
    tmp_path: Path, kind: Callable[[HandmadeLog], None], of: str, fault: str
) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(3, 7, "v2Checkpoint"))
    log.commit(add("f1", 1), add("f2", 2), add("f3", 3))
    log.commit(add("f4", 4))
    log.commit(remove("f1"), add("f5", 5))
    log.commit(add("f6", 6))
    kind(log)
    store = Faulty(tmp_path, of=of, body=FAULTS[fault])
    table = DeltaLog(store, SnapshotCache(8 << 20), "t")
    for _ in range(2):
        if fault == "empty" and kind in {classic, in_parts}:  # read without the checkpoint, as if it were not there
            assert whole(table)[0] == expected_files(log.state())
            continue
        with pytest.raises(Unavailable, match="try again"):
            whole(table)
    store.of = None
    assert whole(table) == (expected_files(log.state()), len(expected_files(log.state())))
    log.commit(add("f7", 7))
    assert whole(table) == (expected_files(log.state()), len(expected_files(log.state())))


def whole(table: DeltaLog) -> tuple[object, int]:
    snapshot = table.snapshot()
    return found_files(snapshot.files()), snapshot.totals().num_files


@pytest.mark.parametrize("fault", FAULTS)
def test_a_commit_of_another_length_changes_no_range(tmp_path: Path, fault: str) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    log.commit(add("f1", 1), add("f2", 2))
    store = Faulty(tmp_path, of="1.json", body=FAULTS[fault])
    with pytest.raises(Unavailable, match="another length") as failure:
        list(DeltaLog(store).commits(0, 1))
    assert "_delta_log/00000000000000000001.json" in failure.value.detail


@pytest.mark.parametrize("fault", ["empty", "half"])
def test_a_commit_of_another_length_has_no_time(tmp_path: Path, fault: str) -> None:
    log = HandmadeLog(tmp_path)
    own = {"delta.enableInCommitTimestamps": "true"}
    log.commit({"commitInfo": {"inCommitTimestamp": 1000}}, metadata(own), protocol(3, 7))
    log.commit({"commitInfo": {"inCommitTimestamp": 2000}}, add("f1", 1))
    store = Faulty(tmp_path)
    table = DeltaLog(store)
    assert table.history.version_at_or_before(2000) == 1
    fresh = DeltaLog(store)
    _ = fresh.history
    store.of, store.body = "1.json", FAULTS[fault]
    with pytest.raises(Unavailable):
        fresh.history.version_at_or_before(1500)


@pytest.fixture
def large(tmp_path: Path) -> tuple[Faulty, int]:
    """A Parquet file that is not fetched whole, and its length."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"n": list(range(600_000))}), path, compression="none", use_dictionary=False)
    return Faulty(tmp_path), path.stat().st_size


def test_a_footer_of_a_file_of_another_length_is_not_read(large: tuple[Faulty, int]) -> None:
    store, size = large
    store.of, store.body = "f.parquet", FAULTS["half"]
    with pytest.raises(Unavailable, match="try again"):
        ParquetFile(store, "f.parquet", size, 64 << 10)


def test_a_footer_that_names_bytes_beyond_the_end_is_corrupt(large: tuple[Faulty, int]) -> None:
    store, size = large
    file = ParquetFile(store, "f.parquet", size, 64 << 10)
    assert sum(batch.num_rows for batch in Cursor(file, file.fetch(file.ranges([0], [0]))).batches(0, [0])) == 600_000
    with pytest.raises(TableUnreadable, match=r"f\.parquet is corrupt"):
        file.fetch([(size - 8, size + 8)])
