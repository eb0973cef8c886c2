"""Test deletes by condition and of missing keys: tables, counts and change feeds."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from datasets.files import dataset, json_source, run_of, store_rows
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.dry_run import plan_run
from deltaic_datasets.run.run_state import Run, target_of
from deltaic_pipeline.failures import ExpectationFailed, PipelineError
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.row_limits import exceeds
from deltaic_terminal.progress import silent
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

SCHEMA = "id INT, name STRING, day TIMESTAMP, op STRING"
DAY = pa.timestamp("us", "UTC")
COLUMNS = {"id": pa.int32(), "name": pa.string(), "day": DAY}
PERIOD = {"valid_from": DAY, "valid_to": DAY, "is_current": pa.bool_()}
FIRST, SECOND, THIRD = (f"2026-03-0{day}T00:00:00" for day in (1, 2, 3))


def row(key: int | None, name: str | None = None, op: str | None = None, day: str = FIRST) -> dict[str, Any]:
    return {"id": key, "name": name, "day": f"{day}Z", "op": op}


class Arrivals:
    """A dataset that receives deliveries."""

    def __init__(self, spark: "SparkSession", catalog: JobCatalog, place: Place, write: Mapping[str, Any]) -> None:
        self._spark, self._catalog, self._place, self._write = spark, catalog, place, write
        self._number = 0

    def start(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Create the table with rows, as an earlier run has done it."""
        times = [datetime.fromisoformat(values["day"]) for values in rows]
        states = [{"day": time, "valid_from": time, "is_current": True} for time in times]
        columns = COLUMNS | (PERIOD if self._write["mode"] == "scd2" else {})
        stored = [{**values, **state} for values, state in zip(rows, states, strict=True)]
        store_rows(self._place.table(), stored, pa.schema([*columns.items()]))

    def run(self, rows: Sequence[Mapping[str, Any]], **parts: Any) -> Run:
        self._number += 1
        source = json_source(self._place.folder, f"rows{self._number}", rows, parts.pop("schema", SCHEMA))
        write = {**self._write, **parts.pop("write", {})}
        content = dataset(self._place.location, sources={"s": source}, write=write, **parts)
        return run_of(content, f"run{self._number}")

    def take(self, rows: Sequence[Mapping[str, Any]], **parts: Any) -> Any:
        return build(self._spark, self.run(rows, **parts), self._catalog, silent)

    def plan(self, rows: Sequence[Mapping[str, Any]], **parts: Any) -> Any:
        return plan_run(self._spark, self.run(rows, **parts))

    def table(self, *columns: str) -> list[tuple[Any, ...]]:
        return self._place.table().rows(*columns)

    def states(self) -> list[tuple[Any, ...]]:
        """Return the states of an scd2 table, with the days from and until which they are valid."""
        rows = self.table("id", "name", "valid_from", "valid_to", "is_current")
        days = [[time and f"{time:%Y-%m-%d}" for time in values[2:4]] for values in rows]
        return sorted(((*values[:2], *day, values[4]) for values, day in zip(rows, days, strict=True)), key=repr)

    def repeat(self, run: Run) -> Any:
        return build(self._spark, run, self._catalog, silent)

    def columns(self) -> list[str]:
        return self._place.table().columns()

    def feed(self, version: int) -> list[tuple[Any, ...]]:
        """Return the change feed of one version for recipients."""
        return self._place.table().changes(version, "id", "name")


@pytest.fixture
def merged(spark: "SparkSession", catalog: JobCatalog, place: Place) -> Arrivals:
    return Arrivals(spark, catalog, place, {"mode": "merge", "keys": ["id"], "delete_when": "op = 'D'"})


@pytest.fixture
def scd2(spark: "SparkSession", catalog: JobCatalog, place: Place) -> Arrivals:
    write = {"mode": "scd2", "keys": ["id"], "at": "day", "delete_when": "op = 'D'"}
    return Arrivals(spark, catalog, place, write)


@pytest.fixture
def full(spark: "SparkSession", catalog: JobCatalog, place: Place) -> Arrivals:
    write = {"mode": "merge", "keys": ["id"], "delete_missing": True, "at_most": "50 %", "delete_when": "op = 'D'"}
    return Arrivals(spark, catalog, place, write)


