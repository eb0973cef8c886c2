"""Test that Spark reads the stored golden tables as before, and writes equal ones."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from golden.definitions import features, logs, plain  # noqa: F401 -- importing them registers their tables
from golden.library import load, names, place
from golden.workbench import Bench, as_arrow, change_feed, rows
from golden.workbench import build as build_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the socket for collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BRIEF = (
    *("all_types", "partitioned_types", "variant", "timestamp_ntz", "type_widening", "twelve_thousand_rows"),
    *("change_feed", "deletion_vectors", "column_mapping_name", "clone_deletion_vectors", "everything"),
    *("checkpoint_multipart", "checkpoint_v2_sidecars", "log_compaction", "in_commit_timestamps", "gzipped"),
)
"""Tables that Spark reads in CI: one or more for each feature of the format. The tests in `client` read all tables in
CI, and compare them with the same stored rows."""

REBUILT = ["deletion_vectors_change_feed", "column_mapping_name", "checkpoint_v2_json", "log_compaction"]
"""Tables to write again in long tests: each takes as long as reading all stored tables."""


def sorted_rows(table: pa.Table, *without: str) -> list[str]:
    """Return the rows as sorted texts, because NaN is not equal to itself."""
    return sorted(repr(row) for row in table.drop_columns([*without]).to_pylist())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in BRIEF else pytest.mark.long) for name in names()]
)
def test_spark_reads_the_latest_version_of_a_stored_table(spark: "SparkSession", name: str, tmp_path: Path) -> None:
    golden = load(name)
    path = place(golden, tmp_path)
    latest = max(int(commit.stem) for commit in (path / "_delta_log").glob("0*.json") if commit.stem.isdecimal())
    # Without a version: Spark would read the log a second time for it.
    assert sorted_rows(as_arrow(spark.read.format("delta").load(str(path)))) == sorted_rows(golden.rows(latest))


@pytest.mark.long
@pytest.mark.parametrize("name", REBUILT)
def test_spark_writes_an_equal_table(spark: "SparkSession", name: str, tmp_path: Path) -> None:
    build_table(Bench(spark, tmp_path, name))
    golden = load(name)
    log = tmp_path / name / "delta" / "_delta_log"
    assert len(list(log.glob("*.json"))) == len(list((golden.path / "_delta_log").glob("*.json")))
    for version in golden.versions:
        assert sorted_rows(rows(spark, log.parent, version)) == sorted_rows(golden.rows(version))
    if golden.change_range is not None:
        feed: Any = change_feed(spark, log.parent, list(golden.versions))
        assert feed[0] == list(golden.change_range)
        assert sorted_rows(feed[1], "_commit_timestamp") == sorted_rows(golden.changes(), "_commit_timestamp")
    shutil.rmtree(tmp_path / name)
