"""Test the runs table: one row for a successful run, and one for each failed attempt."""

import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.run_log import append, open_table, refuse_overlap, rows, schema
from deltaic_terminal.progress import silent
from deltalake import DeltaTable, write_deltalake
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

filtered = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def access(embedded_aws: EmbeddedAws) -> S3Access:
    return S3Access.from_environment(embedded_aws.environment)


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


def test_successful_run_has_one_row_and_each_failure_has_its_own(
    catalog: JobCatalog, place: Place, access: S3Access
) -> None:
    with pytest.raises(NotFound, match="there is no runs table"):
        rows(place.location, access)
    for code in (3, 1, 0, 0, 0):
        append(place.location, row("a", code), catalog.leases, access, None)
    append(place.location, row("b", 0, dataset="other", message="it's"), catalog.leases, access, None)
    assert [(item["run"], item["exit"]) for item in rows(place.location, access)] == [
        ("a", 3),
        ("a", 1),
        ("a", 0),
        ("b", 0),
    ]
    assert [item["exit"] for item in rows(place.location, access, "d", failed=True)] == [3, 1]
    assert [item["message"] for item in rows(place.location, access, "other")] == ["it's"]


def test_parallel_runs_lose_no_row(catalog: JobCatalog, place: Place, access: S3Access) -> None:
    ids = [f"r{n % 8}" for n in range(16)]  # each twice
    with ThreadPoolExecutor(4) as several:
        list(several.map(lambda item: append(place.location, row(item), catalog.leases, access, None), ids))
    assert sorted(item["run"] for item in rows(place.location, access)) == sorted(set(ids))


def test_table_with_other_columns_is_refused(catalog: JobCatalog, place: Place, access: S3Access) -> None:
    write_deltalake(place.location, pa.table({"run": [1]}), storage_options=access.deltalake())
    with pytest.raises(PipelineError, match="cast"):
        append(place.location, row("a"), catalog.leases, access, None)
    assert len(DeltaTable(place.location, storage_options=access.deltalake()).to_pyarrow_table()) == 1


