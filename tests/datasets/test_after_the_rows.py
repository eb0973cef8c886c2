"""Test steps after the commit: problems are refused before it, or reported and completed later."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from datasets.files import dataset, json_source, run_of
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.errors import Conflict, NotFound, Unavailable
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.dry_run import plan_run
from deltaic_datasets.run.run_state import Run
from deltaic_pipeline.failures import PipelineError, Unfinished, exit_code
from deltaic_pipeline.job_command import Report, run_job
from deltaic_pipeline.publish import PublishJob, publish
from deltaic_pipeline.table.catalog_entry import CatalogEntry, EntryName, JobCatalog
from deltaic_pipeline.table.sources import Source
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction
from deltaic_pipeline.table.writing import write
from deltaic_terminal.progress import Progress, silent
from pipeline.place import BUCKET, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

STEPS = [{"view": "last", "sql": "SELECT id, DATE'2026-01-01' AS day, id > 1 AS ok, 'x' AS label FROM s"}]


@pytest.fixture
def list_objects(place: Place, s3: "S3Client") -> Callable[[], list[str]]:
    """Return a function that lists commits and other JSON files at the test's location."""
    return lambda: json_files(s3, place)


def json_files(s3: "S3Client", place: Place) -> list[str]:
    objects = s3.list_objects_v2(Bucket=BUCKET, Prefix=place.prefix).get("Contents", [])
    return [item["Key"] for item in objects if item["Key"].endswith(".json")]


@pytest.fixture(scope="module")
def existing_table(
    spark: "SparkSession",
    catalog: JobCatalog,
    store_options: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Place:
    """Return the place of a table that no test changes."""
    place = Place(f"s3://{BUCKET}/after-the-rows", "after-the-rows", tmp_path_factory.mktemp("rows"), store_options)
    build(spark, run_of(content(place), "first"), catalog, silent)
    return place


def content(place: Place, **more: Any) -> dict[str, Any]:
    source = json_source(place.folder, "s", [{"id": 1}, {"id": 2}], "id INT")
    return dataset(place.location, sources={"s": source}, **{"steps": STEPS, **more})


def run_with_lines(content: dict[str, Any], run_id: str) -> Run:
    return replace(run_of(content, run_id), origin=lambda path: f"d.yaml:7: {'.'.join(map(str, path))}")


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "cluster column": ({"target": {"cluster_by": ["dya"]}}, r"d\.yaml:7: target\.cluster_by\.0: 'dya' .*mean day"),
    "cluster type": ({"target": {"cluster_by": ["ok"]}}, r"target\.cluster_by\.0: 'ok' is of type boolean"),
    "column without statistics": (
        {"target": {"cluster_by": ["label"], "properties": {"delta.dataSkippingNumIndexedCols": 2}}},
        r"d\.yaml:7: target\.cluster_by: .*'label'",
    ),
    "partition column": ({"target": {"partition_by": ["dya"]}}, r"target\.partition_by\.0: 'dya' .*mean day"),
    "comment": ({"target": {"columns": {"lable": "x"}}}, r"target\.columns\.lable: 'lable' .*mean label"),
    "key": ({"write": {"mode": "merge", "keys": ["ident"]}}, r"write\.keys\.0: 'ident'"),
    "at": ({"write": {"mode": "scd2", "keys": ["id"], "at": "dy"}}, r"write\.at: 'dy' .*mean day"),
    "expectation": (
        {"expectations": [{"expect": "not_null", "columns": ["id", "labell"]}]},
        r"expectations\.0\.columns\.1: 'labell' .*mean label",
    ),
    "condition": (
        {"expectations": [{"expect": "sql", "name": "few", "condition": "labell > 0"}]},
        r"d\.yaml:7: expectations\.0: the expectation few: .*labell",
    ),
    "where": (
        {"write": {"mode": "overwrite_partitions", "where": "labell > 0"}},
        r"d\.yaml:7: write\.where: .*labell",
    ),
    "property's value": (
        {"target": {"properties": {"delta.checkpointInterval": "often"}}},
        r"d\.yaml:7: target\.properties: .*positive integer",
    ),
}


