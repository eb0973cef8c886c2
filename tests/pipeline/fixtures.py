"""Fixtures for tests of jobs in all folders: a Spark session on the embedded AWS, and locations in it."""

import gc
import os
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from brief_spark import write_spark_defaults
from catalog import schema
from class_archive import archive_path, start_with_archive
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.spark.session import session, stop
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog, connect
from pipeline.place import BUCKET, CATALOG, TOKENS, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def s3(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> "S3Client":
    client = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture(scope="session")
def dynamo(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Dynamo:
    client = aws_session.client("dynamodb", endpoint_url=embedded_aws.endpoint)
    schema.create(client, CATALOG, TOKENS)
    return Dynamo(lambda: client)


@pytest.fixture(scope="session")
def catalog(dynamo: Dynamo) -> JobCatalog:
    return connect(CATALOG, TOKENS, dynamo)


@pytest.fixture(scope="session")
def admin(dynamo: Dynamo) -> CatalogAdmin:
    return CatalogAdmin(CATALOG, TOKENS, dynamo)


@pytest.fixture(scope="session")
def spark(
    s3: "S3Client", embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["SparkSession"]:
    assert s3.head_bucket(Bucket=BUCKET)
    access = S3Access.from_environment(embedded_aws.environment)
    spark_session = start_with_archive(lambda: session("tests", access, tests=True), f"s3a://{BUCKET}/class-archive")
    jvm: Any = spark_session.sparkContext._jvm
    jvm.java.lang.System.setProperty("derby.system.home", str(tmp_path_factory.mktemp("derby")))  # also moves its log
    yield spark_session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # as in `collected`: sockets of collected rows
        stop(spark_session)
        gc.collect()


@pytest.fixture(scope="session")
def store_options(embedded_aws: EmbeddedAws) -> dict[str, str]:
    """Return storage options with which deltalake reads and writes the bucket."""
    return S3Access.from_environment(embedded_aws.environment).deltalake()


@pytest.fixture
def place(s3: "S3Client", store_options: dict[str, str], request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    assert s3.head_bucket(Bucket=BUCKET)
    prefix = "".join(character if character.isalnum() else "-" for character in request.node.name)
    return Place(f"s3://{BUCKET}/{prefix}", prefix, tmp_path, store_options)


@pytest.fixture(scope="session")
def job_environment(
    request: pytest.FixtureRequest, embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Return the environment of a job in a separate process: the embedded AWS, without the machine's Java."""
    if not archive_path().exists():
        request.getfixturevalue("spark")  # creates it
    variables = {name: os.environ[name] for name in ("HOME", "DELTAIC_CACHE", "TMPDIR") if name in os.environ}
    tables = {"CATALOG_TABLE": CATALOG, "TOKENS_TABLE": TOKENS}
    # Such jobs interpret queries like this session.
    settings = write_spark_defaults(tmp_path_factory.mktemp("spark") / "spark.conf", {})
    submit = shlex.join([*settings, "pyspark-shell"])
    return {**variables, **embedded_aws.environment, **tables, "PYSPARK_SUBMIT_ARGS": submit}
