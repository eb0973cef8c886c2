"""Test publishing: all modes, any partition values, one commit for each run, and the catalog entry last."""

import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import Conflict, NotFound
from deltaic_pipeline.failures import LeaseLost, PipelineError
from deltaic_pipeline.publish import PublishJob, publish
from deltaic_pipeline.spark.session import close_thread_connection
from deltaic_pipeline.table.catalog_entry import CatalogEntry, EntryName, JobCatalog
from deltaic_pipeline.table.sources import Source, read
from deltaic_pipeline.table.table_properties import check_properties, describe
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import exists
from deltaic_pipeline.table.writing import write
from deltaic_terminal.progress import Step
from pipeline.place import BUCKET, CATALOG, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the socket for collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SPECIAL_TEXTS = [
    "plain",
    "a b",
    "50%",
    "%41",
    "a+b",
    "a=b",
    "it's",
    '"quoted"',
    "a/b",
    "a:b?c#d",
    "ünï-漢字-🦠",
    "a&b;c",
    "~.,@!",
]


def a_file(folder: Path, name: str, rows: list[dict[str, Any]]) -> Source:
    file = folder / f"{name}.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Source("json", [str(file)])


def versions(s3: "S3Client", place: Place) -> list[list[dict[str, Any]]]:
    bucket = place.location.split("/")[2]
    items = s3.list_objects_v2(Bucket=bucket, Prefix=f"{place.prefix}/_delta_log/0").get("Contents", [])
    bodies = [s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read() for item in items]
    return [[json.loads(line) for line in body.decode().split("\n") if line] for body in bodies]


@pytest.mark.parametrize(
    ("source_format", "content", "options"),
    [
        pytest.param("csv", "id,day\n1,2026-01-02\n2,2026-01-03\n", {}, id="csv with a header"),
        pytest.param("csv", "1;2026-01-02\n2;2026-01-03\n", {"header": "false", "sep": ";"}, id="csv by a schema"),
        pytest.param("json", '{"id":1,"day":"2026-01-02"}\n{"id":2,"day":"2026-01-03"}\n', {}, id="json"),
    ],
)
def test_files_are_published_with_sql(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession", catalog: JobCatalog, place: Place, source_format: Any, content: str, options: dict[str, str]
) -> None:
    file = place.folder / "in put+1.txt"
    file.write_text(content)
    schema = "id int, day date" if options else None
    job = PublishJob(
        Source(source_format, [str(file)], options, schema),
        DeltaTarget(place.location),
        sql="SELECT id * 10 AS number, CAST(day AS DATE) AS day FROM source WHERE id < 2",
    )
    publish(spark, job, catalog)
    assert [(number, str(day)) for number, day in place.table().rows("number", "day")] == [(10, "2026-01-02")]