@pytest.mark.parametrize(("more", "message"), MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize(
    "exists",  # test_bad_input.py::test_unsuitable_rows_leave_the_table_unchanged has a table
    [
        pytest.param(False, id="a new table"),
        pytest.param(True, id="a table that is there", marks=pytest.mark.long),
    ],
)
def test_unsupported_table_settings_are_refused_before_the_first_commit(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    catalog: JobCatalog,
    place: Place,
    s3: "S3Client",
    request: pytest.FixtureRequest,
    more: dict[str, Any],
    message: str,
    exists: bool,
) -> None:
    if exists:
        place = request.getfixturevalue("existing_table")
    before = json_files(s3, place)
    assert bool(before) == exists
    wrong = run_with_lines(content(place, **more), "second")
    with pytest.raises(PipelineError, match=message):
        build(spark, wrong, catalog, silent)
    with pytest.raises(PipelineError, match=message):
        plan_run(spark, wrong)
    assert json_files(s3, place) == before


def test_stream_with_wrong_settings_is_refused_before_its_first_commit(
    spark: "SparkSession", catalog: JobCatalog, place: Place, list_objects: Callable[[], list[str]]
) -> None:
    stream = {"source": "s", "checkpoint": f"{place.location}-checkpoint"}
    wrong_content = content(place, stream=stream, target={"cluster_by": ["dya"]})
    wrong_content["sources"]["s"]["paths"] = [f"{place.folder}/*.json"]
    wrong = run_of(wrong_content, "one")
    with pytest.raises(PipelineError, match="did you mean day"):
        build(spark, wrong, catalog, silent)
    assert [name for name in list_objects() if "/_delta_log/" in name] == []


@pytest.mark.long  # in CI: test_dataset_file_sets_schema_comments_and_sharing_of_the_table
def test_table_can_be_clustered_by_a_column_of_any_name(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    named_columns = {"delta.columnMapping.mode": "name"}
    target = {"cluster_by": ["the day"], "properties": named_columns, "change_data_feed": False}
    renamed_content = content(
        place, target=target, steps=[{"view": "v", "sql": "SELECT id, now() AS `the day` FROM s"}]
    )
    for run in ("one", "two"):
        build(spark, run_of(renamed_content, run), catalog, silent)
    detail: Any = spark.sql(f"DESCRIBE DETAIL delta.`{place.spark_location}`").first()
    assert detail["clusteringColumns"] == ["`the day`"]
    history: Any = spark.sql(f"DESCRIBE HISTORY delta.`{place.spark_location}`")
    assert [row["operation"] for row in history.collect()] == ["WRITE", "SET TBLPROPERTIES", "WRITE"]


def test_partitioned_table_cannot_be_clustered(
    spark: "SparkSession", catalog: JobCatalog, place: Place, list_objects: Callable[[], list[str]]
) -> None:
    build(spark, run_of(content(place, target={"partition_by": ["day"]}), "first"), catalog, silent)
    before = list_objects()
    with pytest.raises(PipelineError, match=r"target\.cluster_by: .* is partitioned"):
        build(spark, run_of(content(place, target={"cluster_by": ["id"]}), "second"), catalog, silent)
    assert list_objects() == before


@pytest.mark.parametrize(
    ("kind", "fits"), [("STRING", True), pytest.param("INT", True, marks=pytest.mark.long), ("ARRAY<INT>", False)]
)
def test_incompatible_quarantine_table_is_refused_before_the_first_commit(  # noqa: PLR0917 -- pytest's
    spark: "SparkSession",
    catalog: JobCatalog,
    place: Place,
    list_objects: Callable[[], list[str]],
    kind: str,
    fits: bool,
) -> None:
    aside = DeltaTarget(f"{place.location}_quarantine", "append")
    column = {"STRING": "label", "INT": "id", "ARRAY<INT>": "label"}[kind]
    write(spark, spark.sql(f"SELECT CAST(NULL AS {kind}) AS {column}"), aside, Transaction.of_run("other"))
    before = list_objects()
    odd = [{"expect": "range", "column": "id", "max": 1, "action": "quarantine"}]
    run = run_of(content(place, expectations=odd), "one")
    if fits:
        assert build(spark, run, catalog, silent).quarantined == 1
    else:
        with pytest.raises(PipelineError, match=r"quarantine: .*label"):
            build(spark, run, catalog, silent)
        assert list_objects() == before


def test_missing_share_is_created_only_with_create_share(
    spark: "SparkSession", catalog: JobCatalog, place: Place, admin: CatalogAdmin, list_objects: Callable[[], list[str]]
) -> None:
    admin.shares.create("careful_share")
    name = "careful_shar.lab.doses"
    with pytest.raises(NotFound, match=r"target\.share: there is no share .*: did you mean careful_share\?"):
        build(spark, run_of(content(place, target={"share": name}), "one"), catalog, silent)
    rows = Source("json", [str(place.folder / "s.json")])
    job = PublishJob(rows, DeltaTarget(place.location), entry=CatalogEntry(EntryName.parse(name), place.location))
    with pytest.raises(NotFound, match="--create-share"):
        publish(spark, job, catalog)
    assert list_objects() == []
    assert [share.name for share in admin.shares.list() if share.name.startswith("careful")] == ["careful_share"]
    summary = build(spark, run_of(content(place, target={"share": name, "create_share": True}), "two"), catalog, silent)
    assert summary.created == ["share careful_shar", "schema careful_shar.lab", "table careful_shar.lab.doses"]
    step = catalog.next_step(EntryName.parse(name))
    assert step == "no recipient can read careful_shar yet; next: deltaic grant create <recipient> careful_shar"
    admin.recipients.create("careful_reader")
    admin.grants.create("careful_reader", "careful_shar")
    again = build(spark, run_of(content(place, target={"share": name}), "three"), catalog, silent)
    assert (list(again.created), catalog.next_step(EntryName.parse(name))) == ([], "")


def test_unknown_storage_is_refused_before_the_first_commit(
    spark: "SparkSession", catalog: JobCatalog, place: Place, list_objects: Callable[[], list[str]]
) -> None:
    target = {"share": "stored.s.t", "create_share": True, "storage": "nowhere"}
    with pytest.raises(NotFound, match="there is no storage 'nowhere'"):
        build(spark, run_of(content(place, target=target), "one"), catalog, silent)
    assert list_objects() == []


class Failing(JobCatalog):
    """A catalog whose checks pass, and whose first write fails."""

    attempts: ClassVar[Counter[str]] = Counter()

    def register(self, entry: CatalogEntry) -> Sequence[str]:
        self.attempts[entry.location] += 1
        if self.attempts[entry.location] == 1:
            raise Unavailable("the catalog is busy: try again later.")
        return super().register(entry)


def test_failed_step_after_the_commit_is_reported_and_completed_by_the_next_run(
    spark: "SparkSession", catalog: JobCatalog, place: Place, admin: CatalogAdmin
) -> None:
    target = {"share": "late.s.doses", "create_share": True, "comment": "Doses"}
    run = run_of(content(place, target=target), "one")
    failing = Failing(catalog.leases, catalog.admin)
    with pytest.raises(Unfinished) as unfinished:
        build(spark, run, failing, silent)
    assert unfinished.value.message == (
        "the rows are in version 0; not done: the catalog entry late.s.doses (the catalog is busy: try again later). "
        "To complete it, run the job again."
    )
    assert (unfinished.value.version, exit_code(unfinished.value)) == (0, 5)
    again = build(spark, replace(run, run_id="two"), failing, silent)
    assert again.version != 0
    assert admin.tables.get("late", "s", "doses").location == place.location


def test_json_output_has_the_version_and_the_missing_steps(capsys: pytest.CaptureFixture[str]) -> None:
    def job(_: Progress, __: Report) -> None:
        raise Unfinished(7, ["the catalog entry a.b.c (busy)"])

    assert run_job(job, as_json=True, stopped="") == 5
    [event] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (event["code"], event["exitCode"]) == ("UNFINISHED", 5)
    assert (event["version"], event["missing"]) == (7, ["the catalog entry a.b.c (busy)"])


@pytest.mark.long  # in CI: the failed step above, and test_repeated_run_writes_the_missing_quarantine_table
def test_failed_quarantine_is_reported_and_completed_by_the_same_run(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    odd = [{"expect": "range", "column": "id", "max": 1, "action": "quarantine"}]
    run = run_of(content(place, expectations=odd), "one")
    aside = f"delta.`{place.spark_location}_quarantine`"
    spark.sql(f"CREATE TABLE {aside} (id INT) USING delta")
    spark.sql(f"ALTER TABLE {aside} ADD CONSTRAINT small CHECK (id < 0)")
    with pytest.raises(Unfinished, match=r"rows are in version 0; not done: the quarantined rows .*--run-id one\."):
        build(spark, run, catalog, silent)
    spark.sql(f"ALTER TABLE {aside} DROP CONSTRAINT small")
    assert build(spark, run, catalog, silent).quarantined == 1
    assert len(place.table().rows("id")) == 1


def test_failed_catalog_entry_of_a_publication_is_completed_by_the_next_run(
    spark: "SparkSession", catalog: JobCatalog, place: Place, admin: CatalogAdmin
) -> None:
    content(place)
    rows = Source("json", [str(place.folder / "s.json")])
    entry = CatalogEntry(EntryName("late", "s", "rows"), place.location, create_share=True)
    job = PublishJob(rows, DeltaTarget(place.location), entry=entry, run_id="one")
    failing = Failing(catalog.leases, catalog.admin)
    with pytest.raises(Unfinished, match=r"version 0; not done: the catalog entry late\.s\.rows"):
        publish(spark, job, failing)
    assert publish(spark, job, failing).repeated
    assert admin.tables.get("late", "s", "rows").location == place.location


def test_name_of_another_table_is_reported_with_its_line(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    target = {"share": "named.s.t", "create_share": True}
    build(spark, run_of(content(place, target=target), "one"), catalog, silent)
    second_content = content(place, target=target)
    second_content["target"]["location"] = f"{place.location}-elsewhere"
    with pytest.raises(Conflict, match=r"d\.yaml:7: target\.share: named\.s\.t is already shared from"):
        build(spark, run_with_lines(second_content, "two"), catalog, silent)
