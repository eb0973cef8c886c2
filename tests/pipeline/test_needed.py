"""Test that maintenance deletes all unneeded files, and no file that a reader can still need."""

import json
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import State, add, protocol
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.delta.property_intervals import format_interval, parse_interval
from deltaic.errors import DeltaicError, InvalidParameter
from deltaic_pipeline.failures import LeaseLost, PipelineError
from deltaic_pipeline.maintenance.maintenance_job import MaintenanceJob, plan
from deltaic_pipeline.maintenance.optimize import protection
from deltaic_pipeline.maintenance.retention import Reader, find_entries, stream_position
from deltaic_pipeline.spark.storage_access import S3Access
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from pipeline.kept_table import DAY, LOCATION, HandwrittenTable, entry, object_names

GOLDEN = Path(__file__).parents[1] / "golden" / "tables"
DAYS = 7.0
"""Delta's default retention of deleted files; longer than the lifetime of page tokens (3 days) and URLs (an hour)."""

COMMITS = st.tuples(
    st.sampled_from(["write", "overwrite", "optimize", "rewrite", "mark", "restore", "checkpoint", "stray"]),
    st.integers(1, 3),
)
READERS = st.tuples(st.sampled_from(["share", "stream", "unshare", "as before"]), st.integers(0, 9))
ROUNDS = st.tuples(
    st.lists(COMMITS, min_size=1, max_size=5),
    READERS,
    st.sampled_from([0.01, 3.0, 6.99, 7.01, 15.0, 31.0]),
    st.sampled_from([None, 0.0, 20.0]),
)
"""Commits, a change of readers, days that pass, and the days that a vacuum keeps at least (None: no vacuum)."""


def act(table: HandwrittenTable, action: str, number: int) -> None:
    match action:
        case "write":
            table.write(number)
        case "rewrite" | "mark" if table.live:
            getattr(table, action)(number)
        case "overwrite" | "optimize":
            getattr(table, action)()
        case "restore":
            table.restore(number % (table.latest + 1))
        case "checkpoint":
            table.log.classic(table.latest)
        case "stray":
            table.new()
        case "share":
            table.history_from = [min(number, table.latest + 1)]
        case "stream":
            table.streams_at = [max(table.latest - number, 0)]
        case "unshare":
            table.history_from, table.streams_at = [], []


def vacuum(table: HandwrittenTable, keep: float) -> None:
    before, needed = table.names(), table.needed(max(DAYS, keep))
    keep_at_least = timedelta(days=keep) if keep else None
    _, counts = table.vacuum(keep=keep_at_least, streams=[str(at) for at in table.streams_at])
    assert table.names() == before & needed
    assert counts is not None
    assert counts.unneeded.files == len(before - needed)


