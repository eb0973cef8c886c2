"""Maintenance by Spark: a query needs fewer files and requests afterwards, and every version that is shared stays."""

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
from deltaic_pipeline.maintenance.maintenance_job import Job, Means, Summary, maintain, plan
from deltaic_pipeline.maintenance.optimize import optimize
from deltaic_pipeline.maintenance.retention import StreamPosition, entries_of
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import Catalog
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
class Kept:
    """One table, and the job on it as if it ran some days from now."""

    spark: "SparkSession"
    s3: "S3Client"
    catalog: Catalog
    admin: CatalogAdmin
    access: S3Access
    place: Place

    @property
    def means(self) -> Means:
        def entries() -> Any:
            return entries_of(self.admin, self.place.location)

        folder = S3Folder(self.place.location, self.access)
        return Means(entries, folder, lambda path, _: StreamPosition(path, 0), lambda: time.time() + LATER)

    def maintain(self, run_id: str, **more: Any) -> Summary:
        return maintain(self.spark, Job(self.place.location, run_id, **more), self.catalog, self.means, silent)

    def plan(self, **more: Any) -> Summary:
        return plan(Job(self.place.location, "planned", **more), self.means)

    def objects(self) -> dict[str, str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.place.prefix}/")
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", [])}

    def data(self) -> set[str]:
        return {key for key in self.objects() if "/_delta_log/" not in key}

    def requests(self) -> tuple[int, int]:
        """Return how many files a query of the whole table gets, and how many requests the log took."""
        store = S3Folder(self.place.location, self.access).store
        requests = count_requests(store)
        snapshot = DeltaLog(store).snapshot()
        files = sum(batch.num_rows for batch in snapshot.files())
        return files, len(requests)

    def rows(self, version: int) -> list[str]:
        table = self.spark.read.format("delta").option("versionAsOf", version).load(self.place.spark_location)
        return sorted(map(str, table.collect()))

    def changes(self) -> list[str]:
        feed = self.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        return sorted(map(str, feed.load(self.place.spark_location).drop("_commit_timestamp").collect()))


@pytest.fixture
def kept(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    s3: "S3Client",
    catalog: Catalog,
    admin: CatalogAdmin,
    embedded_aws: EmbeddedAws,
    place: Place,
) -> Kept:
    return Kept(spark, s3, catalog, admin, S3Access.from_environment(embedded_aws.environment), place)


def storage_options(kept: Kept) -> dict[str, str]:
    access = kept.access
    return {
        "AWS_ENDPOINT_URL": access.endpoint or "",
        "AWS_REGION": access.region,
        "AWS_ACCESS_KEY_ID": access.access_key_id or "",
        "AWS_SECRET_ACCESS_KEY": access.secret_access_key or "",
        "AWS_ALLOW_HTTP": "true",
    }


def append_by_delta_rs(kept: Kept) -> dict[str, str]:
    """Append as another writer does, who leaves no checkpoint."""
    options = storage_options(kept)
    for number in range(APPENDS):
        rows = pa.table({"id": [number, number + 100], "name": ["a", "b"]})
        deltalake.write_deltalake(kept.place.location, rows, mode="append", storage_options=options)
    return options


