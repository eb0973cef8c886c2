"""Spark reads the stored tables as it did, and writes the same ones again."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from golden.definitions import features, logs, plain  # noqa: F401 -- importing them registers their tables
from golden.library import load, names, place
from golden.workbench import Bench, change_feed, rows
from golden.workbench import build as build_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

REBUILT = ["deletion_vectors_change_feed", "column_mapping_name", "checkpoint_v2_json", "log_compaction"]
"""Written again where that is asked for: each takes as long as reading all stored tables does."""


def listed(table: pa.Table, *left_out: str) -> list[str]:
    """Return the rows in an order of their own: NaN is not equal to itself, so they are compared as text."""
    return sorted(repr(row) for row in table.drop_columns([*left_out]).to_pylist())


@pytest.mark.parametrize("name", names())
def test_spark_reads_the_stored_table_s_latest_version(spark: "SparkSession", name: str, tmp_path: Path) -> None:
    golden = load(name)
    path = place(golden, tmp_path)
    assert listed(rows(spark, path, golden.versions[-1])) == listed(golden.rows(golden.versions[-1]))


@pytest.mark.long
@pytest.mark.parametrize("name", REBUILT)
def test_spark_writes_it_again(spark: "SparkSession", name: str, tmp_path: Path) -> None:
    build_table(Bench(spark, tmp_path, name))
    golden = load(name)
    log = tmp_path / name / "delta" / "_delta_log"
    assert len(list(log.glob("*.json"))) == len(list((golden.path / "_delta_log").glob("*.json")))
    for version in golden.versions:
        assert listed(rows(spark, log.parent, version)) == listed(golden.rows(version))
    if golden.change_range is not None:
        found: Any = change_feed(spark, log.parent, list(golden.versions))
        assert found[0] == list(golden.change_range)
        assert listed(found[1], "_commit_timestamp") == listed(golden.changes(), "_commit_timestamp")
    shutil.rmtree(tmp_path / name)
