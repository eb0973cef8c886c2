"""Test that exact and estimated totals equal those of a simple replay."""

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.delta.cache import SnapshotCache
from deltaic.delta.scan.row_group_cache import RowGroupCache
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.totals import checkpoint_totals, filtered_totals
from deltaic.partition_filters import evaluate, parse
from deltaic.sharing.rights.table_visibility import TableVisibility
from hypothesis import given, settings
from laws import tries

VECTORS = [None, vector("ab^-aqEH.-t@S}K{vb[*k^"), vector("cd^-aqEH.-t@S}K{vb[*k^", 9)]


PARTITIONS = ["a", "b", None]
"""Partition values of the files of a commit, in turn."""


@st.composite
def histories(draw: st.DrawFn) -> list[list[Action]]:
    """Draw commits of a correct writer, which removes only existing files and adds only new ones."""
    live: dict[tuple[str, int], int] = {}
    history = [[metadata(), protocol(3, 7, "deletionVectors")]]
    for number in range(draw(st.integers(1, 8))):
        removed_files = draw(st.lists(st.sampled_from(sorted(live)), unique=True, max_size=3)) if live else []
        actions = [
            remove(key[0], VECTORS[key[1]], size=live.pop(key), partitionValues={"p": PARTITIONS[int(key[0][-9]) % 3]})
            for key in removed_files
        ]
        for at, (vector_index, size) in enumerate(
            draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), max_size=4))
        ):
            path = f"p=a/{number}-{at}.parquet"
            live[(path, vector_index)] = size
            actions.append(add(path, size, PARTITIONS[at % 3], VECTORS[vector_index], dataChange=draw(st.booleans())))
        history.append(actions)
    return history


def totals_by_log(snapshot: Snapshot) -> tuple[int, int]:
    """Return the totals that trust the commits, for any number of files."""
    return checkpoint_totals(snapshot._tail, snapshot._parts, exact=-1)


def partition_totals(snapshot: Snapshot, value: str | None, exact: int) -> tuple[int, int]:
    """Return the totals of a partition, which trust the commits above `exact` files."""
    schema: Any = snapshot.metadata
    visibility = TableVisibility(
        schema, evaluate([parse("p IS NULL" if value is None else f"p = '{value}'")], {}, schema)
    )
    row_filter = visibility.row_filter(None)
    assert row_filter is not None
    cache = RowGroupCache(1 << 20)
    return filtered_totals(snapshot._tail, snapshot._parts, row_filter, cache, "t", files_follow=False, exact=exact)


@settings(deadline=None, max_examples=tries(60))
@given(histories(), st.data())
def test_valid_commits_give_correct_totals(history: list[list[Action]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = HandmadeLog(Path(folder))
        cache = SnapshotCache(1 << 20)
        checkpoint = data.draw(st.integers(0, len(history) - 1))
        for version, actions in enumerate(history):
            log.commit(*actions)
            if version == checkpoint:
                log.classic(version, row_group=2)
            if version >= checkpoint and data.draw(st.booleans()):
                # Cached snapshots read only the new commits.
                snapshot = cache.snapshot("a table", FolderStore(log.root))
                files = log.state(version).files.values()
                expected = (len(files), sum(action["size"] for action in files))
                assert totals_by_log(snapshot) == snapshot.totals() == expected
                for value in PARTITIONS:
                    sizes = [action["size"] for action in files if action["partitionValues"]["p"] == value]
                    assert (
                        partition_totals(snapshot, value, -1)
                        == partition_totals(snapshot, value, 1 << 30)
                        == (len(sizes), sum(sizes))
                    )


@pytest.fixture
def log(tmp_path: Path) -> HandmadeLog:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(3, 7, "deletionVectors"), add("a", 1), add("b", 2), add("c", 4))
    log.classic(0)
    return log


@pytest.mark.parametrize(
    "commits",
    [
        [[add("a", 1, dataChange=False)]],
        [[add("a", 1, dataChange=False)], [remove("a", size=1)]],
        [[remove("a")]],
        [[remove("a"), add("d", 8)], [remove("d", size=8)]],
        [[remove("never there", size=100)]],
    ],
    ids=[
        "new statistics",
        "new statistics, then removed",
        "a remove without its size",
        "and a new file that comes and goes",
        "more removed than there was",
    ],
)
def test_unclear_commits_are_counted_exactly(log: HandmadeLog, commits: list[list[Action]]) -> None:
    for actions in commits:
        log.commit(*actions)
    files = log.state().files.values()
    snapshot = SnapshotCache(1 << 20).snapshot("a table", FolderStore(log.root))
    assert totals_by_log(snapshot) == (len(files), sum(action["size"] for action in files))
    assert partition_totals(snapshot, "a", -1) == totals_by_log(snapshot)


def test_removes_without_partition_values_are_counted_exactly(log: HandmadeLog) -> None:
    log.commit(remove("a", size=1), remove("never there", size=1, partitionValues={"p": "a"}))
    snapshot = SnapshotCache(1 << 20).snapshot("a table", FolderStore(log.root))
    assert partition_totals(snapshot, "a", -1) == (2, 6)
    log.commit(remove("b", size=2, partitionValues={}))
    snapshot = SnapshotCache(1 << 20).snapshot("a table", FolderStore(log.root))
    assert partition_totals(snapshot, "a", -1) == (1, 4)


def test_compacted_commits_are_counted_exactly(log: HandmadeLog) -> None:
    log.commit(add("d", 8))
    log.commit(remove("d", size=8), remove("a", size=1))
    log.compact(1, 2)
    log.forget(1)
    snapshot = SnapshotCache(1 << 20).snapshot("a table", FolderStore(log.root))
    assert totals_by_log(snapshot) == (2, 6)


def test_commits_are_trusted_only_for_many_files(log: HandmadeLog) -> None:
    log.commit(remove("never there", size=1))
    snapshot = SnapshotCache(1 << 20).snapshot("a table", FolderStore(log.root))
    assert snapshot.totals() == (3, 7)
    assert totals_by_log(snapshot) == (2, 6)


def test_partition_values_in_commits_are_trusted_only_for_many_files(log: HandmadeLog) -> None:
    log.commit(remove("never there", size=1, partitionValues={"p": "a"}), add("d", 8, "b"))
    snapshot = SnapshotCache(1 << 20).snapshot("a table", FolderStore(log.root))
    assert [partition_totals(snapshot, value, exact) for value in ("a", "b") for exact in (3, 2)] == [
        (3, 7),
        (2, 6),
        (1, 8),
        (1, 8),
    ]
