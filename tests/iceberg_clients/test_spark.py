"""Spark with Iceberg's runtime reads shared tables, and golden tables with the same rows as with Delta."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from client.golden_shares import PADDED, share
from client.provider import SCHEMA, SHARE, Provider, provide
from filled_server import FilledServer
from golden.library import load
from iceberg.spark_with_iceberg import AWS, RUNTIME, spark_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Sockets that pyspark leaves open.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

TABLES: Final = (
    "all_types", "column_mapping_id", "column_mapping_name", "deletion_vectors", "deletion_vectors_inline", "empty",
    "clone_deletion_vectors", "everything", "evolved", "iceberg_compat", "odd_columns", "partitioned_types", "plain",
    "timestamp_ntz",
)  # fmt: skip


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provide(tmp_path_factory.mktemp("golden")) as running:
        yield running


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    """Start a session for this module with Iceberg's jars."""
    with spark_with(RUNTIME, AWS) as started:
        yield started


def add_catalog(spark: "SparkSession", server: FilledServer, recipient: str, share: str) -> str:
    """Configure a recipient's share as a catalog; return its name."""
    name = f"c_{recipient}_{share}".lower()
    options = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": f"{server.endpoint}/iceberg",
        ".token": server.readers[recipient].token,
        ".warehouse": share,
    }
    for key, value in options.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return name


def rows_of(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


@pytest.mark.parametrize("access", ["vended", "signed"])
def test_recipients_read_their_visible_rows(spark: "SparkSession", server: FilledServer, access: str) -> None:
    catalog = add_catalog(spark, server, "alice", "lent")
    counts = spark.table(f"{catalog}.default.{access}").groupBy("country").count().collect()
    assert {tuple(row) for row in counts} == {("FI", 4), ("NO", 2), ("PL", 4), ("SE", 4)}
    for recipient, country in (("alice", "PL"), ("bob", "FI")):
        filtered_catalog = add_catalog(spark, server, recipient, "lent")
        assert {row.country for row in spark.table(f"{filtered_catalog}.default.of_country").collect()} == {country}


def test_versions_are_read_by_their_tags(spark: "SparkSession", server: FilledServer) -> None:
    table = f"{add_catalog(spark, server, 'alice', 'lent')}.default.with_history"
    counts = [spark.read.option("versionAsOf", f"v{version}").table(table).count() for version in range(3)]
    assert counts == [12, 13, 14]
    assert spark.table(f"{table}.snapshots").count() == 3


def test_writes_are_refused(spark: "SparkSession", server: FilledServer) -> None:
    table = f"{add_catalog(spark, server, 'alice', 'lent')}.default.vended"
    with pytest.raises(Exception, match="Server does not support endpoint: DELETE"):
        spark.sql(f"DROP TABLE {table}")
    with pytest.raises(Exception, match="not authorized to perform: s3:PutObject"):
        spark.table(table).writeTo(table).append()


@pytest.mark.parametrize("name", TABLES)
def test_golden_table_has_the_rows_of_spark(
    spark: "SparkSession", provider: Provider, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    golden = load(name)
    share(provider, golden, tmp_path_factory.mktemp(name))
    provider.admin.tables.update(SHARE, SCHEMA, f"golden_{name}", iceberg="signed")
    table = f"{add_catalog(spark, provider, 'reader', SHARE)}.{SCHEMA}.golden_{name}"
    for version in golden.versions[-2:]:
        actual = spark.read.option("versionAsOf", f"v{version}").table(table).toArrow()
        expected = golden.rows(version)
        for column in PADDED.get(name, ()):
            index = expected.column_names.index(column)
            expected = expected.set_column(index, column, pc.utf8_rtrim(expected[column], " "))
        assert rows_of(actual) == rows_of(expected), version
