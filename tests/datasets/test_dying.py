"""Test that a job can die after any changing request: after a repetition, the tables are complete.

The Spark session continues while its requests fail. So a death needs no start of Spark, and happens at a known point:
after the first change, the second, and so on. With `DELTAIC_LONG`, the test draws one point for each kind of job, with
`DELTAIC_DEATHS=20` twenty, with `DELTAIC_DEATHS=all` all points. `--log-cli-level=INFO` shows them.
"""

import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import deltalake
import pyarrow as pa
import pytest
from botocore.config import Config
from datasets.death import living
from datasets.files import dataset, json_source, run_of
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import DeltaicError
from deltaic_datasets.run.batch import build
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.maintenance.maintenance_job import MaintenanceContext, MaintenanceJob, maintain
from deltaic_pipeline.maintenance.retention import StreamPosition, find_entries
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog, connect
from deltaic_pipeline.table.s3_folder import S3Folder
from deltaic_terminal.progress import silent
from faults.proxy import Proxy
from held_lease import held_lease
from pipeline.place import CATALOG, TOKENS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,  # test_killed has the deaths that every run of the tests checks
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LOG = logging.getLogger(__name__)
BUCKET = "mortal"
DEATHS = os.environ.get("DELTAIC_DEATHS", "")

SCHEMA = "id INT NOT NULL, name STRING, day INT, since TIMESTAMP"
ASIDE = [{"expect": "not_null", "columns": ["name"], "action": "quarantine"}]
ALL = {"delete_missing": True, "at_most": "80 %", "delete_when": "id = 8 AND since > TIMESTAMP'2026-01-01'"}
"""The second delivery lacks six of eight keys, and deletes another key."""

PASSING = {"_run", "_quarantined_at"}
LATER = timedelta(days=40).total_seconds()


def rows(first: int, count: int, name: str) -> list[dict[str, Any]]:
    since = f"2026-01-{1 if name == 'old' else 2:02}T00:00:00Z"
    return [
        {"id": n, "name": None if n % 5 == 4 else name, "day": n % 2, "since": since}
        for n in range(first, first + count)
    ]


