"""The demo's data: the same rows everywhere, in several versions, complete after an interruption, shared at the end."""

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from deltaic.catalog.admin import CatalogAdmin
from deltaic_pipeline import sample
from deltaic_pipeline.register import Catalog
from deltaic_pipeline.sample import Shared, patients, publish_sample
from deltaic_pipeline.steps import Step
from pipeline.place import BUCKET

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

A_DAY = 400
LOCATION = f"s3://{BUCKET}/sample"


@pytest.fixture(scope="module")
def shared(spark: "SparkSession", catalog: Catalog, s3: "S3Client") -> tuple[Shared, ...]:
    assert s3.head_bucket(Bucket=BUCKET)
    return publish_sample(spark, LOCATION, catalog, a_day=A_DAY)


def test_both_tables_are_shared_with_their_versions(shared: tuple[Shared, ...], admin: CatalogAdmin) -> None:
    assert [(str(table.name), table.location, table.version) for table in shared] == [
        ("vaccine_share.acme_vaccine_data.vaccine_patients", f"{LOCATION}/vaccine_patients", 3),
        ("vaccine_share.acme_vaccine_data.vaccine_ingredients", f"{LOCATION}/vaccine_ingredients", 1),
    ]
    assert [table.name for table in admin.tables.list("vaccine_share")] == ["vaccine_ingredients", "vaccine_patients"]


def test_each_version_has_its_rows(spark: "SparkSession", shared: tuple[Shared, ...]) -> None:
    location = shared[0].location.replace("s3://", "s3a://")
    counts = [spark.read.option("versionAsOf", v).format("delta").load(location).count() for v in range(4)]
    withdrawn = len([person for person in range(2 * A_DAY) if person % sample.WITHDRAWN_EVERY == 0])
    merged = 16 * A_DAY + sample.LATE_ENTRIES
    assert counts == [14 * A_DAY, 16 * A_DAY, merged, merged - withdrawn]


def test_the_change_feed_has_corrections_and_withdrawals(spark: "SparkSession", shared: tuple[Shared, ...]) -> None:
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
    changes = feed.load(shared[0].location.replace("s3://", "s3a://")).groupBy("_commit_version", "_change_type")
    corrected = A_DAY // sample.CORRECTED_EVERY
    assert {tuple(row) for row in changes.count().collect()} == {
        (2, "insert", sample.LATE_ENTRIES),
        (2, "update_preimage", corrected),
        (2, "update_postimage", corrected),
        (3, "delete", 1),
    }


def test_publishing_it_again_commits_nothing(
    spark: "SparkSession", shared: tuple[Shared, ...], catalog: Catalog
) -> None:
    steps: list[Step] = []
    again = publish_sample(spark, LOCATION, catalog, steps.append, a_day=A_DAY)
    assert [table.location for table in again] == [table.location for table in shared]
    assert again[0].version == 3
    assert len([step for step in steps if step.seconds is not None]) == 6


def test_the_rows_are_the_same_on_every_machine(spark: "SparkSession") -> None:
    first = patients(spark, 0, 2).collect()
    assert [tuple(row) for row in first][1][:6] == (1, dt.date(2026, 3, 2), "Gdansk", "Acmevax", 3, 35)
    other_split = patients(spark, 0, 100).repartition(7).where("patient_id = 1").collect()
    assert other_split[0] == first[1]