def test_a_table_of_another_writer_needs_fewer_files_and_requests(kept: Kept) -> None:
    options = append_by_delta_rs(kept)
    before, files_before = kept.objects(), kept.data()
    planned = kept.plan()
    assert kept.objects() == before
    assert (planned.before.files.files, planned.before.small.files) == (APPENDS, APPENDS)
    assert (planned.before.checkpoint, planned.before.commits) == (None, APPENDS)
    files, requests = kept.requests()
    assert files == APPENDS
    assert requests >= APPENDS

    done = kept.maintain("first")
    assert done.optimized is not None
    assert (done.optimized.removed, done.optimized.added) == (APPENDS, 1)
    assert done.checkpointed
    # A reader had version 11 open 40 days from now less a week: only OPTIMIZE's own version was current since.
    [left] = kept.data()
    assert left not in files_before
    assert done.files is not None
    assert done.files.unneeded.files == APPENDS
    files, requests = kept.requests()
    assert files == 1
    assert requests <= 4
    assert (done.before.requests, done.after.requests) == (2 + 2 * APPENDS, 2 + 1 + 0 + 1)
    table = deltalake.DeltaTable(kept.place.location, storage_options=options)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == sorted(
        [*range(APPENDS), *(number + 100 for number in range(APPENDS))]
    )

    again = kept.maintain("first")
    assert again.optimized is not None
    assert (again.after.version, again.checkpointed) == (done.after.version, False)
    assert "this run's already" in again.optimized.skipped
    ordered = kept.maintain("second", zorder_by=["id"])
    other = kept.maintain("third", zorder_by=["id"])
    assert ordered.after.version == done.after.version + 1
    assert other.optimized is not None
    assert other.optimized.skipped == f"no rows have come since version {ordered.after.version}"
    assert other.after.version == ordered.after.version


def sql(kept: Kept, statement: str) -> None:
    kept.spark.sql(statement.format(t=f"delta.`{kept.place.spark_location}`"))


def file_facts(kept: Kept) -> list[tuple[str, int, int]]:
    """Return of each file, as our reader finds it, its partition `p` ("" for none) and the range of its ids."""
    rows = [row for batch in DeltaLog(kept.means.folder.store).snapshot().files() for row in batch.to_pylist()]
    stats = [json.loads(row["stats"]) for row in rows]
    return sorted(
        (dict(row["partitionValues"]).get("p") or "", said["minValues"]["id"], said["maxValues"]["id"])
        for row, said in zip(rows, stats, strict=True)
    )


def test_a_partitioned_table_has_one_file_a_partition_afterwards(kept: Kept) -> None:
    sql(kept, "CREATE TABLE {t} (id BIGINT, p STRING) USING delta PARTITIONED BY (p)")
    for number in range(4):
        sql(kept, "INSERT INTO {t} SELECT " + f"{number}, explode(array('a', 'b b', NULL))")
    sql(kept, "INSERT INTO {t} VALUES (9, 'alone')")
    rows, (files, requests) = kept.rows(5), kept.requests()
    planned = kept.plan().before
    assert (files, planned.files.files, planned.small.files) == (13, 13, 12)
    done = kept.maintain("first", checkpoint_after=1)
    assert done.optimized is not None
    # The file that is alone in its partition has nothing to be joined with.
    assert (done.optimized.removed, done.optimized.added) == (12, 3)
    assert file_facts(kept) == [("", 0, 3), ("a", 0, 3), ("alone", 9, 9), ("b b", 0, 3)]
    assert kept.rows(done.after.version) == rows
    files, fewer = kept.requests()
    assert files == len(kept.data()) == 4
    assert fewer < requests
    assert done.after.requests < done.before.requests
    assert kept.maintain("second").after.version == done.after.version


