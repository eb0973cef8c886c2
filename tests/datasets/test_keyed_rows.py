"""Test merges into tables of other types and orders of fields, against plain Python."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import pyarrow as pa
import pytest
from datasets.files import dataset, json_source, run_of, store_rows
from datasets.kinds import (
    ACCEPTED,
    LEAVES,
    Array,
    Kind,
    Map,
    Struct,
    any_kind,
    arrow,
    cast_to_table,
    converted,
    delivered,
    frozen,
    read_as,
    refused,
    reordered,
    value_of,
    widened,
)
from delta.tables import DeltaTable, IdentityGenerator
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.dry_run import plan_run
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.merging import Validity, count_key_changes
from deltaic_pipeline.table.schema_diff import conform, differences, refuse_drift
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.writing import write
from deltaic_terminal.progress import silent
from pipeline.place import Place
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

Columns = dict[str, Kind]
Row = dict[str, Any]
Key = tuple[Any, ...]
UPDATED = "numTargetRowsUpdated"
MERGE = ["merge", pytest.param("scd2", marks=pytest.mark.long)]
"""Both modes share the code that some tests check: CI runs one of them."""

KEYS: Columns = {"id": "int", "Site": "string"}
STATE: Columns = {"since": "timestamp", "valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


class Story:
    """A table with three deliveries, and their results by plain Python.

    Every column is a separate case with a type of the table, a type of the rows, and values of both.
    """

    def __init__(
        self, spark: "SparkSession", location: str, mode: Literal["merge", "scd2"], seed: int, columns: int
    ) -> None:
        self._spark, self._draw = spark, random.Random(f"{mode} {seed}")  # noqa: S311 -- the same rows every time
        self._states = mode == "scd2"
        self._evolve = self._draw.random() < 0.5
        self._target = DeltaTarget(
            location,
            mode,
            keys=[*KEYS],
            change_data_feed=False,
            evolve_schema=self._evolve,
            validity=Validity("since") if self._states else None,
        )
        self._columns: Columns = {f"c{number}": any_kind(self._draw) for number in range(columns)}
        self._number = 0
        self._rows: dict[Key, Row] = {}
        self._ended: list[Row] = []
        """Ended states (scd2)."""

    def play(self) -> int:
        """Create the table and deliver rows twice in different orders; return the number of columns."""
        self._deliver(self._columns, {key: self._drawn(self._columns) for key in self._some_keys()})
        delivered_columns = {
            name: delivered(self._draw, kind, evolve=self._evolve) for name, kind in self._columns.items()
        }
        if self._evolve:
            delivered_columns = {"added": any_kind(self._draw)} | {
                n: k for n, k in delivered_columns.items() if self._draw.random() < 0.95
            }
        rows = {key: self._drawn(delivered_columns) for key in self._some_keys()}
        delivered_columns = self._refused(delivered_columns, rows)
        rows = {key: self._drawn(delivered_columns) for key in self._some_keys()}
        self._deliver(delivered_columns, rows)
        again = {name: reordered(self._draw, kind) for name, kind in delivered_columns.items()}
        for row in rows.values():
            if self._draw.random() < 0.5:
                name = self._draw.choice([*delivered_columns])
                row[name] = value_of(self._draw, delivered_columns[name])
        rows |= {key: self._drawn(delivered_columns) for key in self._some_keys()[:2]}
        self._deliver(again, rows)
        return 2 * len(delivered_columns)

    def _some_keys(self) -> list[Key]:
        return [(number, self._draw.choice("xy")) for number in self._draw.sample(range(8), 6)]

    def _drawn(self, columns: Columns) -> Row:
        return {name: value_of(self._draw, kind) for name, kind in columns.items()}

    def _refused(self, delivered_columns: Columns, rows: Mapping[Key, Row]) -> Columns:
        """Check that lossy columns are refused by name, and return columns that are accepted."""
        both = {name: kind for name, kind in delivered_columns.items() if name in self._columns}
        messages = {item for name, kind in both.items() for item in refused(self._columns[name], kind, name)}
        if messages:
            self._number += 1
            with pytest.raises(PipelineError) as refusal:
                self._write(delivered_columns, rows)
            columns_ = refusal.value.message.partition("without loss: ")[2].partition(". Declare")[0]
            assert set(columns_.split("; ")) == messages
        return delivered_columns | {name: cast_to_table(self._columns[name], kind) for name, kind in both.items()}

    def _frame(self, columns: Columns, rows: Mapping[Key, Row]) -> "DataFrame":
        """Return the rows with columns in any order, and the key's number in a narrower type."""
        keys: Columns = {"ID": "tinyint", "site": "string"} if self._rows else KEYS
        kinds = keys | columns
        lines = [dict(zip(keys, key, strict=True)) | row for key, row in rows.items()]
        if self._states:
            kinds["since"] = "timestamp"
            lines = [line | {"since": FIRST + timedelta(days=self._number)} for line in lines]
        names = self._draw.sample([*kinds], len(kinds))
        arrays = [_array([line[name] for line in lines], kinds[name]) for name in names]
        table = pa.Table.from_arrays(arrays, names=names)
        return self._spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))

    def _write(self, columns: Columns, rows: Mapping[Key, Row]) -> Mapping[str, str]:
        return write(self._spark, self._frame(columns, rows), self._target, f"{self._number}").metrics

    def _deliver(self, delivered_columns: Columns, rows: Mapping[Key, Row]) -> None:
        self._number += 1
        messages = self._told_before(delivered_columns, rows) if self._rows else {}
        before, self._columns = self._columns, _joined(self._columns, delivered_columns)
        self._ended = [self._as_now(row, before) for row in self._ended]
        self._rows = {key: self._as_now(row, before) for key, row in self._rows.items()}
        counts = {"new": 0, "changed": 0, "unchanged": 0}
        metrics = self._write(delivered_columns, rows)
        for key, row in rows.items():
            counts[
                self._apply(
                    key,
                    {
                        name: converted(row[name], delivered_columns[name], self._columns[name])
                        for name in delivered_columns
                    },
                )
            ] += 1
        self._compare()
        if messages:
            assert messages == counts
            assert metrics["numTargetRowsInserted"] == f"{counts['new'] + (counts['changed'] if self._states else 0)}"
            assert metrics["numTargetRowsUpdated"] == f"{counts['changed']}"

    def _as_now(self, row: Row, before: Columns) -> Row:
        own_fields = {name: value for name, value in row.items() if name not in self._columns}
        return own_fields | {
            name: converted(row[name], before[name], kind) if name in before else None
            for name, kind in self._columns.items()
        }

    def _apply(self, key: Key, row: Row) -> str:
        old = self._rows.get(key)
        if old is not None and all(_same(old[name], row[name]) for name in row):
            return "unchanged"
        since = FIRST + timedelta(days=self._number)
        if self._states:
            if old is not None:
                self._ended.append(dict(zip(KEYS, key, strict=True)) | old | {"valid_to": since, "is_current": False})
            new_state = {"since": since, "valid_from": since, "valid_to": None, "is_current": True}
            self._rows[key] = dict.fromkeys(self._columns) | row | new_state
        else:
            self._rows[key] = (old or dict.fromkeys(self._columns)) | row
        return "new" if old is None else "changed"

    def _told_before(self, delivered_columns: Columns, rows: Mapping[Key, Row]) -> dict[str, int]:
        """Return the counts of a dry run."""
        table = self._spark.read.format("delta").load(self._target.location)
        frame = conform(self._spark, self._frame(delivered_columns, rows), self._target)
        return count_key_changes(frame, table.where("is_current") if self._states else table, [*KEYS], ["since"])

    def _compare(self) -> None:
        kinds: Columns = KEYS | self._columns | (STATE if self._states else {})
        actual_rows = self._spark.read.format("delta").load(self._target.location).toArrow()
        assert {field.name: field.type for field in actual_rows.schema} == {n: arrow(kind) for n, kind in kinds.items()}
        expected = [dict(zip(KEYS, key, strict=True)) | row for key, row in self._rows.items()] + self._ended
        rows = [{name: read_as(line[name], kind) for name, kind in kinds.items()} for line in actual_rows.to_pylist()]
        for name in kinds:
            assert _sorted_values(rows, name) == _sorted_values(expected, name)


