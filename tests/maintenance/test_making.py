"""A checkpoint says what the log said, to our reader and to deltalake; one that would lose anything is refused."""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import (
    Action,
    HandmadeLog,
    add,
    expected_files,
    found_files,
    metadata,
    protocol,
    remove,
    vector,
)
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import LAST_CHECKPOINT
from deltaic.delta.segment import find_segment
from deltaic.errors import UnsupportedOperation
from deltaic_checkpoint.checkpoint_creation import BYTES, Checkpoint, LogCopy, make
from deltaic_checkpoint.log_state import LogState
from deltalake import DeltaTable
from hypothesis import given, settings
from laws import tries

GOLDEN = Path(__file__).parents[1] / "golden" / "tables"
REFUSED = {
    "checkpoint_protection": "checkpointProtection",
    "checkpoint_struct_stats": "stats_parsed",  # rebuilt with another type of timestamp
    "checkpoint_v2_json": "manifest with sidecars",
    "checkpoint_v2_parquet": "sidecars",
    "checkpoint_v2_sidecars": "manifest with sidecars",
}
"""Golden tables for which no checkpoint is made, and what the reason names."""

RECENTLY = int(time.time() * 1000)
VECTORS = [None, vector("ab^-aqEH.-t@S}K{vb[*k^"), vector("ab^-aqEH.-t@S}K{vb[*k^", 9), vector("cd^-aqEH.-t@S", None)]


def made(root: Path) -> Checkpoint:
    store = FolderStore(root)
    return make(store, find_segment(store), int(time.time() * 1000))


