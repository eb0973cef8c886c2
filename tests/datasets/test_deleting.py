"""Rows that delete their keys, and keys that a full extract lacks: tables, counts and feeds against plain values."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from datasets.files import dataset, json_source, run_of
from deltaic_pipeline.datasets.batch import build
from deltaic_pipeline.datasets.dry_run import plan
from deltaic_pipeline.datasets.run_state import Run
from deltaic_pipeline.failures import ExpectationFailed, PipelineError
from deltaic_pipeline.spark.progress import silent
from deltaic_pipeline.table.catalog_entry import Catalog
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

SCHEMA = "id INT, name STRING, day TIMESTAMP, op STRING"
FIRST, SECOND, THIRD = (f"2026-03-0{day}T00:00:00" for day in (1, 2, 3))


def row(key: int | None, name: str | None = None, op: str | None = None, day: str = FIRST) -> dict[str, Any]:
    return {"id": key, "name": name, "day": f"{day}Z", "op": op}


class Arrivals:
    """A dataset that takes one delivery after the other."""

    def __init__(self, spark: "SparkSession", catalog: Catalog, place: Place, write: Mapping[str, Any]) -> None:
        self._spark, self._catalog, self._place, self._write = spark, catalog, place, write
        self._number = 0

    def run(self, rows: Sequence[Mapping[str, Any]], **parts: Any) -> Run:
        self._number += 1
        source = json_source(self._place.folder, f"rows{self._number}", rows, SCHEMA)
        write = {**self._write, **parts.pop("write", {})}
        content = dataset(self._place.location, sources={"s": source}, write=write, **parts)
        return run_of(content, f"run{self._number}")

    def take(self, rows: Sequence[Mapping[str, Any]], **parts: Any) -> Any:
        return build(self._spark, self.run(rows, **parts), self._catalog, silent)

    def plan(self, rows: Sequence[Mapping[str, Any]], **parts: Any) -> Any:
        return plan(self._spark, self.run(rows, **parts))

    def table(self, *columns: str) -> list[tuple[Any, ...]]:
        table = self._spark.read.format("delta").load(self._place.spark_location)
        return sorted((tuple(one) for one in table.selectExpr(*columns).collect()), key=repr)

    def columns(self) -> list[str]:
        return self._spark.read.format("delta").load(self._place.spark_location).columns

    def feed(self, version: int) -> list[tuple[Any, ...]]:
        """Return what recipients are told of one version."""
        options: dict[str, Any] = {"readChangeFeed": "true", "startingVersion": version, "endingVersion": version}
        feed = self._spark.read.format("delta").options(**options).load(self._place.spark_location)
        return sorted((tuple(one) for one in feed.select("_change_type", "id", "name").collect()), key=repr)


@pytest.fixture
def merged(spark: "SparkSession", catalog: Catalog, place: Place) -> Arrivals:
    return Arrivals(spark, catalog, place, {"mode": "merge", "keys": ["id"], "delete_when": "op = 'D'"})


@pytest.fixture
def kept(spark: "SparkSession", catalog: Catalog, place: Place) -> Arrivals:
    write = {"mode": "scd2", "keys": ["id"], "at": "day", "delete_when": "op = 'D'"}
    return Arrivals(spark, catalog, place, write)


def test_rows_that_say_so_delete_their_keys_and_the_feed_tells_them(merged: Arrivals) -> None:
    made = merged.take([row(1, "a"), row(2, "b"), row(3, "c"), row(9, "never there", "D")])
    assert (made.written, made.deleted, made.unchanged) == (3, 0, 1)
    assert merged.columns() == ["id", "name", "day"]
    delivery = [row(1, op="D"), row(2, "B", "U"), row(4, "d"), row(7, op="D"), row(3, "c", "U")]
    told = merged.plan(delivery)
    assert told.effect == {"new": 1, "changed": 1, "deleted": 1, "unchanged": 2}
    assert [one.split()[0] for one in told.columns] == ["id", "name", "day"]
    assert not told.differences
    taken = merged.take(delivery)
    assert (taken.rows, taken.written, taken.deleted, taken.unchanged) == (5, 2, 1, 2)
    assert merged.table("id", "name") == [(2, "B"), (3, "c"), (4, "d")]
    assert merged.feed(taken.version) == [
        ("delete", 1, "a"),
        ("insert", 4, "d"),
        ("update_postimage", 2, "B"),
        ("update_preimage", 2, "b"),
    ]
    again = merged.take(delivery)
    assert (again.written, again.deleted, again.unchanged) == (0, 0, 5)
    assert merged.feed(again.version) == [] or again.version == taken.version
    assert merged.table("id", "name") == [(2, "B"), (3, "c"), (4, "d")]


def test_expectations_and_duplicates_come_before_deletes(merged: Arrivals) -> None:
    merged.take([row(1, "a"), row(2, "b")])
    with pytest.raises(PipelineError, match="several rows to merge have the same key"):
        merged.take([row(1, op="D"), row(1, "A")])
    with pytest.raises(PipelineError, match="has no key"):
        merged.take([row(None, op="D")])
    refusing = [{"expect": "accepted_values", "column": "op", "values": ["U"]}]
    with pytest.raises(ExpectationFailed):
        merged.take([row(1, op="D")], expectations=refusing)
    aside = [{"expect": "not_null", "columns": ["name"], "action": "quarantine"}]
    taken = merged.take([row(1, op="D"), row(2, "b", "D")], expectations=aside)
    assert (taken.quarantined, taken.deleted) == (1, 1)
    assert merged.table("id", "name") == [(1, "a")]


def test_columns_of_the_condition_are_written_where_the_table_has_them(merged: Arrivals) -> None:
    merged.take([row(1, "a", "U")], target={"columns": {"op": "What was done"}})
    assert merged.columns() == ["id", "name", "day", "op"]
    merged.take([row(1, "b", "X"), row(2, "c", "D")])
    assert merged.table("id", "name", "op") == [(1, "b", "X")]


def test_a_schema_that_grows_has_no_column_of_the_condition(merged: Arrivals) -> None:
    merged.take([row(1, "a"), row(2, "b")])
    steps = [{"view": "more", "sql": "SELECT *, named_struct('x', id) AS n FROM s"}]
    merged.take([row(1, "a"), row(2, op="D"), row(3, "c")], steps=steps, target={"evolve_schema": True})
    assert merged.columns() == ["id", "name", "day", "n"]
    steps = [{"view": "more", "sql": "SELECT *, named_struct('x', id, 'y', name) AS n FROM s"}]
    merged.take([row(1, "a"), row(4, op="D")], steps=steps, target={"evolve_schema": True})
    assert merged.table("id", "n.x", "n.y") == [(1, 1, "a"), (3, 3, None)]


def test_a_delete_ends_the_state_of_its_key(kept: Arrivals) -> None:
    kept.take([row(1, "a"), row(2, "b"), row(3, "c")])
    delivery = [row(1, op="D", day=SECOND), row(2, "B", day=SECOND), row(8, op="D", day=SECOND)]
    assert kept.plan(delivery).effect == {"new": 0, "changed": 1, "deleted": 1, "unchanged": 1}
    taken = kept.take(delivery)
    assert (taken.written, taken.deleted, taken.unchanged) == (1, 1, 1)
    states = [
        (1, "a", "2026-03-01", "2026-03-02", False),
        (2, "B", "2026-03-02", None, True),
        (2, "b", "2026-03-01", "2026-03-02", False),
        (3, "c", "2026-03-01", None, True),
    ]
    shown = ("id", "name", "substr(valid_from, 1, 10)", "substr(valid_to, 1, 10)", "is_current")
    assert kept.table(*shown) == states
    again = kept.take(delivery)
    assert (again.written, again.deleted, again.unchanged) == (0, 0, 3)
    assert kept.table(*shown) == states
    for late in ([row(1, "a")], [row(3, op="D", day=FIRST)]):
        with pytest.raises(PipelineError, match="states come in their order"):
            kept.take(late)
    kept.take([row(1, "again", day=THIRD)])
    assert kept.table(*shown) == [states[0], (1, "again", "2026-03-03", None, True), *states[1:]]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("nobody = 'D'", "write.delete_when: .*nobody"),
        ("id", "write.delete_when: .*BOOLEAN"),
        ("id IN (SELECT id FROM s)", "write.delete_when: a condition is an expression"),
        ("count(*) > 1", "write.delete_when"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_with_its_place(
    spark: "SparkSession", catalog: Catalog, place: Place, condition: str, message: str
) -> None:
    source = {"format": "json", "paths": [json_source(place.folder, "r", [row(1)])["paths"][0]]}
    write = {"mode": "merge", "keys": ["id"], "delete_when": condition}
    run = run_of(dataset(place.location, sources={"s": source}, write=write))
    with pytest.raises(PipelineError, match=message):
        build(spark, run, catalog, silent)
    assert not spark._jvm.io.delta.tables.DeltaTable.isDeltaTable(place.spark_location)  # type: ignore[union-attr]