@pytest.fixture
def full_states(spark: "SparkSession", catalog: JobCatalog, place: Place) -> Arrivals:
    write = {"mode": "scd2", "keys": ["id"], "at": "day", "delete_missing": True, "at_most": "2 rows"}
    return Arrivals(spark, catalog, place, write)


def test_delete_when_deletes_keys_and_the_change_feed_has_them(merged: Arrivals) -> None:
    first = merged.take([row(1, "a"), row(2, "b"), row(3, "c"), row(9, "never there", "D")])
    assert (first.written, first.deleted, first.unchanged) == (3, 0, 1)
    assert merged.columns() == ["id", "name", "day"]
    delivery = [row(1, op="D"), row(2, "B", "U"), row(4, "d"), row(7, op="D"), row(3, "c", "U")]
    report = merged.plan(delivery)
    assert report.effect == {"new": 1, "changed": 1, "deleted": 1, "unchanged": 2}
    assert [column.split()[0] for column in report.columns] == ["id", "name", "day"]
    assert not report.differences
    summary = merged.take(delivery)
    assert (summary.rows, summary.written, summary.deleted, summary.unchanged) == (5, 2, 1, 2)
    assert merged.table("id", "name") == [(2, "B"), (3, "c"), (4, "d")]
    assert merged.feed(summary.version) == [
        ("delete", 1, "a"),
        ("insert", 4, "d"),
        ("update_postimage", 2, "B"),
        ("update_preimage", 2, "b"),
    ]
    again = merged.take(delivery)
    assert (again.committed, again.written, again.deleted, again.unchanged) == (False, 0, 0, 5)
    assert again.version == summary.version
    assert merged.table("id", "name") == [(2, "B"), (3, "c"), (4, "d")]


@pytest.mark.long  # in CI: test_keys_of_rejected_rows_are_not_missing, test_duplicate_keys_are_refused_for_any_table
def test_expectations_and_duplicates_are_checked_before_deletes(merged: Arrivals) -> None:
    merged.start([row(1, "a"), row(2, "b")])
    with pytest.raises(PipelineError, match="several rows to merge have the same key"):
        merged.take([row(1, op="D"), row(1, "A")])
    with pytest.raises(PipelineError, match="has no key"):
        merged.take([row(None, op="D")])
    refusing = [{"expect": "accepted_values", "column": "op", "values": ["U"]}]
    with pytest.raises(ExpectationFailed):
        merged.take([row(1, op="D")], expectations=refusing)
    aside = [{"expect": "not_null", "columns": ["name"], "action": "quarantine"}]
    summary = merged.take([row(1, op="D"), row(2, "b", "D")], expectations=aside)
    assert (summary.quarantined, summary.deleted) == (1, 1)
    assert merged.table("id", "name") == [(1, "a")]


def test_columns_of_delete_when_are_written_if_the_table_has_them(merged: Arrivals) -> None:
    merged.take([row(1, "a", "U")], target={"columns": {"op": "What was done"}})
    assert merged.columns() == ["id", "name", "day", "op"]
    merged.take([row(1, "b", "X"), row(2, "c", "D")])
    assert merged.table("id", "name", "op") == [(1, "b", "X")]


@pytest.mark.long  # in CI: the test above, and test_rows_of_any_types_are_written_as_plain_python_predicts
def test_evolving_schema_gets_no_column_of_delete_when(merged: Arrivals) -> None:
    merged.start([row(1, "a"), row(2, "b")])
    steps = [{"view": "more", "sql": "SELECT *, named_struct('x', id) AS n FROM s"}]
    merged.take([row(1, "a"), row(2, op="D"), row(3, "c")], steps=steps, target={"evolve_schema": True})
    assert merged.columns() == ["id", "name", "day", "n"]
    steps = [{"view": "more", "sql": "SELECT *, named_struct('x', id, 'y', name) AS n FROM s"}]
    merged.take([row(1, "a"), row(4, op="D")], steps=steps, target={"evolve_schema": True})
    assert merged.table("id", "n.x", "n.y") == [(1, 1, "a"), (3, 3, None)]


