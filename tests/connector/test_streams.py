"""Streams by the connector: whole tables, from a version on, further after more was written, and change feeds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from client.golden_shares import CHANGE_FEEDS, FORMATS, Format, Shared
from client.provider import SCHEMA, SHARE
from deltaic_ops.local.resources import DATA_BUCKET

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Share = Callable[[str], Shared]

WHOLE = ("all_types", "partitioned_types", "overwritten", "checkpoint_multipart", "truncated_log", "deletion_vectors")


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("name", WHOLE)
def test_a_stream_begins_with_the_whole_table(
    connector: Connector, shared: Share, name: str, as_format: Format, tmp_path: Path
) -> None:
    table = shared(name)
    version = table.golden.versions[-1]
    if refused := table.refused_features(version, as_format):
        with pytest.raises(Exception, match=refused[0]):
            connector.stream(table.name, tmp_path, as_format)
    else:
        assert connector.stream(table.name, tmp_path, as_format) == rows(table.golden.rows(version))


@pytest.mark.parametrize("as_format", FORMATS)
def test_a_stream_goes_on_where_it_was(connector: Connector, as_format: Format, tmp_path: Path) -> None:
    name = f"growing_{as_format}"
    place = f"s3a://{DATA_BUCKET}/{name}"
    spark = connector.spark

    def append(first: int) -> None:
        added = spark.createDataFrame([(first, "a"), (first + 1, None)], "id INT, kind STRING")
        added.write.format("delta").partitionBy("kind").mode("append").save(place)

    def written(*ids: int) -> set[str]:
        return {repr({"id": number, "kind": "a" if number % 2 else None}) for number in ids}

    append(1)
    append(3)
    append(5)
    connector.provider.admin.tables.create(SHARE, SCHEMA, name, f"s3://{DATA_BUCKET}/{name}", history=True)
    assert connector.stream(name, tmp_path / "whole", as_format) == rows(spark.read.format("delta").load(place))
    assert set(connector.stream(name, tmp_path / "from", as_format, startingVersion=1)) == written(3, 4, 5, 6)
    append(7)
    assert connector.stream(name, tmp_path / "whole", as_format) == rows(spark.read.format("delta").load(place))
    assert set(connector.stream(name, tmp_path / "from", as_format, startingVersion=1)) == written(3, 4, 5, 6, 7, 8)
    # Nothing new: the rows are those from before.
    assert connector.stream(name, tmp_path / "whole", as_format) == rows(spark.read.format("delta").load(place))


@pytest.mark.parametrize("name", CHANGE_FEEDS)
def test_a_stream_of_changes_is_what_spark_reads(
    connector: Connector, shared: Share, name: str, tmp_path: Path
) -> None:
    table = shared(name)
    assert table.golden.change_range is not None
    first, last = table.golden.change_range
    options = {"readChangeFeed": "true", "startingVersion": first}
    if refused := table.refused_features(last, "parquet"):
        with pytest.raises(Exception, match=refused[0]):
            connector.stream(table.name, tmp_path, "parquet", **options)
        return
    expected = table.golden.changes().drop_columns("_commit_timestamp")
    connector.stream(table.name, tmp_path, "parquet", **options)
    found = connector.spark.read.parquet(str(tmp_path / "rows"))
    assert rows(found.select(expected.column_names)) == rows(expected)


def test_the_connector_itself_refuses_streams_of_changes_in_delta_format(
    connector: Connector, shared: Share, tmp_path: Path
) -> None:
    connector.wire.take()
    with pytest.raises(Exception, match="cdc streaming is not supported when responseformat=delta"):
        connector.stream(shared("change_feed").name, tmp_path, "delta", readChangeFeed="true", startingVersion=0)
    assert connector.wire.take() == []
