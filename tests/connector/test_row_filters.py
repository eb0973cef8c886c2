"""The connector reads a table of which something is kept back: its rows, their changes and a stream, vectors inline."""

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
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def written(connector: Connector, folder: Path, *, vectors: bool) -> str:
    """Write a table whose commits put the vectors of several partitions into one file, and move rows."""
    path = str(folder / "table")
    properties = f"'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}'"
    run = connector.spark.sql
    run(
        f"CREATE TABLE delta.`{path}` (id BIGINT, note STRING, site STRING) USING delta PARTITIONED BY (site) "
        f"TBLPROPERTIES ({properties})"
    )
    run(f"INSERT INTO delta.`{path}` SELECT id, 'n', element_at(array('a', 'b', 'c'), 1 + int(id % 3)) FROM range(300)")
    run(f"DELETE FROM delta.`{path}` WHERE id % 10 = 1")
    run(f"UPDATE delta.`{path}` SET site = 'b' WHERE id % 10 = 2 AND site = 'a'")
    run(f"UPDATE delta.`{path}` SET note = 'm' WHERE id % 10 = 3")
    run(f"DELETE FROM delta.`{path}` WHERE id % 10 = 4")
    return path


@pytest.mark.parametrize(
    ("response_format", "vectors", "hidden"),
    [("delta", True, ()), ("delta", False, ("site",)), ("parquet", False, ("site",)), ("parquet", False, ())],
    ids=["delta, vectors", "delta, hidden", "parquet, hidden", "parquet"],
)
def test_rows_changes_and_streams_are_those_of_the_partition(
    connector: Connector, tmp_path: Path, response_format: str, hidden: tuple[str, ...], *, vectors: bool
) -> None:
    path = written(connector, tmp_path, vectors=vectors)
    name = f"narrowed_{response_format}_{vectors}_{len(hidden)}"
    connector.provider.put(
        name, Path(path), history=True, partition_filter="site IN ('b', 'c')", hidden_columns=list(hidden)
    )

    def mine(version: int) -> "DataFrame":
        whole = connector.spark.read.format("delta").option("versionAsOf", version).load(path)
        return whole.where("site <> 'a'").drop(*hidden)

    for version in range(1, 6):
        assert rows(connector.read(name, response_format, versionAsOf=version)) == rows(mine(version))
    assert connector.stream(name, tmp_path / "whole", response_format) == rows(mine(5))
    changes = connector.read(name, response_format, readChangeFeed="true", startingVersion=2)
    state = Counter(told(mine(1)))
    for version in range(2, 6):
        now = changes.where(f"_commit_version = {version}")
        state.subtract(told(now.where("_change_type IN ('delete', 'update_preimage')")))
        assert min(state.values()) >= 0
        state.update(told(now.where("_change_type IN ('insert', 'update_postimage')")))
        assert +state == Counter(told(mine(version)))
    if response_format == "parquet":  # the connector streams no change feed in delta format
        feed = connector.stream(name, tmp_path / "feed", "parquet", readChangeFeed="true", startingVersion=2)
        assert sum(feed.values()) == changes.count()


def told(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select("id", "note").collect()]
