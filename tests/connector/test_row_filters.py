"""Test that the connector reads rows, changes and streams of filtered tables, with inline deletion vectors."""

# ruff: noqa: S608 -- the statements of a test
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connector.sharing import Connector, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def write(connector: Connector, folder: Path, *, vectors: bool) -> str:
    """Write a table with deletion vectors of several partitions in one file, and rows that change partition."""
    path = str(folder / "table")
    properties = f"'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}'"
    sql = connector.spark.sql
    sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, note STRING, site STRING) USING delta PARTITIONED BY (site) "
        f"TBLPROPERTIES ({properties})"
    )
    sql(f"INSERT INTO delta.`{path}` SELECT id, 'n', element_at(array('a', 'b', 'c'), 1 + int(id % 3)) FROM range(300)")
    sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 1")
    sql(f"UPDATE delta.`{path}` SET site = 'b' WHERE id % 10 = 2 AND site = 'a'")
    sql(f"UPDATE delta.`{path}` SET note = 'm' WHERE id % 10 = 3")
    sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 4")
    return path


@pytest.mark.parametrize(
    ("response_format", "vectors", "hidden"),
    [("delta", True, ()), ("delta", False, ("site",)), ("parquet", False, ("site",)), ("parquet", False, ())],
    ids=["delta, vectors", "delta, hidden", "parquet, hidden", "parquet"],
)
def test_filtered_table_returns_only_visible_rows_and_changes(
    connector: Connector, tmp_path: Path, response_format: str, hidden: tuple[str, ...], *, vectors: bool
) -> None:
    path = write(connector, tmp_path, vectors=vectors)
    name = f"filtered_{response_format}_{vectors}_{len(hidden)}"
    connector.provider.put(
        name, Path(path), history=True, partition_filter="site IN ('b', 'c')", hidden_columns=list(hidden)
    )

    def expected(version: int) -> "DataFrame":
        frame = connector.spark.read.format("delta").option("versionAsOf", version).load(path)
        return frame.where("site <> 'a'").drop(*hidden)

    for version in range(1, 6):
        assert rows(connector.read(name, response_format, versionAsOf=version)) == rows(expected(version))
    assert connector.stream(name, tmp_path / "whole", response_format) == rows(expected(5))
    changes = connector.read(name, response_format, readChangeFeed="true", startingVersion=2)
    state = Counter(tuples(expected(1)))
    for version in range(2, 6):
        commit = changes.where(f"_commit_version = {version}")
        state.subtract(tuples(commit.where("_change_type IN ('delete', 'update_preimage')")))
        assert min(state.values()) >= 0
        state.update(tuples(commit.where("_change_type IN ('insert', 'update_postimage')")))
        assert +state == Counter(tuples(expected(version)))
    if response_format == "parquet":  # the connector cannot stream change feeds in delta format
        feed = connector.stream(name, tmp_path / "feed", "parquet", readChangeFeed="true", startingVersion=2)
        assert sum(feed.values()) == changes.count()


def tuples(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select("id", "note").collect()]