def _sorted_values(rows: Sequence[Row], name: str) -> list[str]:
    """Return a column's values with their keys, sorted; zeros of different signs differ."""
    columns_ = [*KEYS, "valid_from", name] if "valid_from" in rows[0] else [*KEYS, name]
    return sorted(repr([frozen(row[item], signed=True) for item in columns_]) for row in rows)


def _same(item: Any, other_item: Any) -> bool:
    return bool(frozen(item, signed=False) == frozen(other_item, signed=False))


def _joined(table: Columns, delivered_columns: Columns) -> Columns:
    return table | {name: widened(table.get(name, kind), kind) for name, kind in delivered_columns.items()}


def _array(values: list[Any], kind: Kind) -> pa.Array:
    return pa.array(values, arrow(kind))


@pytest.mark.parametrize("mode", MERGE)
@pytest.mark.parametrize(
    ("stories", "columns"),
    [(1, 30), pytest.param(24, 120, marks=pytest.mark.long)],
    ids=["a few columns", "five thousand columns"],
)
def test_rows_of_any_types_are_written_as_plain_python_predicts(
    spark: "SparkSession", tmp_path: Path, mode: Literal["merge", "scd2"], stories: int, columns: int
) -> None:
    played = [Story(spark, f"{tmp_path}/{number}", mode, number, columns).play() for number in range(stories)]
    assert sum(played) > 1.5 * stories * columns