@given(st.lists(ROUNDS, min_size=1, max_size=5))
@settings(max_examples=tries(100), deadline=None)
def test_exactly_the_unneeded_files_are_deleted_after_random_changes(rounds: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = HandwrittenTable.create(Path(folder))
        table.write(2)
        for commits, reader, days, keep in rounds:
            for action, number in [*commits, reader]:
                table.now += 1
                act(table, action, number)
            table.now += days * DAY
            if keep is not None:
                vacuum(table, keep)


class AgedTable:
    """Table with versions of days 0, 2, 4 and 6: files a and b, file c, a rewritten, all compacted."""

    def __init__(self, root: Path, configuration: dict[str, str] | None = None) -> None:
        self.table = table = HandwrittenTable.create(root, configuration)
        self.begun = table.now
        self.names: dict[str, str] = {}
        self._write(lambda: table.write(2), "a", "b")
        self.day(2)
        self._write(lambda: table.write(1), "c")
        self.day(4)
        old = [action["path"] for action in table.live].index(self.names["a"])
        self._write(lambda: table.rewrite(old), "_change_data", "A")
        self.day(6)
        self._write(table.optimize, "all")

    def day(self, day: float) -> None:
        self.table.now = self.begun + day * DAY

    def remaining(self) -> set[str]:
        existing = self.table.names()
        return {short for short, name in self.names.items() if name in existing}

    def _write(self, write: Any, *names: str) -> None:
        before = self.table.names()
        write()
        self.names |= dict(zip(names, sorted(self.table.names() - before), strict=True))


ALL = {"a", "b", "c", "A", "_change_data", "all"}


@pytest.mark.parametrize(
    ("day", "case", "deleted"),
    [
        pytest.param(10.9, {}, set(), id="version 2 was current within the week"),
        pytest.param(11.5, {}, {"a", "_change_data"}, id="version 3 was current within the week"),
        pytest.param(14, {}, ALL - {"all"}, id="only the latest was"),
        pytest.param(14, {"keep": timedelta(days=20)}, set(), id="the provider keeps more"),
        pytest.param(14, {"url_ttl": timedelta(days=7)}, set(), id="pages of 3 days, then URLs of 7"),
        pytest.param(400, {"history": 0}, set(), id="all history is shared"),
        pytest.param(400, {"history": 2}, set(), id="history from version 2, whose change to 3 is shared"),
        pytest.param(400, {"history": 3}, {"a", "_change_data"}, id="history from version 3"),
        pytest.param(400, {"history": 9}, ALL - {"all"}, id="history from a version to come"),
        pytest.param(400, {"stream": 3}, set(), id="a stream before commit 3"),
        pytest.param(400, {"stream": 4}, {"a", "_change_data"}, id="a stream before commit 4"),
        pytest.param(400, {"stream": 4, "history": 2}, set(), id="the one that reaches back furthest counts"),
        pytest.param(
            9.0, {"retention": "interval 1 hours"}, {"a", "_change_data"}, id="page tokens outlive the property"
        ),
        pytest.param(9.2, {"retention": "interval 1 hours"}, ALL - {"all"}, id="three days, and two hours"),
        pytest.param(14, {"retention": "interval 2 weeks"}, set(), id="the property says more"),
        pytest.param(400, {"clone": True}, set(), id="another table's log may name these files"),
    ],
)
def test_unneeded_files_are_deleted_by_day(tmp_path: Path, day: float, case: dict[str, Any], deleted: set[str]) -> None:
    retention = {"delta.deletedFileRetentionDuration": case["retention"]} if "retention" in case else {}
    aged = AgedTable(tmp_path, retention)
    table = aged.table
    table.history_from = [case["history"]] if "history" in case else []
    table.clones = [entry(auxiliary_locations=(LOCATION,))] if "clone" in case else []
    aged.day(day)
    more: dict[str, Any] = {name: case[name] for name in ("keep", "url_ttl") if name in case}
    more["streams"] = [str(case["stream"])] if "stream" in case else []
    planned = plan(MaintenanceJob(LOCATION, "run", **more), table.context)
    assert aged.remaining() == ALL
    result, counts = table.vacuum(**more)
    assert aged.remaining() == ALL - deleted
    if "clone" in case:
        assert (planned.files, counts) == (None, None)
        assert "nothing is deleted: kept.s.t can read files of this folder" in list(result.lines())
    else:
        assert planned.files == counts
        assert counts is not None
        assert counts.unneeded.files == len(deleted)
        assert counts.kept.files + counts.young.files == len(ALL - deleted) - 1


def test_retention_is_reported_with_its_readers(tmp_path: Path) -> None:
    aged = AgedTable(tmp_path)
    aged.table.history_from = [2]
    aged.day(30)
    retention, _ = aged.table.vacuum(streams=["3"])
    assert list(retention.lines()) == [
        "window: 7 days (delta.deletedFileRetentionDuration)",
        "kept: version 4, the oldest that was the latest within the last 7 days",
        "kept: the history is shared from version 2 on as kept.s.t",
        "kept: the stream of 3 continues at version 3",
    ]


def test_foreign_files_stay(tmp_path: Path) -> None:
    aged = AgedTable(tmp_path)
    foreign = {
        "readme.txt",
        "nested/part-1.parquet",
        "nested/_delta_log/00000000000000000000.json",
        "nested/a=1/part-2.parquet",
        "_spark_metadata/0.parquet",
        ".hidden/part-1.parquet",
        "p=a/_temporary.parquet/notes.csv",
    }
    for name in foreign:
        aged.table.file(name)
    for name in ("p=a/part-7.parquet", "_p=a/part-8.parquet", "neste/part-9.parquet"):
        aged.table.file(name)
    aged.day(100)
    _, counts = aged.table.vacuum()
    assert aged.table.names() == foreign | {aged.names["all"]}
    assert counts is not None
    assert counts.unneeded.files == len(ALL) - 1 + 3


def test_paths_are_compared_decoded(tmp_path: Path) -> None:
    table = HandwrittenTable.create(tmp_path)
    for name in ("p=a b/100%.parquet", "p=ü/x.parquet", "absolute.parquet", "p=a%20b/100%25.parquet"):
        table.file(name)
    table.commit(
        add("p=a%20b/100%25.parquet"), add("p=ü/./x.parquet"), add(f"{LOCATION.replace('s3', 's3a')}/absolute.parquet")
    )
    table.now += 100 * DAY
    table.vacuum()
    assert table.names() == {"p=a b/100%.parquet", "p=ü/x.parquet", "absolute.parquet"}


def test_run_killed_while_it_deletes_is_completed_by_the_next(tmp_path: Path) -> None:
    aged = AgedTable(tmp_path)
    aged.day(100)
    aged.table.folder.requests_left = 2
    with pytest.raises(KeyboardInterrupt):
        aged.table.vacuum()
    assert len(aged.remaining()) == len(ALL) - 2
    aged.table.folder.requests_left = None
    aged.table.vacuum()
    assert aged.remaining() == {"all"}


def test_nothing_is_deleted_without_the_lease(tmp_path: Path) -> None:
    aged = AgedTable(tmp_path)
    aged.day(100)

    def lost() -> None:
        raise LeaseLost("another job has it")

    with pytest.raises(LeaseLost):
        aged.table.vacuum(confirm=lost)
    assert aged.remaining() == ALL


@pytest.mark.parametrize("damage", ["gap", "torn", "unknown feature"])
def test_nothing_is_deleted_if_the_log_is_unreadable(tmp_path: Path, damage: str) -> None:
    aged = AgedTable(tmp_path)
    table = aged.table
    table.history_from = [2]
    match damage:
        case "gap":
            table.log.forget(3)
        case "torn":
            (tmp_path / f"_delta_log/{3:020d}.json").write_text('{"add":{"path"')
        case "unknown feature":
            table.commit(protocol(3, 7, "catalogManaged"))
    aged.day(100)
    with pytest.raises(DeltaicError):
        table.vacuum()
    assert aged.remaining() == ALL


def test_log_without_its_first_commits_keeps_readable_versions(tmp_path: Path) -> None:
    aged = AgedTable(tmp_path)
    aged.table.log.classic(3)
    aged.table.log.forget(0, 1, 2)
    aged.table.history_from = [0]
    aged.day(100)
    aged.table.vacuum()
    # Version 3 is readable from its checkpoint, and commit 3, which names a and the change data, can be followed.
    assert aged.remaining() == ALL
    aged.table.history_from = []
    aged.table.vacuum()
    assert aged.remaining() == {"all"}


def golden_tables() -> list[str]:
    """Return the tables with complete logs and without files in other locations."""
    logs = sorted(GOLDEN.glob(f"*/delta/_delta_log/{0:020d}.json"))
    return [log.parts[-4] for log in logs if "clone" not in log.parts[-4]]


@pytest.mark.parametrize("name", golden_tables())
def test_tables_of_spark_keep_live_and_shared_files(tmp_path: Path, name: str) -> None:
    shutil.copytree(GOLDEN / name / "delta", tmp_path / "t")
    commits = sorted((tmp_path / "t" / "_delta_log").glob("0*[0-9].json"))
    log = [[json.loads(line) for line in commit.read_text("utf-8").split("\n") if line] for commit in commits]
    state = State()
    for actions in log:
        state.apply(actions)
    live = {file for action in state.files.values() for file in object_names(action)}
    all_named = {
        file for actions in log for line in actions for action in line.values() for file in object_names(action)
    }
    table = HandwrittenTable(tmp_path / "t", now=4_000_000_000.0)
    before = table.names()
    table.history_from = [0]
    table.vacuum()
    assert before & all_named <= table.names()
    table.history_from = []
    table.vacuum()
    assert {file for file in table.names() if file.endswith((".parquet", ".bin"))} == live


WINDOW = Reader(3, changes=False, lasting=False, why="")
HISTORY = Reader(0, changes=True, lasting=True, why="")


@pytest.mark.parametrize(
    ("configuration", "readers", "missing"),
    [
        pytest.param({}, [WINDOW], {}, id="30 days are enough"),
        pytest.param({}, [WINDOW, HISTORY], {"delta.enableExpiredLogCleanup": "false"}, id="history"),
        pytest.param({"delta.enableExpiredLogCleanup": "false"}, [WINDOW, HISTORY], {}, id="set already"),
        pytest.param(
            {"delta.logRetentionDuration": "interval 1 day"},
            [WINDOW],
            {"delta.logRetentionDuration": "interval 169 hours"},
            id="shorter than the window",
        ),
    ],
)
def test_commits_are_kept_for_their_readers(
    configuration: dict[str, str], readers: list[Reader], missing: dict[str, str]
) -> None:
    assert protection(configuration, readers, timedelta(days=7, minutes=1)) == missing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 7 days", timedelta(days=7)),
        ("INTERVAL 1 week 12 hours", timedelta(days=7, hours=12)),
        ("90 minutes", timedelta(minutes=90)),
        (None, timedelta(days=5)),
    ],
)
def test_intervals_are_parsed_as_in_delta(text: str | None, expected: timedelta) -> None:
    assert parse_interval(text, timedelta(days=5)) == expected
    assert parse_interval(format_interval(expected), timedelta(0)) >= expected