@contextmanager
def alone(checkpoint: Checkpoint) -> Iterator[Path]:
    """Give a log of which only this checkpoint is left, so that whoever reads it reads nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "_delta_log").mkdir()
        (root / checkpoint.path).write_bytes(checkpoint.content)
        (root / LAST_CHECKPOINT).write_bytes(checkpoint.hint)
        yield root


def ours(root: Path) -> tuple[Any, ...]:
    snapshot = DeltaLog(FolderStore(root)).snapshot()
    return snapshot.version, snapshot.protocol, snapshot.metadata, found_files(snapshot.files())


def theirs(root: Path) -> tuple[Any, ...]:
    """Return what deltalake makes of a table: it writes checkpoints by other code than it reads logs with."""
    table = DeltaTable(str(root))
    # As text, in which a NaN is equal to itself.
    files = sorted(map(json_text, pa.table(table.get_add_actions(flatten=True)).to_pylist()))
    told = table.metadata()
    return table.version(), table.protocol(), (told.id, told.configuration, told.partition_columns), files


def json_text(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, sort_keys=True)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir() if path.name not in REFUSED))
def test_a_checkpoint_of_any_sparks_table_says_what_its_log_says(name: str) -> None:
    root = GOLDEN / name / "delta"
    checkpoint = made(root)
    with alone(checkpoint) as copy:
        assert ours(copy) == ours(root)
        assert theirs(copy) == theirs(root)
        assert json.loads(checkpoint.hint)["version"] == checkpoint.version


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_a_checkpoint_might_not_keep_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UnsupportedOperation, match=REFUSED[name]):
        made(GOLDEN / name / "delta")


def test_making_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    # Everything here would let deltalake delete commits: it cleans a log after a checkpoint of its own.
    log = HandmadeLog(tmp_path)
    cleaned = {"delta.enableExpiredLogCleanup": "true", "delta.logRetentionDuration": "interval 0 days"}
    log.commit(metadata(cleaned), protocol(1, 2), modified=1_600_000_000_000)
    for number in range(3):
        log.commit(add(f"{number}.parquet"), modified=1_600_000_000_000 + number)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.log.iterdir()}
    made(tmp_path)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.log.iterdir()} == before


def test_tombstones_stay_as_long_as_the_table_says(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata({"delta.deletedFileRetentionDuration": "interval 2 days"}), protocol(1, 2))
    day = 86_400_000
    log.commit(*(add(f"{age}.parquet") for age in (0, 1, 3, 9)))
    log.commit(*(remove(f"{age}.parquet", deletionTimestamp=RECENTLY - age * day) for age in (0, 1, 3, 9)))
    with alone(made(tmp_path)) as copy:
        kept = LogState.read(LogCopy(copy), find_segment(FolderStore(copy))).tombstones
    assert {file.path for file in kept} == {"0.parquet", "1.parquet"}


LOSSES: dict[str, list[Action]] = {
    "files": [add("a.parquet")],
    "files (tags)": [add("first.parquet", tags={"ZCUBE_ID": "1"})],
    "files (stats)": [add("first.parquet", stats=None)],
    "files (unheardOf)": [add("first.parquet", unheardOf={"a": 1})],
    "files (clusteringProvider)": [add("first.parquet", clusteringProvider="liquid")],
    "removed files": [remove("gone.parquet", deletionTimestamp=RECENTLY)],
    "transactions of writers": [{"txn": {"appId": "stream", "version": 7}}],
    "metadata of domains": [{"domainMetadata": {"domain": "app", "configuration": "{}", "removed": False}}],
    "protocol and metadata (configuration)": [metadata({"delta.appendOnly": "true"})],
}


@pytest.mark.parametrize("lost", LOSSES)
def test_whatever_a_checkpoint_lost_would_be_seen(lost: str, tmp_path: Path) -> None:
    states = []
    for name, more in (("whole", LOSSES[lost]), ("without", [])):
        log = HandmadeLog(tmp_path / name)
        log.commit(metadata(), protocol(1, 2), add("first.parquet"))
        log.commit(*more)
        copy = LogCopy(log.root)
        states.append(LogState.read(copy, find_segment(copy)))
    whole, without = states
    assert whole.lost_in(without, 0) == lost
    assert without.lost_in(whole, 0)
    assert whole.lost_in(whole, 0) == without.lost_in(without, 0) == ""


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        pytest.param({"inventory": {"a": 1}}, "kind 'inventory'", id="unknown_action"),
        pytest.param(add("x.parquet", unheardOf=1), "unheardOf", id="unknown_field"),
        pytest.param(protocol(1, 7, "icebergCompatV9"), "icebergCompatV9", id="unknown_feature"),
        pytest.param({"txn": {"appId": "s", "version": 1, "also": 2}}, "transactions", id="field_of_a_transaction"),
    ],
)
def test_what_is_not_known_yet_is_refused(action: Action, reason: str, tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(1, 2))
    log.commit(action)
    with pytest.raises(UnsupportedOperation, match=reason):
        made(tmp_path)


def test_a_large_log_is_refused_before_it_is_read(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(1, 2))
    with (log.log / f"{1:020d}.json").open("wb") as large:
        large.truncate(BYTES)
    store = FolderStore(tmp_path)
    segment = find_segment(store)
    asked = len(store.calls)
    with pytest.raises(UnsupportedOperation, match="are the most here"):
        make(store, segment, RECENTLY)
    assert len(store.calls) == asked


paths = st.sampled_from(["a", "p=x%20y/b", "p=%252F/c", "p=\u00fc/d", "s3://bucket/e", "f+g=h"])
touched = st.dictionaries(st.tuples(paths, st.integers(0, 3)), st.tuples(st.booleans(), st.integers(0, 99)), max_size=5)
extras = st.lists(
    st.one_of(
        st.builds(
            lambda app, version: {"txn": {"appId": app, "version": version}},
            st.text("ab", max_size=2), st.integers(0, 2**60),
        ),
        st.builds(
            lambda name, text, gone: {"domainMetadata": {"domain": name, "configuration": text, "removed": gone}},
            st.text("xy", max_size=2), st.text(max_size=5), st.booleans(),
        ),
    ),
    max_size=3,
    unique_by=lambda action: next(iter(next(iter(action.values())).values())),
)  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, max_examples=tries(30))
@given(
    st.lists(st.tuples(touched, extras), min_size=1, max_size=6),
    st.sampled_from([None, "classic", "multipart"]),
    st.data(),
)
def test_a_checkpoint_of_any_log_says_what_the_plainest_replay_says(
    commits: list[tuple[dict[tuple[str, int], tuple[bool, int]], list[Action]]], base: str | None, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = HandmadeLog(Path(folder))
        log.commit(metadata(), protocol(3, 7, "deletionVectors"))
        for number, (files, more) in enumerate(commits):
            changed = [
                add(path, number * 100 + size, vector=VECTORS[v], p=data.draw(st.sampled_from(["", None, "a b", "%"])))
                if live
                else remove(path, VECTORS[v], deletionTimestamp=RECENTLY)
                for (path, v), (live, size) in files.items()
            ]
            log.commit(*changed, *more)
        if base:
            at = data.draw(st.integers(0, len(commits) - 1))
            arguments = (at,) if base == "classic" else (at, 2)
            getattr(log, base)(*arguments)
        state = log.state()
        with alone(made(log.root)) as copy:
            version, found_protocol, found_metadata, files_found = ours(copy)
            assert version == len(commits)
            assert files_found == expected_files(state)
            assert found_protocol.reader_features == ("deletionVectors",)
            assert found_metadata.id == (state.metadata or {})["id"]
            assert theirs(copy) == theirs(log.root)
            kept = LogState.read(LogCopy(copy), find_segment(FolderStore(copy)))
            assert {(file.path, file.vector) for file in kept.tombstones} == set(state.tombstones)