def test_parquet_and_tables_are_sources_too(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    spark.range(3).coalesce(1).write.parquet(str(place.folder / "files"))
    publish(
        spark,
        PublishJob(Source("parquet", [str(place.folder / "files")]), DeltaTarget(f"{place.location}/one")),
        catalog,
    )
    publish(
        spark, PublishJob(Source("delta", [f"{place.location}/one"]), DeltaTarget(f"{place.location}/two")), catalog
    )
    assert place.table("/two").rows("id") == [(0,), (1,), (2,)]


def test_special_partition_values_are_preserved(
    spark: "SparkSession", catalog: JobCatalog, s3: "S3Client", place: Place, admin: CatalogAdmin
) -> None:
    rows = [{"id": number, "label": label} for number, label in enumerate(SPECIAL_TEXTS)]
    target = DeltaTarget(f"{place.location}/odd name+1", partition_by=["label"])
    entry = CatalogEntry(EntryName.parse("nasty.share.values.labels"), target.location, create_share=True)
    publish(spark, PublishJob(a_file(place.folder, "rows", rows), target, entry=entry), catalog)
    assert sorted(place.table("/odd name+1").rows("id", "label")) == list(enumerate(SPECIAL_TEXTS))
    bucket = place.location.split("/")[2]
    objects = s3.list_objects_v2(Bucket=bucket, Prefix=f"{place.prefix}/odd name+1/label=")
    assert len(objects["Contents"]) == len(SPECIAL_TEXTS)
    log = s3.get_object(Bucket=bucket, Key=f"{place.prefix}/odd name+1/_delta_log/{0:020}.json")["Body"].read()
    adds = [json.loads(line)["add"] for line in log.decode().split("\n") if '"add":' in line]
    # Delta protocol, "Add File": the path is URI-encoded once; the object's name is the decoded path.
    assert {f"{place.prefix}/odd name+1/{unquote(add['path'])}" for add in adds} == {
        item["Key"] for item in objects["Contents"]
    }
    assert {add["partitionValues"]["label"] for add in adds} == set(SPECIAL_TEXTS)
    assert admin.tables.get("nasty.share", "values", "labels").location == target.location


def test_overwrite_append_and_merge_write_one_version_each_with_a_change_feed(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client", admin: CatalogAdmin
) -> None:
    entry = CatalogEntry(EntryName("modes", "s", "people"), place.location, create_share=True)

    def run(mode: Any, rows: list[dict[str, Any]], **more: Any) -> int:
        source = a_file(place.folder, f"{mode}-{len(rows)}", rows)
        return publish(
            spark, PublishJob(source, DeltaTarget(place.location, mode, **more), entry=entry), catalog
        ).version

    assert run("overwrite", [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]) == 0
    assert run("append", [{"id": 3, "name": "c"}]) == 1
    merge_rows = [{"id": 2, "name": "B"}, {"id": 3, "name": "c"}, {"id": 4, "name": "d"}]
    assert run("merge", merge_rows, keys=["id"]) == 2
    assert place.table().rows("id", "name") == [(1, "a"), (2, "B"), (3, "c"), (4, "d")]
    # Row 3 is unchanged, so it is not in the feed.
    assert place.table().changes(2, "id", "name") == [
        ("insert", 4, "d"),
        ("update_postimage", 2, "B"),
        ("update_preimage", 2, "b"),
    ]
    assert run("overwrite", [{"id": 9, "name": "z"}]) == 3
    assert place.table().rows("id", "name") == [(9, "z")]
    assert len(versions(s3, place)) == 4
    table = admin.tables.get("modes", "s", "people")
    assert (table.location, table.history) == (place.location, True)


def test_repeated_run_commits_nothing(spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client") -> None:
    source = a_file(place.folder, "day", [{"id": 1}])
    job = PublishJob(source, DeltaTarget(place.location, "append"), run_id="2026-11-21")
    first = publish(spark, job, catalog)
    again = publish(spark, job, catalog)
    other = publish(spark, PublishJob(source, job.target, run_id="2026-11-22"), catalog)
    assert [(run.version, run.repeated) for run in (first, again, other)] == [(0, False), (0, True), (1, False)]
    assert place.table().rows("id") == [(1,), (1,)]
    assert len(versions(s3, place)) == 2


def test_new_columns_need_evolve_schema(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    publish(spark, PublishJob(a_file(place.folder, "one", [{"id": 1}]), DeltaTarget(place.location)), catalog)
    wider = a_file(place.folder, "two", [{"id": 2, "more": "x"}])
    with pytest.raises(PipelineError) as refusal:
        publish(spark, PublishJob(wider, DeltaTarget(place.location, "append")), catalog)
    assert "\n" not in refusal.value.message
    publish(spark, PublishJob(wider, DeltaTarget(place.location, "append", evolve_schema=True)), catalog)
    widest = a_file(place.folder, "three", [{"id": 2, "more": "y", "most": 1.5}])
    publish(spark, PublishJob(widest, DeltaTarget(place.location, "merge", keys=["id"], evolve_schema=True)), catalog)
    assert place.table().rows("id", "more", "most") == [(1, None, None), (2, "y", 1.5)]


def test_properties_are_set_on_new_and_existing_tables(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client"
) -> None:
    source = a_file(place.folder, "one", [{"id": 1}])
    publish(spark, PublishJob(source, DeltaTarget(place.location, change_data_feed=False)), catalog)
    properties = {"delta.deletedFileRetentionDuration": "interval 30 days", "note": "it's 100%"}
    publish(spark, PublishJob(source, DeltaTarget(place.location, "append", properties=properties)), catalog)
    publish(spark, PublishJob(source, DeltaTarget(place.location, "append", properties=properties)), catalog)
    log = versions(s3, place)
    configurations = [line["metaData"]["configuration"] for commit in log for line in commit if "metaData" in line]
    assert configurations == [{}, {**properties, "delta.enableChangeDataFeed": "true"}]
    # The properties are set once, as a separate version after the rows.
    assert [sum("add" in line for line in commit) for commit in log] == [1, 1, 0, 1]


def test_history_without_change_data_is_reported(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    source, steps = a_file(place.folder, "one", [{"id": 1}]), list[Step]()
    entry = CatalogEntry(EntryName("history", "s", place.prefix), place.location, create_share=True)
    for target in (DeltaTarget(place.location, change_data_feed=False), DeltaTarget(place.location, "append")):
        publish(spark, PublishJob(source, target, entry=entry), catalog, steps.append)
    publish(
        spark,
        PublishJob(source, DeltaTarget(place.location, "append", change_data_feed=False), entry=entry),
        catalog,
        steps.append,
    )
    details = [step.detail for step in steps if step.text.startswith("Registering") and step.seconds is not None]
    assert ["the table lacks delta.enableChangeDataFeed=true" in detail for detail in details] == [True, False, False]


ROW = {"id": 1, "small": 1}


@pytest.fixture(scope="module")
def constrained(spark: "SparkSession", s3: "S3Client") -> str:
    """Return the location of a table with a constraint and without properties; refused writes do not change it."""
    assert s3.head_bucket(Bucket=BUCKET)
    location = f"s3://{BUCKET}/constrained"
    rows = spark.sql("SELECT 1 AS id, CAST(1 AS TINYINT) AS small")
    write(spark, rows, DeltaTarget(location, change_data_feed=False), "first")
    spark.sql(f"ALTER TABLE delta.`s3a://{BUCKET}/constrained` ADD CONSTRAINT positive CHECK (id > 0)")
    return location


MERGE: dict[str, Any] = {"mode": "merge", "keys": ["id"]}
OK = "SELECT 2 AS id, CAST(1 AS TINYINT) AS small"


@pytest.mark.parametrize(
    ("sql", "target", "message"),
    [
        pytest.param("SELECT 2 AS id, 'x' AS more", {}, "metadata mismatch", id="other columns"),
        pytest.param("SELECT CAST(raise_error('row 7 is bad') AS INT) AS id", {}, "USER_RAISED", id="row that fails"),
        pytest.param("SELECT -1 AS id, CAST(1 AS TINYINT) AS small", {}, "positive", id="constraint"),
        pytest.param("SELECT 1 AS id, 4000 AS small", MERGE, "small", id="value that does not fit"),
        pytest.param("SELECT 2 AS id, 1Y AS small FROM range(2)", MERGE, "same key", id="two rows for one key"),
        pytest.param(
            "SELECT 2 AS id, raise_error('no') AS x", {"evolve_schema": True}, "void.*: x", id="void by an error"
        ),
        pytest.param("SELECT NULL AS id", {}, "void.*: id", id="void column"),
        pytest.param(
            "SELECT 2 AS id, struct(NULL AS a) AS s, array(NULL) AS l, map('k', NULL) AS m",
            {"evolve_schema": True},
            r"void.*: s\.a, l\.element, m\.value\.",
            id="void inside",
        ),
        pytest.param(OK, {"properties": {"delta.nonsense": "1"}}, "delta.nonsense", id="unknown property"),
        pytest.param(OK, {"properties": {"delta.enableDeletionVectors": "maybe"}}, "maybe", id="value of a property"),
        pytest.param(
            OK, {"properties": {"delta.columnMapping.mode": "id"}}, "mapping", id="property not for this table"
        ),
        pytest.param(OK, {"properties": {"provider": "csv"}}, "provider", id="property of Spark's own"),
        pytest.param(
            OK, {"properties": {"delta.constraints.x": "id > 1"}}, "ADD CONSTRAINT", id="constraint as property"
        ),
    ],
)
def test_refused_writes_leave_the_log_unchanged(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    catalog: JobCatalog,
    s3: "S3Client",
    place: Place,
    constrained: str,
    sql: str,
    target: dict[str, Any],
    message: str,
) -> None:
    def log() -> dict[str, str]:
        items = s3.list_objects_v2(Bucket=BUCKET, Prefix="constrained/_delta_log/0").get("Contents", [])
        return {item["Key"]: item["ETag"] for item in items}

    before = log()
    job = PublishJob(
        a_file(place.folder, "rows", [ROW]), DeltaTarget(constrained, **{"mode": "append", **target}), sql=sql
    )
    with pytest.raises(PipelineError, match=message) as refusal:
        publish(spark, job, catalog)
    assert "\n" not in refusal.value.message
    assert log() == before
    assert len(before) == 2


def test_repetition_of_a_run_killed_after_its_rows_sets_properties_only(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client"
) -> None:
    source = a_file(place.folder, "one", [{"id": 1}])
    publish(spark, PublishJob(source, DeltaTarget(place.location, change_data_feed=False)), catalog)
    job = PublishJob(source, DeltaTarget(place.location, "append", properties={"note": "x"}), run_id="killed")
    # The killed run had written its rows, but not its properties.
    assert write(spark, read(spark, job.source).rows, job.target, job.run_id).version == 1
    assert len(versions(s3, place)) == 2
    again = publish(spark, job, catalog)
    assert (again.version, again.repeated) == (1, True)
    assert place.table().rows("id") == [(1,), (1,)]
    [metadata] = [line["metaData"] for line in versions(s3, place)[2] if "metaData" in line]
    assert metadata["configuration"] == {"note": "x", "delta.enableChangeDataFeed": "true"}
    publish(spark, job, catalog)
    assert len(versions(s3, place)) == 3


@pytest.mark.parametrize(
    ("rows", "keys", "message"),
    [
        pytest.param([{"id": 1}, {"id": 1}], ["id"], r"same key \(id = \.\.\.\)", id="two rows for one key"),
        pytest.param([{"id": 1}], ["nr"], "--key: .nr. is not a column", id="no such column"),
    ],
)
def test_merge_with_ambiguous_keys_is_refused(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession", catalog: JobCatalog, place: Place, rows: list[dict[str, Any]], keys: list[str], message: str
) -> None:
    job = PublishJob(a_file(place.folder, "rows", rows), DeltaTarget(place.location, "merge", keys=keys))
    with pytest.raises(PipelineError, match=message):
        publish(spark, job, catalog)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        pytest.param("SELECT nothing FROM source", "nothing", id="unknown column"),
        pytest.param("SELEC id", "SELEC", id="no SQL"),
        pytest.param(
            "SELECT CAST(raise_error('row 7 is bad') AS STRING) AS x FROM source",
            "USER_RAISED_EXCEPTION",
            id="fails while writing",
        ),
    ],
)
def test_failed_write_registers_nothing(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession", catalog: JobCatalog, place: Place, admin: CatalogAdmin, sql: str, message: str
) -> None:
    entry = CatalogEntry(EntryName("failing", "s", "t"), place.location, create_share=True)
    job = PublishJob(a_file(place.folder, "rows", [{"id": 1}]), DeltaTarget(place.location), sql=sql, entry=entry)
    steps: list[Step] = []
    with pytest.raises(PipelineError, match=message) as refusal:
        publish(spark, job, catalog, steps.append)
    assert "\n" not in refusal.value.message
    assert steps[-1].failed
    with pytest.raises(NotFound):
        list(admin.schemas.list("failing"))
    catalog.leases.acquire(place.location, "next", timedelta(seconds=5))  # the lease was released
    catalog.leases.release(place.location, "next")


def test_used_name_is_refused_before_anything_is_written(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client"
) -> None:
    source, name = a_file(place.folder, "rows", [{"id": 1}]), EntryName("taken", "s", "t")
    first, second = (CatalogEntry(name, f"{place.location}/{folder}", create_share=True) for folder in ("one", "two"))
    publish(spark, PublishJob(source, DeltaTarget(first.location), entry=first), catalog)
    with pytest.raises(Conflict, match=r"taken\.s\.t is already shared from"):
        publish(spark, PublishJob(source, DeltaTarget(second.location), entry=second), catalog)
    bucket = place.location.split("/")[2]
    assert s3.list_objects_v2(Bucket=bucket, Prefix=f"{place.prefix}/two")["KeyCount"] == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"mode": "merge", "keys": ["idd"]}, r"--key: 'idd' is not a column of the rows: did you mean id\?"),
        ({"partition_by": ["dya"]}, r"--partition-by: 'dya' .*: did you mean day\?"),
    ],
)
def test_missing_columns_are_reported(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client", target: dict[str, Any], message: str
) -> None:
    job = PublishJob(a_file(place.folder, "rows", [{"id": 1, "day": "x"}]), DeltaTarget(place.location, **target))
    with pytest.raises(PipelineError, match=message):
        publish(spark, job, catalog)
    assert versions(s3, place) == []