def test_a_clustered_tables_files_each_hold_their_own_range_afterwards(kept: Kept) -> None:
    sql(kept, "CREATE TABLE {t} (id BIGINT, note STRING) USING delta CLUSTER BY (id)")
    for number in range(4):
        # Each file has ids from everywhere, so a query of few ids needs all files.
        rows = kept.spark.range(number, 4000, 4, 1).selectExpr("id", "uuid() AS note")
        rows.write.format("delta").mode("append").save(kept.place.spark_location)
    rows_before, (_, requests) = kept.rows(4), kept.requests()

    def files_of(identifier: int) -> int:
        return sum(low <= identifier <= high for _, low, high in file_facts(kept))

    assert [files_of(identifier) for identifier in (4, 2000, 3990)] == [4, 4, 4]
    # Several files come of so few rows only where files are small; the job's own session knows no such setting.
    with_small_files = "spark.databricks.delta.optimize.maxFileSize"
    kept.spark.conf.set(with_small_files, str(kept.plan().before.files.bytes // 3))
    try:
        optimized = optimize(kept.spark, kept.place.location, [], "first")
    finally:
        kept.spark.conf.unset(with_small_files)
    assert optimized.removed == 4
    assert optimized.added > 1
    assert [files_of(identifier) for identifier in (4, 2000, 3990)] == [1, 1, 1]
    done = kept.maintain("second", checkpoint_after=1)
    assert done.before.clustered
    assert done.optimized is not None
    assert done.optimized.skipped == "no rows have come since version 5"
    assert len(kept.data()) == optimized.added
    assert kept.rows(done.after.version) == rows_before
    assert kept.requests()[1] < requests


def said_by(kept: Kept, manifest: str, *, typed: bool) -> list[str]:
    """Return everything that a v2 checkpoint says, as pyarrow reads it, in no order and without how it is laid out.

    Without `typed`, typed statistics are left out too.
    """
    store, found = kept.means.folder.store, []
    for line in store.get(LOG + manifest).splitlines():
        sidecar = json.loads(line).get("sidecar")
        if sidecar is None:
            found.append(str(json.loads(line)))
            continue
        # Spark's instants come without a zone where it wrote them in its old form, ours never do.
        content = pa.BufferReader(store.get(SIDECARS + sidecar["path"]))
        rows = pq.read_table(content, coerce_int96_timestamp_unit="us").to_pylist()
        for row in () if typed else rows:
            (row["add"] or {}).pop("stats_parsed", None)
        plain = [str({kind: value for kind, value in row.items() if value is not None}) for row in rows]
        found += [row.replace(", tzinfo=<UTC>", "") for row in plain]
    return sorted(found)


def listed_by_deltalake(kept: Kept) -> list[str]:
    table = deltalake.DeltaTable(kept.place.location, storage_options=storage_options(kept))
    assert table.transaction_version("writer") == 7
    return sorted(map(repr, pa.table(table.get_add_actions(flatten=True)).to_pylist()))


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "json"])
def test_a_checkpoint_in_order_says_what_sparks_own_says(kept: Kept, typed: bool) -> None:
    sql(
        kept,
        "CREATE TABLE {t} (id BIGINT, at TIMESTAMP, n STRUCT<x: DECIMAL(9, 2)>, d DATE, s STRING) USING delta "
        "PARTITIONED BY (d, s) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        f"'delta.checkpoint.writeStatsAsStruct' = '{str(typed).lower()}')",
    )
    for name, value in (("txnAppId", "writer"), ("txnVersion", "7")):
        kept.spark.conf.set(f"spark.databricks.delta.write.{name}", value)
    try:
        sql(
            kept,
            "INSERT INTO {t} SELECT id, timestamp_seconds(id), named_struct('x', CAST(id AS DECIMAL(9, 2))), "
            "date_add(DATE'2024-01-01', CAST(id % 3 AS INT)), IF(id % 2 = 0, NULL, 's 1') FROM range(60)",
        )
    finally:
        kept.spark.conf.unset("spark.databricks.delta.write.txnAppId")
        kept.spark.conf.unset("spark.databricks.delta.write.txnVersion")
    sql(kept, "DELETE FROM {t} WHERE id = 31 OR d = DATE'2024-01-03'")
    given: dict[str, Any] = {"optimize": False, "checkpoint_after": 1, "sort_from": 1, "zorder_by": ["id"]}
    done = kept.maintain("first", v2_checkpoints=True, vacuum=False, **given)
    log = [key.rpartition("/")[2] for key in kept.objects() if ".checkpoint." in key and "/_sidecars/" not in key]
    sparks, ours = sorted(log)
    said = said_by(kept, sparks, typed=typed)
    assert said_by(kept, ours, typed=typed) == said
    assert any("stats_parsed" in row for row in said) is typed
    assert any("stats_parsed" in row for row in said_by(kept, ours, typed=True))
    for kind in ("'add'", "'remove'", "'txn'", "'deletionVector': {'storageType'"):
        assert any(kind in row for row in said), kind
    assert json.loads(kept.means.folder.store.get(LAST_CHECKPOINT))["v2Checkpoint"]["path"] == ours

    rows, files, theirs = kept.rows(done.after.version), file_facts(kept), listed_by_deltalake(kept)
    # Spark's own checkpoint goes, and every commit but the last: whoever reads on reads ours.
    for key in kept.objects():
        name = key.rpartition("/")[2]
        if name == sparks or (name.endswith(".json") and name[:-5].isdecimal() and int(name[:-5]) < done.after.version):
            kept.s3.delete_object(Bucket=BUCKET, Key=key)
    jvm: Any = kept.spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    read = kept.spark.read.format("delta").load(kept.place.spark_location)
    assert sorted(map(str, read.collect())) == rows
    assert 0 < len(read.where("d = DATE'2024-01-02' AND id < 30").inputFiles()) < len(files)
    assert (file_facts(kept), listed_by_deltalake(kept)) == (files, theirs)