def test_lossless_types_are_accepted_and_others_refused_by_name(spark: "SparkSession", tmp_path: Path) -> None:
    def columns(leaf: str) -> Columns:
        return {"plain": leaf, "fields": Struct((("a", leaf),)), "list": Array(leaf), "map": Map("string", leaf)}

    def frame_of(kinds: Columns) -> "DataFrame":
        fields = [pa.field(name, arrow(kind)) for name, kind in kinds.items()]
        return spark.createDataFrame([], from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True))

    table = {f"{name} {number}": kind for number, leaf in enumerate(LEAVES) for name, kind in columns(leaf).items()}
    target = DeltaTarget(str(tmp_path), "merge", keys=["plain 0"], properties={"delta.columnMapping.mode": "name"})
    write(spark, frame_of(table), target, "first")
    for leaf in LEAVES:
        rows = {f"{name} {number}": kind for number in range(len(LEAVES)) for name, kind in columns(leaf).items()}
        messages = [item for name, kind in rows.items() for item in refused(table[name], kind, name)]
        assert len(messages) == 4 * (len(LEAVES) - 1 - len(ACCEPTED.get(leaf, ())))
        with pytest.raises(PipelineError) as refusal:
            conform(spark, frame_of(rows), target)
        assert refusal.value.message == (
            f"merge cannot convert types without loss: {'; '.join(messages)}. "
            "Declare the source's schema, or cast the rows to the table's types in a step."
        )


WRITES: dict[str, Any] = {"merge": {"mode": "merge", "keys": ["id"]}, "scd2": {"mode": "scd2", "keys": ["id"]}}
VALID = "valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN"


def a_table(spark: "SparkSession", location: str, columns: str, rows: str = "", properties: str = "") -> str:
    """Create a table by SQL, with the rows of a SELECT."""
    messages = f"TBLPROPERTIES ({properties})" if properties else ""
    spark.sql(f"CREATE TABLE delta.`{location}` ({columns}) USING delta {messages}")
    if rows:
        spark.sql(f"INSERT INTO delta.`{location}` {rows}")
    return location


def rows_of(spark: "SparkSession", location: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.read.format("delta").load(location).collect()), key=repr)


CUT = {
    "numbers with a point": ("int", "id,n\n7.2,1\n7.6,2\n", "id is int in the table and double in the rows"),
    "texts": ("int", "id,n\n7,x\n07x,y\n", "id is int in the table and string in the rows; n is int"),
    "moments": ("date", "id,n\n2026-01-01 10:00:00,1\n", "id is date in the table and timestamp"),
    "large numbers": ("int", "id,n\n1,5000000000\n", "n is int in the table and bigint in the rows"),
}


