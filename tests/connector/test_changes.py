"""The connector reads the change feed of every table that has one as Spark reads it, in both formats."""

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
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Share = Callable[[str], Shared]

FEED = ("_change_type", "_commit_version", "_commit_timestamp")
"""Spark's order; in parquet format the connector has another."""
FEED_ON = "'delta.enableChangeDataFeed' = 'true'"


def changes(connector: Connector, name: str, as_format: Format, first: int, last: int) -> pa.Table:
    """Return what the connector reads of the feed from a first to a last version, its columns in Spark's own order."""
    options = {"readChangeFeed": "true", "startingVersion": first, "endingVersion": last}
    found = connector.read(name, as_format, **options)
    return as_arrow(found.select(*(column for column in found.columns if column not in FEED), *FEED))


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", CHANGE_FEEDS)
def test_the_change_feed_is_what_spark_reads(connector: Connector, shared: Share, name: str, as_format: Format) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    first, last = table.golden.change_range
    if refused := table.refused_features(last, as_format):
        with pytest.raises(Exception, match=refused[0]):
            changes(connector, table.name, as_format, first, last)
        return
    expected = table.golden.changes()
    times = commit_times(connector.provider, table)
    stamps = pa.array([times[version] for version in expected["_commit_version"].to_pylist()], pa.int64())
    if as_format == "delta":  # in parquet format the connector gives the milliseconds as they were sent
        stamps = stamps.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    at = expected.column_names.index("_commit_timestamp")
    expected = expected.set_column(at, "_commit_timestamp", stamps)
    assert rows(changes(connector, table.name, as_format, first, last)) == rows(expected)
    middle = (first + last) // 2
    if as_format == "parquet" or name not in COLUMNS_CHANGE:  # else it has the columns of the range's end alone
        begun = expected.filter(pc.less_equal(expected["_commit_version"], middle))
        assert rows(changes(connector, table.name, as_format, first, middle)) == rows(begun)
    ended = expected.filter(pc.equal(expected["_commit_version"], last))
    assert rows(changes(connector, table.name, as_format, last, last)) == rows(ended)


@pytest.fixture(scope="module")
def nulls(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> tuple[Connector, Path]:
    """Share a table `nulls`, some of whose partition values are null, and whose rows change and go."""
    place = tmp_path_factory.mktemp("changes") / "nulls"
    columns = "id INT, day DATE, kind STRING"
    for statement in (
        f"CREATE TABLE {{t}} ({columns}) USING delta PARTITIONED BY (day, kind) TBLPROPERTIES ({FEED_ON})",
        "INSERT INTO {t} VALUES (1, '2026-03-01', 'a'), (2, NULL, 'a'), (3, NULL, NULL), (4, '1969-12-31', NULL)",
        "INSERT INTO {t} VALUES (5, NULL, NULL), (6, NULL, 'b')",
        "DELETE FROM {t} WHERE day IS NULL AND kind IS NULL",  # whole files: the feed has the removes themselves
        "UPDATE {t} SET id = 10 WHERE id = 2",
        "UPDATE {t} SET kind = NULL WHERE id = 1",
        "DELETE FROM {t} WHERE kind IS NULL",
        "INSERT INTO {t} VALUES (7, NULL, NULL)",
    ):
        connector.spark.sql(statement.replace("{t}", f"delta.`{place}`"))
    connector.provider.put("nulls", place, history=True)
    return connector, place


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize(("first", "last"), [(0, 7), (1, 1), (3, 3), (4, 5), (6, 7)])
def test_partition_values_that_are_null_stay_null(
    nulls: tuple[Connector, Path], first: int, last: int, as_format: Format
) -> None:
    connector, place = nulls
    reader = connector.spark.read.format("delta").option("readChangeFeed", "true")
    direct = as_arrow(reader.option("startingVersion", first).option("endingVersion", last).load(str(place)))
    found = changes(connector, "nulls", as_format, first, last)
    assert found.column_names == direct.column_names
    # The commits were copied into the bucket, so that their times are others.
    assert rows(found.drop_columns("_commit_timestamp")) == rows(direct.drop_columns("_commit_timestamp"))


@pytest.mark.parametrize("as_format", FORMATS)
def test_a_filter_on_changes_finds_them(nulls: tuple[Connector, Path], as_format: Format) -> None:
    connector, place = nulls
    options: dict[str, Any] = {"readChangeFeed": "true", "startingVersion": 0}
    direct = connector.spark.read.format("delta").options(**options).load(str(place))
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
        found = shared.where(condition).select(expected.columns)
        assert rows(found) == rows(expected), condition