def test_invalid_interval_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="interval 7 days"):
        parse_interval("seven days", timedelta(0))


def test_entries_of_a_table_are_found_in_all_shares(admin: CatalogAdmin) -> None:
    for share in ("needed_one", "needed_two"):
        admin.shares.create(share)
        admin.schemas.create(share, "s")
    admin.tables.create("needed_one", "s", "same", "s3://needed/t", history=True, start_version=4)
    admin.tables.create("needed_two", "s", "Same", "s3a://needed/t/", history=False)
    admin.tables.create("needed_two", "s", "sibling", "s3://needed/t2", history=True)
    admin.tables.create("needed_two", "s", "clone", "s3://needed/c", auxiliary_locations=["s3://needed"])
    admin.tables.create("needed_two", "s", "other", "s3://needed/o", auxiliary_locations=["s3://needed/t2"])
    entries = find_entries(admin, "s3://needed/t")
    assert [(table.share, table.name) for table in entries.shared] == [("needed_one", "same"), ("needed_two", "Same")]
    assert [table.name for table in entries.clones] == ["clone"]


def checkpoint(root: Path, offsets: dict[int, int], commits: list[int]) -> str:
    for folder in ("offsets", "commits"):
        (root / folder).mkdir(parents=True)
    for number, version in offsets.items():
        source = {"sourceVersion": 1, "reservoirId": "mine", "reservoirVersion": version, "index": -1}
        (root / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(source)}')
        (root / "offsets" / f".{number}.crc").write_bytes(b"crc")
    for number in commits:
        (root / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return str(root)


@pytest.mark.parametrize(
    ("offsets", "commits", "version"),
    [
        pytest.param({0: 3, 1: 7}, [0, 1], 7, id="all done"),
        pytest.param({9: 30, 10: 40}, [9], 30, id="the last batch is to be done again"),
        pytest.param({0: 3}, [], 0, id="nothing done yet"),
    ],
)
def test_position_of_a_stream(tmp_path: Path, offsets: dict[int, int], commits: list[int], version: int) -> None:
    folder = checkpoint(tmp_path / "stream", offsets, commits)
    assert stream_position(folder, "mine", S3Access()).version == version
    with pytest.raises(PipelineError, match="does not read this table"):
        stream_position(folder, "another's", S3Access())
    with pytest.raises(PipelineError, match="is not the checkpoint of a stream"):
        stream_position(str(tmp_path), "mine", S3Access())
