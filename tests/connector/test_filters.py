"""The connector finds every row that Spark finds: a hint may leave files out, and never a row that was asked for.

Three tables hold the same rows, the last of them all null: `partitioned` by all columns, so that each row has a file of
its own; `files`, a few whose statistics overlap; `zoneless`, whose partition values of timestamps name no zone, so that
they are other instants in each session time zone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connector.filters import NOT_UTC, filters, limited, of_zones
from connector.sharing import Connector, Rows, rows, told
from connector.values import TYPES, VALUES
from connector.values import rows as values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ANSI = "spark.sql.ansi.enabled"
ZONE = "spark.sql.session.timeZone"

WRITTEN = {
    "partitioned": (f"PARTITIONED BY ({', '.join(VALUES)})", 1),
    "files": ("", 5),
    "zoneless": ("PARTITIONED BY (ts)", 1),
}
"""How each is laid out, and in how many commits it is written."""

Variant = tuple[str, str, int | None]
"""A table, a format and a limit."""
WHOLE: tuple[Variant, ...] = (("partitioned", "parquet", None), ("files", "parquet", None))
LIMITED: tuple[Variant, ...] = (("partitioned", "delta", 2),)
"""Only in delta format and on partition columns a limit is sent with a filter, or without it where that cannot be."""
ZONED: tuple[Variant, ...] = (("partitioned", "parquet", None), ("zoneless", "parquet", None), ("files", "delta", 2))


@pytest.fixture(scope="module")
def direct(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], "DataFrame"]:
    """Write and share the tables; return a function that gives one as Spark itself reads it."""
    folder = tmp_path_factory.mktemp("filters")
    for name, (layout, files) in WRITTEN.items():
        write(connector, folder / name, layout, files, zones=name != "zoneless")
        connector.provider.put(name, folder / name)
    return {name: connector.spark.read.format("delta").load(str(folder / name)) for name in WRITTEN}.__getitem__


def write(connector: Connector, place: Path, layout: str, files: int, *, zones: bool) -> None:
    """Write the rows in so many commits."""
    columns = ", ".join(f"{name} {kind}" for name, kind in {"id": "INT", **TYPES}.items())
    connector.spark.sql(f"CREATE TABLE delta.`{place}` ({columns}) USING delta {layout}")
    known = connector.spark.sql(f"VALUES {values()} AS known(id, {', '.join(VALUES)})").coalesce(1)
    with connector.conf({"spark.databricks.delta.write.utcTimestampPartitionValues": str(zones).lower()}):
        for part in range(files):
            known.where(f"id % {files} = {part}").write.format("delta").mode("append").save(str(place))


def check(
    connector: Connector, direct: Callable[[str], "DataFrame"], condition: str, variants: tuple[Variant, ...]
) -> None:
    """Assert that a filter finds Spark's own rows, or with a limit so many of them."""
    failures = []
    known: dict[str, Rows] = {}
    for table, as_format, limit in variants:
        same = "zoneless" if table == "zoneless" else "partitioned"
        if same not in known:
            known[same] = rows(direct(same).where(condition))
        wanted = known[same]
        count = wanted.total() if limit is None else min(limit, wanted.total())
        asked = connector.read(table, as_format).where(condition)
        connector.wire.take()
        found = rows(asked if limit is None else asked.limit(limit))
        if found.total() != count or found - wanted:
            sent = told(connector.asked("query"))
            failures.append(f"{table} as {as_format}, limit {limit}: {found.total()} rows and not {count}\n{sent}")
    assert not failures, "\n".join([condition, *failures])


@pytest.mark.parametrize("condition", [*filters()])
def test_a_filter_finds_spark_s_rows(
    connector: Connector, direct: Callable[[str], "DataFrame"], condition: str
) -> None:
    check(connector, direct, condition.replace("{cast}", "try_cast"), WHOLE)


@pytest.mark.parametrize("condition", [*limited()])
def test_a_filter_with_a_limit_finds_so_many_rows(
    connector: Connector, direct: Callable[[str], "DataFrame"], condition: str
) -> None:
    check(connector, direct, condition.replace("{cast}", "try_cast"), LIMITED)


@pytest.mark.parametrize(("zone", "ansi"), NOT_UTC)
@pytest.mark.parametrize("condition", [*of_zones()])
def test_a_filter_finds_spark_s_rows_in_another_zone(
    connector: Connector, direct: Callable[[str], "DataFrame"], zone: str, ansi: bool, condition: str
) -> None:
    with connector.conf({ZONE: zone, ANSI: str(ansi).lower()}):
        check(connector, direct, condition, ZONED)
