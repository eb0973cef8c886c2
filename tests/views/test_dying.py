"""Test that a refresh killed after any changing request ends, when repeated, like an undisturbed one.

The session survives, but its requests fail. The test takes minutes, and runs if `DELTAIC_LONG` is set: for the point
between the rows and the properties that describe them, or with `DELTAIC_DEATHS=all` for all points. The point between
the rows and the catalog is tested in every run (test_recipients).
"""

import json
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from datasets.death import living
from deltaic.errors import DeltaicError
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.view_refresh.definition import Audience, Definition, SourceTable
from deltaic_pipeline.view_refresh.refresh import RefreshResult, refresh
from faults.proxy import Proxy
from views.made import count_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BUCKET = "mortal-views"
AUDIENCES = [Audience("eu", {"region": "EU"}), Audience("us", {"region": "US"})]
SQL = "SELECT id, name FROM source WHERE region = current_recipient('region')"


def test_killed_refresh_is_repeated_without_duplicate_rows(
    spark: "SparkSession", aws_session: boto3.Session, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)
    jvm: Any = spark.sparkContext._jvm
    source = SourceTable("a.b.source", f"{tmp_path}/source")

    def run(name: str, audiences: list[Audience], existing: list[str], run_id: str) -> RefreshResult:
        view = Definition("a.b.view", f"s3://{BUCKET}/{name}", SQL, source)
        return refresh(spark.newSession(), view, audiences, existing, run_id)

    def objects(name: str) -> dict[str, bytes]:
        items = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{name}/").get("Contents", [])
        keys = [item["Key"] for item in items]
        return {key[len(name) :]: s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def state(name: str) -> Any:
        commits = [body for key, body in objects(name).items() if key.endswith(".json")]
        actions = [json.loads(line) for body in commits for line in body.split(b"\n") if line]
        marks = [action["commitInfo"].get("userMetadata") for action in actions if "commitInfo" in action]
        rows: Any = spark.sql(f"SHOW TBLPROPERTIES delta.`s3a://{BUCKET}/{name}`").collect()
        properties = {row["key"]: row["value"] for row in rows if row["key"].startswith("deltaic.view.")}
        properties.pop("deltaic.view.refreshedAt")
        rows = count_rows(spark.read.format("delta").load(f"s3a://{BUCKET}/{name}").toArrow())
        return rows, Counter(mark for mark in marks if mark), properties, len(commits)

    with Proxy(embedded_aws.endpoint).open() as proxy:
        hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
        hadoop.set(f"fs.s3a.bucket.{BUCKET}.endpoint", proxy.url)
        rows = "(1, 'a', 'EU'), (2, 'b', 'US'), (2, 'b', 'US'), (3, 'c', 'AS') AS t(id, name, region)"
        create = f"CREATE TABLE delta.`{source.location}` USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        spark.sql(f"{create} AS SELECT * FROM VALUES {rows}")  # noqa: S608
        with living(proxy):
            run("lived", AUDIENCES[:1], [], "first")
        before = objects("lived")
        spark.sql(f"UPDATE delta.`{source.location}` SET name = 'z' WHERE id = 1")  # noqa: S608
        with living(proxy) as life:
            run("lived", AUDIENCES, ["eu"], "second")
        expected = state("lived")
        last = life.changes - 1
        for point in range(1, life.changes) if os.environ.get("DELTAIC_DEATHS") == "all" else [last]:
            name = f"died-{point}"
            for key, body in before.items():
                s3.put_object(Bucket=BUCKET, Key=f"{name}{key}", Body=body)
            with living(proxy, point), suppress(DeltaicError):
                run(name, AUDIENCES, ["eu"], "second")
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
            with living(proxy):
                again = run(name, AUDIENCES, ["eu"], "second")
            assert state(name) == expected, f"died after {point} of {life.changes} changes"
            assert point < last or not (again.inserted or again.updated or again.deleted)
