"""Test the changes that a stream or a change feed sees in a range of commits."""

from pathlib import Path

import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.delta.actions import Add, AddCdcFile, Metadata, Protocol, Remove
from deltaic.delta.commit_changes import Change, FileChange
from deltaic.delta.log import DeltaLog
from deltaic.errors import MalformedRequest, TableUnreadable

ON = {"delta.enableChangeDataFeed": "true"}
T = 1_700_000_000_000


def cdc(path: str) -> Action:
    return {"cdc": {"path": path, "partitionValues": {"p": "a"}, "size": 5, "dataChange": False}}


def merge(inserted: int, updated: int, deleted: int) -> Action:
    metrics = {
        "numTargetRowsInserted": str(inserted),
        "numTargetRowsUpdated": str(updated),
        "numTargetRowsDeleted": str(deleted),
    }
    return {"commitInfo": {"operation": "MERGE", "operationMetrics": metrics}}


def without_data_change(action: Action) -> Action:
    return {kind: fields | {"dataChange": False} for kind, fields in action.items()}


def describe(changes: list[Change]) -> list[str]:
    names = {Add: "add", Remove: "remove", AddCdcFile: "cdc"}
    return [
        f"{names[type(change)]} {change.path}" if isinstance(change, FileChange) else type(change).__name__.lower()
        for change in changes
    ]


@pytest.mark.parametrize(
    ("actions", "data", "feed"),
    [
        pytest.param([add("a"), add("b")], ["add a", "add b"], ["add a", "add b"], id="inserts"),
        pytest.param([remove("a"), add("b")], ["remove a", "add b"], ["remove a", "add b"], id="rewrite_in_log_order"),
        pytest.param(
            [add("b"), cdc("c1"), remove("a"), cdc("c2")],
            ["add b", "remove a"],
            ["cdc c1", "cdc c2"],
            id="cdc_files_replace_the_rest",
        ),
        pytest.param([without_data_change(remove("a")), without_data_change(add("b"))], [], [], id="optimize"),
        pytest.param([merge(0, 0, 0), remove("a"), add("b")], ["remove a", "add b"], [], id="merge_of_nothing"),
        pytest.param([merge(0, 1, 0), remove("a"), add("b")], ["remove a", "add b"], ["remove a", "add b"], id="merge"),
        pytest.param(
            [metadata(), add("a"), protocol()],
            ["metadata", "add a", "protocol"],
            ["metadata", "add a", "protocol"],
            id="metadata_and_protocol_stay_in_place",
        ),
        pytest.param(
            [add("a", vector=vector("ab^-aqEH.-t@S}K{vb[*k^")), remove("a")],
            ["add a", "remove a"],
            ["add a", "remove a"],
            id="deletion_vector_pair",
        ),
    ],
)
def test_visible_changes_of_a_commit(tmp_path: Path, actions: list[Action], data: list[str], feed: list[str]) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(ON), protocol())
    log.commit(*actions, modified=T)
    (commit,) = DeltaLog(FolderStore(tmp_path)).commits(1, 1)
    assert commit.version == 1
    assert describe(commit.data()) == data
    assert describe(commit.change_data()) == feed


def test_an_action_has_the_values_of_its_json(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(ON), protocol())
    log.commit(add("a", vector=vector("ab^-aqEH.-t@S}K{vb[*k^"), unknownField={"kept": True}), modified=T)
    (commit,) = DeltaLog(FolderStore(tmp_path)).commits(1, 1)
    (change,) = commit.actions
    assert isinstance(change, Add)
    assert change.partition_values == {"p": "a"}
    assert change.deletion_vector is not None
    assert change.deletion_vector.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@1"


@pytest.mark.parametrize("metrics", [[1], "x", 5, None, {}], ids=str)
def test_metrics_of_any_form_do_not_make_a_merge_empty(tmp_path: Path, metrics: object) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(ON), protocol())
    log.commit({"commitInfo": {"operation": "MERGE", "operationMetrics": metrics}}, add("a"))
    (commit,) = DeltaLog(FolderStore(tmp_path)).commits(1, 1)
    assert describe(commit.change_data()) == ["add a"]


def test_a_range_has_versions_and_increasing_times(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol(), modified=T)
    for version, time in ((1, 5000), (2, 4000), (3, 4000), (4, 9000)):
        log.commit(add(f"f{version}"), modified=T + time)
    log.commit(metadata(ON), modified=T + 9500)
    commits = list(DeltaLog(FolderStore(tmp_path)).commits(2, 5))
    assert [(commit.version, commit.timestamp - T) for commit in commits] == [
        (2, 5001),
        (3, 5002),
        (4, 9000),
        (5, 9500),
    ]
    assert [type(commit.metadata) for commit in commits] == [type(None)] * 3 + [Metadata]
    (first,) = DeltaLog(FolderStore(tmp_path)).commits(0, 0)
    assert isinstance(first.protocol, Protocol)


def test_a_missing_commit_fails_before_any_read(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    for version in range(1, 5):
        log.commit(add(f"f{version}"))
    log.classic(3)
    log.forget(2)
    delta = DeltaLog(FolderStore(tmp_path))
    with pytest.raises(TableUnreadable, match=r"table files missing: _delta_log/00000000000000000002\.json"):
        delta.commits(1, 4)
    assert len(list(delta.commits(3, 4))) == 2
    with pytest.raises(MalformedRequest, match="Cannot load table version 5"):
        delta.commits(3, 5)


def test_an_incomplete_commit_is_reported_by_name(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    log.commit(add("a"))
    (log.log / f"{1:020d}.json").write_bytes(b'{"add":{"path":"a"')
    with pytest.raises(TableUnreadable, match=r"00000000000000000001\.json"):
        list(DeltaLog(FolderStore(tmp_path)).commits(0, 1))


def test_a_long_range_is_fetched_in_windows(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(), protocol())
    for version in range(1, 100):
        log.commit(add(f"f{version}"))
    store = FolderStore(tmp_path)
    commits = DeltaLog(store).commits(0, 99)
    next(iter(commits))
    assert len(store.calls) < 40
    assert [commit.version for commit in commits] == list(range(100))
    store.calls.clear()
    assert [commit.version for commit in commits.read(98)] == [98, 99]
    assert len(store.calls) == 2
