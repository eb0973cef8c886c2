"""Test that filters return the same rows as in Spark: a hint can exclude files, but never a matching row.

Three tables have the same rows, of which the last is all null: `partitioned` by all columns, so that each row is in a
separate file; `files`, a few files with overlapping statistics; `zoneless`, whose partition values of timestamps have
no time zone, so that they are different instants in each session time zone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connector.filters import NOT_UTC, filters, limit_filters, zone_filters
from connector.sharing import Connector, Rows, describe, rows
from connector.values import TYPES, VALUES
from connector.values import rows as values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ANSI = "spark.sql.ansi.enabled"
ZONE = "spark.sql.session.timeZone"

LAYOUTS = {
    "partitioned": (f"PARTITIONED BY ({', '.join(VALUES)})", 1),
    "files": ("", 5),
    "zoneless": ("PARTITIONED BY (ts)", 1),
}
"""Layout of each table, and number of its commits."""

Variant = tuple[str, str, int | None]
"""A table, a format and a limit."""
UNLIMITED: tuple[Variant, ...] = (("partitioned", "parquet", None), ("files", "parquet", None))
LIMITED: tuple[Variant, ...] = (("partitioned", "delta", 2),)
"""The connector sends a limit with a filter only in delta format and on partition columns, otherwise only the limit."""
ZONE_VARIANTS: tuple[Variant, ...] = (
    ("partitioned", "parquet", None),
    ("zoneless", "parquet", None),
    ("files", "delta", 2),
)


@pytest.fixture(scope="module")
def direct(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], "DataFrame"]:
    """Write and share the tables; return a function that reads one directly with Spark."""
    folder = tmp_path_factory.mktemp("filters")
    for name, (layout, commits) in LAYOUTS.items():
        write(connector, folder / name, layout, commits, zones=name != "zoneless")
        connector.provider.put(name, folder / name)
    return {name: connector.spark.read.format("delta").load(str(folder / name)) for name in LAYOUTS}.__getitem__


def write(connector: Connector, folder: Path, layout: str, files: int, *, zones: bool) -> None:
    """Write the rows in `files` commits."""
    columns = ", ".join(f"{name} {kind}" for name, kind in {"id": "INT", **TYPES}.items())
    connector.spark.sql(f"CREATE TABLE delta.`{folder}` ({columns}) USING delta {layout}")
    source = connector.spark.sql(f"VALUES {values()} AS known(id, {', '.join(VALUES)})").coalesce(1)
    with connector.conf({"spark.databricks.delta.write.utcTimestampPartitionValues": str(zones).lower()}):
        for part in range(files):
            source.where(f"id % {files} = {part}").write.format("delta").mode("append").save(str(folder))


def check(
    connector: Connector, direct: Callable[[str], "DataFrame"], condition: str, variants: tuple[Variant, ...]
) -> None:
    """Check that a filter returns the same rows as in Spark, or with a limit that number of them."""
    failures = []
    expected_by_table: dict[str, Rows] = {}
    for table, as_format, limit in variants:
        key = "zoneless" if table == "zoneless" else "partitioned"
        if key not in expected_by_table:
            expected_by_table[key] = rows(direct(key).where(condition))
        expected = expected_by_table[key]
        count = expected.total() if limit is None else min(limit, expected.total())
        filtered = connector.read(table, as_format).where(condition)
        connector.wire.take()
        received = rows(filtered if limit is None else filtered.limit(limit))
        if received.total() != count or received - expected:
            requests = describe(connector.requests("query"))
            failures.append(
                f"{table} as {as_format}, limit {limit}: {received.total()} rows and not {count}\n{requests}"
            )
    assert not failures, "\n".join([condition, *failures])


@pytest.mark.parametrize("condition", [*filters()])
def test_filter_returns_the_same_rows_as_spark(
    connector: Connector, direct: Callable[[str], "DataFrame"], condition: str
) -> None:
    check(connector, direct, condition.replace("{cast}", "try_cast"), UNLIMITED)


@pytest.mark.parametrize("condition", [*limit_filters()])
def test_filter_with_limit_returns_the_limited_number_of_rows(
    connector: Connector, direct: Callable[[str], "DataFrame"], condition: str
) -> None:
    check(connector, direct, condition.replace("{cast}", "try_cast"), LIMITED)


@pytest.mark.parametrize(("zone", "ansi"), NOT_UTC)
@pytest.mark.parametrize("condition", [*zone_filters()])
def test_filter_returns_the_same_rows_as_spark_in_another_time_zone(
    connector: Connector, direct: Callable[[str], "DataFrame"], zone: str, ansi: bool, condition: str
) -> None:
    with connector.conf({ZONE: zone, ANSI: str(ansi).lower()}):
        check(connector, direct, condition, ZONE_VARIANTS)