@pytest.mark.parametrize("mode", MERGE)
@pytest.mark.parametrize(
    "case",  # test_lossless_types_are_accepted_and_others_refused_by_name has all pairs of types
    [pytest.param(case, marks=[pytest.mark.long] * (case != "texts")) for case in CUT],
)
def test_csv_file_with_other_inferred_types_changes_nothing(
    spark: "SparkSession", catalog: JobCatalog, place: Place, mode: str, case: str
) -> None:
    key_kind, content, message = CUT[case]
    validity = {name: STATE[name] for name in Validity().columns} if mode == "scd2" else {}
    kinds: Columns = {"id": key_kind, "n": "int"} | validity
    store_rows(place.table(), [], pa.schema([pa.field(name, arrow(kind)) for name, kind in kinds.items()]))
    (place.folder / "rows.csv").write_text(content)
    source = {"format": "csv", "paths": [f"{place.folder}/rows.csv"], "options": {"inferSchema": True}}
    run = run_of(dataset(place.location, sources={"s": source}, write=WRITES[mode]))
    for attempt in (lambda: build(spark, run, catalog, silent), lambda: plan_run(spark, run)):
        with pytest.raises(PipelineError, match=message) as refusal:
            attempt()
        assert "\n" not in refusal.value.message
    assert (place.table().version(), place.table().rows("id")) == (0, [])


@pytest.mark.long  # in CI: test_rows_of_any_types_are_written_as_plain_python_predicts
@pytest.mark.parametrize("mode", WRITES)
def test_fields_are_matched_by_name_in_any_order(
    spark: "SparkSession", catalog: JobCatalog, place: Place, mode: str
) -> None:
    schema = "id BIGINT, said STRUCT<paid: BIGINT, opt_in: BIGINT>, doses ARRAY<STRUCT<b: BIGINT, a: BIGINT>>"

    def deliver(name: str, paid: int, a: int, schema: str | None = None) -> dict[str, int]:
        rows = [{"id": 1, "said": {"opt_in": 1 - paid, "paid": paid}, "doses": [{"a": a, "b": 3 - a}]}]
        source = json_source(place.folder, name, rows, schema)
        content = dataset(place.location, sources={"s": source}, write=WRITES[mode])
        messages = plan_run(spark, run_of(content))
        assert not messages.differences
        assert build(spark, run_of(content, name), catalog, silent).version is not None
        return messages.effect

    deliver("first", 1, 1, schema)
    # Spark sorts fields of JSON by name. Compared by position, these fields would be equal, and another would differ.
    assert deliver("other", 0, 2) == {"new": 0, "changed": 1, "unchanged": 0}
    assert deliver("again", 0, 2) == {"new": 0, "changed": 0, "unchanged": 1}
    columns = ("said.paid", "said.opt_in", "doses", *(() if mode == "merge" else ("is_current",)))
    now = [values[:3] for values in place.table().rows(*columns) if values[3:] != (False,)]
    assert now == [(0, 1, [{"b": 1, "a": 2}])]


DRIFT = {
    "new field": ("named_struct('a', 1, 'b', 2, 'c', 3)", r"s\.c \(int\) is not in the table"),
    "missing field": ("named_struct('a', 1)", r"s\.b \(int\) is missing in the rows"),
}


