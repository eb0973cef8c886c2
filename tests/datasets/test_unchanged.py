"""Test that rows by key without changes make no new version."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from datasets.files import dataset, json_source, run_of, store_rows
from deltaic.errors import DeltaicError
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.run_state import RunSummary
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import exists
from deltaic_terminal.progress import silent
from pipeline.place import BUCKET, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

MERGE = {"mode": "merge", "keys": ["id"]}
SCD2 = {"mode": "scd2", "keys": ["id"], "at": "day"}
SCHEMA = "id INT, name STRING, day TIMESTAMP"
COLUMNS = pa.schema([("id", pa.int32()), ("name", pa.string()), ("day", pa.timestamp("us", "UTC"))])
ASIDE = [{"expect": "not_null", "columns": ["name"], "action": "quarantine"}]


def row(key: int, name: str | None = "a", day: int = 1) -> dict[str, Any]:
    return {"id": key, "name": name, "day": f"2026-03-0{day}T00:00:00Z"}


class Table:
    """A table, and runs that each deliver a newly written file."""

    def __init__(self, spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
        self.spark, self._catalog, self.place = spark, catalog, place
        self._number = 0

    def start(self, rows: list[dict[str, Any]]) -> None:
        """Create the table with rows, as an earlier run has done it."""
        stored = [values | {"day": datetime.fromisoformat(values["day"])} for values in rows]
        store_rows(self.place.table(), stored, COLUMNS)

    def take(self, rows: list[dict[str, Any]], **parts: Any) -> RunSummary:
        self._number += 1
        source = json_source(self.place.folder, "s", rows, parts.pop("schema", SCHEMA))
        content = dataset(self.place.location, sources={"s": source}, **parts)
        return build(self.spark, run_of(content, f"run{self._number}"), self._catalog, silent)

    def version(self) -> int:
        return self.place.table().version()

    def aside(self) -> list[tuple[Any, ...]]:
        return self.place.table("_quarantine").rows("_run", "id")


@pytest.fixture
def table(spark: "SparkSession", catalog: JobCatalog, place: Place) -> Table:
    return Table(spark.newSession(), catalog, place)


@pytest.mark.parametrize(
    "write",  # the next tests merge
    [pytest.param(MERGE, id="merge", marks=pytest.mark.long), pytest.param(SCD2, id="scd2")],
)
def test_repeated_rows_make_no_version_and_are_counted(table: Table, write: dict[str, Any]) -> None:
    rows = [row(1), row(2), row(3, None)]
    first = table.take(rows, write=write, expectations=ASIDE)
    assert (first.committed, first.written, first.quarantined, table.version()) == (True, 2, 1, first.version)
    again = table.take([rows[2], row(2, day=2), rows[0]] if write is SCD2 else rows, write=write, expectations=ASIDE)
    assert (again.committed, again.repeated, again.version, table.version()) == (
        False,
        False,
        first.version,
        first.version,
    )
    assert (again.rows, again.written, again.unchanged, again.quarantined) == (3, 0, 2, 1)
    assert table.aside() == [("run1", 3), ("run2", 3)]
    changed = table.take([row(1), row(2, "b", day=3)], write=write, expectations=ASIDE)
    assert (changed.committed, changed.written, changed.unchanged) == (True, 1, 1)
    assert table.version() > again.version  # type: ignore[operator]


def test_no_rows_make_no_version(table: Table) -> None:
    table.start([row(1)])
    steps = [{"view": "none", "sql": "SELECT * FROM s WHERE id < 0"}]
    assert not table.take([row(1)], write=MERGE, steps=steps).committed
    assert table.version() == 0


@pytest.mark.long  # in CI: test_deleting.py::test_delete_when_deletes_keys_and_the_change_feed_has_them
def test_deletes_of_missing_keys_make_no_version(table: Table) -> None:
    write = {**MERGE, "delete_when": "name = 'D'"}
    table.start([row(1), row(2)])
    deleted = table.take([row(1), row(9, "D")], write=write)
    assert (deleted.committed, deleted.deleted, deleted.unchanged) == (False, 0, 2)
    existing = table.take([row(1), row(2, "D")], write=write)
    assert (existing.committed, existing.deleted, existing.unchanged, existing.written) == (True, 1, 1, 0)


def test_new_columns_without_values_make_a_version(table: Table) -> None:
    table.start([row(1)])
    grows = {"write": MERGE, "target": {"evolve_schema": True}, "schema": f"{SCHEMA}, more STRUCT<a: INT, b: INT>"}
    assert table.take([row(1)], **grows).committed
    assert table.place.table().columns()[-1] == "more"
    assert not table.take([row(1)], **grows).committed


@pytest.mark.parametrize(
    "write",  # test_repeated_rows_make_no_version_and_are_counted writes scd2
    [pytest.param(MERGE, id="merge"), pytest.param(SCD2, id="scd2", marks=pytest.mark.long)],
)
def test_batch_without_changes_is_processed_once(
    spark: "SparkSession", catalog: JobCatalog, place: Place, write: dict[str, Any]
) -> None:
    inbox = place.folder / "inbox"
    inbox.mkdir()
    source = {"format": "json", "paths": [str(inbox)], "schema": SCHEMA}
    stream = {"source": "s", "checkpoint": f"{place.location}_checkpoint"}
    content = dataset(place.location, sources={"s": source}, write=write, stream=stream, expectations=ASIDE)
    summaries = []
    for number, rows in enumerate([[row(1), row(2, None)], [row(1), row(2, None)], []]):
        if rows:
            json_source(inbox, f"day{number}", rows)
        summaries.append(build(spark, run_of(content, f"run{number}"), catalog, silent))
    first, same, idle = summaries
    assert (first.batches, first.written, first.committed) == (1, 1, True)
    assert (same.batches, same.written, same.unchanged, same.quarantined, same.committed) == (1, 0, 1, 1, False)
    assert (idle.batches, idle.rows) == (0, 0)
    assert exists(spark, DeltaTarget(place.location, "append"))
    assert "MERGE" not in [commit["operation"] for commit in place.table().open().history()]
    assert len(place.table("_quarantine").rows("id")) == 2


UNIQUE = [{"expect": "unique", "columns": ["id"]}]
EXISTING = [row(1), row(2), row(3)]
DELIVERIES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "a row of the table twice": ([row(1), row(2), row(2)], [], "several rows"),
    "a row of the table twice in place of another": ([row(1), row(2), row(2)], UNIQUE, r"unique.*2 of 3 rows"),
    "a new row twice": ([*EXISTING, row(4), row(4)], [], "several rows"),
    "a new row twice, and unique": ([*EXISTING, row(4), row(4)], UNIQUE, r"unique.*2 of 5 rows"),
    "a key that is put aside too": ([*EXISTING, row(3, None)], [*ASIDE, *UNIQUE], r"unique.*2 of 4 rows"),
    "a new key that is put aside too": ([*EXISTING, row(4), row(4, None)], [*ASIDE, *UNIQUE], r"unique.*2 of 5 rows"),
    "no key": ([*EXISTING, {"id": None, "name": "a", "day": None}], [], "no key"),
    "too few rows": (EXISTING, [{"expect": "row_count", "min": 4}], "row_count"),
}


@pytest.fixture(scope="module")
def existing_table(
    spark: "SparkSession",
    catalog: JobCatalog,
    store_options: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Table:
    """Return a table with the existing rows; refused deliveries do not change it."""
    place = Place(f"s3://{BUCKET}/unchanged", "unchanged", tmp_path_factory.mktemp("rows"), store_options)
    table = Table(spark.newSession(), catalog, place)
    table.start(EXISTING)
    return table


COVERED = {"a row of the table twice", "a new row twice, and unique", "a key that is put aside too"}
"""Deliveries like others: CI does not run them."""


@pytest.mark.parametrize(
    ("rows", "expectations", "message"),
    [pytest.param(*case, id=name, marks=[pytest.mark.long] * (name in COVERED)) for name, case in DELIVERIES.items()],
)
def test_duplicate_keys_are_refused_for_any_table(
    existing_table: Table, rows: list[dict[str, Any]], expectations: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(DeltaicError, match=message):
        existing_table.take(rows, write=MERGE, expectations=expectations)
    assert existing_table.version() == 0


@pytest.mark.long  # in CI: test_repeated_rows_make_no_version_and_are_counted
@pytest.mark.parametrize("write", [MERGE, SCD2], ids=["merge", "scd2"])
def test_only_changed_partitions_are_written(table: Table, write: dict[str, Any]) -> None:
    table.take(EXISTING, write=write)
    summary = table.take([row(2), row(3, "c", day=4), row(4, day=4)], write=write, expectations=UNIQUE)
    assert (summary.rows, summary.written, summary.unchanged, summary.committed) == (3, 2, 1, True)
    columns = ("id", "name", "is_current") if write is SCD2 else ("id", "name")
    now = [(key, name) for key, name, *current in table.place.table().rows(*columns) if current != [False]]
    assert now == [(1, "a"), (2, "a"), (3, "c"), (4, "a")]