@pytest.mark.long  # in CI: test_scd2_state_of_a_missing_key_ends_at_the_start_of_the_extract, and delete_when in merges
def test_scd2_delete_ends_the_state_of_its_key(scd2: Arrivals) -> None:
    scd2.start([row(1, "a"), row(2, "b"), row(3, "c")])
    delivery = [row(1, op="D", day=SECOND), row(2, "B", day=SECOND), row(8, op="D", day=SECOND)]
    assert scd2.plan(delivery).effect == {"new": 0, "changed": 1, "deleted": 1, "unchanged": 1}
    summary = scd2.take(delivery)
    assert (summary.written, summary.deleted, summary.unchanged) == (1, 1, 1)
    states = [
        (1, "a", "2026-03-01", "2026-03-02", False),
        (2, "B", "2026-03-02", None, True),
        (2, "b", "2026-03-01", "2026-03-02", False),
        (3, "c", "2026-03-01", None, True),
    ]
    assert scd2.states() == states
    with pytest.raises(PipelineError, match="deliver states in the order of their time"):
        scd2.take([row(3, op="D", day=FIRST)])
    assert scd2.states() == states


@pytest.mark.long  # in CI: test_unchanged.py repeats rows; test_scd2_keeps_every_state_with_its_period has late ones
def test_scd2_key_returns_after_its_delete(scd2: Arrivals) -> None:
    scd2.start([row(1, "a")])
    delivery = [row(1, op="D", day=SECOND), row(8, op="D", day=SECOND)]
    assert scd2.take(delivery).deleted == 1
    again = scd2.take(delivery)
    assert (again.written, again.deleted, again.unchanged) == (0, 0, 2)
    with pytest.raises(PipelineError, match="deliver states in the order of their time"):
        scd2.take([row(1, "a")])
    scd2.take([row(1, "again", day=THIRD)])
    assert scd2.states() == [(1, "a", "2026-03-01", "2026-03-02", False), (1, "again", "2026-03-03", None, True)]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("nobody = 'D'", "write.delete_when: .*nobody"),
        ("id", "write.delete_when: .*BOOLEAN"),
        ("id IN (SELECT id FROM s)", "write.delete_when: a condition uses the columns of one row"),
        ("count(*) > 1", "write.delete_when"),
    ],
)
def test_invalid_delete_when_is_refused_with_its_field(
    spark: "SparkSession", catalog: JobCatalog, place: Place, condition: str, message: str
) -> None:
    source = {"format": "json", "paths": [json_source(place.folder, "r", [row(1)])["paths"][0]]}
    write = {"mode": "merge", "keys": ["id"], "delete_when": condition}
    run = run_of(dataset(place.location, sources={"s": source}, write=write))
    with pytest.raises(PipelineError, match=message):
        build(spark, run, catalog, silent)
    assert not place.table().exists()


def test_missing_keys_are_deleted_and_the_change_feed_has_them(full: Arrivals) -> None:
    full.start([row(1, "a"), row(2, "b"), row(3, "c"), row(4, "d")])
    delivery = [row(1, op="D"), row(2, "B"), row(3, "c"), row(5, "e"), row(9, op="D")]
    report = full.plan(delivery)
    assert (report.refused, report.effect) == ("", {"new": 1, "changed": 1, "deleted": 1, "unchanged": 2, "missing": 1})
    run = full.run(delivery)
    summary = full.repeat(run)
    assert (summary.rows, summary.written, summary.deleted, summary.unchanged) == (5, 2, 2, 2)
    assert full.table("id", "name") == [(2, "B"), (3, "c"), (5, "e")]
    assert full.feed(summary.version) == [
        ("delete", 1, "a"),
        ("delete", 4, "d"),
        ("insert", 5, "e"),
        ("update_postimage", 2, "B"),
        ("update_preimage", 2, "b"),
    ]
    again = full.repeat(run)
    assert (again.version, again.repeated, again.deleted) == (summary.version, True, 0)
    same = full.take(delivery)
    assert (same.written, same.deleted, same.unchanged) == (0, 0, 5)
    only = full.take([row(2, "B"), row(3, "c")])
    assert (only.written, only.deleted, only.unchanged) == (0, 1, 2)
    assert full.feed(only.version) == [("delete", 5, "e")]
    assert full.columns() == ["id", "name", "day"]


@pytest.mark.long  # in CI: test_no_rows_make_no_version
def test_empty_extracts_create_and_keep_an_empty_table(full: Arrivals) -> None:
    for _ in range(2):
        summary = full.take([])
        assert (summary.rows, summary.written, summary.deleted) == (0, 0, 0)