@pytest.mark.parametrize("case", DRIFT)
def test_new_or_missing_fields_need_evolve_schema(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    value, message = DRIFT[case]
    location = a_table(spark, f"{tmp_path}/t", "id INT, s STRUCT<a: INT, b: INT>")
    rows = spark.sql(f"SELECT 1 AS id, {value} AS s")
    for target in (DeltaTarget(location, "merge", keys=["id"]), DeltaTarget(location, "append")):
        actual_rows = differences(spark, rows, target)
        with pytest.raises(PipelineError, match=f"schema drift: {message}"):
            refuse_drift(actual_rows, target)
        refuse_drift(actual_rows, replace(target, evolve_schema=True))
    with pytest.raises(PipelineError, match=f"schema drift: {message}"):
        write(spark, rows, DeltaTarget(location, "merge", keys=["id"]), "run")


def merged(spark: "SparkSession", location: str, sql: str, **target: Any) -> int:
    """Merge the rows of a query by `id` and return the number of updated rows."""
    write_table = write(spark, spark.sql(sql), DeltaTarget(location, "merge", keys=["id"], **target), uuid4().hex)
    return int(write_table.metrics["numTargetRowsUpdated"])


@pytest.mark.parametrize("write_as", [pytest.param("merge", marks=pytest.mark.long), "scd2"])
def test_missing_field_is_refused_and_missing_column_is_kept(
    spark: "SparkSession", tmp_path: Path, write_as: Literal["merge", "scd2"]
) -> None:
    columns = "id INT, n INT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>, `x.y` INT"
    columns += f", {VALID}" * (write_as == "scd2")
    stored = "SELECT 1 AS id, 7 AS n, named_struct('a', 1, 'b', 2) AS s, array(named_struct('a', 1, 'b', 2)) AS l"
    location = a_table(spark, f"{tmp_path}/t", columns, properties="'delta.columnMapping.mode' = 'name'")
    states = Validity() if write_as == "scd2" else None
    target = DeltaTarget(location, write_as, keys=["id"], evolve_schema=True, validity=states, change_data_feed=False)
    write(spark, spark.sql(stored), target, "first")
    for rows, missing in (
        ("named_struct('a', 3) AS s", "s.b"),
        ("array(named_struct('b', 3)) AS l", "l.element.a"),
    ):
        with pytest.raises(PipelineError, match=f"the rows lack fields that the table has: {missing}\\. {write_as} "):
            write(spark, spark.sql(f"SELECT 1 AS id, {rows}"), target, "second")
    write(spark, spark.sql("SELECT 1 AS id, named_struct('c', 9, 'b', 4, 'A', 3) AS s"), target, "third")
    current: Any = spark.read.format("delta").load(location)
    current = current.where("is_current") if states else current
    assert [tuple(row) for row in current.select("s.*").collect()] == [(3, 4, 9)]
    if not states:
        assert current.select("n").first()[0] == 7


@pytest.mark.parametrize(
    ("mode", "evolve_schema"),  # an overwrite with evolve_schema replaces the schema
    [
        ("overwrite", False),
        ("merge", True),
        pytest.param("append", False, marks=pytest.mark.long),
        pytest.param("append", True, marks=pytest.mark.long),
        pytest.param("merge", False, marks=pytest.mark.long),
    ],
)
def test_rows_need_no_generated_columns(
    spark: "SparkSession", tmp_path: Path, mode: Literal["append", "overwrite", "merge"], evolve_schema: bool
) -> None:
    location = f"{tmp_path}/t"
    builder = (
        DeltaTable.create(spark).location(location).addColumn("nr", "BIGINT", generatedAlwaysAs=IdentityGenerator())
    )
    builder = builder.addColumn("id", "INT").addColumn("n", "INT")
    builder.addColumn("twice", "INT", generatedAlwaysAs="n * 2").execute()
    keys = ["id"] if mode == "merge" else []
    target = DeltaTarget(location, mode, keys=keys, evolve_schema=evolve_schema, change_data_feed=False)
    for number, rows in enumerate(["(1, 2), (2, 4)", "(1, 2), (2, 8), (3, 6)"]):
        frame = spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, n)")  # noqa: S608
        refuse_drift(differences(spark, frame, target), target)
        write(spark, frame, target, f"run{number}")
    actual_rows = spark.read.format("delta").load(location).collect()
    assert all(row["twice"] == 2 * row["n"] for row in actual_rows)
    assert (
        len({row["nr"] for row in actual_rows}) == len(actual_rows) == {"append": 5, "overwrite": 3, "merge": 3}[mode]
    )
    with pytest.raises(PipelineError, match=r"schema drift: n \(int\) is missing in the rows"):
        refuse_drift(differences(spark, spark.sql("SELECT 1 AS id"), target), replace(target, evolve_schema=False))


@pytest.mark.long  # in CI: test_places.py has "a key that the table has twice"
@pytest.mark.parametrize("write_as", WRITES)
def test_duplicate_key_of_the_table_is_reported(
    spark: "SparkSession", tmp_path: Path, write_as: Literal["merge", "scd2"]
) -> None:
    valid = ", now() AS valid_from, CAST(NULL AS TIMESTAMP) AS valid_to, true AS is_current" * (write_as == "scd2")
    twice = f"SELECT id, n{valid} FROM VALUES (1, 1), (1, 2), (2, 2) AS t(id, n)"  # noqa: S608 -- a test's own
    columns = f"id INT, n INT{f', {VALID}' if write_as == 'scd2' else ''}"
    location = a_table(spark, f"{tmp_path}/t", columns, twice)
    states = Validity() if write_as == "scd2" else None
    target = DeltaTarget(location, write_as, keys=["id"], validity=states)
    rows = spark.sql("SELECT * FROM VALUES (1, 1), (2, 9) AS t(id, n)")
    table = spark.read.format("delta").load(location)
    for attempt in (
        lambda: write(spark, rows, target, "run"),
        lambda: count_key_changes(conform(spark, rows, target), table, ["id"]),
    ):
        with pytest.raises(PipelineError, match=r"several rows of the table have the same key \(id = \.\.\.\): delete"):
            attempt()
    with pytest.raises(PipelineError, match="several rows to merge have the same key"):
        write(spark, rows.union(rows), target, "run")
    assert write(spark, rows.where("id = 2"), target, "run").metrics["numTargetRowsUpdated"] == "1"


