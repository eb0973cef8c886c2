"""Test that Spark reads the same rows with Iceberg as with Delta, and never uses bounds as values."""

from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from golden.library import load, place
from iceberg.golden_rows import FIRST_LISTED, PADDED, READ, sorted_rows
from iceberg.metadata_folder import IcebergFolder
from iceberg.spark_with_iceberg import RUNTIME, spark_with
from iceberg.test_deltalake_rows import write_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# pyspark leaves sockets open.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    """Yield a Spark session with Iceberg's jar."""
    with spark_with(RUNTIME) as session:
        yield session


def differences(spark: "SparkSession", table: Path, document: str, versions: Iterable[int]) -> list[Any]:
    """Return the rows that occur more often with one of the two formats, in one job for all versions."""
    sides = []
    for number in versions:
        by_delta = spark.read.format("delta").option("versionAsOf", number).load(str(table))
        by_iceberg = spark.read.format("iceberg").option("versionAsOf", str(10**12 + number)).load(document)
        assert by_iceberg.columns == by_delta.columns
        for rows, sign in ((by_delta, 1), (by_iceberg, -1)):
            sides.append(rows.selectExpr(f"{number} AS version", "to_json(struct(*)) AS row", f"{sign} AS n"))
    counts = reduce(lambda left, right: left.unionAll(right), sides).groupBy("version", "row").sum("n")
    differing: list[Any] = counts.where("`sum(n)` <> 0").collect()
    return differing


@pytest.mark.parametrize("name", READ)
def test_spark_reads_with_iceberg_the_rows_that_it_read_with_delta(
    spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    golden = load(name)
    folder = IcebergFolder(place(golden, tmp_path), tmp_path / "iceberg")
    index = folder.index(number for number in golden.versions if number >= FIRST_LISTED.get(name, 0))
    document = f"file://{folder.write_document(index)}"
    for number in index.versions:
        expected = golden.rows(number)
        rows = spark.read.format("iceberg").option("versionAsOf", str(10**12 + number)).load(document).toArrow()
        padded = PADDED.get(name) if PADDED.get(name) in expected.column_names else None
        assert rows.column_names == expected.column_names
        assert sorted_rows(rows, rows.column_names, padded) == sorted_rows(expected, rows.column_names, padded), number


@pytest.mark.long  # in CI: test_duckdb.py::test_duckdb_reads_the_rows_of_deltalake
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
