"""Test that the connector reads the same change feeds as Spark, in both formats."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from client.golden_shares import CHANGE_FEEDS, COLUMNS_CHANGE, FORMATS, Format, Shared, commit_times
from golden.workbench import as_arrow

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Share = Callable[[str], Shared]

FEED = ("_change_type", "_commit_version", "_commit_timestamp")
"""Columns of the feed in the order of Spark; in parquet format the connector has another order."""
FEED_ON = "'delta.enableChangeDataFeed' = 'true'"


def changes(connector: Connector, name: str, as_format: Format, first: int, last: int) -> pa.Table:
    """Read the feed of some versions with the connector, with columns in the order of Spark."""
    options = {"readChangeFeed": "true", "startingVersion": first, "endingVersion": last}
    frame = connector.read(name, as_format, **options)
    return as_arrow(frame.select(*(column for column in frame.columns if column not in FEED), *FEED))


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", CHANGE_FEEDS)
def test_change_feed_is_the_same_as_in_spark(connector: Connector, shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    first, last = table.golden.change_range
    if refusal := table.refused_features(last, as_format):
        with pytest.raises(Exception, match=refusal[0]):
            changes(connector, table.name, as_format, first, last)
        return
    expected = table.golden.changes()
    times = commit_times(connector.provider, table)
    timestamps = pa.array([times[version] for version in expected["_commit_version"].to_pylist()], pa.int64())
    if as_format == "delta":  # in parquet format the connector returns milliseconds
        timestamps = timestamps.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    index = expected.column_names.index("_commit_timestamp")
    expected = expected.set_column(index, "_commit_timestamp", timestamps)
    assert rows(changes(connector, table.name, as_format, first, last)) == rows(expected)
    middle = (first + last) // 2
    if (
        as_format == "parquet" or name not in COLUMNS_CHANGE
    ):  # otherwise the feed has only the columns of the last version
        first_half = expected.filter(pc.less_equal(expected["_commit_version"], middle))
        assert rows(changes(connector, table.name, as_format, first, middle)) == rows(first_half)
    last_version = expected.filter(pc.equal(expected["_commit_version"], last))
    assert rows(changes(connector, table.name, as_format, last, last)) == rows(last_version)


@pytest.fixture(scope="module")
def nulls(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> tuple[Connector, Path]:
    """Share a table `nulls` with null partition values and changed and deleted rows."""
    folder = tmp_path_factory.mktemp("changes") / "nulls"
    columns = "id INT, day DATE, kind STRING"
    for statement in (
        f"CREATE TABLE {{t}} ({columns}) USING delta PARTITIONED BY (day, kind) TBLPROPERTIES ({FEED_ON})",
        "INSERT INTO {t} VALUES (1, '2026-03-01', 'a'), (2, NULL, 'a'), (3, NULL, NULL), (4, '1969-12-31', NULL)",
        "INSERT INTO {t} VALUES (5, NULL, NULL), (6, NULL, 'b')",
        "DELETE FROM {t} WHERE day IS NULL AND kind IS NULL",  # removes whole files
        "UPDATE {t} SET id = 10 WHERE id = 2",
        "UPDATE {t} SET kind = NULL WHERE id = 1",
        "DELETE FROM {t} WHERE kind IS NULL",
        "INSERT INTO {t} VALUES (7, NULL, NULL)",
    ):
        connector.spark.sql(statement.replace("{t}", f"delta.`{folder}`"))
    connector.provider.put("nulls", folder, history=True)
    return connector, folder


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize(("first", "last"), [(0, 7), (1, 1), (3, 3), (4, 5), (6, 7)])
def test_null_partition_values_stay_null(
    nulls: tuple[Connector, Path], first: int, last: int, as_format: Format
) -> None:
    connector, folder = nulls
    reader = connector.spark.read.format("delta").option("readChangeFeed", "true")
    direct = as_arrow(reader.option("startingVersion", first).option("endingVersion", last).load(str(folder)))
    received = changes(connector, "nulls", as_format, first, last)
    assert received.column_names == direct.column_names
    # The commits were copied into the bucket, so their times differ.
    assert rows(received.drop_columns("_commit_timestamp")) == rows(direct.drop_columns("_commit_timestamp"))


@pytest.mark.parametrize("as_format", FORMATS)
def test_filter_on_changes_returns_the_same_rows_as_spark(nulls: tuple[Connector, Path], as_format: Format) -> None:
    connector, folder = nulls
    options: dict[str, Any] = {"readChangeFeed": "true", "startingVersion": 0}
    direct = connector.spark.read.format("delta").options(**options).load(str(folder))
    shared = connector.read("nulls", as_format, **options)
    for condition in (
        "day IS NULL",
        "kind IS NULL AND _change_type = 'delete'",
        "day = DATE'2026-03-01'",
        "kind <=> NULL OR id = 10",
        "_commit_version > 3",
        "_change_type LIKE 'update%'",
    ):
        expected = direct.where(condition).drop("_commit_timestamp")
        received = shared.where(condition).select(expected.columns)
        assert rows(received) == rows(expected), condition
