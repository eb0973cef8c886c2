"""The pages of a snapshot join to its complete answer, with any sizes and with new commits in between."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log import DeltaLog
from deltaic.delta.scan.file_batches import FILE_SCHEMA
from deltaic.protocol.continuations import ResumePoint
from deltaic.pruning.skipper import Skipper
from deltaic.pruning.sql_hints import parse_sql
from deltaic.sharing.page import Page, live_rows, start_of
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries

HINTS: tuple[str | None, ...] = (None, "p = 'a'", "x >= 5", "p <> 'b' AND x < 12", "x > 1000")
SIZE = st.integers(1, 7)


def write_table(root: Path, plan: "Plan") -> HandmadeLog:
    log = HandmadeLog(root)
    log.commit(protocol(3, 7, "deletionVectors"), metadata())
    for number, (files, removed) in enumerate(plan["commits"], start=1):
        live = [action for action in log.state().files.values() if "deletionVector" not in action]
        actions: list[Action] = [
            add(f"p={'abc'[size % 3]}/f{number}-{at}.parquet", size, "abc"[size % 3]) for at, size in enumerate(files)
        ]
        if removed and live:
            file = live[0]
            actions += [remove(file["path"]), {"add": file | {"deletionVector": vector(f"dv{number:018d}", 1)}}]
        log.commit(*actions)
        if plan["checkpoint"] == number:
            log.classic(number, row_group=plan["row_group"])
    return log


Plan = dict[str, Any]
PLANS = st.fixed_dictionaries(
    {
        "commits": st.lists(st.tuples(st.lists(st.integers(1, 20), max_size=6), st.booleans()), min_size=1, max_size=5),
        "checkpoint": st.integers(0, 5),
        "row_group": st.integers(1, 4),
    }
)


def file_filter_for(hint: str | None, log: DeltaLog, version: int) -> FileFilter | None:
    if hint is None:
        return None
    predicate = parse_sql([hint])
    assert predicate is not None
    return Skipper(predicate, log.snapshot(version).metadata)


def paths(page: Page) -> list[tuple[str, bool]]:
    """Return the files of a page as (path, whether it has a deletion vector)."""
    rows = [row for batch in page for row in batch.files.select(["path", "deletionVector"]).to_pylist()]
    return [(row["path"], row["deletionVector"] is not None) for row in rows]


def unpaged(log: DeltaLog, version: int, hint: str | None, limit: int | None) -> Page:
    return Page(log.snapshot(version).scan(file_filter_for(hint, log, version)), limit=limit, max_files=None)


def read_pages(
    log: DeltaLog, hint: str | None, limit: int | None, sizes: Sequence[int], *, between: Callable[[], None]
) -> list[list[tuple[str, bool]]]:
    """Return all pages, with these sizes in turn, each from a new snapshot; call `between` after each."""
    version = log.latest_version()
    pages: list[list[tuple[str, bool]]] = []
    position: ResumePoint | None = None
    while position is not None or not pages:
        start, rows_before = start_of(position)
        snapshot = log.snapshot(version, at=start)
        size = sizes[len(pages) % len(sizes)]
        # The result must not depend on the size of batches.
        scan = snapshot.scan(file_filter_for(hint, log, version), batch_rows=1 + len(pages) % 3, start=start)
        page = Page(scan, limit=limit, max_files=size, rows_before=rows_before)
        files = paths(page)
        assert len(files) == page.files <= size
        # Page tokens contain JSON.
        position = None if page.next is None else tuple(json.loads(json.dumps(page.next)))
        assert position is None or page.files == size
        pages.append(files)
        between()
    return pages


@pytest.mark.parametrize(("limit", "files"), [(1, ["c"]), (6, ["c"]), (7, ["c", "d"]), (100, ["c", "d"])])
def test_limit_counts_only_files_that_match_the_hints(tmp_path: Path, limit: int, files: list[str]) -> None:
    """Decision 181: the hint excludes the first two files, of five rows each."""
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata())
    log.commit(add("a", 5), add("b", 5), add("c", 6), add("d", 6))
    page = unpaged(DeltaLog(FolderStore(tmp_path)), 1, "x >= 16", limit)
    assert [path for path, _ in paths(page)] == files


@settings(deadline=None, max_examples=tries(40))
@given(
    plan=PLANS,
    hint=st.sampled_from(HINTS),
    limit=st.none() | st.integers(0, 60),
    sizes=st.lists(SIZE, min_size=1, max_size=3),
    grows=st.booleans(),
)
def test_pages_join_to_the_complete_answer(
    plan: Plan, hint: str | None, limit: int | None, sizes: list[int], *, grows: bool
) -> None:
    """Writers may add commits and checkpoints between two pages."""
    with tempfile.TemporaryDirectory() as folder:
        hand = write_table(Path(folder), plan)
        log = DeltaLog(FolderStore(Path(folder)))
        version = log.latest_version()
        expected = paths(unpaged(log, version, hint, limit))

        def write_commit() -> None:
            if grows:
                newest = hand.commit(add(f"p=a/new-{len(hand.commits)}.parquet", 3))
                hand.classic(newest)
                hand.hint(newest)

        pages = read_pages(log, hint, limit, sizes, between=write_commit)
        assert [file for page in pages for file in page] == expected
        assert paths(unpaged(log, version, hint, limit)) == expected


@settings(deadline=None, max_examples=tries(30))
@given(plan=PLANS, limit=st.integers(0, 60), hint=st.sampled_from(HINTS))
def test_a_limit_is_reached_by_the_last_file_and_not_before(plan: Plan, limit: int, hint: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        hand = write_table(Path(folder), plan)
        log = DeltaLog(FolderStore(Path(folder)))
        version = log.latest_version()
        rows: list[int] = []
        for action in hand.state().files.values():
            deleted = action.get("deletionVector", {"cardinality": 0})["cardinality"]
            rows.append(json.loads(action["stats"])["numRecords"] - deleted)
        counts = [
            live_rows(batch.files, row)
            for batch in unpaged(log, version, hint, limit)
            for row in range(batch.files.num_rows)
        ]
        if hint is None:
            assert sum(counts) >= min(limit, sum(rows))
        assert not counts or sum(counts[:-1]) < limit
        assert paths(unpaged(log, version, hint, None))[: len(counts)] == paths(unpaged(log, version, hint, limit))


@settings(deadline=None, max_examples=tries(30))
@given(
    plan=PLANS, limit=st.integers(0, 30), partitions=st.sets(st.sampled_from("abc"), min_size=1), size=st.none() | SIZE
)
def test_limit_by_partition_has_enough_rows_in_any_partitions(
    plan: Plan, limit: int, partitions: set[str], size: int | None
) -> None:
    """A client that drops complete partitions after the limit still gets its rows, on one page or on many."""
    with tempfile.TemporaryDirectory() as folder:
        hand = write_table(Path(folder), plan)
        log = DeltaLog(FolderStore(Path(folder)))
        rows: dict[str, int] = {}
        for action in hand.state().files.values():
            deleted = action.get("deletionVector", {"cardinality": 0})["cardinality"]
            rows[action["path"]] = json.loads(action["stats"])["numRecords"] - deleted
        everything = paths(unpaged(log, log.latest_version(), None, None))
        files: list[tuple[str, bool]] = []
        position: ResumePoint | None = None
        while position is not None or not files:
            start, rows_before = start_of(position)
            assert rows_before == 0
            scan = log.snapshot(at=start).scan(None, batch_rows=3, start=start)
            page = Page(scan, limit=limit, max_files=size, by_partition=True)
            files += paths(page)
            position = page.next
            if position is None:
                break
        assert files == [file for file in everything if file in set(files)]
        remaining = [path for path, _ in files if path[2] in partitions]
        available = sum(rows[path] for path, _ in everything if path[2] in partitions)
        assert sum(map(rows.__getitem__, remaining)) >= min(limit, available)
        if size is None:
            for partition in "abc":
                before = [rows[path] for path, _ in files if path[2] == partition][:-1]
                assert sum(before) < limit or not before


@pytest.mark.parametrize(
    ("stats", "deleted", "rows"),
    [
        ('{"numRecords":5}', None, 5),
        ('{"numRecords":5}', 3, 2),
        ('{"numRecords":5}', 9, 0),
        ("{}", None, 0),
        (None, None, 0),
        (None, 3, 0),
        ("no JSON", None, 0),
        ('{"numRecords":"5"}', None, 0),
        ('{"numRecords":null}', None, 0),
        ('{"numRecords":5,"minValues":' + '{"a":' * 100_000 + "1" + "}" * 100_001, None, 0),
    ],
)
def test_live_rows(stats: str | None, deleted: int | None, rows: int) -> None:
    """Files without statistics count as 0 rows, so that there are too many files rather than too few."""
    row: dict[str, Any] = {"path": "f", "stats": stats}
    if deleted is not None:
        row["deletionVector"] = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": deleted}
    assert live_rows(pa.RecordBatch.from_pylist([row], schema=FILE_SCHEMA), 0) == rows