KINDS = {"plain": "", "partitioned": "PARTITIONED BY (p)", "clustered": "CLUSTER BY (id)"}


def test_whatever_is_done_in_any_order_every_shared_version_and_change_stays(kept: Kept) -> None:
    seed = random.randrange(2**32)  # noqa: S311 -- any schedule will do
    chance = random.Random(seed)  # noqa: S311 -- as above
    kind = chance.choice(sorted(KINDS))
    told = f"seed {seed}, {kind}"
    properties = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"
    sql(kept, f"CREATE TABLE {{t}} (id BIGINT, p STRING) USING delta {KINDS[kind]} TBLPROPERTIES ({properties})")
    kept.admin.shares.create("random")
    kept.admin.schemas.create("random", "s")
    kept.admin.tables.create("random", "s", "t", kept.place.location, history=True, start_version=1)
    statements = [
        "INSERT INTO {t} SELECT id, CAST(id % 2 AS STRING) FROM range(40)",
        "DELETE FROM {t} WHERE id % 7 = 3",
        "UPDATE {t} SET p = '9' WHERE id % 5 = 1",
        "OPTIMIZE {t}",
        "maintain",
    ]
    seen: dict[int, list[str]] = {}
    schedule = [statements[0], *chance.choices(statements, k=3), "maintain", chance.choice(statements), "maintain"]
    changes: list[str] = []
    for number, statement in enumerate(schedule):
        if statement == "maintain":
            kept.maintain(f"run {number}", checkpoint_after=chance.choice([1, 2, 3]))
        else:
            sql(kept, statement)
        latest = kept.plan(vacuum=False).before.version
        for version in range(max(seen, default=0) + 1, latest + 1):
            seen[version] = kept.rows(version)
        now = kept.changes()
        assert set(changes) <= set(now), (told, schedule[: number + 1])
        changes = now
    assert {version: kept.rows(version) for version in seen} == seen, (told, schedule)


def test_shared_history_reads_as_before(kept: Kept) -> None:
    golden = GOLDEN / "change_feed" / "delta"
    for path in sorted(path for path in golden.rglob("*") if path.is_file()):
        kept.s3.upload_file(str(path), BUCKET, f"{kept.place.prefix}/{path.relative_to(golden).as_posix()}")
    kept.admin.shares.create("kept")
    kept.admin.schemas.create("kept", "s")
    kept.admin.tables.create("kept", "s", "t", kept.place.location, history=True)
    objects, latest = kept.objects(), kept.plan().before.version
    rows, changes = [kept.rows(version) for version in (2, latest)], kept.changes()
    done = kept.maintain("run", checkpoint_after=1)
    assert objects.items() <= kept.objects().items()
    assert [kept.rows(version) for version in (2, latest)] == rows
    assert kept.rows(done.after.version) == rows[-1]
    assert kept.changes() == changes
    assert done.after.configuration["delta.enableExpiredLogCleanup"] == "false"
    assert "kept: the history is shared from version 0 on as kept.s.t" in list(done.retention.lines())


