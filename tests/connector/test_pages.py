"""Test that the connector with default settings reads the server's pages, while commits arrive between them."""

# ruff: noqa: S608 -- the statements of a test
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from client.provider import Provider
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import gateway_over

from connector.sharing import Connector, Rows, rows
from connector.wire import Exchange, start_wire

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PAGE_BYTES: Final = 10_000
FILES: Final = 20
POLLED: Final = {
    "spark.delta.sharing.network.useAsyncQuery": "true",
    "spark.delta.sharing.network.asyncQueryRetryInterval": "20",
}
COLUMNS: Final = "id, cast(id % 7 AS STRING) AS note"
TABLES: Final = {
    "plain": (COLUMNS, "", False),
    "partitioned": (f"{COLUMNS}, id % 10 AS site", "PARTITIONED BY (site)", False),
    "nested": (f"{COLUMNS}, struct(id AS a, array(id, id + 1) AS b) AS s, map('k', id) AS m", "", False),
    "vectors": (COLUMNS, "", True),
}
"""Columns, partitioning and use of deletion vectors by table name."""


@dataclass
class Table:
    """A shared table with some commits that are not published yet."""

    name: str
    folder: Path
    version: int
    """Latest published version."""
    rows: Callable[[int], Rows]
    """Returns the rows of a version, as Spark reads them."""


@pytest.fixture(scope="module")
def small_pages(
    connector: Connector, direct_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connector]:
    """Return the connector to a server with small pages."""
    folder = tmp_path_factory.mktemp("paged")
    environment = {**direct_provider.stack.environment, "PAGE_BYTES": str(PAGE_BYTES)}
    with gateway_over(environment, folder) as gateway, start_wire(gateway.endpoint) as wire:
        yield replace(connector, provider=direct_provider.reached_by(wire.endpoint, folder), wire=wire)


@pytest.fixture(scope="module")
def write_once(small_pages: Connector, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Table]:
    """Return a function that writes a table once, and shares its first versions."""
    tables: dict[str, Table] = {}

    def get(kind: str) -> Table:
        if kind not in tables:
            tables[kind] = write(small_pages, kind, tmp_path_factory.mktemp("pages") / kind)
        return tables[kind]

    return get


def write(small_pages: Connector, kind: str, folder: Path) -> Table:
    columns, partitions, vectors = TABLES[kind]
    sql = small_pages.spark.sql
    sql(
        f"CREATE TABLE delta.`{folder}` USING delta {partitions} "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}') AS SELECT {columns} FROM range(0)"
    )
    sql(f"INSERT INTO delta.`{folder}` SELECT /*+ REPARTITION({FILES}) */ {columns} FROM range({10 * FILES})")
    sql(f"DELETE FROM delta.`{folder}` WHERE id % 50 = 3")
    visible_version = 2
    sql(f"DELETE FROM delta.`{folder}` WHERE id % 30 = 4")
    sql(f"INSERT INTO delta.`{folder}` SELECT {columns} FROM range(1000, 1010)")
    sql(f"DELETE FROM delta.`{folder}` WHERE id % 30 = 5")

    def rows_at(version: int) -> Rows:
        return rows(small_pages.spark.read.format("delta").option("versionAsOf", version).load(str(folder)))

    log = folder / "_delta_log"
    hidden_commits = {
        path: path.read_bytes()
        for path in log.glob("*.json")
        if path.stem.isdigit() and int(path.stem) > visible_version
    }
    expected = {version: rows_at(version) for version in range(1, visible_version + 1 + len(hidden_commits))}
    for path in hidden_commits:
        path.rename(path.with_suffix(".later"))
    for path in log.glob("*.crc"):
        path.unlink()
    name = f"pages_{kind}"
    small_pages.provider.put(name, folder, history=True)
    return Table(name, folder, visible_version, expected.__getitem__)


def publish_next_commit(small_pages: Connector, table: Table) -> None:
    """Publish the next commit of a table."""
    table.version += 1
    commit = table.folder / "_delta_log" / f"{table.version:020d}.later"
    s3 = small_pages.provider.client("s3")
    key = f"{table.name}/_delta_log/{table.version:020d}.json"
    s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=commit.read_bytes())


@pytest.mark.parametrize(
    ("kind", "as_format"),
    [(kind, one) for kind in TABLES for one in ("delta", "parquet") if (kind, one) != ("vectors", "parquet")],
)
def test_pages_are_complete_while_commits_arrive(
    small_pages: Connector, write_once: Callable[[str], Table], kind: str, as_format: str
) -> None:
    table = write_once(kind)
    version = table.version

    def commit_between_pages(exchange: Exchange) -> None:
        if exchange.call == "query" and "pageToken" not in exchange.body:
            publish_next_commit(small_pages, table)

    small_pages.wire.take()
    small_pages.wire.on_exchange = commit_between_pages
    received = rows(small_pages.read(table.name, as_format))
    small_pages.wire.on_exchange = lambda _: None
    requests = small_pages.requests("query")
    assert received == table.rows(version)
    check(requests)
    assert table.version == version + 1

    for earlier in (1, 2):
        assert rows(small_pages.read(table.name, as_format, versionAsOf=earlier)) == table.rows(earlier)
        check(small_pages.requests("query"))


def check(requests: list[Exchange]) -> None:
    """Check that the connector sent one request without a page size, then one for each next page."""
    first, *rest = requests
    assert all(exchange.status == 200 for exchange in requests)
    assert "maxFiles" not in first.body
    assert "includeRefreshToken" in first.body
    assert len(rest) > 2, "the response had only one page"
    assert all(exchange.body["maxFiles"] == 100_000 and exchange.body["pageToken"] for exchange in rest)
    assert [b'"nextPageToken"' in exchange.content for exchange in requests] == [True] * len(rest) + [False]
    assert all(len(exchange.content) <= PAGE_BYTES for exchange in requests)


def test_filters_limits_polls_and_streams_read_pages(
    small_pages: Connector, write_once: Callable[[str], Table], tmp_path: Path
) -> None:
    table = write_once("nested")
    expected = table.rows(table.version)
    read = small_pages.read(table.name, "parquet")
    assert rows(read.where("id >= 0")) == expected
    assert len(small_pages.requests("query")) > 2
    assert rows(read.limit(expected.total() - 1)).total() == expected.total() - 1
    assert len(small_pages.requests("query")) > 2
    with small_pages.conf(POLLED):
        assert rows(small_pages.read(table.name, "delta")) == expected
    polls = [
        exchange
        for exchange in small_pages.wire.take()
        if "/queries/" in exchange.target and b'"nextPageToken"' in exchange.content
    ]
    assert len(polls) > 2
    assert small_pages.stream(table.name, tmp_path, "delta") == expected
    assert len(small_pages.requests("query")) > 2
