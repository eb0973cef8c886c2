"""Cached lines equal new lines, whatever was requested before."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.pruning.skipper import Skipper
from deltaic.pruning.sql_hints import parse_sql
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.lines.line_cache import LineCache
from deltaic.sharing.lines.prepared_lines import PreparedLines
from deltaic.sharing.lines.rendering import FileStyle, render, render_prepared
from deltaic.sharing.page import Page
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.table_urls import TableUrls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import tries

FILES = 40
VERSIONS = 6
FORMATS: tuple[ResponseFormat, ...] = ("parquet", "delta")
REQUESTS = st.lists(
    st.tuples(
        st.integers(1, VERSIONS),
        st.sampled_from(FORMATS),
        st.sampled_from([None, "p = 'a'", "x >= 10 AND x < 20", "p <> 'c'"]),
        st.none() | st.integers(1, 30),
    ),
    min_size=2,
    max_size=6,
)


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[ResponseFormat, Path]:
    """Write a log for each format, without deletion vectors for parquet."""
    return {name: write_log(tmp_path_factory.mktemp("kept"), name) for name in FORMATS}


@pytest.fixture
def root(roots: dict[ResponseFormat, Path]) -> Path:
    return roots["delta"]


def write_log(folder: Path, response_format: ResponseFormat) -> Path:
    """Write a log whose versions share a checkpoint, with removed, marked and added files after it."""
    hand = HandmadeLog(folder)
    hand.commit(protocol(3, 7, "deletionVectors"), metadata())
    hand.commit(*(add(f"p={'abc'[n % 3]}/f{n:03d}", n + 1, "abc"[n % 3]) for n in range(FILES)))
    hand.classic(1, row_group=16)
    for number in range(2, VERSIONS + 1):
        live = list(hand.state().files.values())
        removed, marked = live[number], live[number + 5]
        hand.commit(
            remove(removed["path"]),
            remove(marked["path"]),
            {"add": marked | ({"deletionVector": vector(f"dv{number:018d}")} if response_format == "delta" else {})},
            add(f"p=a/new{number}", 100 + number),
        )
        if number == VERSIONS - 1:
            hand.multipart(number, 2)
    return folder


def urls() -> TableUrls:
    store = StorageConfig(endpoint="http://127.0.0.1:9000", path_style=True)
    keys, now = Credentials("AKIAEXAMPLE", "secret"), datetime(2026, 1, 2, tzinfo=UTC)
    return TableUrls(TableLocations.parse("s3://lake/t"), store, keys, ttl=timedelta(hours=1), now=now)


def lines(
    snapshot: Snapshot,
    response_format: ResponseFormat,
    hint: str | None,
    max_files: int | None,
    *,
    cache: LineCache | None,
) -> list[bytes]:
    predicate = parse_sql([hint]) if hint else None
    file_filter = Skipper(predicate, snapshot.metadata) if predicate is not None else None
    version_lines = cache.for_snapshot(("t", response_format), snapshot) if cache is not None else None
    style = FileStyle(response_format, response_format)
    if version_lines is not None and file_filter is None and max_files is None:
        metrics, blocks = ResponseMetrics(), version_lines.all_lines()
        if blocks is not None:
            chunks = list(render_prepared(blocks, urls(), style, metrics))
        else:
            chunks = [
                chunk for batch in snapshot.scan() for chunk in render(batch, urls(), style, metrics, version_lines)
            ]
            version_lines.mark_complete()
        assert (metrics.files or 0, metrics.bytes) == snapshot.totals()
        return b"".join(chunks).splitlines()
    page = Page(snapshot.scan(file_filter, batch_rows=7), limit=None, max_files=max_files)
    return b"".join(
        chunk for batch in page for chunk in render(batch, urls(), style, ResponseMetrics(), version_lines)
    ).splitlines()


def cached_lines(cache: LineCache, snapshot: Snapshot, response_format: ResponseFormat) -> list[PreparedLines] | None:
    lines = cache.for_snapshot(("t", response_format), snapshot)
    assert lines is not None
    return lines.all_lines()


@settings(deadline=None, max_examples=tries(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=REQUESTS, max_bytes=st.sampled_from([0, 60_000, 1 << 24]))
def test_cached_lines_equal_new_lines(
    roots: dict[ResponseFormat, Path],
    requests: list[tuple[int, ResponseFormat, str | None, int | None]],
    max_bytes: int,
) -> None:
    snapshot_cache = SnapshotCache(1 << 24)
    logs = {name: DeltaLog(FolderStore(root), snapshot_cache, f"t {name}") for name, root in roots.items()}
    logs_without_cache = {name: DeltaLog(FolderStore(root)) for name, root in roots.items()}
    cache = LineCache(max_bytes)
    for version, response_format, hint, max_files in requests:
        actual = lines(logs[response_format].snapshot(version), response_format, hint, max_files, cache=cache)
        snapshot = logs_without_cache[response_format].snapshot(version)
        assert actual == lines(snapshot, response_format, hint, max_files, cache=None)
        assert cache._room.nbytes <= max_bytes


@pytest.mark.parametrize("version", [1, VERSIONS - 1])
def test_completely_answered_version_is_cached(root: Path, version: int) -> None:
    snapshot = DeltaLog(FolderStore(root)).snapshot(version)
    cache = LineCache(1 << 24)
    assert cached_lines(cache, snapshot, "delta") is None
    expected = lines(snapshot, "delta", None, None, cache=cache)
    blocks = cached_lines(cache, snapshot, "delta")
    assert blocks is not None
    assert (
        b"".join(render_prepared(blocks, urls(), FileStyle("delta", "delta"), ResponseMetrics())).splitlines()
        == expected
    )
    assert cached_lines(cache, snapshot, "parquet") is None


def test_blocks_that_another_version_replaced_are_not_used(roots: dict[ResponseFormat, Path]) -> None:
    cache = LineCache(1 << 24)
    older, newer = (DeltaLog(FolderStore(roots["parquet"])).snapshot(version) for version in (2, 1))
    for snapshot in (older, newer):
        lines(snapshot, "parquet", None, None, cache=cache)
    assert older.base == newer.base
    assert cached_lines(cache, older, "parquet") is None
    assert cached_lines(cache, newer, "parquet") is not None