def test_too_many_missing_keys_and_empty_extracts_are_refused(full: Arrivals) -> None:
    full.start([row(1, "a"), row(2, "b"), row(3, "c"), row(4, "d")])
    delivery = [row(1, "A"), row(8, "new")]
    report = full.plan(delivery)
    assert report.effect["missing"] == 3
    assert "FAILS: 3 of the table's 4 keys are missing in the rows, and at most 50 % may be deleted" in "\n".join(
        report.lines()
    )
    with pytest.raises(ExpectationFailed, match="nothing was written: 3 of the table's 4 keys are missing"):
        full.take(delivery)
    leaving = [{"expect": "sql", "condition": "id > 9", "action": "drop"}]
    without_limit: dict[str, Any] = {"write": {"at_most": "100 %"}, "expectations": leaving}
    assert "there are no rows to write" in full.plan([], **without_limit).refused
    for rows in ([], [row(1, "a"), row(2, "b")]):
        with pytest.raises(ExpectationFailed, match="there are no rows to write, but 4 keys in the table"):
            full.take(rows, **without_limit)
    assert full.table("id", "name") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    summary = full.take(delivery, write={"at_most": "75 %"})
    assert (summary.written, summary.deleted) == (2, 3)
    assert full.table("id", "name") == [(1, "A"), (8, "new")]


@pytest.mark.parametrize(("at_most", "limit"), [("50 %", "50 %"), (None, "5 %"), ("2 rows", "2 rows")])
def test_limit_of_missing_keys_is_that_of_the_dataset_or_five_percent(at_most: str | None, limit: str) -> None:
    source = {"format": "json", "paths": ["s3://lake/rows"]}
    write = {"mode": "merge", "keys": ["id"], "delete_missing": True, **({"at_most": at_most} if at_most else {})}
    target = target_of(run_of(dataset("s3://lake/table", sources={"s": source}, write=write)).dataset)
    assert target.missing_at_most == limit
    assert exceeds(limit, 3, 4)


def test_keys_of_rejected_rows_are_not_missing(full: Arrivals) -> None:
    full.start([row(1, "a"), row(2, "b"), row(3, "c"), row(4, "d")])
    leaving = [
        {"expect": "not_null", "columns": ["id"], "action": "quarantine"},
        {"expect": "not_null", "columns": ["name"], "action": "quarantine"},
        {"expect": "sql", "condition": "name <> 'bad'", "action": "drop"},
        {"expect": "unique", "columns": ["id"], "action": "drop"},
    ]
    delivery = [row(1), row(2, "bad"), row(3, "C"), row(3, "CC"), row(5, "e"), row(None, "nobody")]
    assert full.plan(delivery, expectations=leaving).effect["missing"] == 1
    summary = full.take(delivery, expectations=leaving)
    assert (summary.written, summary.deleted, summary.quarantined, summary.dropped, summary.unchanged) == (
        1,
        1,
        2,
        3,
        0,
    )
    assert full.table("id", "name") == [(1, "a"), (2, "b"), (3, "c"), (5, "e")]


