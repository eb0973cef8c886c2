"""Typed statistics made of JSON are those that Spark writes beside it, and lead to the same files."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import STRING_MAP, Action, add, metadata
from deltaic.delta.actions import Metadata, parse_metadata
from deltaic.delta.log import DeltaLog
from deltaic.pruning import file_filter, parse_hints
from deltaic.pruning.columns import Columns
from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import Key
from deltaic_pipeline.maintenance.sorted_checkpoint.sidecars import statistics
from deltaic_pipeline.maintenance.sorted_checkpoint.typed_adds import TypedAdds, TypedStatistics, indexed
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden" / "tables"


def table(*columns: Action | tuple[str, Any], partitions: tuple[str, ...] = (), **configuration: str) -> Metadata:
    fields = [
        column if isinstance(column, dict) else {"name": column[0], "type": column[1], "nullable": True, "metadata": {}}
        for column in columns
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    return parse_metadata(metadata(configuration, schema=schema, partitions=partitions)["metaData"], "here")


def typed(told: Metadata, *texts: str | None) -> list[Any]:
    found = TypedStatistics(indexed(told)).of(pa.array(texts, pa.string()))
    assert len(found) == len(texts)
    return list(found.to_pylist())


def without_nulls(value: Any) -> Any:
    """Leave out of a struct what says nothing: null, and NaN as a bound, which Spark writes."""
    if not isinstance(value, dict):
        return value
    found = {name: without_nulls(inner) for name, inner in value.items()}
    return {name: inner for name, inner in found.items() if inner not in (None, {}) and repr(inner) != "nan"}


def checkpoints_with_types() -> Iterator[Path]:
    for file in sorted(GOLDEN.glob("*/delta/_delta_log/**/*.parquet")):
        kinds = pq.read_schema(file)
        if "add" in kinds.names and kinds.field("add").type.get_field_index("stats_parsed") >= 0:
            yield file


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=f"{file.relative_to(GOLDEN).parts[0]}_{at}")
        for at, file in enumerate(checkpoints_with_types())
    ],
)
def test_spark_wrote_the_same_types(file: Path) -> None:
    log = next(folder for folder in file.parents if folder.name == "_delta_log")
    told = DeltaLog(FolderStore(log.parent)).snapshot().metadata
    in_commits = {}
    for commit in sorted(log.glob("[0-9]*.json")):
        for line in commit.read_text().splitlines() if ".checkpoint." not in commit.name else ():
            if "add" in (action := json.loads(line)):
                in_commits[action["add"]["path"]] = action["add"].get("stats")
    rows = pq.read_table(file, columns=["add"], coerce_int96_timestamp_unit="us").column("add").to_pylist()
    adds = [row for row in rows if row]
    compared = 0
    for row in adds:
        text = row.get("stats") or in_commits.get(row["path"])
        if text is None:
            continue
        (made,) = typed(told, text)
        ours, sparks = without_nulls(made), without_nulls(row["stats_parsed"])
        assert json.dumps(ours, default=str).replace("+00:00", "") == json.dumps(sparks, default=str)
        compared += 1
    assert compared or not adds or "truncated" in str(file)


UTC_AT = partial(datetime, tzinfo=UTC)
BOUNDS: list[tuple[str, str, Any]] = [
    ("long", "9223372036854775807", 2**63 - 1),
    ("long", "9223372036854775808", None),
    ("long", "-9223372036854775808", -(2**63)),
    ("integer", "2147483648", None),
    ("integer", "-2147483648", -(2**31)),
    ("short", "32767", 32767),
    ("byte", "-129", None),
    ("byte", "-128", -128),
    ("long", '"7"', None),
    ("long", "7.5", None),
    ("long", "null", None),
    ("long", '{"a": 1}', None),
    ("double", "-0.0", -0.0),
    ("double", "1E400", None),
    ("double", '"NaN"', None),
    ("double", '"Infinity"', float("inf")),
    ("double", "1.0E7", 1e7),
    ("float", "0.1", 0.10000000149011612),
    ("float", "1e39", None),
    ("decimal(5,2)", "999.99", Decimal("999.99")),
    ("decimal(5,2)", "1000.00", None),
    ("decimal(5,2)", "0.125", None),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("decimal(38,0)", "1" + "0" * 38, None),
    ("date", '"2024-02-29"', date(2024, 2, 29)),
    ("date", '"2023-02-29"', None),
    ("date", '"2024-02-29T00:00:00"', None),
    ("timestamp", '"2024-02-29T01:02:03.004Z"', UTC_AT(2024, 2, 29, 1, 2, 3, 4000)),
    ("timestamp", '"2024-02-29T01:02:03.004005Z"', UTC_AT(2024, 2, 29, 1, 2, 3, 4005)),
    ("timestamp", '"2024-02-29T01:02:03.004+02:00"', UTC_AT(2024, 2, 28, 23, 2, 3, 4000)),
    ("timestamp", '"2024-02-29T01:02:03.004"', None),
    ("timestamp", '"2024-02-29"', None),
    ("timestamp_ntz", '"2024-02-29T01:02:03.004"', UTC_AT(2024, 2, 29, 1, 2, 3, 4000).replace(tzinfo=None)),
    ("timestamp_ntz", '"2024-02-29T01:02:03.004Z"', None),
    ("timestamp_ntz", '"2024-02-29"', None),
    ("timestamp_ntz", '"2024-02-29T01:02"', UTC_AT(2024, 2, 29, 1, 2).replace(tzinfo=None)),
    ("string", '"\\u00e9"', "é"),
    ("string", json.dumps("a" * 32 + "\U0010ffff"), "a" * 32 + "\U0010ffff"),
    ("string", '""', ""),
    ("string", "5", None),
    ("boolean", "true", None),
    ("binary", '"AA=="', None),
]


@pytest.mark.parametrize(("kind", "text", "expected"), BOUNDS)
def test_a_bound_is_what_its_text_says_or_null(kind: str, text: str, expected: Any) -> None:
    said = f'{{"numRecords": 3, "minValues": {{"c": {text}, "d": 4}}, "maxValues": {{"c": {text}, "d": 5}}}}'
    plain = '{"numRecords": 1, "minValues": {"d": 8}, "maxValues": {"d": 9}, "nullCount": {"c": 1, "d": 0}}'
    found, other = typed(table(("c", kind), ("d", "integer")), said, plain)
    for part, beside in (("minValues", 4), ("maxValues", 5)):
        assert str(found[part].get("c")) == str(expected)
        assert found[part]["d"] == beside, "a column that nobody can read takes nothing from the others"
    assert found["numRecords"] == 3
    assert other["nullCount"] == {"c": 1, "d": 0}


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "NaN", '{"numRecords": NaN}', '{"numRecords": "3"}', '{"tightBounds": 1}', "\ud800"]
)
def test_a_text_that_cannot_be_read_says_nothing(text: str | None) -> None:
    if text == "\ud800":
        text = '{"numRecords": 3, "minValues": {"c": "\\ud800"}}'
    told = table(("c", "string"))
    found, other = typed(told, text, '{"numRecords": 3, "nullCount": {"c": 2}, "tightBounds": false}')
    assert without_nulls(found) in (None, {}, {"numRecords": 3})
    assert without_nulls(other) == {"numRecords": 3, "nullCount": {"c": 2}, "tightBounds": False}


def test_of_a_key_that_stands_twice_the_last_holds() -> None:
    (found,) = typed(table(("c", "long")), '{"numRecords": 1, "numRecords": 2, "minValues": {"c": 1, "c": 0}}')
    assert (found["numRecords"], found["minValues"]["c"]) == (2, 0)


def test_columns_are_physical_nested_and_those_that_the_table_indexes() -> None:
    def field(name: str, kind: Any, physical: str) -> Action:
        told = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": 1}
        return {"name": name, "type": kind, "nullable": True, "metadata": told}

    nested = {"type": "struct", "fields": [field("x", "long", "col-x"), field("l", {"type": "array"}, "col-l")]}
    mode = {"delta.columnMapping.mode": "name"}
    columns = [field("day", "date", "col-d"), field("n", nested, "col-n"), field("b", "boolean", "col-b")]

    def paths(**more: str) -> list[tuple[str, ...]]:
        return [column.path for column in indexed(table(*columns, partitions=("day",), **mode, **more))]

    assert paths() == [("col-n", "col-x"), ("col-n", "col-l"), ("col-b",)]
    assert paths(**{"delta.dataSkippingNumIndexedCols": "1"}) == [("col-n", "col-x")]
    assert paths(**{"delta.dataSkippingNumIndexedCols": "-1"}) == paths()
    assert paths(**{"delta.dataSkippingStatsColumns": "b, `n`.x"}) == [("col-n", "col-x"), ("col-b",)]
    text = '{"numRecords":1,"minValues":{"col-n":{"col-x":1},"col-b":true},"nullCount":{"col-n":{"col-x":0,"col-l":1}}}'
    (found,) = typed(table(*columns, partitions=("day",), **mode), text)
    assert without_nulls(found) == {
        "numRecords": 1,
        "minValues": {"col-n": {"col-x": 1}},
        "nullCount": {"col-n": {"col-x": 0, "col-l": 1}},
    }


def test_a_table_of_partition_columns_alone_gets_what_there_is() -> None:
    (found,) = typed(table(("p", "string"), partitions=("p",)), '{"numRecords": 4}')
    assert found == {"numRecords": 4, "tightBounds": None}


PARTITIONS: list[tuple[str, list[str | None], Any]] = [
    ("integer", ["7", "-3"], (-3, 7)),
    ("integer", ["7", None], None),
    ("integer", ["7", ""], None),
    ("integer", ["7", "x"], None),
    ("byte", ["7", "900"], None),
    ("long", ["7", "9" * 30], None),
    ("boolean", ["true", "false"], (False, True)),
    ("date", ["2024-01-02", "2024-01-01"], ("2024-01-01", "2024-01-02")),
    ("decimal(4,1)", ["1.5", "-2.5"], (-2.5, 1.5)),
    ("double", ["1.5", "NaN"], None),
    ("string", ["b", "a"], ("a", "b")),
    ("string", ["b", "__HIVE_DEFAULT_PARTITION__"], None),
    ("timestamp", ["2024-01-02 00:00:00", "2024-01-01 00:00:00"], None),
]


@pytest.mark.parametrize(("kind", "values", "expected"), PARTITIONS)
def test_bounds_of_partition_values_that_are_text(kind: str, values: list[str | None], expected: Any) -> None:
    adds = pa.array(
        [add("f", p=value)["add"] | {"partitionValues": [("p", value)]} for value in values] + [None],
        pa.struct([("path", pa.string()), ("partitionValues", STRING_MAP)]),
    )
    key = Key(("p",), is_partition=True)
    lacking = TypedAdds(adds.type, table(("p", kind), partitions=("p",)), [key])
    said = json.loads(statistics(lacking.for_order(adds).slice(0, len(values)), [key]))
    assert lacking.source(key) == "add.partitionValues"
    assert "partitionValues_parsed" not in [field.name for field in lacking.for_rows(adds).type]
    found = None if not said else (said["minValues"]["p"], said["maxValues"]["p"])
    assert found == expected


# The law: of files that typed statistics drop, JSON keeps none; and where every bound has a type, both keep the same.
STAMPS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda at: at.isoformat(timespec="milliseconds"))  # noqa: DTZ001 -- a wall clock
EXACT: dict[str, st.SearchStrategy[Any]] = {
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "byte": st.integers(-128, 127),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "decimal(9,2)": st.decimals(-(10**6), 10**6, places=2),
    "string": st.text("ab?\ufffd\U0010ffff", max_size=34),
    "date": st.dates().map(str),
    "timestamp": STAMPS.map(lambda text: f"{text}Z"),
    "timestamp_ntz": STAMPS,
}
ODD: st.SearchStrategy[Any] = st.sampled_from(
    ["NaN", "-Infinity", "", "2024-01-01", "2024-01-01T00:00", "2024-01-01T00:00:00", "2024-01-01T00:00:00Z", "\x00"]
) | st.sampled_from([None, True, False, 2**70, -(2**63), 0.5, -0.0, 1e300, Decimal("0.123456789"), {}, []])


def rendered(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


@st.composite
def texts_of(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> str:
    def part(inner: st.SearchStrategy[Any]) -> str:
        named = [f'"c":{rendered(draw(inner))}'] if draw(st.integers(0, 4)) else []
        return "{" + ",".join([*named, f'"d":{draw(st.integers(0, 9))}']) + "}"

    rows = draw(st.integers(0, 3))
    nulls = part(st.integers(0, rows))
    return f'{{"numRecords":{rows},"minValues":{part(values)},"maxValues":{part(values)},"nullCount":{nulls}}}'


def hints(kind: str, literal: Any) -> Iterator[str]:
    column = {"op": "column", "name": "c", "valueType": kind}
    beside = {"op": "literal", "value": str(literal), "valueType": kind}
    for operator in ("equal", "lessThan", "greaterThan", "lessThanOrEqual", "greaterThanOrEqual"):
        yield json.dumps({"op": operator, "children": [column, beside]})
    null = {"op": "isNull", "children": [column]}
    yield json.dumps(null)
    yield json.dumps({"op": "not", "children": [null]})
    other = {"op": "column", "name": "d", "valueType": "long"}
    small = {"op": "lessThan", "children": [other, {"op": "literal", "value": "5", "valueType": "long"}]}
    yield json.dumps({"op": "and", "children": [small, {"op": "not", "children": [null]}]})


@pytest.mark.parametrize("kind", [*EXACT, "boolean"])
@settings(max_examples=tries(60))
@given(data=st.data())
def test_files_that_types_drop_are_dropped_by_json(kind: str, data: st.DataObject) -> None:
    exact = EXACT.get(kind, st.booleans())
    odd = data.draw(st.booleans())
    strange = st.none() | st.sampled_from(["", "{", "{}", '{"minValues": 1}', '{"tightBounds": 7}'])
    files = texts_of(exact | ODD) | strange if odd else st.none() | texts_of(exact)
    texts = pa.array(data.draw(st.lists(files, min_size=1, max_size=5)), pa.string())
    told = table(("c", kind), ("d", "long"))
    parsed = TypedStatistics(indexed(told)).of(texts)
    maps = pa.array([[]] * len(texts), STRING_MAP)
    for hint in hints("decimal" if kind.startswith("decimal") else kind, data.draw(exact)):
        wanted = file_filter(parse_hints([], hint), told)
        if wanted is None:
            continue
        by_types = wanted.by_typed_statistics(maps, parsed).to_pylist()
        alone = [wanted.by_json_statistics(maps.slice(at, 1), texts.slice(at, 1)) for at in range(len(texts))]
        by_json = pa.concat_arrays(alone).to_pylist()
        assert not [hint for types, text in zip(by_types, by_json, strict=True) if text and not types]
        assert odd or kind == "boolean" or by_types == by_json


def test_leaves_are_found_by_their_names() -> None:
    nested = {"type": "struct", "fields": [{"name": "x", "type": "long"}, {"name": "X", "type": "long"}]}
    columns = Columns(table(("n", nested), ("v", "variant"), ("e", {"type": "struct", "fields": []})))
    assert [name for name, _ in columns.leaves()] == [("v",)], "names that differ in case alone mean none of both"
