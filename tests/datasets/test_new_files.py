"""Test sources of which each file is read once, even if runs are killed."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pandas as pd
import pytest
from botocore.config import Config
from datasets.death import living
from datasets.files import dataset, run_of
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import DeltaicError
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.dry_run import plan_run
from deltaic_datasets.run.run_state import RunSummary
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.catalog_entry import JobCatalog, connect
from deltaic_terminal.progress import silent
from faults.proxy import Proxy
from held_lease import held_lease
from pipeline.place import BUCKET, CATALOG, TOKENS, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def content(place: Place, suffix: str = "csv", **parts: Any) -> dict[str, Any]:
    files = {
        "format": suffix,
        "paths": [f"{place.location}-inbox/*.{suffix}"],
        "schema": "id INT, note STRING",
        "only_new": True,
    }
    return dataset(place.location, sources={"s": {**files, **parts.pop("source", {})}}, **parts)


def ids(spark: "SparkSession", location: str) -> list[int]:
    rows = spark.read.format("delta").load(location.replace("s3://", "s3a://", 1)).select("id").collect()
    return sorted(row.id for row in rows)


def deliver(s3: "S3Client", place: Place, name: str, *numbers: int) -> None:
    text = "id,note\n" + "".join(f"{number},n\n" for number in numbers)
    s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}-inbox/{name}", Body=text.encode())


def test_each_file_is_read_once(spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client") -> None:
    dataset_content = content(place)

    def run(run_id: str) -> RunSummary:
        return build(spark, run_of(dataset_content, run_id), catalog, silent)

    deliver(s3, place, "first.csv", 1, 2)
    deliver(s3, place, "a b+c%20.csv", 3)
    assert (plan_run(spark, run_of(dataset_content)).rows, run("a").rows) == (3, 3)
    nothing = run("b")
    assert (nothing.rows, nothing.version, nothing.repeated) == (0, None, False)
    assert plan_run(spark, run_of(dataset_content)).rows == 0
    deliver(s3, place, "second.csv", 4)
    deliver(s3, place, "first.csv", 5, 6, 7)  # a rewritten file counts as read
    assert plan_run(spark, run_of(dataset_content)).rows == 1
    assert (run("c").rows, run("a").rows) == (1, 0)
    s3.delete_object(Bucket=BUCKET, Key=f"{place.prefix}-inbox/first.csv")
    assert run("d").rows == 0
    assert place.table().rows("id") == [(1,), (2,), (3,), (4,)]


def test_older_new_file_is_read(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    dataset_content = content(place, source={"paths": [str(place.folder / "*.csv")]})
    for number, age in enumerate((0, 400 * 86_400)):
        file = place.folder / f"{number}.csv"
        file.write_text(f"id,note\n{number},n\n")
        os.utime(file, (file.stat().st_mtime - age,) * 2)
        build(spark, run_of(dataset_content, f"r{number}"), catalog, silent)
    assert place.table().rows("id") == [(0,), (1,)]


@pytest.mark.parametrize(
    "suffix",  # test_each_file_is_read_once reads CSV
    ["parquet", *(pytest.param(suffix, marks=pytest.mark.long) for suffix in ("json", "avro"))],
)
def test_dry_run_counts_new_files_of_every_format(
    spark: "SparkSession", catalog: JobCatalog, place: Place, suffix: str
) -> None:
    folder = f"{place.spark_location}-inbox"
    dataset_content = content(place, suffix, source={"paths": [f"{place.location}-inbox/"]})
    spark.range(3).selectExpr("CAST(id AS INT)", "'n' AS note").write.format(suffix).save(folder)
    assert plan_run(spark, run_of(dataset_content)).rows == 3
    build(spark, run_of(dataset_content, "a"), catalog, silent)
    spark.range(5).selectExpr("CAST(id AS INT)", "'n' AS note").write.mode("append").format(suffix).save(folder)
    assert plan_run(spark, run_of(dataset_content)).rows == 5
    assert build(spark, run_of(dataset_content, "b"), catalog, silent).rows == 5
    assert plan_run(spark, run_of(dataset_content)).rows == 0


def test_new_files_are_merged_and_quarantined(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client"
) -> None:
    wrong = [{"expect": "range", "column": "id", "max": 9, "action": "quarantine"}]
    dataset_content = content(
        place, write={"mode": "merge", "keys": ["id"]}, source={"malformed": "quarantine"}, expectations=wrong
    )
    deliver(s3, place, "first.csv", 1, 10)
    assert build(spark, run_of(dataset_content, "a"), catalog, silent).quarantined == 1
    s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}-inbox/second.csv", Body=b"id,note\n1,again\nx,n\n11,n\n2,n\n")
    second = build(spark, run_of(dataset_content, "b"), catalog, silent)
    assert (second.quarantined, second.rows) == (2, 4)
    assert place.table().rows("id") == [(1,), (2,)]
    assert len(place.table("_quarantine").rows("id")) == 3


def test_checkpoint_of_a_deleted_table_is_refused(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client"
) -> None:
    deliver(s3, place, "first.csv", 1)
    build(spark, run_of(content(place), "a"), catalog, silent)
    for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{place.prefix}/")["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=item["Key"])
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(
        PipelineError,
        match=r"_checkpoint/tried belongs to a table that no longer exists at .*: delete the checkpoint too",
    ):
        build(spark, run_of(content(place), "b"), catalog, silent)


@pytest.fixture(scope="module")
def proxy(embedded_aws: EmbeddedAws) -> Iterator[Proxy]:
    with Proxy(embedded_aws.endpoint).open() as open_proxy:
        yield open_proxy


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_random_deliveries_with_kills_end_as_pandas_predicts(  # noqa: PLR0917 -- fixtures
    spark: "SparkSession",
    aws_session: boto3.Session,
    dynamo: Dynamo,
    proxy: Proxy,
    place: Place,
    tmp_path: Path,
    seed: int,
) -> None:
    chance, bucket = random.Random(seed), f"new-files-{seed}"  # noqa: S311
    through = aws_session.client("dynamodb", endpoint_url=proxy.url, config=Config(retries={"total_max_attempts": 1}))
    aws_session.client("s3", endpoint_url=proxy.url).create_bucket(Bucket=bucket)
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(f"fs.s3a.bucket.{bucket}.endpoint", proxy.url)
    catalog, leases = connect(CATALOG, TOKENS, Dynamo(lambda: through)), Leases(CATALOG, dynamo)
    location = f"s3://{bucket}/table"
    wrong = [{"expect": "range", "column": "id", "max": 7, "action": "quarantine"}]
    dataset_content = content(
        place, source={"paths": [f"{tmp_path}/*.csv"]}, target={"location": location}, expectations=wrong
    )
    rows = pd.DataFrame({"id": pd.Series(dtype=int)})
    for day in range(8):
        for number in range(chance.randint(0, 2)):
            new_rows = pd.DataFrame({"id": [chance.randint(0, 9) for _ in range(chance.randint(0, 4))], "note": "n"})
            new_rows.to_csv(tmp_path / f"{day} {number}.csv", index=False)
            rows = pd.concat([rows, new_rows[["id"]]])
        if day and chance.random() < 0.3:  # rewrites a file that was read, with other rows
            with suppress(IndexError):
                chance.choice(sorted(tmp_path.glob("0 *.csv"))).write_text("id,note\n3,n\n3,n\n")
        if chance.random() < 0.5:
            with living(proxy, chance.randint(1, 30)), suppress(DeltaicError):
                build(spark, run_of(dataset_content, f"d{day}"), catalog, silent)
            for location_ in (location, f"{location}_quarantine"):
                lease = held_lease(leases, location_)
                if lease is not None:
                    leases.release(location_, lease.holder)
            jvm: Any = spark.sparkContext._jvm
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        build(spark, run_of(dataset_content, chance.choice([f"d{day}", f"again{day}"])), catalog, silent)
        if len(rows):
            assert Counter(ids(spark, location)) == Counter(rows[rows["id"] <= 7]["id"]), day
        if (rows["id"] > 7).any():
            assert Counter(ids(spark, f"{location}_quarantine")) == Counter(rows[rows["id"] > 7]["id"]), day
