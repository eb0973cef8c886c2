"""Lines that a process keeps are the lines that it would make anew, whatever was asked before."""

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
from deltaic.sharing.lines.prepared_lines import Prepared
from deltaic.sharing.lines.rendering import FileStyle, render, render_kept
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
ASKED = st.lists(
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
    """Return a log for each format; the parquet format has no deletion vectors."""
    return {name: written(tmp_path_factory.mktemp("kept"), name) for name in FORMATS}


@pytest.fixture
def root(roots: dict[ResponseFormat, Path]) -> Path:
    return roots["delta"]


def written(folder: Path, response_format: ResponseFormat) -> Path:
    """Write a log whose versions share a checkpoint and differ in what later commits removed, marked and added."""
    hand = HandmadeLog(folder)
    hand.commit(protocol(3, 7, "deletionVectors"), metadata())
    hand.commit(*(add(f"p={'abc'[n % 3]}/f{n:03d}", n + 1, "abc"[n % 3]) for n in range(FILES)))
    hand.classic(1, row_group=16)
    for number in range(2, VERSIONS + 1):
        live = list(hand.state().files.values())
        gone, marked = live[number], live[number + 5]
        hand.commit(
            remove(gone["path"]),
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
    kept: LineCache | None,
) -> list[bytes]:
    wanted = parse_sql([hint]) if hint else None
    keeps = Skipper(wanted, snapshot.metadata) if wanted is not None else None
    known = kept.of(("t", response_format), snapshot) if kept is not None else None
    style = FileStyle(response_format, response_format)
    if known is not None and keeps is None and max_files is None:
        metrics, blocks = ResponseMetrics(), known.whole()
        if blocks is not None:
            found = list(render_kept(blocks, urls(), style, metrics))
        else:
            found = [chunk for batch in snapshot.scan() for chunk in render(batch, urls(), style, metrics, known)]
            known.keep_whole()
        assert (metrics.files or 0, metrics.bytes) == snapshot.totals()
        return b"".join(found).splitlines()
    page = Page(snapshot.scan(keeps, batch_rows=7), limit=None, max_files=max_files)
    return b"".join(
        chunk for batch in page for chunk in render(batch, urls(), style, ResponseMetrics(), known)
    ).splitlines()


def known_whole(kept: LineCache, snapshot: Snapshot, response_format: ResponseFormat) -> list[Prepared] | None:
    lines = kept.of(("t", response_format), snapshot)
    assert lines is not None
    return lines.whole()


@settings(deadline=None, max_examples=tries(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=ASKED, room=st.sampled_from([0, 60_000, 1 << 24]))
def test_kept_lines_are_those_made_anew(
    roots: dict[ResponseFormat, Path], asked: list[tuple[int, ResponseFormat, str | None, int | None]], room: int
) -> None:
    cache = SnapshotCache(1 << 24)
    logs = {name: DeltaLog(FolderStore(root), cache, f"t {name}") for name, root in roots.items()}
    plain = {name: DeltaLog(FolderStore(root)) for name, root in roots.items()}
    kept = LineCache(room)
    for version, response_format, hint, max_files in asked:
        found = lines(logs[response_format].snapshot(version), response_format, hint, max_files, kept=kept)
        fresh = plain[response_format].snapshot(version)
        assert found == lines(fresh, response_format, hint, max_files, kept=None)
        assert kept._room.nbytes <= room


@pytest.mark.parametrize("version", [1, VERSIONS - 1])
def test_a_version_that_was_answered_in_whole_is_known_without_its_log(root: Path, version: int) -> None:
    snapshot = DeltaLog(FolderStore(root)).snapshot(version)
    kept = LineCache(1 << 24)
    assert known_whole(kept, snapshot, "delta") is None
    found = lines(snapshot, "delta", None, None, kept=kept)
    blocks = known_whole(kept, snapshot, "delta")
    assert blocks is not None
    assert b"".join(render_kept(blocks, urls(), FileStyle("delta", "delta"), ResponseMetrics())).splitlines() == found
    assert known_whole(kept, snapshot, "parquet") is None


def test_blocks_that_another_version_made_anew_are_not_taken(roots: dict[ResponseFormat, Path]) -> None:
    kept = LineCache(1 << 24)
    older, newer = (DeltaLog(FolderStore(roots["parquet"])).snapshot(version) for version in (2, 1))
    for snapshot in (older, newer):
        lines(snapshot, "parquet", None, None, kept=kept)
    assert older.base == newer.base
    assert known_whole(kept, older, "parquet") is None
    assert known_whole(kept, newer, "parquet") is not None
