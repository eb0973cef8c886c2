"""Test that typed statistics parsed from JSON equal those of Spark, and select the same files."""

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
from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import SortKey
from deltaic_pipeline.maintenance.sorted_checkpoint.sidecars import statistics
from deltaic_pipeline.maintenance.sorted_checkpoint.typed_adds import TypedAdds, TypedStatistics, indexed_columns
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


def typed(table_metadata: Metadata, *texts: str | None) -> list[Any]:
    parsed = TypedStatistics(indexed_columns(table_metadata)).parse(pa.array(texts, pa.string()))
    assert len(parsed) == len(texts)
    return list(parsed.to_pylist())


def without_nulls(value: Any) -> Any:
    """Return a struct without null, and without NaN as a bound, which Spark writes."""
    if not isinstance(value, dict):
        return value
    members = {name: without_nulls(inner) for name, inner in value.items()}
    return {name: inner for name, inner in members.items() if inner not in (None, {}) and repr(inner) != "nan"}


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
def test_typed_statistics_equal_those_of_spark(file: Path) -> None:
    log = next(folder for folder in file.parents if folder.name == "_delta_log")
    table_metadata = DeltaLog(FolderStore(log.parent)).snapshot().metadata
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
        (parsed,) = typed(table_metadata, text)
        ours, sparks = without_nulls(parsed), without_nulls(row["stats_parsed"])
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
def test_bound_is_the_value_of_its_text_or_null(kind: str, text: str, expected: Any) -> None:
    text_with_bounds = (
        f'{{"numRecords": 3, "minValues": {{"c": {text}, "d": 4}}, "maxValues": {{"c": {text}, "d": 5}}}}'
    )
    other_text = '{"numRecords": 1, "minValues": {"d": 8}, "maxValues": {"d": 9}, "nullCount": {"c": 1, "d": 0}}'
    parsed, other = typed(table(("c", kind), ("d", "integer")), text_with_bounds, other_text)
    for part, other_bound in (("minValues", 4), ("maxValues", 5)):
        assert str(parsed[part].get("c")) == str(expected)
        assert parsed[part]["d"] == other_bound, "an unreadable column does not affect the others"
    assert parsed["numRecords"] == 3
    assert other["nullCount"] == {"c": 1, "d": 0}


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "NaN", '{"numRecords": NaN}', '{"numRecords": "3"}', '{"tightBounds": 1}', "\ud800"]
)
def test_unreadable_text_has_no_statistics(text: str | None) -> None:
    if text == "\ud800":
        text = '{"numRecords": 3, "minValues": {"c": "\\ud800"}}'
    table_metadata = table(("c", "string"))
    parsed, other = typed(table_metadata, text, '{"numRecords": 3, "nullCount": {"c": 2}, "tightBounds": false}')
    assert without_nulls(parsed) in (None, {}, {"numRecords": 3})
    assert without_nulls(other) == {"numRecords": 3, "nullCount": {"c": 2}, "tightBounds": False}


def test_last_value_of_a_repeated_key_is_used() -> None:
    (parsed,) = typed(table(("c", "long")), '{"numRecords": 1, "numRecords": 2, "minValues": {"c": 1, "c": 0}}')
    assert (parsed["numRecords"], parsed["minValues"]["c"]) == (2, 0)


def test_columns_are_physical_nested_and_indexed_by_the_table() -> None:
    def field(name: str, kind: Any, physical: str) -> Action:
        mapping = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": 1}
        return {"name": name, "type": kind, "nullable": True, "metadata": mapping}

    nested = {"type": "struct", "fields": [field("x", "long", "col-x"), field("l", {"type": "array"}, "col-l")]}
    mode = {"delta.columnMapping.mode": "name"}
    columns = [field("day", "date", "col-d"), field("n", nested, "col-n"), field("b", "boolean", "col-b")]

    def paths(**more: str) -> list[tuple[str, ...]]:
        return [column.path for column in indexed_columns(table(*columns, partitions=("day",), **mode, **more))]

    assert paths() == [("col-n", "col-x"), ("col-n", "col-l"), ("col-b",)]
    assert paths(**{"delta.dataSkippingNumIndexedCols": "1"}) == [("col-n", "col-x")]
    assert paths(**{"delta.dataSkippingNumIndexedCols": "-1"}) == paths()
    assert paths(**{"delta.dataSkippingStatsColumns": "b, `n`.x"}) == [("col-n", "col-x"), ("col-b",)]
    text = '{"numRecords":1,"minValues":{"col-n":{"col-x":1},"col-b":true},"nullCount":{"col-n":{"col-x":0,"col-l":1}}}'
    (parsed,) = typed(table(*columns, partitions=("day",), **mode), text)
    assert without_nulls(parsed) == {
        "numRecords": 1,
        "minValues": {"col-n": {"col-x": 1}},
        "nullCount": {"col-n": {"col-x": 0, "col-l": 1}},
    }