def test_keys_are_compared_by_the_types_of_the_table(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    write = {"mode": "merge", "keys": ["NUMBER", "price", "text", "size"], "delete_missing": True, "at_most": "4 rows"}
    arrivals = Arrivals(spark, catalog, place, write)
    price = Decimal("1.50")
    usual = (1, price, "a", 0.0)
    gone = [(2, price, "a", 0.0), (1, price + 1, "a", 0.0), (1, price, "A", 0.0), (1, price, "a", 1.0)]
    before = [dict(zip(("number", "price", "text", "size"), key, strict=True)) for key in [usual, *gone]]
    before.append({**before[0], "text": "a "})
    columns = {"number": pa.int64(), "price": pa.decimal128(10, 2), "text": pa.string(), "size": pa.float64()}
    store_rows(place.table(), before, pa.schema([*columns.items()]))
    after = [{"TEXT": text, "SIZE": -0.0, "Number": 1, "Price": 1.5} for text in ("a ", "a")]
    summary = arrivals.take(after, schema="TEXT STRING, SIZE DOUBLE, Number INT, Price DECIMAL(10,2)")
    assert (summary.written, summary.deleted, summary.unchanged) == (0, 4, 2)
    assert arrivals.columns() == ["number", "price", "text", "size"]
    assert arrivals.table("number", "price", "text", "size") == [(1, price, "a ", 0.0), (1, price, "a", 0.0)]


@pytest.mark.long  # in CI: test_keyed_rows.py::test_columns_become_wider_if_table_and_run_allow_it
def test_keys_become_wider_with_the_type_of_the_extract(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    write = {"mode": "merge", "keys": ["SITE", "id"], "delete_missing": True, "at_most": "1 row"}
    arrivals = Arrivals(spark, catalog, place, write)
    target = {"evolve_schema": True, "properties": {"delta.enableTypeWidening": "true"}}
    arrivals.take([{"id": key, "site": "x"} for key in (1, 2, 3)], schema="id INT, site STRING", target=target)
    after = [{"Site": "x", "ID": key} for key in (3, 1, 1 << 40)]
    assert arrivals.take(after, schema="Site STRING, ID BIGINT", target=target).deleted == 1
    table = spark.read.format("delta").load(place.spark_location)  # deltalake does not read widened columns
    assert table.columns == ["id", "site"]
    assert sorted(row["id"] for row in table.collect()) == [1, 3, 1 << 40]


def test_scd2_state_of_a_missing_key_ends_at_the_start_of_the_extract(full_states: Arrivals) -> None:
    full_states.take([row(1, "a"), row(2, "b"), row(3, "c")])
    delivery = [row(1, "a", day=SECOND), row(2, "B", day=SECOND)]
    assert full_states.plan(delivery).effect == {"new": 0, "changed": 1, "deleted": 0, "unchanged": 1, "missing": 1}
    summary = full_states.take(delivery)
    assert (summary.written, summary.deleted, summary.unchanged) == (1, 1, 1)
    states = [
        (1, "a", "2026-03-01", None, True),
        (2, "B", "2026-03-02", None, True),
        (2, "b", "2026-03-01", "2026-03-02", False),
        (3, "c", "2026-03-01", "2026-03-02", False),
    ]
    assert full_states.states() == states
    older = [row(1, "a", day=SECOND)]
    assert "the extract is older than the table" in full_states.plan(older).refused
    with pytest.raises(ExpectationFailed, match=r"write\.at is not the time of the extract"):
        full_states.take(older)
    assert full_states.states() == states


@pytest.mark.long  # in CI: test_unchanged.py repeats rows; test_scd2_keeps_every_state_with_its_period has late ones
def test_scd2_missing_key_returns(full_states: Arrivals) -> None:
    full_states.take([row(1, "a"), row(2, "b"), row(3, "c")])
    delivery = [row(1, "a", day=SECOND), row(2, "B", day=SECOND)]
    assert full_states.take(delivery).deleted == 1
    again = full_states.take(delivery)
    assert (again.written, again.deleted, again.unchanged) == (0, 0, 2)
    with pytest.raises(PipelineError, match="deliver states in the order of their time"):
        full_states.take([row(1, "a"), row(2, "B", day=SECOND), row(3, "c")])
    full_states.take([row(1, "a", day=THIRD), row(2, "B", day=THIRD), row(3, "back", day=THIRD)])
    assert full_states.states() == [
        (1, "a", "2026-03-01", None, True),
        (2, "B", "2026-03-02", None, True),
        (2, "b", "2026-03-01", "2026-03-02", False),
        (3, "back", "2026-03-03", None, True),
        (3, "c", "2026-03-01", "2026-03-02", False),
    ]


@pytest.mark.long  # in CI: test_scd2_state_of_a_missing_key_ends_at_the_start_of_the_extract
def test_scd2_states_without_a_time_column_end_at_the_time_of_the_run(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    write = {"mode": "scd2", "keys": ["id"], "delete_missing": True, "at_most": "50 %"}
    arrivals = Arrivals(spark, catalog, place, write)
    arrivals.take([row(1, "a"), row(2, "b")])
    arrivals.take([row(2, "B")])
    assert arrivals.table("id", "name", "is_current") == [(1, "a", False), (2, "B", True), (2, "b", False)]
    assert len({row_values[0] for row_values in arrivals.table("valid_to")} - {None}) == 1