@pytest.mark.spark
@filtered
def test_spark_writes_the_same_row_without_deltalake(
    spark: "SparkSession", catalog: JobCatalog, place: Place, access: S3Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = row(
        "a",
        expectations=[{"name": "x", "action": "warn", "at_most": None, "failing": 2, "met": False}],
        phases=[{"phase": "writing", "seconds": 1.5}],
    )
    append(f"{place.location}/without", full, catalog.leases, access, None)
    with monkeypatch.context() as absent:
        absent.setitem(sys.modules, "deltalake", None)
        append(place.location, full, catalog.leases, access, None)  # no deltalake and no Spark
        for _ in range(2):
            append(f"{place.location}/with", full, catalog.leases, access, spark)
        append(f"{place.location}/without", row("b"), catalog.leases, access, spark)
        append(f"{place.location}/without", full, catalog.leases, access, spark)
    assert open_table(place.location, access) is None
    assert rows(f"{place.location}/with", access) == rows(f"{place.location}/without", access, "d")[:1] == [full]
    assert [item["run"] for item in rows(f"{place.location}/without", access)] == ["a", "b"]


def test_table_of_runs_has_a_column_for_each_count() -> None:
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
def test_table_of_runs_must_be_outside_other_tables(runs: str, right: bool) -> None:
    if right:
        refuse_overlap(runs, {"the target": "s3://b/t"})
    else:
        with pytest.raises(PipelineError, match="overlaps the folder of"):
            refuse_overlap(runs, {"the target": "s3://b/t"})


def test_quarantine_must_not_be_the_table_of_runs() -> None:
    content = dataset("s3://b/t", sources={"s": {"format": "json", "paths": ["s3://b/s"]}}, quarantine="s3://b/t_runs")
    [mistake] = check(yaml.safe_dump(content)).mistakes
    assert (mistake.field, "is the location of the runs table" in mistake.message) == ("quarantine", True)


class RecordedRuns:
    """Runs of a dataset in this process, with their output."""

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
def recorded(  # noqa: PLR0917 -- fixtures are arguments
    spark: "SparkSession",
    catalog: JobCatalog,
    place: Place,
    access: S3Access,
    capsys: pytest.CaptureFixture[str],
    job_environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[RecordedRuns]:
    assert spark.version  # the job uses this session and the catalog's tables
    assert catalog
    for name, value in job_environment.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()  # an earlier test may have filled it
    yield RecordedRuns(place, access, capsys)
    settings.cache_clear()


MERGE = {"write": {"mode": "merge", "keys": ["id"]}}


@pytest.mark.spark
@filtered
def test_each_run_has_a_row_with_its_result(recorded: RecordedRuns) -> None:
    rules: list[dict[str, Any]] = [
        {"expect": "range", "column": "id", "max": 8, "action": "drop", "at_most": "1 row"},
        {"expect": "range", "name": "low", "column": "id", "min": 2, "action": "warn"},
    ]
    recorded.put([1, 2, 3, 9], expectations=rules, **MERGE)
    code, events = recorded.run("first")
    assert (code, events[-1]["event"]) == (0, "done"), events
    [first] = recorded.rows()
    assert {name: first[name] for name in ("dataset", "run", "location", "exit", "message", "repeated")} == {
        "dataset": "tried",
        "run": "first",
        "location": recorded.place.location,
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
    assert {"starting", "reading", "writing"} <= {item["phase"] for item in first["phases"]}
    assert sum(item["seconds"] for item in first["phases"]) <= first["seconds"]

    assert recorded.run("first")[0] == 0
    assert recorded.rows() == [first]

    recorded.put([1, 2, 9, 10], expectations=rules, **MERGE)
    assert recorded.run("second")[0] == 3
    [_, refused] = recorded.rows()
    assert (refused["exit"], refused["version_after"]) == (3, refused["version_before"])
    assert refused["message"].endswith(
        ": expectations[0]: expectations failed, nothing was written: range_id (2 of 4 rows, at most 1 row)."
    )
    assert [item["failing"] for item in refused["expectations"]] == [2, 1]
    assert refused["rows_written"] is None

    recorded.put([1, 2, 7], expectations=rules, **MERGE)
    assert recorded.run("second")[0] == 0
    assert [(item["run"], item["exit"]) for item in recorded.rows()] == [("first", 0), ("second", 3), ("second", 0)]


@pytest.mark.spark
@filtered
def test_missing_row_is_written_by_repeating_the_run(
    spark: "SparkSession", catalog: JobCatalog, recorded: RecordedRuns
) -> None:
    recorded.put([1])
    content = yaml.safe_load(recorded.file.read_text())
    build(spark, run_of(content, "killed"), catalog, silent)  # as if the run had died before writing its row
    assert recorded.run("killed")[0] == 0
    assert recorded.run("killed")[0] == 0
    [only] = recorded.rows()
    assert (only["repeated"], only["exit"], only["version_after"], only["rows_written"]) == (True, 0, 0, None)


@pytest.mark.spark
@filtered
def test_unwritable_table_of_runs_is_reported_and_the_rows_stay(recorded: RecordedRuns) -> None:
    recorded.put([1])
    code, events = recorded.run("a", "--runs=s3://no-such-lake/runs")
    assert (code, events[-1]["event"], events[-1]["version"]) == (0, "done", 0)
    [failed] = [event for event in events if event["event"] == "step" and event["failed"]]
    assert failed["step"] == "Recording the run in s3://no-such-lake/runs"
    assert "not done: " in failed["detail"]
    code, events = recorded.run("b", f"--runs={recorded.place.location}/runs")
    assert (code, events[-1]["event"]) == (1, "failed")
    assert "overlaps the folder of" in events[-1]["message"]


def step_with(value: str) -> dict[str, Any]:
    return {**MERGE, "steps": [{"view": "told", "sql": "SELECT id, 'word' AS said FROM s".replace("word", value)}]}


@pytest.mark.spark
@filtered
def test_run_without_a_commit_is_recognized_by_its_row(recorded: RecordedRuns) -> None:
    def delivered(run_id: str, value: str) -> tuple[Any, ...]:
        recorded.put([1, 2], **step_with(value))
        code, events = recorded.run(run_id)
        assert code == 0, events
        said = recorded.place.table().rows("said")[0][0]
        return said, *(events[-1][name] for name in ("version", "committed", "repeated", "unchanged"))

    assert delivered("a", "old") == ("old", 0, True, False, 0)
    assert delivered("b", "old") == ("old", 0, False, False, 2)
    assert delivered("c", "new") == ("new", 1, True, False, 0)
    # The table has newer rows now. Run b is done, so its rows must not return.
    assert delivered("b", "old") == ("new", 1, False, True, 0)
    rows = recorded.rows()
    assert [(item["run"], item["version_before"], item["version_after"]) for item in rows] == [
        ("a", None, 0),
        ("b", 0, 0),
        ("c", 0, 1),
    ]
    assert (rows[1]["rows_written"], rows[1]["rows_unchanged"], rows[1]["exit"]) == (0, 2, 0)


@pytest.mark.spark
@pytest.mark.long  # in CI: test_run_ids.py::test_transaction_ids_differ_by_dataset_and_target
@filtered
def test_run_of_another_table_is_not_done(recorded: RecordedRuns) -> None:
    for run_id in ("a", "b"):
        recorded.put([1], **step_with("old"))
        assert recorded.run(run_id)[0] == 0
    place = recorded.place
    recorded.place = replace(place, location=f"{place.location}_other", prefix=f"{place.prefix}_other")
    runs = f"--runs={place.location}_runs"
    recorded.put([1], **step_with("first"))
    assert recorded.run("d", runs)[0] == 0
    recorded.put([1], **step_with("again"))
    code, events = recorded.run("b", runs)
    assert (code, events[-1]["repeated"], events[-1]["written"]) == (0, False, 1)


@pytest.mark.spark
@filtered
def test_run_without_a_commit_fails_without_its_row(spark: "SparkSession", recorded: RecordedRuns) -> None:
    recorded.put([1], **MERGE)
    assert recorded.run("a")[0] == 0
    code, events = recorded.run("b", "--runs=s3://no-such-lake/runs")
    assert code == 1
    assert "the runs table s3://no-such-lake/runs cannot be read" in events[-1]["message"]
    runs = f"delta.`{recorded.place.spark_location}_runs`"
    spark.sql(f"ALTER TABLE {runs} ADD CONSTRAINT no_b CHECK (run <> 'b')")
    code, events = recorded.run("b")
    assert (code, events[-1]["event"]) == (5, "failed"), events[-1]
    assert f"the run's row in {recorded.place.location}_runs" in events[-1]["message"]
    assert "run it again with --run-id b" in events[-1]["message"]
    spark.sql(f"ALTER TABLE {runs} DROP CONSTRAINT no_b")
    assert recorded.run("b")[0] == 0


@pytest.mark.spark
@filtered
def test_dry_run_has_no_row(recorded: RecordedRuns) -> None:
    recorded.put([1])
    assert recorded.run("a", "--dry-run")[0] == 0
    with pytest.raises(NotFound):
        recorded.rows()
