"""The connector at its default settings reads pages that the server chose, whatever lands between two of them."""

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
from connector.wire import Exchange, tapped

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PAGE_BYTES: Final = 10_000
FILES: Final = 20
POLLED: Final = {
    "spark.delta.sharing.network.useAsyncQuery": "true",
    "spark.delta.sharing.network.asyncQueryRetryInterval": "20",
}
PLAIN: Final = "id, cast(id % 7 AS STRING) AS note"
TABLES: Final = {
    "plain": (PLAIN, "", False),
    "partitioned": (f"{PLAIN}, id % 10 AS site", "PARTITIONED BY (site)", False),
    "nested": (f"{PLAIN}, struct(id AS a, array(id, id + 1) AS b) AS s, map('k', id) AS m", "", False),
    "vectors": (PLAIN, "", True),
}
"""By name: columns, partitions, deletion vectors."""


@dataclass
class Table:
    """A shared table some of whose commits have not landed yet."""

    name: str
    folder: Path
    version: int
    """The latest that has landed."""
    rows: Callable[[int], Rows]
    """What Spark itself reads of a version."""


@pytest.fixture(scope="module")
def paged(
    connector: Connector, direct_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connector]:
    """Return the connector on a server whose pages are small."""
    folder = tmp_path_factory.mktemp("paged")
    environment = {**direct_provider.stack.environment, "PAGE_BYTES": str(PAGE_BYTES)}
    with gateway_over(environment, folder) as gateway, tapped(gateway.endpoint) as wire:
        yield replace(connector, provider=direct_provider.reached_by(wire.endpoint, folder), wire=wire)


@pytest.fixture(scope="module")
def written(paged: Connector, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Table]:
    """Return a function that writes a table, once, and shares its first versions."""
    known: dict[str, Table] = {}

    def get(kind: str) -> Table:
        if kind not in known:
            known[kind] = write(paged, kind, tmp_path_factory.mktemp("pages") / kind)
        return known[kind]

    return get


def write(paged: Connector, kind: str, folder: Path) -> Table:
    columns, partitions, vectors = TABLES[kind]
    run = paged.spark.sql
    run(
        f"CREATE TABLE delta.`{folder}` USING delta {partitions} "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}') AS SELECT {columns} FROM range(0)"
    )
    run(f"INSERT INTO delta.`{folder}` SELECT /*+ REPARTITION({FILES}) */ {columns} FROM range({10 * FILES})")
    run(f"DELETE FROM delta.`{folder}` WHERE id % 50 = 3")
    shown = 2
    run(f"DELETE FROM delta.`{folder}` WHERE id % 30 = 4")
    run(f"INSERT INTO delta.`{folder}` SELECT {columns} FROM range(1000, 1010)")
    run(f"DELETE FROM delta.`{folder}` WHERE id % 30 = 5")

    def at(version: int) -> Rows:
        return rows(paged.spark.read.format("delta").option("versionAsOf", version).load(str(folder)))

    log = folder / "_delta_log"
    later = {path: path.read_bytes() for path in log.glob("*.json") if path.stem.isdigit() and int(path.stem) > shown}
    expected = {version: at(version) for version in range(1, shown + 1 + len(later))}
    for path in later:
        path.rename(path.with_suffix(".later"))
    for path in log.glob("*.crc"):
        path.unlink()
    name = f"pages_{kind}"
    paged.provider.put(name, folder, history=True)
    return Table(name, folder, shown, expected.__getitem__)


def land(paged: Connector, table: Table) -> None:
    """Let the next commit of a table land."""
    table.version += 1
    commit = table.folder / "_delta_log" / f"{table.version:020d}.later"
    s3 = paged.provider.client("s3")
    key = f"{table.name}/_delta_log/{table.version:020d}.json"
    s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=commit.read_bytes())


@pytest.mark.parametrize(
    ("kind", "as_format"),
    [(kind, one) for kind in TABLES for one in ("delta", "parquet") if (kind, one) != ("vectors", "parquet")],
)
def test_pages_are_the_whole_whatever_lands_between_them(
    paged: Connector, written: Callable[[str], Table], kind: str, as_format: str
) -> None:
    table = written(kind)
    version = table.version

    def between(exchange: Exchange) -> None:
        if exchange.call == "query" and "pageToken" not in exchange.body:
            land(paged, table)

    paged.wire.take()
    paged.wire.between = between
    found = rows(paged.read(table.name, as_format))
    paged.wire.between = lambda _: None
    asked = paged.asked("query")
    assert found == table.rows(version)
    check(asked)
    assert table.version == version + 1

    for old in (1, 2):
        assert rows(paged.read(table.name, as_format, versionAsOf=old)) == table.rows(old)
        check(paged.asked("query"))


def check(asked: list[Exchange]) -> None:
    """Check that the connector asked once, without a page size, and then page by page to the end."""
    first, *later = asked
    assert all(exchange.status == 200 for exchange in asked)
    assert "maxFiles" not in first.body
    assert "includeRefreshToken" in first.body
    assert len(later) > 2, "one page was all there was"
    assert all(exchange.body["maxFiles"] == 100_000 and exchange.body["pageToken"] for exchange in later)
    assert [b'"nextPageToken"' in exchange.answer for exchange in asked] == [True] * len(later) + [False]
    assert all(len(exchange.answer) <= PAGE_BYTES for exchange in asked)


def test_a_filter_a_limit_polls_and_a_stream_read_pages(
    paged: Connector, written: Callable[[str], Table], tmp_path: Path
) -> None:
    table = written("nested")
    whole = table.rows(table.version)
    read = paged.read(table.name, "parquet")
    assert rows(read.where("id >= 0")) == whole
    assert len(paged.asked("query")) > 2
    assert rows(read.limit(whole.total() - 1)).total() == whole.total() - 1
    assert len(paged.asked("query")) > 2
    with paged.conf(POLLED):
        assert rows(paged.read(table.name, "delta")) == whole
    polls = [one for one in paged.wire.take() if "/queries/" in one.target and b'"nextPageToken"' in one.answer]
    assert len(polls) > 2
    assert paged.stream(table.name, tmp_path, "delta") == whole
    assert len(paged.asked("query")) > 2
