"""Test streams of the connector: of tables, from a version, with later commits, and of change feeds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from client.golden_shares import CHANGE_FEEDS, FORMATS, Format, Shared
from client.provider import SCHEMA, SHARE
from deltaic_ops.local.resources import DATA_BUCKET

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Share = Callable[[str], Shared]

TABLES = ("all_types", "partitioned_types", "overwritten", "checkpoint_multipart", "truncated_log", "deletion_vectors")


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", TABLES)
def test_stream_starts_with_all_rows_of_the_table(
    connector: Connector, shared: Share, name: str, as_format: Format, tmp_path: Path
) -> None:
    table = shared(name)
    version = table.golden.versions[-1]
    if refusal := table.refused_features(version, as_format):
        with pytest.raises(Exception, match=refusal[0]):
            connector.stream(table.name, tmp_path, as_format)
    else:
        assert connector.stream(table.name, tmp_path, as_format) == rows(table.golden.rows(version))


@pytest.mark.parametrize("as_format", FORMATS)
def test_stream_continues_where_it_stopped(connector: Connector, as_format: Format, tmp_path: Path) -> None:
    name = f"growing_{as_format}"
    location = f"s3a://{DATA_BUCKET}/{name}"
    spark = connector.spark

    def append(first: int) -> None:
        frame = spark.createDataFrame([(first, "a"), (first + 1, None)], "id INT, kind STRING")
        frame.write.format("delta").partitionBy("kind").mode("append").save(location)

    def expected_rows(*ids: int) -> set[str]:
        return {repr({"id": number, "kind": "a" if number % 2 else None}) for number in ids}

    append(1)
    append(3)
    append(5)
    connector.provider.admin.tables.create(SHARE, SCHEMA, name, f"s3://{DATA_BUCKET}/{name}", history=True)
    assert connector.stream(name, tmp_path / "whole", as_format) == rows(spark.read.format("delta").load(location))
    assert set(connector.stream(name, tmp_path / "from", as_format, startingVersion=1)) == expected_rows(3, 4, 5, 6)
    append(7)
    assert connector.stream(name, tmp_path / "whole", as_format) == rows(spark.read.format("delta").load(location))
    assert set(connector.stream(name, tmp_path / "from", as_format, startingVersion=1)) == expected_rows(
        3, 4, 5, 6, 7, 8
    )
    # Without new commits, the rows stay the same.
    assert connector.stream(name, tmp_path / "whole", as_format) == rows(spark.read.format("delta").load(location))


@pytest.mark.parametrize("name", CHANGE_FEEDS)
def test_stream_of_changes_is_the_same_as_in_spark(
    connector: Connector, shared: Share, name: str, tmp_path: Path
) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    first, last = table.golden.change_range
    options = {"readChangeFeed": "true", "startingVersion": first}
    if refusal := table.refused_features(last, "parquet"):
        with pytest.raises(Exception, match=refusal[0]):
            connector.stream(table.name, tmp_path, "parquet", **options)
        return
    expected = table.golden.changes().drop_columns("_commit_timestamp")
    connector.stream(table.name, tmp_path, "parquet", **options)
    received = connector.spark.read.parquet(str(tmp_path / "rows"))
    assert rows(received.select(expected.column_names)) == rows(expected)


def test_connector_refuses_streams_of_changes_in_delta_format(
    connector: Connector, shared: Share, tmp_path: Path
) -> None:
    connector.wire.take()
    with pytest.raises(Exception, match="cdc streaming is not supported when responseformat=delta"):
        connector.stream(shared("change_feed").name, tmp_path, "delta", readChangeFeed="true", startingVersion=0)
    assert connector.wire.take() == []
