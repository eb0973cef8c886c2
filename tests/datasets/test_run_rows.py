"""The runs table: a row for what was done, once, and for each attempt that was not; written with Spark and without."""

import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from datasets.files import dataset, json_source, run_of
from deltaic.errors import NotFound
from deltaic.settings import settings
from deltaic_datasets.file.file_checks import check
from deltaic_datasets.run import job as run
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.run_state import RunSummary
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import Catalog
from deltaic_pipeline.table.run_log import append, opened, refuse_same, rows, schema
from deltaic_terminal.progress import silent
from deltalake import DeltaTable, write_deltalake
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

filtered = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def access(job_environment: Mapping[str, str]) -> S3Access:
    return S3Access.from_environment(job_environment)


def row(run_id: str, code: int = 0, **more: Any) -> dict[str, Any]:
    unknown = dict.fromkeys(schema().names)
    return {
        **unknown,
        "dataset": "d",
        "run": run_id,
        "location": "s3://b/t",
        "exit": code,
        "began": datetime.now(UTC),
        "expectations": [],
        **more,
    }


def test_a_run_that_is_done_has_one_row_and_each_attempt_that_was_not_its_own(
    catalog: Catalog, place: Place, access: S3Access
) -> None:
    with pytest.raises(NotFound, match="there is no table of runs"):
        rows(place.location, access)
    for code in (3, 1, 0, 0, 0):
        append(place.location, row("a", code), catalog.leases, access, None)
    append(place.location, row("b", 0, dataset="other", message="it's"), catalog.leases, access, None)
    assert [(one["run"], one["exit"]) for one in rows(place.location, access)] == [
        ("a", 3),
        ("a", 1),
        ("a", 0),
        ("b", 0),
    ]
    assert [one["exit"] for one in rows(place.location, access, "d", failed=True)] == [3, 1]
    assert [one["message"] for one in rows(place.location, access, "other")] == ["it's"]


def test_runs_that_end_at_once_lose_no_row(catalog: Catalog, place: Place, access: S3Access) -> None:
    ids = [f"r{n % 8}" for n in range(16)]  # each twice
    with ThreadPoolExecutor(4) as several:
        list(several.map(lambda one: append(place.location, row(one), catalog.leases, access, None), ids))
    assert sorted(one["run"] for one in rows(place.location, access)) == sorted(set(ids))


def test_a_table_of_other_columns_takes_no_row_and_is_told(catalog: Catalog, place: Place, access: S3Access) -> None:
    write_deltalake(place.location, pa.table({"run": [1]}), storage_options=access.deltalake())
    with pytest.raises(PipelineError, match="cast"):
        append(place.location, row("a"), catalog.leases, access, None)
    assert len(DeltaTable(place.location, storage_options=access.deltalake()).to_pyarrow_table()) == 1


