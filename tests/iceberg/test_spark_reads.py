"""Test that Spark reads the same rows with Iceberg and with Delta, and never uses bounds as values."""

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

# pyspark leaves sockets open.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    """Yield a Spark session with Iceberg's jar."""
    with spark_with(RUNTIME) as session:
        yield session


def texts(rows: "DataFrame", columns: list[str], padded: str | None = None) -> "DataFrame":
    """Return rows as JSON, because Spark cannot compare maps."""
    expressions = (f"rtrim(`{name}`) AS `{name}`" if name == padded else f"`{name}`" for name in columns)
    return rows.selectExpr(*expressions).selectExpr("to_json(struct(*)) AS row")


def differences(
    spark: "SparkSession", table: Path, document: str, versions: Iterable[int], padded: str | None = None
) -> list[Any]:
    """Return the rows that occur more often with one of the two formats, in one job for all versions."""
    sides = []
    for number in versions:
        by_delta = spark.read.format("delta").option("versionAsOf", number).load(str(table))
        by_iceberg = spark.read.format("iceberg").option("versionAsOf", str(10**12 + number)).load(document)
        assert by_iceberg.columns == by_delta.columns
        for rows, sign in ((by_delta, 1), (by_iceberg, -1)):
            sides.append(
                texts(rows, by_delta.columns, padded).selectExpr(f"{number} AS version", "row", f"{sign} AS n")
            )
    counts = reduce(lambda left, right: left.unionAll(right), sides).groupBy("version", "row").sum("n")
    differing: list[Any] = counts.where("`sum(n)` <> 0").collect()
    return differing


@pytest.mark.parametrize("name", READ)
def test_iceberg_and_delta_read_the_same_rows(spark: "SparkSession", name: str, tmp_path: Path) -> None:
    golden = load(name)
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    index = folder.index(number for number in golden.versions if number >= FIRST_LISTED.get(name, 0))
    document = f"file://{folder.write_document(index)}"
    assert differences(spark, folder.table, document, index.versions, PADDED.get(name)) == []


def test_rows_of_deltalake_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    versions = range(write_history(tmp_path / "delta") + 1)
    folder = IcebergFolder(tmp_path / "delta", tmp_path / "iceberg")
    document = f"file://{folder.write_document(folder.index(versions))}"
    assert differences(spark, folder.table, document, versions) == []


def test_minimum_and_maximum_are_read_from_files(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark would use bounds if allowed, but Delta's bounds are wider: truncated to milliseconds, 0.0 for -0.0."""
    golden = load("twelve_thousand_rows")
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    document = f"file://{folder.write_document(folder.index(golden.versions[-1:]))}"
    expressions = ["max(time)", "min(time)", "max(val)", "min(val)", "count(val)", "count(*)"]
    for expression in expressions:
        by_delta = spark.read.format("delta").load(str(folder.table)).selectExpr(expression)
        by_iceberg = spark.read.format("iceberg").load(document).selectExpr(expression)
        assert str(by_iceberg.first()) == str(by_delta.first()), expression