def test_another_writer_is_waited_for_or_named(kept: Kept) -> None:
    kept.spark.range(3).write.format("delta").save(kept.place.spark_location)
    before = kept.objects()
    kept.catalog.leases.acquire(kept.place.location, "somebody", timedelta(seconds=60))
    with pytest.raises(Conflict, match="somebody"):
        kept.maintain("run")
    assert kept.objects() == before
    kept.catalog.leases.release(kept.place.location, "somebody")
    steps: list[Step] = []
    maintain(kept.spark, Job(kept.place.location, "run"), kept.catalog, kept.means, steps.append)
    shown = [step.text for step in steps if step.seconds is not None]
    assert shown[1:] == [
        "Reading the log",
        "Joining small files",
        "Looking for files that nobody needs",
        "Deleting files that nobody needs",
    ]


def test_a_run_that_is_killed_anywhere_is_finished_by_its_repetition(
    kept: Kept, dynamo: Dynamo, job_environment: Mapping[str, str]
) -> None:
    options = append_by_delta_rs(kept)
    command = [sys.executable, "-m", "deltaic_pipeline.maintain", kept.place.location, "--run-id=killed", "--json"]
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
    lease = held_lease(leases, kept.place.location)
    if lease is not None:  # or one waits until it ends
        leases.release(kept.place.location, lease.holder)
    done = kept.maintain("killed")
    table = deltalake.DeltaTable(kept.place.location, storage_options=options)
    operations = [commit["operation"] for commit in table.history()]
    assert operations.count("OPTIMIZE") == 1, pause
    assert (done.after.files.files, done.after.checkpoint) == (1, done.after.version), pause
    assert len(kept.data()) == 1, pause
    assert table.to_pyarrow_table().num_rows == 2 * APPENDS, pause


def run(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltaic_pipeline.maintain", *arguments]
    return subprocess.run(command, env={**environment}, capture_output=True, text=True, check=False)


def test_a_dry_run_starts_no_spark_and_changes_nothing(kept: Kept, job_environment: Mapping[str, str]) -> None:
    append_by_delta_rs(kept)
    before = kept.objects()
    environment = {**job_environment, "PATH": ""}  # no Java
    told = run(environment, kept.place.location, "--dry-run", "--keep", "30")
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[1:] == [
        f"optimize: at most {APPENDS} files ({kept.plan().before.files.bytes:,} bytes)",
        f"checkpoint: written, the log has none, {APPENDS} commits since",
        "window: 30 days (--keep)",
        "kept: version 0, the oldest that was current in the last 30 days",
        "would be deleted: 0 files (0 bytes)",
        "kept for readers of older versions and changes: 0 files (0 bytes)",
        "kept because they are younger than 30 days: 0 files (0 bytes)",
    ]
    planned = json.loads(run(environment, kept.place.location, "--dry-run", "--json").stdout.splitlines()[-1])
    assert (planned["event"], planned["before"]["small"]["files"]) == ("plan", APPENDS)
    assert kept.objects() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["s3://pipeline/nothing-here", "--dry-run"], "error: table files missing"),
        (["pipeline/t"], "is not a table location"),
        (["s3://pipeline/t", "--checkpoint-after", "0"], "--checkpoint-after is 1 or more"),
        (["s3://no-such-bucket-here/t", "--dry-run"], "error: "),
    ],
)
def test_what_cannot_be_maintained_is_told_in_a_line(
    s3: "S3Client", job_environment: Mapping[str, str], arguments: list[str], message: str
) -> None:
    assert s3.head_bucket(Bucket=BUCKET)
    done = run(job_environment, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
