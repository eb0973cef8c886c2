"""Test that a checkpoint has the same state as its log, for the server and for deltalake, or is refused."""

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
from deltaic_checkpoint.checkpoint_creation import MAX_LOG_BYTES, LogCopy, NewCheckpoint, create_checkpoint
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
"""Golden tables whose checkpoints are refused, and a part of the reason."""

RECENTLY = int(time.time() * 1000)
VECTORS = [None, vector("ab^-aqEH.-t@S}K{vb[*k^"), vector("ab^-aqEH.-t@S}K{vb[*k^", 9), vector("cd^-aqEH.-t@S", None)]


def checkpoint_of(root: Path) -> NewCheckpoint:
    store = FolderStore(root)
    return create_checkpoint(store, find_segment(store), int(time.time() * 1000))


@contextmanager
def log_of(checkpoint: NewCheckpoint) -> Iterator[Path]:
    """Yield the folder of a log that has only this checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "_delta_log").mkdir()
        (root / checkpoint.path).write_bytes(checkpoint.content)
        (root / LAST_CHECKPOINT).write_bytes(checkpoint.hint)
        yield root


def read_by_server(root: Path) -> tuple[Any, ...]:
    snapshot = DeltaLog(FolderStore(root)).snapshot()
    return snapshot.version, snapshot.protocol, snapshot.metadata, found_files(snapshot.files())


def read_by_deltalake(root: Path) -> tuple[Any, ...]:
    """Return a table's state as deltalake reads it, with other code than its checkpoint writer."""
    table = DeltaTable(str(root))
    # Compare as text, because a NaN is not equal to itself.
    files = sorted(map(json_text, pa.table(table.get_add_actions(flatten=True)).to_pylist()))
    info = table.metadata()
    return (
        table.version(),
        table.protocol(),
        (info.id, info.configuration, info.partition_columns),
        files,
    )


def json_text(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, sort_keys=True)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir() if path.name not in REFUSED))
def test_checkpoint_of_spark_table_has_the_state_of_its_log(name: str) -> None:
    root = GOLDEN / name / "delta"
    checkpoint = checkpoint_of(root)
    with log_of(checkpoint) as copy:
        assert read_by_server(copy) == read_by_server(root)
        assert read_by_deltalake(copy) == read_by_deltalake(root)
        assert json.loads(checkpoint.hint)["version"] == checkpoint.version


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_table_with_unsupported_checkpoint_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UnsupportedOperation, match=REFUSED[name]):
        checkpoint_of(GOLDEN / name / "delta")


def test_creating_a_checkpoint_does_not_change_the_log(tmp_path: Path) -> None:
    # With these properties, deltalake would delete commits of the table after it writes a checkpoint.
    log = HandmadeLog(tmp_path)
    cleaned = {"delta.enableExpiredLogCleanup": "true", "delta.logRetentionDuration": "interval 0 days"}
    log.commit(metadata(cleaned), protocol(1, 2), modified=1_600_000_000_000)
    for number in range(3):
        log.commit(add(f"{number}.parquet"), modified=1_600_000_000_000 + number)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.log.iterdir()}
    checkpoint_of(tmp_path)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.log.iterdir()} == before


def test_tombstones_are_kept_for_the_retention_of_the_table(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata({"delta.deletedFileRetentionDuration": "interval 2 days"}), protocol(1, 2))
    day = 86_400_000
    log.commit(*(add(f"{age}.parquet") for age in (0, 1, 3, 9)))
    log.commit(*(remove(f"{age}.parquet", deletionTimestamp=RECENTLY - age * day) for age in (0, 1, 3, 9)))
    with log_of(checkpoint_of(tmp_path)) as copy:
        tombstones = LogState.read(LogCopy(copy), find_segment(FolderStore(copy))).tombstones
    assert {file.path for file in tombstones} == {"0.parquet", "1.parquet"}