def test_description_of_a_table_is_read_without_a_spark_job(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    target = DeltaTarget(place.location, "append", properties={"delta.appendOnly": "true"})
    publish(spark, PublishJob(a_file(place.folder, "rows", [{"id": 1}]), target), catalog)
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # as in another process
    assert exists(spark, target)
    spark.sparkContext.setJobGroup("described", "description of the table")
    check_properties(spark, target)
    assert describe(spark, target) is False
    assert spark.sparkContext.statusTracker().getJobIdsForGroup("described") == []
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def test_steps_are_reported_with_their_time(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    steps: list[Step] = []
    job = PublishJob(
        a_file(place.folder, "rows", [{"id": 1}]),
        DeltaTarget(place.location),
        entry=CatalogEntry(EntryName("steps", "s", "t"), place.location, create_share=True),
    )
    publish(spark, job, catalog, steps.append)
    ended = [step for step in steps if step.seconds is not None]
    assert [step.text.split()[0] for step in ended] == ["Acquiring", "Reading", "Writing", "Describing", "Registering"]
    assert ended[2].detail == "version 0, 1 rows"


def test_job_that_loses_its_lease_stops_before_its_commit(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client", dynamo: Dynamo
) -> None:
    publish(spark, PublishJob(a_file(place.folder, "rows", [{"id": 1}]), DeltaTarget(place.location)), catalog)
    leases = catalog.leases

    class StolenLeases(Leases):
        """Lease store in which another job steals each lease immediately."""

        def acquire(self, location: str, holder: str, ttl: timedelta) -> None:
            leases.acquire(location, holder, ttl)
            leases.release(location, holder)
            leases.acquire(location, "thief", timedelta(seconds=60))

    # Each of 40 tasks adds some millions of numbers, so the job takes much longer than the first renewal.
    slow = (
        "SELECT /*+ REPARTITION(40, id) */ id, "
        "aggregate(sequence(id, id + 4000000), 0L, (sum, number) -> sum + number) AS x FROM source"
    )
    slow_source = a_file(place.folder, "many", [{"id": number} for number in range(40)])
    job = PublishJob(
        slow_source,
        DeltaTarget(place.location, "append", evolve_schema=True),
        sql=slow,
        entry=CatalogEntry(EntryName("lost", "s", "t"), place.location, create_share=True),
    )
    with pytest.raises(LeaseLost, match="thief"):
        publish(spark, job, JobCatalog(StolenLeases(CATALOG, dynamo), catalog.admin, timedelta(seconds=1.5)))
    assert len(versions(s3, place)) == 1
    with pytest.raises(NotFound):
        catalog.admin.tables.get("lost", "s", "t")
    leases.release(place.location, "thief")


def test_publishers_of_one_process_take_turns(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    failures: list[BaseException] = []

    def append(number: int) -> None:
        job = PublishJob(
            a_file(place.folder, f"writer-{number}", [{"id": number}]),
            DeltaTarget(place.location, "append"),
            wait=timedelta(seconds=60),
        )
        try:
            publish(spark, job, catalog)
        except BaseException as failure:  # noqa: BLE001 -- shown by the assertion below
            failures.append(failure)
        finally:
            close_thread_connection(spark)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert place.table().rows("id") == [(0,), (1,), (2,)]