@pytest.mark.spark
@filtered
def test_where_deltalake_is_not_installed_spark_writes_the_same_row(
    spark: "SparkSession", catalog: Catalog, place: Place, access: S3Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = row(
        "a",
        expectations=[{"name": "x", "action": "warn", "at_most": None, "failing": 2, "met": False}],
        phases=[{"phase": "writing", "seconds": 1.5}],
    )
    append(f"{place.location}/without", full, catalog.leases, access, None)
    with monkeypatch.context() as absent:
        absent.setitem(sys.modules, "deltalake", None)
        append(place.location, full, catalog.leases, access, None)  # nobody is there to write it
        for _ in range(2):
            append(f"{place.location}/with", full, catalog.leases, access, spark)
        append(f"{place.location}/without", row("b"), catalog.leases, access, spark)
        append(f"{place.location}/without", full, catalog.leases, access, spark)
    assert opened(place.location, access) is None
    assert rows(f"{place.location}/with", access) == rows(f"{place.location}/without", access, "d")[:1] == [full]
    assert [one["run"] for one in rows(f"{place.location}/without", access)] == ["a", "b"]


def test_the_table_has_a_column_for_whatever_becomes_of_a_row() -> None:
    counts = {
        "read",
        "written",
        "changed",
        *RunSummary("r", "s3://b/t", 0, repeated=False, rows=0, seconds=0.0).other_counts,
    }
    assert {name for name in schema().names if name.startswith("rows_")} == {f"rows_{name}" for name in counts}


@pytest.mark.parametrize(
    ("runs", "right"),
    [("s3://b/t_runs", True), ("s3://b/t", False), ("s3a://b/t/", False), ("s3://b/t/runs", False), ("s3://b", False)],
)
def test_the_table_of_runs_is_not_in_another_one(runs: str, right: bool) -> None:
    if right:
        refuse_same(runs, {"the target": "s3://b/t"})
    else:
        with pytest.raises(PipelineError, match="a table of its own"):
            refuse_same(runs, {"the target": "s3://b/t"})


def test_rows_put_aside_do_not_go_where_runs_are() -> None:
    content = dataset("s3://b/t", sources={"s": {"format": "json", "paths": ["s3://b/s"]}}, quarantine="s3://b/t_runs")
    [found] = check(yaml.safe_dump(content)).mistakes
    assert (found.field, "is the location of the table of runs" in found.message) == ("quarantine", True)


class Told:
    """Runs of a dataset in this process, with what each printed."""

    def __init__(self, place: Place, access: S3Access, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.access, self._capsys = place, access, capsys
        self.file = place.folder / "tried.yaml"

    def put(self, ids: list[int], **parts: Any) -> None:
        source = json_source(self.place.folder, "s", [{"id": n} for n in ids], "id INT")
        self.file.write_text(yaml.safe_dump(dataset(self.place.location, sources={"s": source}, **parts)))

    def run(self, run_id: str, *more: str) -> tuple[int, list[dict[str, Any]]]:
        code = run.main([str(self.file), f"--run-id={run_id}", "--json", *more])
        return code, [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def rows(self) -> list[dict[str, Any]]:
        return rows(f"{self.place.location}_runs", self.access)


@pytest.fixture
def told(  # noqa: PLR0917 -- fixtures are arguments
    spark: "SparkSession",
    catalog: Catalog,
    place: Place,
    access: S3Access,
    capsys: pytest.CaptureFixture[str],
    job_environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Told]:
    assert spark.version  # which a run finds, and the tables of
    assert catalog
    for name, value in job_environment.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()  # which a test before may have asked for
    yield Told(place, access, capsys)
    settings.cache_clear()


MERGE = {"write": {"mode": "merge", "keys": ["id"]}}


@pytest.mark.spark
@filtered
def test_each_run_has_a_row_with_what_came_of_it(told: Told) -> None:
    rules: list[dict[str, Any]] = [
        {"expect": "range", "column": "id", "max": 8, "action": "drop", "at_most": "1 row"},
        {"expect": "range", "name": "low", "column": "id", "min": 2, "action": "warn"},
    ]
    told.put([1, 2, 3, 9], expectations=rules, **MERGE)
    code, events = told.run("first")
    assert (code, events[-1]["event"]) == (0, "done"), events
    [first] = told.rows()
    assert {name: first[name] for name in ("dataset", "run", "location", "exit", "message", "repeated")} == {
        "dataset": "tried",
        "run": "first",
        "location": told.place.location,
        "exit": 0,
        "message": None,
        "repeated": False,
    }
    assert (first["version_before"], first["version_after"]) == (None, 0)
    counts = {name: first[f"rows_{name}"] for name in ("read", "written", "unchanged", "quarantined", "dropped")}
    assert counts == {"read": 4, "written": 3, "unchanged": 0, "quarantined": 0, "dropped": 1}
    assert first["expectations"] == [
        {"name": "range_id", "action": "drop", "at_most": "1 row", "failing": 1, "met": False},
        {"name": "low", "action": "warn", "at_most": None, "failing": 1, "met": False},
    ]
    assert {"starting", "reading", "writing"} <= {one["phase"] for one in first["phases"]}
    assert sum(one["seconds"] for one in first["phases"]) <= first["seconds"]

    assert told.run("first")[0] == 0
    assert told.rows() == [first]

    told.put([1, 2, 9, 10], expectations=rules, **MERGE)
    assert told.run("second")[0] == 3
    [_, refused] = told.rows()
    assert (refused["exit"], refused["version_after"]) == (3, refused["version_before"])
    assert refused["message"].endswith(
        ": expectations[0]: expectations failed, nothing was written: range_id (2 of 4 rows, at most 1 row)."
    )
    assert [one["failing"] for one in refused["expectations"]] == [2, 1]
    assert refused["rows_written"] is None

    told.put([1, 2, 7], expectations=rules, **MERGE)
    assert told.run("second")[0] == 0
    assert [(one["run"], one["exit"]) for one in told.rows()] == [("first", 0), ("second", 3), ("second", 0)]


@pytest.mark.spark
@filtered
def test_a_row_that_was_not_written_is_made_good_by_repeating_the_run(
    spark: "SparkSession", catalog: Catalog, told: Told
) -> None:
    told.put([1])
    content = yaml.safe_load(told.file.read_text())
    build(spark, run_of(content, "killed"), catalog, silent)  # and dies before its row
    assert told.run("killed")[0] == 0
    assert told.run("killed")[0] == 0
    [only] = told.rows()
    assert (only["repeated"], only["exit"], only["version_after"], only["rows_written"]) == (True, 0, 0, None)


@pytest.mark.spark
@filtered
def test_a_table_of_runs_that_cannot_be_written_is_told_and_undoes_nothing(told: Told) -> None:
    told.put([1])
    code, events = told.run("a", "--runs=s3://no-such-lake/runs")
    assert (code, events[-1]["event"], events[-1]["version"]) == (0, "done", 0)
    [failed] = [event for event in events if event["event"] == "step" and event["failed"]]
    assert failed["step"] == "Recording the run in s3://no-such-lake/runs"
    assert "not done: " in failed["detail"]
    code, events = told.run("b", f"--runs={told.place.location}/runs")
    assert (code, events[-1]["event"]) == (1, "failed")
    assert "a table of its own" in events[-1]["message"]


def said(word: str) -> dict[str, Any]:
    return {**MERGE, "steps": [{"view": "told", "sql": "SELECT id, 'word' AS said FROM s".replace("word", word)}]}


@pytest.mark.spark
@filtered
def test_a_run_that_had_nothing_to_commit_is_known_by_its_row(spark: "SparkSession", told: Told) -> None:
    def delivered(run_id: str, word: str) -> tuple[Any, ...]:
        told.put([1, 2], **said(word))
        code, events = told.run(run_id)
        assert code == 0, events
        one: Any = spark.read.format("delta").load(told.place.spark_location).first()
        return one["said"], *(events[-1][name] for name in ("version", "committed", "repeated", "unchanged"))

    assert delivered("a", "old") == ("old", 0, True, False, 0)
    assert delivered("b", "old") == ("old", 0, False, False, 2)
    assert delivered("c", "new") == ("new", 1, True, False, 0)
    # Done before what is there now: its rows must not come back.
    assert delivered("b", "old") == ("new", 1, False, True, 0)
    rows = told.rows()
    assert [(one["run"], one["version_before"], one["version_after"]) for one in rows] == [
        ("a", None, 0),
        ("b", 0, 0),
        ("c", 0, 1),
    ]
    assert (rows[1]["rows_written"], rows[1]["rows_unchanged"], rows[1]["exit"]) == (0, 2, 0)
    # Another table has nothing of that run.
    place = told.place
    told.place = Place(f"{place.location}_other", f"{place.prefix}_other", place.folder)
    runs = f"--runs={place.location}_runs"
    told.put([1], **said("first"))
    assert told.run("d", runs)[0] == 0
    told.put([1], **said("again"))
    code, events = told.run("b", runs)
    assert (code, events[-1]["repeated"], events[-1]["written"]) == (0, False, 1)


@pytest.mark.spark
@filtered
def test_a_run_that_only_its_row_knows_is_not_done_without_it(spark: "SparkSession", told: Told) -> None:
    told.put([1], **MERGE)
    assert told.run("a")[0] == 0
    code, events = told.run("b", "--runs=s3://no-such-lake/runs")
    assert code == 1
    assert "the table of runs s3://no-such-lake/runs cannot be read" in events[-1]["message"]
    runs = f"delta.`{told.place.spark_location}_runs`"
    spark.sql(f"ALTER TABLE {runs} ADD CONSTRAINT no_b CHECK (run <> 'b')")
    code, events = told.run("b")
    assert (code, events[-1]["event"]) == (5, "failed"), events[-1]
    assert f"the run's row in {told.place.location}_runs" in events[-1]["message"]
    assert "run it again with --run-id b" in events[-1]["message"]
    spark.sql(f"ALTER TABLE {runs} DROP CONSTRAINT no_b")
    assert told.run("b")[0] == 0


@pytest.mark.spark
@filtered
def test_a_dry_run_has_no_row(told: Told) -> None:
    told.put([1])
    assert told.run("a", "--dry-run")[0] == 0
    with pytest.raises(NotFound):
        told.rows()
