"""Test the number of requests that each operation sends to the store."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import (
    METADATA,
    PROTOCOL,
    REMOVE,
    STRING_MAP,
    VECTOR,
    HandmadeLog,
    add,
    metadata,
    protocol,
    remove,
)
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.delta.scan.file_batches import FileBatch, Position

FILES = 100_000


def write_large_checkpoint(log: HandmadeLog, version: int) -> None:
    """Write a checkpoint like Spark, with one row group that consists mostly of statistics."""
    numbers = range(FILES)
    stats = [
        f'{{"numRecords":1,"minValues":{{"x":{n}}},"maxValues":{{"x":{n * 7919}}},"nullCount":{{"x":0}}}}'
        for n in numbers
    ]
    adds = pa.StructArray.from_arrays(
        [
            pa.array(
                [f"p=a/part-{n:05d}-{n * 2654435761 % 2**32:08x}-{n * 40503 % 2**16:04x}.c000.parquet" for n in numbers]
            ),
            pa.array([[("p", "a")]] * FILES, STRING_MAP),
            pa.array(numbers, pa.int64()),
            pa.array(numbers, pa.int64()),
            pa.array([False] * FILES),
            pa.array(stats),
            pa.nulls(FILES, STRING_MAP),
            pa.nulls(FILES, VECTOR),
        ],
        ["path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector"],
    )
    head = [metadata()["metaData"] | {"configuration": [], "format": {"provider": "parquet", "options": []}}]
    extra = pa.table(
        {
            "add": pa.nulls(2, adds.type),
            "remove": pa.nulls(2, REMOVE),
            "metaData": pa.array([*head, None], METADATA),
            "protocol": pa.array([None, protocol()["protocol"]], PROTOCOL),
        }
    )
    files = pa.table(
        {
            "add": adds,
            "remove": pa.nulls(FILES, REMOVE),
            "metaData": pa.nulls(FILES, METADATA),
            "protocol": pa.nulls(FILES, PROTOCOL),
        }
    )
    path = log.log / f"{version:020d}.checkpoint.parquet"
    pq.write_table(pa.concat_tables([files, extra]), path, row_group_size=10**9, compression="snappy")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table of 100,000 files in one checkpoint, and ten commits after it."""
    log = HandmadeLog(tmp_path_factory.mktemp("large"))
    log.commit(metadata(), protocol())
    write_large_checkpoint(log, 0)
    for version in range(1, 11):
        log.commit(add(f"new{version}", version), remove(f"p=a/part-{version:05d}-gone.parquet"))
    log.hint(0)
    return log.root


def test_a_query_of_a_large_table_needs_at_most_15_requests(large: Path) -> None:
    store = FolderStore(large)
    snapshot = DeltaLog(store).snapshot()
    assert sum(batch.num_rows for batch in snapshot.files()) == FILES + 10
    assert len(store.calls) <= 15


def test_a_version_needs_2_requests(large: Path) -> None:
    store = FolderStore(large)
    assert DeltaLog(store).latest_version() == 10
    assert len(store.calls) == 2


def test_metadata_and_totals_with_a_checksum_need_3_requests(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    for version in range(1, 12):
        log.commit(add(f"f{version}", version))
    log.classic(3)
    log.hint(3)
    log.checksum(11)
    store = FolderStore(tmp_path)
    snapshot = DeltaLog(store).snapshot()
    assert (snapshot.metadata.partition_columns, snapshot.protocol.min_reader_version) == (["p"], 1)
    assert snapshot.totals() == (11, 66)
    assert len(store.calls) == 3


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"numMetadata": 2}, id="two_metadata"),
        pytest.param({"numProtocol": 0}, id="no_protocol"),
        pytest.param({"numFiles": -1}, id="negative"),
        pytest.param({"numFiles": "many"}, id="no_number"),
        pytest.param({"metadata": None}, id="null_metadata"),
        pytest.param({"protocol": {"minReaderVersion": "three"}}, id="broken_protocol"),
    ],
)
def test_an_invalid_checksum_is_ignored(tmp_path: Path, fields: dict[str, object]) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    log.commit(add("f", 3))
    log.checksum(1, **fields)
    snapshot = DeltaLog(FolderStore(tmp_path)).snapshot()
    assert snapshot.totals() == (1, 3)
    assert json.loads(snapshot.protocol.raw) == protocol()["protocol"]


def test_a_third_query_needs_only_the_listing(large: Path) -> None:
    store = FolderStore(large)
    log = DeltaLog(store, SnapshotCache(256 << 20), "t")
    cold = [path for batch in log.snapshot().files() for path in batch["path"].to_pylist()]
    second_read = [path for batch in log.snapshot().files() for path in batch["path"].to_pylist()]
    assert second_read == cold
    store.calls.clear()
    warm = [path for batch in log.snapshot().files() for path in batch["path"].to_pylist()]
    assert warm == cold
    assert [call.split()[0] for call in store.calls] == ["list"]


def test_a_later_page_starts_at_its_row(large: Path) -> None:
    store = FolderStore(large)
    snapshot = DeltaLog(store).snapshot()
    batches = snapshot.scan()
    for _ in range(10):
        batch = next(batches)
    position = batch.position(100)
    second_read = next(DeltaLog(store).snapshot(10, at=position).scan(start=position))
    assert second_read.files["path"][0] == batch.files["path"][100]


def paths(batches: Iterable[FileBatch]) -> list[str]:
    return [path for batch in batches for path in batch.files["path"].to_pylist()]


@pytest.mark.parametrize("times", [1, 2], ids=["first_reading", "second_reading"])
def test_a_continued_scan_yields_all_files(large: Path, times: int) -> None:
    snapshot = DeltaLog(FolderStore(large), SnapshotCache(256 << 20), "t").snapshot()
    begin = Position(snapshot.base, 1, 0, 0)
    for _ in range(times):
        page = snapshot.scan(start=begin)
        first = paths(islice(page, 3))
        page.close()
        rest = paths(snapshot.scan(start=begin._replace(row=len(first))))
        assert len(first) + len(rest) == FILES
    assert paths(snapshot.scan(start=begin)) == first + rest


def test_a_page_continues_after_the_last_one(large: Path) -> None:
    def pages(log: DeltaLog, *starts: int) -> Iterator[list[str]]:
        for start in starts:
            position = Position(log.snapshot().base, 1, 0, start)
            batches = log.snapshot(10, at=position).scan(start=position)
            yield paths(islice(batches, 3))
            batches.close()

    store = FolderStore(large)
    # The limit is too low for the decoded checkpoint, but sufficient for the fetched bytes of a page.
    log = DeltaLog(store, SnapshotCache(2 * sum(file.stat().st_size for file in large.glob("*/*.parquet"))), "t")
    uncached_log = DeltaLog(FolderStore(large))
    assert list(pages(log, 0)) == list(pages(uncached_log, 0))
    store.calls.clear()
    assert list(pages(log, 9000, 20_000, 60_000)) == list(pages(uncached_log, 9000, 20_000, 60_000))
    assert {call.split()[0] for call in store.calls} == {"list"}
    assert list(pages(log, 5, 99_990)) == list(pages(uncached_log, 5, 99_990))
