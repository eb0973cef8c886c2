"""Spark with Iceberg reads what Spark with Delta reads: no row more or less, and no bound for a greatest value."""

from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from golden.library import load, place
from iceberg.golden_rows import FIRST_LISTED, PADDED, READ
from iceberg.metadata_folder import IcebergFolder
from iceberg.spark_with_iceberg import RUNTIME, spark_with
from iceberg.test_deltalake_rows import write_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Sockets that pyspark leaves open.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    """Start a session of this module's own, whose class path has Iceberg's jar."""
    with spark_with(RUNTIME) as started:
        yield started


def texts(rows: "DataFrame", columns: list[str], padded: str | None = None) -> "DataFrame":
    """Return rows as JSON: Spark compares no maps."""
    told = (f"rtrim(`{name}`) AS `{name}`" if name == padded else f"`{name}`" for name in columns)
    return rows.selectExpr(*told).selectExpr("to_json(struct(*)) AS row")


def differences(
    spark: "SparkSession", table: Path, document: str, versions: Iterable[int], padded: str | None = None
) -> list[Any]:
    """Return the rows that a version has more often for one of the two: EXCEPT ALL both ways, in one job for all."""
    sides = []
    for number in versions:
        by_delta = spark.read.format("delta").option("versionAsOf", number).load(str(table))
        by_iceberg = spark.read.format("iceberg").option("versionAsOf", str(10**12 + number)).load(document)
        assert by_iceberg.columns == by_delta.columns
        for rows, sign in ((by_delta, 1), (by_iceberg, -1)):
            sides.append(
                texts(rows, by_delta.columns, padded).selectExpr(f"{number} AS version", "row", f"{sign} AS n")
            )
    both = reduce(lambda one, other: one.unionAll(other), sides).groupBy("version", "row").sum("n")
    found: list[Any] = both.where("`sum(n)` <> 0").collect()
    return found


@pytest.mark.parametrize("name", READ)
def test_no_row_is_more_or_less(spark: "SparkSession", name: str, tmp_path: Path) -> None:
    golden = load(name)
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    index = folder.index(number for number in golden.versions if number >= FIRST_LISTED.get(name, 0))
    document = f"file://{folder.write_document(index)}"
    assert differences(spark, folder.table, document, index.versions, PADDED.get(name)) == []


def test_rows_that_deltalake_wrote_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    versions = range(write_history(tmp_path / "delta") + 1)
    folder = IcebergFolder(tmp_path / "delta", tmp_path / "iceberg")
    document = f"file://{folder.write_document(folder.index(versions))}"
    assert differences(spark, folder.table, document, versions) == []


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