@dataclass
class World:
    """The services of a job, behind a proxy."""

    spark: "SparkSession"
    s3: "S3Client"
    proxy: Proxy
    access: S3Access
    catalog: JobCatalog
    admin: CatalogAdmin
    leases: Leases
    folder: Path
    summaries: dict[str, list[str]] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.access.endpoint or "",
            "AWS_REGION": self.access.region,
            "AWS_ACCESS_KEY_ID": self.access.access_key_id or "",
            "AWS_SECRET_ACCESS_KEY": self.access.secret_access_key or "",
            "AWS_ALLOW_HTTP": "true",
        }

    def objects(self, name: str) -> dict[str, bytes]:
        """Return the objects below a prefix, by the rest of their keys."""
        objects_ = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=name).get("Contents", [])
        keys = [item["Key"] for item in objects_]
        return {key[len(name) :]: self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def put(self, name: str, objects: dict[str, bytes]) -> None:
        for key, content in objects.items():
            self.s3.put_object(Bucket=BUCKET, Key=f"{name}{key}", Body=content)

    def marks(self, location: str) -> Counter[str]:
        """Count the commits of each run or batch in a table's log."""
        log = self.objects(f"{location}/_delta_log/0")
        commits = [content for key, content in log.items() if key.endswith(".json")]
        lines = [json.loads(line) for content in commits for line in content.split(b"\n") if line]
        marks = [json.loads(line["commitInfo"].get("userMetadata") or "{}") for line in lines if "commitInfo" in line]
        for mark in marks:
            mark.pop("delivery", None)  # a run commits once, even if it reads other files when repeated
        return Counter(json.dumps(mark) if mark else "" for mark in marks)

    def rows(self, location: str) -> list[str]:
        if not self.objects(f"{location}/_delta_log/0"):
            return []
        table = deltalake.DeltaTable(f"s3://{BUCKET}/{location}", storage_options=self.options)
        commits = table.to_pyarrow_table().to_pylist()
        return sorted(
            str({name: row[name] for name in row if name not in {"_run", "_quarantined_at"}}) for row in commits
        )

    def bury(self, location: str) -> None:
        """Release locks and state of the dead job, as the end of its process and its leases would."""
        for place in (location, f"{location}_quarantine"):
            lease = held_lease(self.leases, f"s3://{BUCKET}/{place}")
            if lease is not None:
                self.leases.release(f"s3://{BUCKET}/{place}", lease.holder)
        jvm: Any = self.spark.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@dataclass(frozen=True)
class Kind:
    """A kind of job: its preparation, the job itself, and the state to compare afterwards."""

    before: Callable[[World, str], None]
    job: Callable[[World, str], None]
    state: Callable[[World, str], Any]


def declared(write: dict[str, Any], *, stream: bool = False) -> Kind:
    """Return a run of a dataset in a write mode; the table has rows of an earlier run."""

    def content(world: World, location: str, number: int) -> dict[str, Any]:
        name = location.partition("-")[0]
        inbox = world.folder / name
        inbox.mkdir(exist_ok=True)
        new_rows = [rows(0, 10, "old"), rows(7, 10, "new")][number]
        source = json_source(inbox, f"{number}", new_rows, SCHEMA)
        followed = {"source": "s", "checkpoint": f"s3://{BUCKET}/{location}_checkpoint"}
        if stream:
            source = {**source, "paths": [str(inbox)], "options": {"maxFilesPerTrigger": 1}}
        return dataset(
            f"s3://{BUCKET}/{location}",
            sources={"s": source},
            write=write,
            stream=followed if stream else None,
            target={
                "create_share": True,
                "share": f"mortal.s.{location.replace('-', '_')}",
                "comment": ["first", "second"][number],
                **({"partition_by": ["day"]} if write["mode"] == "overwrite_partitions" else {}),
            },
            expectations=ASIDE,
        )

    def run(world: World, location: str, number: int) -> None:
        name = ["first", "second"][number]
        summary = build(world.spark, run_of(content(world, location, number), name), world.catalog, silent)
        world.summaries.setdefault(location, []).append(f"{name} {summary.repeated}")

    def state(world: World, location: str) -> Any:
        marks, aside = world.marks(location), world.marks(f"{location}_quarantine")
        once = [count for commits in (marks, aside) for mark, count in commits.items() if mark]
        schema_, name = "s", location.replace("-", "_")
        registered = world.admin.tables.get("mortal", schema_, name).location == f"s3://{BUCKET}/{location}"
        table = deltalake.DeltaTable(f"s3://{BUCKET}/{location}", storage_options=world.options)
        summaries = table.metadata().description, sorted(once), registered
        return world.rows(location), world.rows(f"{location}_quarantine"), summaries

    return Kind(lambda world, location: run(world, location, 0), lambda world, location: run(world, location, 1), state)


def small_files() -> Kind:
    """Return a maintenance job for a table of many small files."""

    def before(world: World, location: str) -> None:
        for number in range(11):
            table = pa.table({"id": [number], "name": [f"{number}"]})
            deltalake.write_deltalake(f"s3://{BUCKET}/{location}", table, mode="append", storage_options=world.options)

    def job(world: World, location: str) -> None:
        uri = f"s3://{BUCKET}/{location}"
        access = world.access
        through = S3Access(world.proxy.url, access.region, access.access_key_id, access.secret_access_key)
        means = MaintenanceContext(
            lambda: find_entries(world.admin, uri),
            S3Folder(uri, through),
            lambda path, _: StreamPosition(path, 0),
            lambda: time.time() + LATER,
        )
        maintain(world.spark, MaintenanceJob(uri, "second"), world.catalog, means, silent)

    def state(world: World, location: str) -> Any:
        operations = deltalake.DeltaTable(f"s3://{BUCKET}/{location}", storage_options=world.options).history()
        objects = world.objects(f"{location}/")
        data = [key for key in objects if not key.startswith("_delta_log/")]
        checkpoints = [key for key in objects if key.endswith(".checkpoint.parquet")]
        optimized = sum(commit["operation"] == "OPTIMIZE" for commit in operations)
        return world.rows(location), len(data), len(checkpoints), optimized

    return Kind(before, job, state)


KINDS = {
    "append": declared({"mode": "append"}),
    "overwrite": declared({"mode": "overwrite"}),
    "overwrite_partitions": declared({"mode": "overwrite_partitions"}),
    "merge": declared({"mode": "merge", "keys": ["id"]}),
    "scd2": declared({"mode": "scd2", "keys": ["id"], "at": "since"}),
    "merge all": declared({"mode": "merge", "keys": ["id"], **ALL}),
    "scd2 all": declared({"mode": "scd2", "keys": ["id"], "at": "since", **ALL}),
    "stream append": declared({"mode": "append"}, stream=True),
    "stream merge": declared({"mode": "merge", "keys": ["id"]}, stream=True),
    "maintain": small_files(),
}


@pytest.fixture(scope="module")
def world(
    spark: "SparkSession",
    dynamo: Dynamo,
    aws_session: boto3.Session,
    embedded_aws: EmbeddedAws,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """Return the embedded AWS behind a proxy that only jobs use."""
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)
    with Proxy(embedded_aws.endpoint).open() as proxy:
        hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
        hadoop.set(f"fs.s3a.bucket.{BUCKET}.endpoint", proxy.url)
        once = Config(retries={"total_max_attempts": 1, "mode": "standard"})
        mortal = aws_session.client("dynamodb", endpoint_url=proxy.url, config=once)
        through = Dynamo(lambda: mortal)
        yield World(
            spark,
            s3,
            proxy,
            S3Access.from_environment(embedded_aws.environment),
            connect(CATALOG, TOKENS, through),
            CatalogAdmin(CATALOG, TOKENS, through),
            Leases(CATALOG, dynamo),
            tmp_path_factory.mktemp("mortal"),
        )


def chosen(changes: int) -> Sequence[int]:
    """Return the numbers of changes after which a job dies; after the last one it survives."""
    points = range(1, changes)
    if DEATHS == "all":
        return points
    return sorted(random.sample(points, min(int(DEATHS or 1), len(points))))


@pytest.mark.parametrize("name", KINDS)
def test_killed_and_repeated_job_writes_the_same_tables(world: World, name: str) -> None:
    kind, base = KINDS[name], f"{name.replace(' ', '')}-lived"
    with living(world.proxy):
        kind.before(world, base)
    before = {part: world.objects(f"{base}{part}/") for part in ("", "_quarantine", "_checkpoint")}
    with living(world.proxy) as life:
        kind.job(world, base)
    expected = kind.state(world, base)
    for point in chosen(life.changes):
        location = f"{base.partition('-')[0]}-{point}-{uuid4().hex[:6]}"
        description = f"{name} died after {point} of {life.changes} changes"
        LOG.info("%s", description)
        for part, objects in before.items():
            world.put(f"{location}{part}/", objects)
        finished = False
        with living(world.proxy, point), suppress(DeltaicError):
            kind.job(world, location)
            finished = True
        world.bury(location)
        with living(world.proxy):
            kind.job(world, location)
        assert kind.state(world, location) == expected, description
        repeated = world.summaries.get(location, [""])[-1]
        assert not finished or name == "maintain" or repeated.endswith("True"), (
            f"{description}, and was acknowledged twice"
        )