@pytest.mark.long  # in CI: test_deleting.py::test_keys_are_compared_by_the_types_of_the_table
def test_keys_are_compared_by_the_types_of_the_table(spark: "SparkSession", tmp_path: Path) -> None:
    location = a_table(spark, f"{tmp_path}/t", "id CHAR(3), n INT, s STRUCT<c: CHAR(2)>")
    merged(spark, location, "SELECT 'ab' AS id, 1 AS n, named_struct('c', 'x') AS s")
    assert merged(spark, location, "SELECT 'ab' AS id, 1 AS n, named_struct('c', 'x') AS s") == 0
    assert merged(spark, location, "SELECT 'ab' AS id, 2 AS n, named_struct('c', 'x') AS s") == 1
    assert rows_of(spark, location) == [("ab ", 2, ("x ",))]
    with pytest.raises(PipelineError, match="same key"):
        merged(spark, location, "SELECT explode(array('ab', 'ab ')) AS id, 2 AS n, named_struct('c', 'x') AS s")


def test_zeros_nulls_and_nan_are_equal_to_themselves(spark: "SparkSession", tmp_path: Path) -> None:
    same = "SELECT 1 AS id, double('{}') AS d, array(double('{}')) AS l, double('NaN') AS n, CAST(NULL AS INT) AS x"
    location = a_table(spark, f"{tmp_path}/t", "id INT, d DOUBLE, l ARRAY<DOUBLE>, n DOUBLE, x INT", same.format(0, 0))
    assert merged(spark, location, same.format("-0.0", "-0.0")) == 0
    assert str(rows_of(spark, location)) == "[(1, 0.0, [0.0], nan, None)]"


@pytest.mark.parametrize("mode", MERGE)
def test_maps_and_variants_are_compared_by_content(spark: "SparkSession", tmp_path: Path, mode: str) -> None:
    def write_table(run: str, entries: str, text: str) -> int:
        rows = spark.sql(f"SELECT 1 AS id, map({entries}) AS bitmap, parse_json('{text}') AS v, {run} AS at")
        rows = rows.withColumn("at", rows["at"].cast("timestamp"))
        target = DeltaTarget(str(tmp_path), "merge" if mode == "merge" else "scd2", keys=["id"], validity=validity)
        return int(write(spark, rows.drop(*(() if validity else ("at",))), target, run).metrics.get(UPDATED, -1))

    validity = None if mode == "merge" else Validity("at")
    assert write_table("1", "'a', 1, 'b', 2", '{"x": 1}') == -1
    assert write_table("2", "'b', 2, 'a', 1", '{"x":1}') == 0
    assert write_table("3", "'b', 2, 'a', 3", '{"x":1}') == 1


def test_columns_become_wider_if_table_and_run_allow_it(spark: "SparkSession", tmp_path: Path) -> None:
    widening = "'delta.enableTypeWidening' = 'true'"
    location = a_table(spark, f"{tmp_path}/t", "id INT, n INT", "SELECT 1, 1 UNION ALL SELECT 2, 2", widening)
    rows = "SELECT * FROM VALUES (1, 1L), (2, 5000000000L) AS v(id, n)"
    with pytest.raises(PipelineError, match="n is int in the table and bigint in the rows"):
        merged(spark, location, rows)
    assert merged(spark, location, rows, evolve_schema=True) == 1
    assert rows_of(spark, location) == [(1, 1), (2, 5000000000)]


def test_merging_publication_keeps_columns_by_default(spark: "SparkSession", tmp_path: Path) -> None:
    location = a_table(spark, f"{tmp_path}/t", "id INT, n INT")
    with pytest.raises(PipelineError, match=r"schema drift: m \(int\) is not in the table"):
        merged(spark, location, "SELECT 1 AS id, 2 AS n, 3 AS m")
