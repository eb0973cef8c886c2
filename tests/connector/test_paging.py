"""Pages, queries that are polled, and the last line that a client may demand: the rows are the same as without."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from client.golden_shares import FORMATS, Format, Shared

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Share = Callable[[str], Shared]

PAGED = {
    "spark.delta.sharing.queryPagination.enabled": "true",
    "spark.delta.sharing.maxFilesPerQueryRequest": "2",
}
POLLED = {
    "spark.delta.sharing.network.useAsyncQuery": "true",
    "spark.delta.sharing.network.asyncQueryRetryInterval": "20",
}
ENDED = {"spark.delta.sharing.query.includeEndStreamAction": "true"}
WAYS = {"pages": PAGED, "polls": POLLED, "pages and polls": {**PAGED, **POLLED}, "end": ENDED}
ALL = {**PAGED, **POLLED, **ENDED}


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("settings", [*WAYS.values(), ALL], ids=[*WAYS, "all"])
def test_a_snapshot_is_whole(
    connector: Connector, shared: Share, settings: Mapping[str, str], as_format: Format
) -> None:
    table = shared("checkpoint_multipart")
    latest = table.golden.versions[-1]
    for version in (latest - 1, latest):
        expected = rows(table.golden.rows(version))
        options: dict[str, int] = {} if version == latest else {"versionAsOf": version}
        connector.wire.take()
        with connector.conf(settings):
            assert rows(connector.read(table.name, as_format, **options)) == expected
        asked = connector.wire.take()
        queries = [exchange for exchange in asked if exchange.method == "POST"]
        assert all(exchange.status == 200 for exchange in asked)
        told = [b'"nextPageToken"' in exchange.answer for exchange in queries]
        assert any(told) == ("spark.delta.sharing.queryPagination.enabled" in settings)
        polls = [exchange for exchange in queries if exchange.call != "query"]
        assert bool(polls) == ("spark.delta.sharing.network.useAsyncQuery" in settings)


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("settings", [*WAYS.values(), ALL], ids=[*WAYS, "all"])
def test_a_change_feed_is_whole(
    connector: Connector, shared: Share, settings: Mapping[str, str], as_format: Format
) -> None:
    table = shared("change_feed")
    expected = table.golden.changes().drop_columns("_commit_timestamp")
    with connector.conf(settings):
        found = connector.read(table.name, as_format, readChangeFeed="true", startingVersion=0)
        assert rows(found.select(expected.column_names)) == rows(expected)
    assert all(exchange.status == 200 for exchange in connector.wire.take())


@pytest.mark.parametrize("as_format", FORMATS)
def test_a_filter_and_a_limit_hold_over_pages(connector: Connector, shared: Share, as_format: Format) -> None:
    table = shared("checkpoint_partitioned")
    whole = table.golden.rows(table.golden.versions[-1])
    with connector.conf({**PAGED, "spark.delta.sharing.maxFilesPerQueryRequest": "1"}):
        read = connector.read(table.name, as_format)
        found = [rows(read.where("day IS NOT NULL")), rows(read.where("day IS NULL"))]
        assert found[0] + found[1] == rows(whole)
        assert rows(read.limit(whole.num_rows - 1)).total() == whole.num_rows - 1


@pytest.mark.parametrize("as_format", FORMATS)
def test_a_stream_is_whole(connector: Connector, shared: Share, as_format: Format, tmp_path: Path) -> None:
    table = shared("checkpoint_multipart")
    with connector.conf(ALL):
        found = connector.stream(table.name, tmp_path, as_format)
    assert found == rows(table.golden.rows(table.golden.versions[-1]))