LOSSES: dict[str, list[Action]] = {
    "files": [add("a.parquet")],
    "files (tags)": [add("first.parquet", tags={"ZCUBE_ID": "1"})],
    "files (stats)": [add("first.parquet", stats=None)],
    "files (unheardOf)": [add("first.parquet", unheardOf={"a": 1})],
    "files (clusteringProvider)": [add("first.parquet", clusteringProvider="liquid")],
    "removed files": [remove("gone.parquet", deletionTimestamp=RECENTLY)],
    "application transactions": [{"txn": {"appId": "stream", "version": 7}}],
    "domain metadata": [{"domainMetadata": {"domain": "app", "configuration": "{}", "removed": False}}],
    "protocol and metadata (configuration)": [metadata({"delta.appendOnly": "true"})],
}


@pytest.mark.parametrize("difference", LOSSES)
def test_every_difference_between_checkpoint_and_log_is_detected(difference: str, tmp_path: Path) -> None:
    states = []
    for name, actions in (("complete", LOSSES[difference]), ("without", [])):
        log = HandmadeLog(tmp_path / name)
        log.commit(metadata(), protocol(1, 2), add("first.parquet"))
        log.commit(*actions)
        copy = LogCopy(log.root)
        states.append(LogState.read(copy, find_segment(copy)))
    complete, without = states
    assert complete.difference_from(without, 0) == difference
    assert without.difference_from(complete, 0)
    assert complete.difference_from(complete, 0) == without.difference_from(without, 0) == ""


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        pytest.param({"inventory": {"a": 1}}, "type 'inventory'", id="unknown_action"),
        pytest.param(add("x.parquet", unheardOf=1), "unheardOf", id="unknown_field"),
        pytest.param(protocol(1, 7, "icebergCompatV9"), "icebergCompatV9", id="unknown_feature"),
        pytest.param({"txn": {"appId": "s", "version": 1, "also": 2}}, "transactions", id="field_of_a_transaction"),
    ],
)
def test_unknown_actions_fields_and_features_are_refused(action: Action, reason: str, tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(1, 2))
    log.commit(action)
    with pytest.raises(UnsupportedOperation, match=reason):
        checkpoint_of(tmp_path)


def test_large_log_is_refused_before_it_is_read(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(1, 2))
    with (log.log / f"{1:020d}.json").open("wb") as large:
        large.truncate(MAX_LOG_BYTES)
    store = FolderStore(tmp_path)
    segment = find_segment(store)
    calls = len(store.calls)
    with pytest.raises(UnsupportedOperation, match="and the maximum is"):
        create_checkpoint(store, segment, RECENTLY)
    assert len(store.calls) == calls


paths = st.sampled_from(["a", "p=x%20y/b", "p=%252F/c", "p=\u00fc/d", "s3://bucket/e", "f+g=h"])
changed_files = st.dictionaries(
    st.tuples(paths, st.integers(0, 3)), st.tuples(st.booleans(), st.integers(0, 99)), max_size=5
)
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
    st.lists(st.tuples(changed_files, extras), min_size=1, max_size=6),
    st.sampled_from([None, "classic", "multipart"]),
    st.data(),
)
def test_checkpoint_of_any_log_equals_the_simplest_replay(
    commits: list[tuple[dict[tuple[str, int], tuple[bool, int]], list[Action]]], base: str | None, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = HandmadeLog(Path(folder))
        log.commit(metadata(), protocol(3, 7, "deletionVectors"))
        for number, (files, other_actions) in enumerate(commits):
            changed = [
                add(path, number * 100 + size, vector=VECTORS[v], p=data.draw(st.sampled_from(["", None, "a b", "%"])))
                if live
                else remove(path, VECTORS[v], deletionTimestamp=RECENTLY)
                for (path, v), (live, size) in files.items()
            ]
            log.commit(*changed, *other_actions)
        if base:
            version = data.draw(st.integers(0, len(commits) - 1))
            arguments = (version,) if base == "classic" else (version, 2)
            getattr(log, base)(*arguments)
        state = log.state()
        with log_of(checkpoint_of(log.root)) as copy:
            version, read_protocol, read_metadata, read_files = read_by_server(copy)
            assert version == len(commits)
            assert read_files == expected_files(state)
            assert read_protocol.reader_features == ("deletionVectors",)
            assert read_metadata.id == (state.metadata or {})["id"]
            assert read_by_deltalake(copy) == read_by_deltalake(log.root)
            checkpoint_state = LogState.read(LogCopy(copy), find_segment(FolderStore(copy)))
            assert {(file.path, file.vector) for file in checkpoint_state.tombstones} == set(state.tombstones)
