"""Spark with Iceberg reads what Spark with Delta reads: no row more or less, and no bound for a greatest value."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from deltaic_pipeline.spark.environment import machine
from deltaic_pipeline.spark.jars import Jar, ensure
from deltaic_pipeline.spark.session import session, stop
from golden.library import load, place
from iceberg.metadata_folder import IcebergFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Sockets that pyspark leaves open.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

JARS: Final = (
    Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.11.0",
        47_959_591,
        "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
    ),
)
TABLES: Final = ("clone_deletion_vectors", "column_mapping_later", "everything", "iceberg_compat", "partitioned_types")


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    """Start a session of this module's own, whose class path has Iceberg's jar."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        earlier = SparkSession.getActiveSession()
        if earlier is not None:
            stop(earlier)
        started = session("iceberg", tests=True, jars=ensure(JARS, machine(), print))
        yield started
        stop(started)
        gc.collect()


def texts(rows: "DataFrame", columns: list[str]) -> "DataFrame":
    """Return rows as JSON: Spark compares no maps."""
    return rows.select(*(f"`{name}`" for name in columns)).selectExpr("to_json(struct(*)) AS row")


@pytest.mark.parametrize("name", TABLES)
def test_no_row_is_more_or_less(spark: "SparkSession", name: str, tmp_path: Path) -> None:
    golden = load(name)
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    index = folder.index(golden.versions)
    document = f"file://{folder.write_document(index)}"
    for number in index.versions[-3:]:
        by_delta = spark.read.format("delta").option("versionAsOf", number).load(str(folder.table))
        by_iceberg = spark.read.format("iceberg").option("versionAsOf", str(10**12 + number)).load(document)
        assert by_iceberg.columns == by_delta.columns
        one, other = texts(by_delta, by_delta.columns), texts(by_iceberg, by_delta.columns)
        assert one.exceptAll(other).collect() == []
        assert other.exceptAll(one).collect() == []


def test_greatest_and_least_values_are_read_from_the_files(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark takes them from bounds where it may, and Delta's are wider: cut to milliseconds, 0.0 for -0.0."""
    golden = load("twelve_thousand_rows")
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    document = f"file://{folder.write_document(folder.index(golden.versions[-1:]))}"
    asked = ["max(time)", "min(time)", "max(val)", "min(val)", "count(val)", "count(*)"]
    for one in asked:
        by_delta = spark.read.format("delta").load(str(folder.table)).selectExpr(one)
        by_iceberg = spark.read.format("iceberg").load(document).selectExpr(one)
        assert str(by_iceberg.first()) == str(by_delta.first()), one