def test_table_with_only_partition_columns_gets_row_counts() -> None:
    (parsed,) = typed(table(("p", "string"), partitions=("p",)), '{"numRecords": 4}')
    assert parsed == {"numRecords": 4, "tightBounds": None}


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
def test_bounds_of_partition_values_stored_as_text(kind: str, values: list[str | None], expected: Any) -> None:
    adds = pa.array(
        [add("f", p=value)["add"] | {"partitionValues": [("p", value)]} for value in values] + [None],
        pa.struct([("path", pa.string()), ("partitionValues", STRING_MAP)]),
    )
    key = SortKey(("p",), is_partition=True)
    typed_adds = TypedAdds(adds.type, table(("p", kind), partitions=("p",)), [key])
    common = json.loads(statistics(typed_adds.for_order(adds).slice(0, len(values)), [key]))
    assert typed_adds.source(key) == "add.partitionValues"
    assert "partitionValues_parsed" not in [field.name for field in typed_adds.for_rows(adds).type]
    bounds = None if not common else (common["minValues"]["p"], common["maxValues"]["p"])
    assert bounds == expected


# Law: JSON drops all files that typed statistics drop; if every bound has a type, both drop the same files.
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
        members = [f'"c":{rendered(draw(inner))}'] if draw(st.integers(0, 4)) else []
        return "{" + ",".join([*members, f'"d":{draw(st.integers(0, 9))}']) + "}"

    rows = draw(st.integers(0, 3))
    nulls = part(st.integers(0, rows))
    return f'{{"numRecords":{rows},"minValues":{part(values)},"maxValues":{part(values)},"nullCount":{nulls}}}'


def hints(kind: str, literal: Any) -> Iterator[str]:
    column = {"op": "column", "name": "c", "valueType": kind}
    bound = {"op": "literal", "value": str(literal), "valueType": kind}
    for operator in ("equal", "lessThan", "greaterThan", "lessThanOrEqual", "greaterThanOrEqual"):
        yield json.dumps({"op": operator, "children": [column, bound]})
    null = {"op": "isNull", "children": [column]}
    yield json.dumps(null)
    yield json.dumps({"op": "not", "children": [null]})
    other = {"op": "column", "name": "d", "valueType": "long"}
    small = {"op": "lessThan", "children": [other, {"op": "literal", "value": "5", "valueType": "long"}]}
    yield json.dumps({"op": "and", "children": [small, {"op": "not", "children": [null]}]})


@pytest.mark.parametrize("kind", [*EXACT, "boolean"])
@settings(max_examples=tries(60))
@given(data=st.data())
def test_files_that_typed_statistics_drop_are_dropped_by_json(kind: str, data: st.DataObject) -> None:
    exact = EXACT.get(kind, st.booleans())
    odd = data.draw(st.booleans())
    invalid = st.none() | st.sampled_from(["", "{", "{}", '{"minValues": 1}', '{"tightBounds": 7}'])
    files = texts_of(exact | ODD) | invalid if odd else st.none() | texts_of(exact)
    texts = pa.array(data.draw(st.lists(files, min_size=1, max_size=5)), pa.string())
    table_metadata = table(("c", kind), ("d", "long"))
    parsed = TypedStatistics(indexed_columns(table_metadata)).parse(texts)
    maps = pa.array([[]] * len(texts), STRING_MAP)
    for hint in hints("decimal" if kind.startswith("decimal") else kind, data.draw(exact)):
        query_filter = file_filter(parse_hints([], hint), table_metadata)
        if query_filter is None:
            continue
        by_types = query_filter.by_typed_statistics(maps, parsed).to_pylist()
        parts = [
            query_filter.by_json_statistics(maps.slice(number, 1), texts.slice(number, 1))
            for number in range(len(texts))
        ]
        by_json = pa.concat_arrays(parts).to_pylist()
        assert not [hint for types, text in zip(by_types, by_json, strict=True) if text and not types]
        assert odd or kind == "boolean" or by_types == by_json


def test_leaves_are_found_by_name() -> None:
    nested = {"type": "struct", "fields": [{"name": "x", "type": "long"}, {"name": "X", "type": "long"}]}
    columns = Columns(table(("n", nested), ("v", "variant"), ("e", {"type": "struct", "fields": []})))
    assert [name for name, _ in columns.leaves()] == [("v",)], "names that differ only in case are ambiguous"
