"""Test that maintenance with Spark saves files and requests of queries, and keeps all shared versions."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counted_requests import count_requests
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import LAST_CHECKPOINT, LOG, SIDECARS
from deltaic.errors import Conflict
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.maintenance.maintenance_job import (
    MaintenanceContext,
    MaintenanceJob,
    MaintenanceSummary,
    maintain,
    plan,
)
from deltaic_pipeline.maintenance.optimize import optimize
from deltaic_pipeline.maintenance.retention import StreamPosition, find_entries
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.s3_folder import S3Folder
from deltaic_terminal.progress import Step, silent
from held_lease import held_lease
from pipeline.place import BUCKET, CATALOG, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

GOLDEN = Path(__file__).parents[1] / "golden" / "tables"
APPENDS = 12
LATER = timedelta(days=40).total_seconds()


@dataclass
class MaintainedTable:
    """A table, and maintenance that runs some days from now."""

    spark: "SparkSession"
    s3: "S3Client"
    catalog: JobCatalog
    admin: CatalogAdmin
    access: S3Access
    place: Place

    @property
    def context(self) -> MaintenanceContext:
        def entries() -> Any:
            return find_entries(self.admin, self.place.location)

        folder = S3Folder(self.place.location, self.access)
        return MaintenanceContext(entries, folder, lambda path, _: StreamPosition(path, 0), lambda: time.time() + LATER)

    def maintain(self, run_id: str, **more: Any) -> MaintenanceSummary:
        return maintain(
            self.spark, MaintenanceJob(self.place.location, run_id, **more), self.catalog, self.context, silent
        )

    def plan(self, **more: Any) -> MaintenanceSummary:
        return plan(MaintenanceJob(self.place.location, "planned", **more), self.context)

    def objects(self) -> dict[str, str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.place.prefix}/")
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", [])}

    def data(self) -> set[str]:
        return {key for key in self.objects() if "/_delta_log/" not in key}

    def requests(self) -> tuple[int, int]:
        """Return the number of files of an unfiltered query, and of the requests for the log."""
        store = S3Folder(self.place.location, self.access).store
        requests = count_requests(store)
        snapshot = DeltaLog(store).snapshot()
        files = sum(batch.num_rows for batch in snapshot.files())
        return files, len(requests)

    def rows(self, version: int) -> list[str]:
        """Return the rows of a version, without Spark, which maintains the table."""
        table = deltalake.DeltaTable(self.place.location, version=version, storage_options=dict(self.place.options))
        return sorted(map(str, pa.table(table.scan()).to_pylist()))

    def changes(self) -> list[str]:
        """Return the change feed from the first version on."""
        table = deltalake.DeltaTable(self.place.location, storage_options=dict(self.place.options))
        feed = pa.table(table.load_cdf(starting_version=0))
        return sorted(map(str, feed.drop_columns(["_commit_timestamp"]).to_pylist()))


@pytest.fixture
def maintained(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    s3: "S3Client",
    catalog: JobCatalog,
    admin: CatalogAdmin,
    embedded_aws: EmbeddedAws,
    place: Place,
) -> MaintainedTable:
    return MaintainedTable(spark, s3, catalog, admin, S3Access.from_environment(embedded_aws.environment), place)


def append_by_delta_rs(maintained: MaintainedTable) -> dict[str, str]:
    """Append rows with another writer, which writes no checkpoint."""
    options = dict(maintained.place.options)
    for number in range(APPENDS):
        rows = pa.table({"id": [number, number + 100], "name": ["a", "b"]})
        deltalake.write_deltalake(maintained.place.location, rows, mode="append", storage_options=options)
    return options


def test_table_of_another_writer_needs_fewer_files_and_requests(maintained: MaintainedTable) -> None:
    options = append_by_delta_rs(maintained)
    before, files_before = maintained.objects(), maintained.data()
    planned = maintained.plan()
    assert maintained.objects() == before
    assert (planned.before.files.files, planned.before.small.files) == (APPENDS, APPENDS)
    assert (planned.before.checkpoint, planned.before.commits) == (None, APPENDS)
    files, requests = maintained.requests()
    assert files == APPENDS
    assert requests >= APPENDS

    summary = maintained.maintain("first")
    assert summary.optimized is not None
    assert (summary.optimized.removed, summary.optimized.added) == (APPENDS, 1)
    assert summary.checkpointed
    # The job runs 40 days from now, so only OPTIMIZE's version was the latest within the last week.
    [remaining] = maintained.data()
    assert remaining not in files_before
    assert summary.files is not None
    assert summary.files.unneeded.files == APPENDS
    files, requests = maintained.requests()
    assert files == 1
    assert requests <= 4
    assert (summary.before.requests, summary.after.requests) == (2 + 2 * APPENDS, 2 + 1 + 0 + 1)
    table = deltalake.DeltaTable(maintained.place.location, storage_options=options)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == sorted(
        [*range(APPENDS), *(number + 100 for number in range(APPENDS))]
    )

    again = maintained.maintain("first")
    assert again.optimized is not None
    assert (again.after.version, again.checkpointed) == (summary.after.version, False)
    assert "this run has written version" in again.optimized.skipped
    ordered = maintained.maintain("second", zorder_by=["id"])
    other = maintained.maintain("third", zorder_by=["id"])
    assert ordered.after.version == summary.after.version + 1
    assert other.optimized is not None
    assert other.optimized.skipped == f"no rows have changed since version {ordered.after.version}"
    assert other.after.version == ordered.after.version


def sql(maintained: MaintainedTable, statement: str) -> None:
    maintained.spark.sql(statement.format(t=f"delta.`{maintained.place.spark_location}`"))


def file_facts(maintained: MaintainedTable) -> list[tuple[str, int, int]]:
    """Return each file's partition `p` ("" for none) and range of ids, from Deltaic's reader."""
    rows = [row for batch in DeltaLog(maintained.context.folder.store).snapshot().files() for row in batch.to_pylist()]
    stats = [json.loads(row["stats"]) for row in rows]
    return sorted(
        (dict(row["partitionValues"]).get("p") or "", statistics["minValues"]["id"], statistics["maxValues"]["id"])
        for row, statistics in zip(rows, stats, strict=True)
    )


def test_partitioned_table_has_one_file_for_each_partition_afterwards(maintained: MaintainedTable) -> None:
    written = [pa.table({"id": [number] * 3, "p": ["a", "b b", None]}) for number in range(4)]
    for appended in [*written, pa.table({"id": [9], "p": ["alone"]})]:
        deltalake.write_deltalake(
            maintained.place.location,
            appended,
            partition_by=["p"],
            mode="append",
            storage_options=dict(maintained.place.options),
        )
    rows, (files, requests) = maintained.rows(4), maintained.requests()
    planned = maintained.plan().before
    assert (files, planned.files.files, planned.small.files) == (13, 13, 12)
    summary = maintained.maintain("first", checkpoint_after=1)
    assert summary.optimized is not None
    # A single file of a partition has no other file to be compacted with.
    assert (summary.optimized.removed, summary.optimized.added) == (12, 3)
    assert file_facts(maintained) == [("", 0, 3), ("a", 0, 3), ("alone", 9, 9), ("b b", 0, 3)]
    assert maintained.rows(summary.after.version) == rows
    files, fewer = maintained.requests()
    assert files == len(maintained.data()) == 4
    assert fewer < requests
    assert summary.after.requests < summary.before.requests
    assert maintained.maintain("second").after.version == summary.after.version


def test_files_of_a_clustered_table_have_separate_ranges_afterwards(maintained: MaintainedTable) -> None:
    sql(maintained, "CREATE TABLE {t} (id BIGINT, note STRING) USING delta CLUSTER BY (id)")
    for number in range(2):
        # Each file has ids from everywhere, so a query of few ids needs all files.
        rows = maintained.spark.range(number, 4000, 2, 1).selectExpr("id", "uuid() AS note")
        rows.write.format("delta").mode("append").save(maintained.place.spark_location)
    rows_before, (_, requests) = maintained.rows(2), maintained.requests()

    def files_of(identifier: int) -> int:
        return sum(low <= identifier <= high for _, low, high in file_facts(maintained))

    assert [files_of(identifier) for identifier in (4, 2000, 3990)] == [2, 2, 2]
    # So few rows result in several files only with a small file size; the job's session has no such setting.
    with_small_files = "spark.databricks.delta.optimize.maxFileSize"
    maintained.spark.conf.set(with_small_files, str(maintained.plan().before.files.bytes // 3))
    try:
        optimized = optimize(maintained.spark, maintained.place.location, [], "first")
    finally:
        maintained.spark.conf.unset(with_small_files)
    assert optimized.removed == 2
    assert optimized.added > 1
    assert [files_of(identifier) for identifier in (4, 2000, 3990)] == [1, 1, 1]
    summary = maintained.maintain("second", checkpoint_after=1)
    assert summary.before.clustered
    assert summary.optimized is not None
    assert summary.optimized.skipped == "no rows have changed since version 3"
    assert len(maintained.data()) == optimized.added
    assert maintained.rows(summary.after.version) == rows_before
    assert maintained.requests()[1] < requests


def checkpoint_content(maintained: MaintainedTable, manifest: str) -> list[str]:
    """Return the sorted content of a v2 checkpoint, as pyarrow reads it."""
    store, content = maintained.context.folder.store, []
    for line in store.get(LOG + manifest).splitlines():
        sidecar = json.loads(line).get("sidecar")
        if sidecar is None:
            content.append(str(json.loads(line)))
            continue
        # Spark's timestamps have no zone where it wrote them in its old format.
        buffer = pa.BufferReader(store.get(SIDECARS + sidecar["path"]))
        rows = pq.read_table(buffer, coerce_int96_timestamp_unit="us").to_pylist()
        texts = [str({kind: value for kind, value in row.items() if value is not None}) for row in rows]
        content += [row.replace(", tzinfo=<UTC>", "") for row in texts]
    return sorted(content)


def files_of_deltalake(maintained: MaintainedTable) -> list[str]:
    table = deltalake.DeltaTable(maintained.place.location, storage_options=dict(maintained.place.options))
    assert table.transaction_version("writer") == 7
    return sorted(map(repr, pa.table(table.get_add_actions(flatten=True)).to_pylist()))


def test_sorted_checkpoint_has_the_content_of_sparks_checkpoint(maintained: MaintainedTable) -> None:
    sql(
        maintained,
        "CREATE TABLE {t} (id BIGINT, at TIMESTAMP, n STRUCT<x: DECIMAL(9, 2)>, d DATE, s STRING) USING delta "
        "PARTITIONED BY (d, s) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    )
    for name, value in (("txnAppId", "writer"), ("txnVersion", "7")):
        maintained.spark.conf.set(f"spark.databricks.delta.write.{name}", value)
    try:
        sql(
            maintained,
            "INSERT INTO {t} SELECT id, timestamp_seconds(id), named_struct('x', CAST(id AS DECIMAL(9, 2))), "
            "date_add(DATE'2024-01-01', CAST(id % 3 AS INT)), IF(id % 2 = 0, NULL, 's 1') FROM range(60)",
        )
    finally:
        maintained.spark.conf.unset("spark.databricks.delta.write.txnAppId")
        maintained.spark.conf.unset("spark.databricks.delta.write.txnVersion")
    sql(maintained, "DELETE FROM {t} WHERE id = 31 OR d = DATE'2024-01-03'")
    options: dict[str, Any] = {"optimize": False, "checkpoint_after": 1, "sort_from": 1, "zorder_by": ["id"]}
    summary = maintained.maintain("first", v2_checkpoints=True, vacuum=False, **options)
    log = [key.rpartition("/")[2] for key in maintained.objects() if ".checkpoint." in key and "/_sidecars/" not in key]
    spark_manifest, sorted_manifest = sorted(log)
    spark_content = checkpoint_content(maintained, spark_manifest)
    assert checkpoint_content(maintained, sorted_manifest) == spark_content
    assert any("stats_parsed" in row for row in spark_content)
    for kind in ("'add'", "'remove'", "'txn'", "'deletionVector': {'storageType'"):
        assert any(kind in row for row in spark_content), kind
    assert json.loads(maintained.context.folder.store.get(LAST_CHECKPOINT))["v2Checkpoint"]["path"] == sorted_manifest

    table = maintained.spark.read.format("delta").load(maintained.place.spark_location)
    rows, files, deltalake_files = (
        sorted(map(str, table.collect())),
        file_facts(maintained),
        files_of_deltalake(maintained),
    )
    # Without Spark's checkpoint and all commits except the last one, readers must use the sorted checkpoint.
    for key in maintained.objects():
        name = key.rpartition("/")[2]
        if name == spark_manifest or (
            name.endswith(".json") and name[:-5].isdecimal() and int(name[:-5]) < summary.after.version
        ):
            maintained.s3.delete_object(Bucket=BUCKET, Key=key)
    jvm: Any = maintained.spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    read = maintained.spark.read.format("delta").load(maintained.place.spark_location)
    assert sorted(map(str, read.collect())) == rows
    assert 0 < len(read.where("d = DATE'2024-01-02' AND id < 30").inputFiles()) < len(files)
    assert (file_facts(maintained), files_of_deltalake(maintained)) == (files, deltalake_files)


KINDS = {"plain": "", "partitioned": "PARTITIONED BY (p)", "clustered": "CLUSTER BY (id)"}


def test_shared_versions_and_changes_stay_after_any_sequence_of_steps(maintained: MaintainedTable) -> None:
    seed = random.randrange(2**32)  # noqa: S311 -- any schedule will do
    chance = random.Random(seed)  # noqa: S311 -- as above
    kind = chance.choice(sorted(KINDS))
    case = f"seed {seed}, {kind}"
    properties = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"
    sql(maintained, f"CREATE TABLE {{t}} (id BIGINT, p STRING) USING delta {KINDS[kind]} TBLPROPERTIES ({properties})")
    maintained.admin.shares.create("random")
    maintained.admin.schemas.create("random", "s")
    maintained.admin.tables.create("random", "s", "t", maintained.place.location, history=True, start_version=1)
    statements = [
        "INSERT INTO {t} SELECT id, CAST(id % 2 AS STRING) FROM range(40)",
        "DELETE FROM {t} WHERE id % 7 = 3",
        "UPDATE {t} SET p = '9' WHERE id % 5 = 1",
        "OPTIMIZE {t}",
        "maintain",
    ]
    rows_by_version: dict[int, list[str]] = {}
    schedule = [statements[0], *chance.choices(statements, k=2), "maintain", chance.choice(statements), "maintain"]
    changes: list[str] = []
    for number, statement in enumerate(schedule):
        if statement == "maintain":
            maintained.maintain(f"run {number}", checkpoint_after=chance.choice([1, 2, 3]))
        else:
            sql(maintained, statement)
        latest = maintained.plan(vacuum=False).before.version
        for version in range(max(rows_by_version, default=0) + 1, latest + 1):
            rows_by_version[version] = maintained.rows(version)
        current = maintained.changes()
        assert set(changes) <= set(current), (case, schedule[: number + 1])
        changes = current
    assert {version: maintained.rows(version) for version in rows_by_version} == rows_by_version, (case, schedule)


def test_shared_history_stays_unchanged(maintained: MaintainedTable) -> None:
    golden = GOLDEN / "change_feed" / "delta"
    for path in sorted(path for path in golden.rglob("*") if path.is_file()):
        maintained.s3.upload_file(str(path), BUCKET, f"{maintained.place.prefix}/{path.relative_to(golden).as_posix()}")
    maintained.admin.shares.create("kept")
    maintained.admin.schemas.create("kept", "s")
    maintained.admin.tables.create("kept", "s", "t", maintained.place.location, history=True)
    objects, latest = maintained.objects(), maintained.plan().before.version
    rows, changes = [maintained.rows(version) for version in (2, latest)], maintained.changes()
    summary = maintained.maintain("run", checkpoint_after=1)
    assert objects.items() <= maintained.objects().items()
    assert [maintained.rows(version) for version in (2, latest)] == rows
    assert maintained.rows(summary.after.version) == rows[-1]
    assert maintained.changes() == changes
    assert summary.after.configuration["delta.enableExpiredLogCleanup"] == "false"
    assert "kept: the history is shared from version 0 on as kept.s.t" in list(summary.retention.lines())


def test_job_waits_for_another_writer_or_names_it(maintained: MaintainedTable) -> None:
    maintained.spark.range(3).write.format("delta").save(maintained.place.spark_location)
    before = maintained.objects()
    maintained.catalog.leases.acquire(maintained.place.location, "somebody", timedelta(seconds=60))
    with pytest.raises(Conflict, match="somebody"):
        maintained.maintain("run")
    assert maintained.objects() == before
    maintained.catalog.leases.release(maintained.place.location, "somebody")
    steps: list[Step] = []
    maintain(
        maintained.spark,
        MaintenanceJob(maintained.place.location, "run"),
        maintained.catalog,
        maintained.context,
        steps.append,
    )
    texts = [step.text for step in steps if step.seconds is not None]
    assert texts[1:] == [
        "Reading the log",
        "Compacting small files",
        "Looking for files that no reader needs",
        "Deleting files that no reader needs",
    ]


def test_run_killed_at_any_point_is_completed_by_its_repetition(
    maintained: MaintainedTable, dynamo: Dynamo, job_environment: Mapping[str, str]
) -> None:
    options = append_by_delta_rs(maintained)
    command = [
        sys.executable,
        "-m",
        "deltaic_pipeline.maintain",
        maintained.place.location,
        "--run-id=killed",
        "--json",
    ]
    process = subprocess.Popen(
        command,
        env={**job_environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("step") == "Reading the log":
            break
    pause = random.uniform(0, 10)  # noqa: S311 -- any point will do
    time.sleep(pause)
    os.killpg(process.pid, signal.SIGKILL)  # Python and its JVM
    process.communicate()
    leases = Leases(CATALOG, dynamo)
    lease = held_lease(leases, maintained.place.location)
    if lease is not None:  # otherwise the next run would wait until it expires
        leases.release(maintained.place.location, lease.holder)
    summary = maintained.maintain("killed")
    table = deltalake.DeltaTable(maintained.place.location, storage_options=options)
    operations = [commit["operation"] for commit in table.history()]
    assert operations.count("OPTIMIZE") == 1, pause
    assert (summary.after.files.files, summary.after.checkpoint) == (1, summary.after.version), pause
    assert len(maintained.data()) == 1, pause
    assert table.to_pyarrow_table().num_rows == 2 * APPENDS, pause


def run(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltaic_pipeline.maintain", *arguments]
    return subprocess.run(command, env={**environment}, capture_output=True, text=True, check=False)


def test_dry_run_starts_no_spark_and_changes_nothing(
    maintained: MaintainedTable, job_environment: Mapping[str, str]
) -> None:
    append_by_delta_rs(maintained)
    before = maintained.objects()
    environment = {**job_environment, "PATH": ""}  # no Java
    result = run(environment, maintained.place.location, "--dry-run", "--keep", "30")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1:] == [
        f"optimize: at most {APPENDS} files ({maintained.plan().before.files.bytes:,} bytes)",
        f"checkpoint: written, the log has none, {APPENDS} commits since",
        "window: 30 days (--keep)",
        "kept: version 0, the oldest that was the latest within the last 30 days",
        "would be deleted: 0 files (0 bytes)",
        "kept for readers of older versions and changes: 0 files (0 bytes)",
        "kept because they are younger than 30 days: 0 files (0 bytes)",
    ]
    planned = json.loads(run(environment, maintained.place.location, "--dry-run", "--json").stdout.splitlines()[-1])
    assert (planned["event"], planned["before"]["small"]["files"]) == ("plan", APPENDS)
    assert maintained.objects() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["s3://pipeline/nothing-here", "--dry-run"], "error: table files missing"),
        (["pipeline/t"], "is not a table location"),
        (["s3://pipeline/t", "--checkpoint-after", "0"], "--checkpoint-after is 0, but must be at least 1"),
        (["s3://no-such-bucket-here/t", "--dry-run"], "error: "),
    ],
)
def test_error_of_a_table_that_cannot_be_maintained_is_one_line(
    s3: "S3Client", job_environment: Mapping[str, str], arguments: list[str], message: str
) -> None:
    assert s3.head_bucket(Bucket=BUCKET)
    done = run(job_environment, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
