"""Test that pages, polled queries and the end action do not change the rows."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from client.golden_shares import FORMATS, Format, Shared

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
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
END_ACTION = {"spark.delta.sharing.query.includeEndStreamAction": "true"}
SETTINGS = {"pages": PAGED, "polls": POLLED, "pages and polls": {**PAGED, **POLLED}, "end": END_ACTION}
ALL_SETTINGS = {**PAGED, **POLLED, **END_ACTION}


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("settings", [*SETTINGS.values(), ALL_SETTINGS], ids=[*SETTINGS, "all"])
def test_snapshot_is_complete(
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
        exchanges = connector.wire.take()
        queries = [exchange for exchange in exchanges if exchange.method == "POST"]
        assert all(exchange.status == 200 for exchange in exchanges)
        has_next_page = [b'"nextPageToken"' in exchange.content for exchange in queries]
        assert any(has_next_page) == ("spark.delta.sharing.queryPagination.enabled" in settings)
        polls = [exchange for exchange in queries if exchange.call != "query"]
        assert bool(polls) == ("spark.delta.sharing.network.useAsyncQuery" in settings)


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize("settings", [*SETTINGS.values(), ALL_SETTINGS], ids=[*SETTINGS, "all"])
def test_change_feed_is_complete(
    connector: Connector, shared: Share, settings: Mapping[str, str], as_format: Format
) -> None:
    table = shared("change_feed")
    expected = table.golden.changes().drop_columns("_commit_timestamp")
    with connector.conf(settings):
        frame = connector.read(table.name, as_format, readChangeFeed="true", startingVersion=0)
        assert rows(frame.select(expected.column_names)) == rows(expected)
    assert all(exchange.status == 200 for exchange in connector.wire.take())


@pytest.mark.parametrize("as_format", FORMATS)
def test_filter_and_limit_work_with_pages(connector: Connector, shared: Share, as_format: Format) -> None:
    table = shared("checkpoint_partitioned")
    expected = table.golden.rows(table.golden.versions[-1])
    with connector.conf({**PAGED, "spark.delta.sharing.maxFilesPerQueryRequest": "1"}):
        read = connector.read(table.name, as_format)
        parts = [rows(read.where("day IS NOT NULL")), rows(read.where("day IS NULL"))]
        assert parts[0] + parts[1] == rows(expected)
        assert rows(read.limit(expected.num_rows - 1)).total() == expected.num_rows - 1


@pytest.mark.parametrize("as_format", FORMATS)
def test_stream_is_complete(connector: Connector, shared: Share, as_format: Format, tmp_path: Path) -> None:
    table = shared("checkpoint_multipart")
    with connector.conf(ALL_SETTINGS):
        received = connector.stream(table.name, tmp_path, as_format)
    assert received == rows(table.golden.rows(table.golden.versions[-1]))
