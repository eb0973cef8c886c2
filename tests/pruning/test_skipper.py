"""Test which files are kept for each kind of value, bound and column name."""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from deltaic.delta.file_filter import FileFilter
from deltaic.pruning.columns import Columns, TableMetadata
from deltaic.pruning.expressions import Column, IsNull, Not
from deltaic.pruning.json_hints import parse_json
from deltaic.pruning.skipper import Skipper
from deltaic.pruning.sql_hints import parse_sql

MAP = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True)
class Metadata:
    """Metadata of a table for pruning."""

    schema_string: str
    partition_columns: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)


def column(name: str, type_: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def table(*columns: dict[str, Any], partitions: Sequence[str] = (), **configuration: str) -> TableMetadata:
    return Metadata(json.dumps({"type": "struct", "fields": list(columns)}), partitions, configuration)


def skipper(metadata: TableMetadata, hint: str) -> Skipper:
    predicate = parse_json(hint) if hint.startswith("{") else parse_sql([hint])
    assert predicate is not None
    return Skipper(predicate, metadata)


def kept_by_partition(type_: Any, hint: str, *values: str | None) -> list[bool]:
    """Return which values of a partition column `p` are kept."""
    maps = pa.array([[("p", value)] for value in values], MAP)
    mask: list[bool] = skipper(table(column("p", type_), partitions=["p"]), hint).by_partition(maps).to_pylist()
    return mask


def kept_by_json(metadata: TableMetadata, hint: str, *stats: str | None) -> list[bool]:
    maps = pa.array([[]] * len(stats), MAP)
    file_filter = skipper(metadata, hint)
    steps = file_filter.by_partition(maps), file_filter.by_json_statistics(maps, pa.array(stats, pa.string()))
    return [all(masks) for masks in zip(*(step.to_pylist() for step in steps), strict=True)]


def stats(low: Any = None, high: Any = None, nulls: int | None = 0, rows: int | None = 10) -> str:
    """Return statistics of a column `c`; bounds are JSON values."""
    statistics: dict[str, Any] = {}
    if rows is not None:
        statistics["numRecords"] = rows
    statistics |= {"minValues": {} if low is None else {"c": low}, "maxValues": {} if high is None else {"c": high}}
    return json.dumps(statistics | {"nullCount": {} if nulls is None else {"c": nulls}})


def is_kept(type_: Any, hint: str, text: str) -> bool:
    """Return whether a file is kept by the JSON statistics of column `c`."""
    return kept_by_json(table(column("c", type_)), hint, text)[0]


def test_a_skipper_is_a_file_filter() -> None:
    file_filter: FileFilter = skipper(table(column("c", "integer")), "c = 1")
    assert file_filter.needs_statistics


# Reference truth tables: True means no row fails the test, False no row passes it, Unknown both are possible.
@pytest.mark.parametrize(
    ("hint", "low", "high", "rows_may_pass", "rows_may_fail"),
    [
        ("c = DATE '2021-04-29'", "2021-04-29", "2021-04-29", True, False),
        ("c = DATE '2021-04-29'", "2021-04-27", "2021-04-29", True, True),
        ("c = DATE '2021-04-29'", "2021-04-29", "2021-04-30", True, True),
        ("c = DATE '2021-04-29'", "2021-04-27", "2021-05-01", True, True),
        ("c = DATE '2021-04-29'", "2021-04-28", "2021-04-28", False, True),
        ("c = DATE '2021-04-29'", "2021-04-27", "2021-04-28", False, True),
        ("c = DATE '2021-04-29'", "2021-04-30", "2021-05-28", False, True),
        ("c = DATE '2021-04-29'", None, None, True, True),
        ("c < DATE '2021-04-29'", "2021-01-21", "2021-04-28", True, False),
        ("c < DATE '2021-04-29'", "2021-04-26", "2021-04-29", True, True),
        ("c < DATE '2021-04-29'", "2021-04-28", "2021-05-01", True, True),
        ("c < DATE '2021-04-29'", "2021-04-29", "2021-04-30", False, True),
        ("DATE '2021-04-29' > c", "2021-04-29", "2021-04-30", False, True),
        ("DATE '2021-04-29' < c", "2021-04-28", "2021-04-29", False, True),
        ("c >= DATE '2021-04-29'", "2021-04-20", "2021-04-28", False, True),
        # The reference drops files for NOT if the bounds include the literal, and loses rows.
        ("NOT (c >= DATE '2021-04-29')", "2021-04-20", "2021-05-01", True, True),
    ],
)
def test_bounds_decide_a_test_and_its_negation(
    hint: str, low: str | None, high: str | None, *, rows_may_pass: bool, rows_may_fail: bool
) -> None:
    assert is_kept("date", hint, stats(low, high)) is rows_may_pass
    assert is_kept("date", f"NOT ({hint})", stats(low, high)) is rows_may_fail
    if low == high and low is not None:
        assert kept_by_partition("date", hint.replace("c", "p"), low) == [rows_may_pass]


@pytest.mark.parametrize(
    ("nulls", "rows", "bound", "may_be_null", "may_be_set"),
    [
        (0, 10, 5, False, True),
        (4, 10, 5, True, True),
        (10, 10, None, True, False),
        (10, 10, 5, True, True),  # inconsistent
        (None, 10, 5, True, True),
        (10, None, None, True, True),
        (0, 0, None, False, False),
    ],
    ids=["none", "some", "all", "all, with bounds", "no count", "no rows", "no row at all"],
)
def test_null_counts_decide_null_tests(
    nulls: int | None, rows: int | None, bound: int | None, *, may_be_null: bool, may_be_set: bool
) -> None:
    text = stats(bound, bound, nulls, rows)
    assert is_kept("integer", "c IS NULL", text) is may_be_null
    assert is_kept("integer", "c <=> NULL", text) is may_be_null
    assert is_kept("integer", "c IS NOT NULL", text) is may_be_set
    assert is_kept("integer", "c >= -100", text) is may_be_set
    assert is_kept("integer", "c = NULL OR c <> NULL OR c NOT IN (1, NULL)", text) is False


def test_logic_with_known_and_unknown_parts() -> None:
    text = stats(1, 3)
    for hint, expected in {
        "c > 5 AND mystery(c)": False,
        "c < 5 AND mystery(c)": True,
        "c > 5 OR mystery(c)": True,
        "NOT (c < 5 OR mystery(c))": False,
        "NOT (c < 5 AND mystery(c))": True,
        "NOT mystery(c)": True,
        "c > 5 OR c < 0": False,
        "c > 5 OR c < 2": True,
        "other_column = 1": True,
        "1 = 0": False,
        "1 = 1": True,
        "NULL": True,
    }.items():
        assert is_kept("integer", hint, text) is expected, hint


@pytest.mark.parametrize(
    ("type_", "hint", "matching_value", "other_value"),
    [
        ("date", "p = '2022-01-05'", "2022-01-05", "2022-01-06"),
        ("date", "p = '2022-1-5'", "2022-01-06", None),
        ("integer", "p = '7'", "7", "8"),
        ("integer", "p = 3000000000", None, "7"),
        ("integer", "p < 3000000000", "7", None),
        ("integer", "p = '3000000000'", "7", None),
        ("integer", "p > 6.5", "7", "6"),
        ("integer", "p = 7.0", "7", "6"),
        ("long", "p = 9007199254740992e0", "9007199254740993", "7"),
        ("string", "p = 7", "x", None),
        ("string", "p = '7'", "7", "07"),
        ("string", "p LIKE 'x%'", "xyz", "yx"),
        ("boolean", "p", "true", "false"),
        ("boolean", "NOT p", "false", "true"),
        ("double", "p > 1", "NaN", "-Infinity"),
        ("double", "p = 0", "-0.0", "1.0"),
        ("float", "p = 1.1", "1.1", "1.2"),
        ("decimal(10,2)", "p = 1.5", "1.50", "1.51"),
        ("decimal(10,2)", "p = 1.555", None, "1.55"),
        (
            "timestamp",
            "p = TIMESTAMP '2021-04-28T10:00:00+02:00'",
            "2021-04-28T08:00:00Z",
            "2021-04-28T08:00:00.000001Z",
        ),
        ("timestamp", "p > TIMESTAMP '2021-04-28T10:00:00Z'", "2021-04-28 00:00:00", "2021-04-27 00:00:00"),
        ("timestamp_ntz", "p = TIMESTAMP_NTZ '2021-04-28 10:00:00'", "2021-04-28 10:00:00", "2021-04-28 10:00:01"),
        ("timestamp_ntz", "CAST(p AS DATE) = '2021-04-28'", "2021-04-28 23:59:59.999999", "2021-04-29 00:00:00"),
        ("timestamp", "CAST(p AS DATE) = '2021-04-28'", "2021-04-29T12:00:00Z", "2021-04-30T12:00:00Z"),
        ("binary", "p = 'x'", "anything", None),
    ],
)
def test_partition_values_are_parsed_by_type(
    type_: str, hint: str, matching_value: str | None, other_value: str | None
) -> None:
    if matching_value is not None:
        assert kept_by_partition(type_, hint, matching_value) == [True]
    if other_value is not None:
        assert kept_by_partition(type_, hint, other_value) == [False]
    assert kept_by_partition(type_, hint, "\x00 unreadable" if type_ != "string" else "7x") == [
        type_ != "string" or hint[4:] == "7"
    ]


def test_partition_nulls_have_three_spellings() -> None:
    nulls = (None, "", "__HIVE_DEFAULT_PARTITION__")
    assert kept_by_partition("date", "p IS NULL", *nulls, "2021-04-28") == [True, True, True, False]
    assert kept_by_partition("date", "p IS NOT NULL", *nulls, "2021-04-28") == [False, False, False, True]
    assert kept_by_partition("string", "p = ''", *nulls) == [False, True, False]
    assert kept_by_partition("string", "p IS NULL", *nulls, "x") == [True, True, True, False]


def test_partition_maps_of_every_shape_are_supported() -> None:
    metadata = table(column("a", "integer"), column("b", "integer"), partitions=["A", "B"])
    rows: list[Any] = [
        [("a", "1"), ("b", "2")],
        [("b", "2"), ("a", "1")],
        [("a", "2"), ("b", "1")],
        [("a", "1")],
        [],
        None,
    ]
    both = skipper(metadata, "a = 1 AND b = 2")
    expected = [True, True, False, True, True, True]
    assert both.by_partition(pa.array(rows, MAP)).to_pylist() == expected
    for position, keeps_file in enumerate(expected):
        assert both.by_partition(pa.array(rows[position : position + 1], MAP)).to_pylist() == [keeps_file]
    longer = pa.array([rows[2], rows[2], *rows[:3], rows[2]], MAP)
    assert both.by_partition(longer.slice(2, 3)).to_pylist() == [True, True, False]
    assert both.by_partition(longer.slice(2, 0)).to_pylist() == []
    assert both.by_partition(pa.array(rows[:3] * 2, MAP)).to_pylist() == expected[:3] * 2


def test_a_disjunction_combines_partition_values_and_statistics() -> None:
    metadata = table(column("p", "date"), column("c", "integer"), partitions=["p"])
    hint = skipper(metadata, "(p = '2021-04-28' AND c > 5) OR (p = '2021-04-29' AND c < 2)")
    maps = pa.array([[("p", day)] for day in ("2021-04-28", "2021-04-29", "2021-04-30")], MAP)
    assert hint.by_partition(maps).to_pylist() == [True, True, False]
    low, high = pa.array([stats(0, 1)] * 3, pa.string()), pa.array([stats(6, 9)] * 3, pa.string())
    assert hint.by_json_statistics(maps, low).to_pylist() == [False, True, False]
    assert hint.by_json_statistics(maps, high).to_pylist() == [True, False, False]


STEM = "a" * 31


@pytest.mark.parametrize(
    ("high", "value"),
    [
        (STEM + "b\ufffd", STEM + "b\U0001f600"),
        (STEM + "b\U0010ffff", STEM + "b\U0010ffff\U0010ffff"),
        (STEM + "?\ufffd", STEM + "\U0001f600"),
        (STEM + "b", STEM + "bzzz"),
        ("short\ufffd", "short\U0001f600"),
        ("\U0010ffff" * 33, "\U0010ffff" * 50),
    ],
    ids=["older Spark", "newer Spark", "half a pair", "cut bare", "shorter prefix", "no successor"],
)
def test_a_cut_maximum_allows_values_with_its_prefix(high: str, value: str) -> None:
    for hint in (f"c = '{value}'", f"c >= '{value}'", f"c LIKE '{value}%'", f"c IN ('{value}', 'zzz')"):
        assert is_kept("string", hint, stats("a", high)) is True
    if not high.startswith("\U0010ffff"):
        assert is_kept("string", "c >= 'zz'", stats("a", high)) is False


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("c = 'b'", True),
        ("c > 'c'", False),
        ("c < 'a'", False),
        ("c LIKE 'b%'", True),
        ("c LIKE 'd%'", False),
        ("c NOT LIKE 'a%'", True),
        ("c LIKE 'ab%'", True),
        ("c LIKE 'a'", True),
        ("c LIKE '%'", True),
    ],
)
def test_short_strings_have_exact_bounds(hint: str, *, expected: bool) -> None:
    assert is_kept("string", hint, stats("a", "c")) is expected


def test_not_like_drops_files_with_only_the_prefix() -> None:
    assert is_kept("string", "c NOT LIKE 'ab%'", stats("aba", "abz")) is False
    assert is_kept("string", "c NOT LIKE 'ab%'", stats("aba", "ac")) is True


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("c = 3", False),
        ("c = 4", False),
        ("c = 5", False),
        ("c IN (1, 3, 5, 9)", False),
        ("c >= 4", False),
        ("c <= 4", False),
        ("c BETWEEN 1 AND 9", True),
        ("c > 0", True),
        ("c < 9", True),
        ("c IS NULL", False),
    ],
)
def test_a_minimum_above_the_maximum_is_used(hint: str, *, expected: bool) -> None:
    """Decision 182: each bound is valid by itself, so no value equals anything in a file with crossed bounds."""
    metadata = table(column("c", "integer"))
    assert kept_by_json(metadata, hint, stats(5, 3)) == [expected]
    bounds = pa.struct([("c", pa.int32())])
    counts = pa.struct([("c", pa.int64())])
    kind = pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)])
    row: Any = {"numRecords": 10, "minValues": {"c": 5}, "maxValues": {"c": 3}, "nullCount": {"c": 0}}
    file_filter = skipper(metadata, hint)
    assert file_filter.by_typed_statistics(pa.array([[]], MAP), pa.array([row], kind)).to_pylist() == [expected]


def test_bounds_of_times_are_cut_to_milliseconds() -> None:
    text = stats("2021-04-28T23:33:48.719Z", "2021-04-28T23:33:48.719Z")
    assert is_kept("timestamp", "c > TIMESTAMP '2021-04-28T23:33:48.719998Z'", text) is True
    assert is_kept("timestamp", "c > TIMESTAMP '2021-04-28T23:33:48.719999Z'", text) is False
    assert is_kept("timestamp", "c <> TIMESTAMP '2021-04-28T23:33:48.719Z'", text) is True
    assert is_kept("timestamp", "c > TIMESTAMP '2021-04-29T01:33:48.800+02:00'", text) is False
    # Without a zone the client's zone applies, which is unknown.
    assert is_kept("timestamp", "c > TIMESTAMP '2021-04-29 10:00:00'", text) is True
    assert is_kept("timestamp", "c > TIMESTAMP '2021-04-30 10:00:00'", text) is False
    wall = stats("2021-04-28T23:33:48.719", "2021-04-28T23:33:48.719")
    assert is_kept("timestamp_ntz", "c > '2021-04-28 23:33:49'", wall) is False
    assert is_kept("timestamp_ntz", "c >= '2021-04-28 23:33:48.719001'", wall) is True
    mixed = stats("2021-04-28T23:33:48.719", "yesterday")
    assert is_kept("timestamp_ntz", "c > '2022-04-28'", mixed) is True
    assert is_kept("timestamp_ntz", "c < '2020-04-28'", mixed) is False


def test_nan_is_above_everything_and_may_be_missing_from_bounds() -> None:
    for low, high in ((1.5, 2.5), (1.5, "NaN")):
        text = stats(low, high)
        assert is_kept("double", "c > 100", text) is True
        assert is_kept("double", "c <> 1.5", text) is True
        assert is_kept("double", "c = CAST('NaN' AS DOUBLE)", text) is True
        assert is_kept("double", "c < 1", text) is False
        assert is_kept("double", "c = 1", text) is False
    # A row with an upper bound in another test cannot be NaN.
    assert is_kept("double", "c BETWEEN 100 AND 200", stats(1.5, 2.5)) is False
    assert is_kept("double", "c > 100 AND (c < 200 OR mystery(c))", stats(1.5, 2.5)) is True
    assert is_kept("double", "c > 2 AND c <> 2.5", stats(2.5, 2.5)) is True
    assert is_kept("double", "c > 100 AND c > 50", stats(1.5, 2.5)) is True
    assert is_kept("double", "c > 100 AND c <> 7", stats(1.5, 2.5)) is True


def test_decimals_and_longs_are_not_converted_to_double() -> None:
    wide = '{"numRecords":1,"minValues":{"c":1.500000000000000001},"maxValues":{"c":1.500000000000000001}}'
    assert is_kept("decimal(38,18)", "c = 1.500000000000000001", wide) is True
    assert is_kept("decimal(38,18)", "c > 1.51", wide) is False
    assert is_kept("decimal(10,2)", "c <> 1.50", stats(1.5, 1.5)) is False
    assert is_kept("long", "c = 9007199254740993", stats(9007199254740993, 9007199254740993)) is True
    assert is_kept("long", "c > 9007199254740993", stats(0, 9007199254740993)) is False
    assert is_kept("float", "c > 1.1", stats(1.1, 1.1)) is True


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "null",
        "[]",
        "{",
        '{"minValues":{"c":"x"}}',
        '{"minValues":5,"maxValues":{"c":0}}',
        '{"minValues":{"c":1e999}}',
        '{"maxValues":{"c":1.5}}',
        '{"maxValues":{"c":99999999999999999999}}',
        '{"nullCount":{"c":{"d":1}}}',
        "{}",
    ],
    ids=ascii,
)
def test_unreadable_statistics_keep_the_file(text: str | None) -> None:
    good = stats(1, 3)
    metadata = table(column("c", "integer"))
    assert kept_by_json(metadata, "c > 5", good, text, good) == [False, True, False]


def test_unreadable_bounds_of_a_column_do_not_affect_other_columns() -> None:
    metadata = table(column("c", "integer"), column("d", "integer"))
    text = json.dumps({"numRecords": 1, "minValues": {"c": "odd", "d": 7}, "maxValues": {"c": 1, "d": 7}})
    assert kept_by_json(metadata, "c > 5 AND d < 7", text, text) == [False, False]
    assert kept_by_json(metadata, "c > 5 AND d = 7", text, text) == [True, True]


@pytest.mark.parametrize("name", ['a"b', "a\\b"])
def test_a_column_with_an_unsupported_name_does_not_affect_other_columns(name: str) -> None:
    metadata = table(column(name, "integer"), column("x", "integer"))
    text = json.dumps({"numRecords": 1, "minValues": {name: 1, "x": 1}, "maxValues": {name: 1, "x": 1}})
    assert kept_by_json(metadata, f"`{name}` = 2", text) == [True]
    assert kept_by_json(metadata, f"`{name}` = 2 AND x = 2", text) == [False]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_reads_physical_names_at_every_level(mode: str) -> None:
    physical = "delta.columnMapping.physicalName"
    inner = {"type": "struct", "fields": [column("x", "integer", **{physical: "col-2"})]}
    columns = (column("Out", inner, **{physical: "col-1"}), column("p", "integer", **{physical: "col-3"}))
    metadata = table(*columns, partitions=["p"], **{"delta.columnMapping.mode": mode})
    text = '{"numRecords":1,"minValues":{"col-1":{"col-2":1}},"maxValues":{"col-1":{"col-2":3}}}'
    assert kept_by_json(metadata, "out.X > 3", text) == [False]
    assert kept_by_json(metadata, "out.X > 2", text) == [True]
    maps = pa.array([[("col-3", "1")], [("col-3", "2")]], MAP)
    assert skipper(metadata, "P = 2").by_partition(maps).to_pylist() == [False, True]
    leaf = pa.struct([("col-1", pa.struct([("col-2", pa.int32())]))])
    assert skipper(metadata, "out.x > 3").typed_leaves(pa.struct([("minValues", leaf), ("maxValues", leaf)])) == [
        "minValues.col-1.col-2",
        "maxValues.col-1.col-2",
    ]


def test_ambiguous_names_are_not_resolved() -> None:
    nested = {"type": "struct", "fields": [column("b", "integer")]}
    low = '{"maxValues":{"a":{"b":1},"a.b":1,"x":1,"X":1}}'
    five = {"op": "literal", "value": "5", "valueType": "int"}
    hint = json.dumps({"op": "lessThan", "children": [five, {"op": "column", "name": "a.b"}]})
    assert kept_by_json(table(column("a", nested)), hint, low) == [False]
    assert kept_by_json(table(column("a.b", "integer")), hint, low) == [False]
    assert kept_by_json(table(column("a", nested)), "a.b > 5", low) == [False]
    assert kept_by_json(table(column("x", "integer"), column("X", "integer")), "x > 5", low) == [True]
    assert kept_by_json(table(column("a", nested)), "a > 5", low) == [True]


@pytest.mark.parametrize(
    ("declared", "type_", "decided"),
    [
        ("int", "integer", True),
        ("float", "float", True),
        ("long", "integer", False),
        ("int", "long", False),
        ("string", "integer", False),
        ("double", "float", False),
        ("date", "timestamp", False),
        ("timestamp", "timestamp_ntz", False),
    ],
)
def test_a_declared_type_other_than_the_columns_keeps_the_file(declared: str, type_: str, *, decided: bool) -> None:
    tree = {"op": "isNull", "children": [{"op": "column", "name": "c", "valueType": declared}]}
    assert is_kept(type_, json.dumps(tree), stats(1, 1)) is not decided


@pytest.mark.parametrize(
    "columns",
    [
        column("c", "string", __CHAR_VARCHAR_TYPE_STRING="char(5)"),
        column("c", "string", __COLLATIONS={"c": "ICU.UNICODE_CI"}),
        column("c", "string collate UNICODE_CI"),
        column("c", "variant"),
        column("c", {"type": "array", "elementType": "string", "containsNull": True}),
    ],
    ids=["char(n)", "collation", "collated type", "variant", "array"],
)
def test_types_with_another_order_support_only_null_tests(columns: dict[str, Any]) -> None:
    assert kept_by_json(table(columns), "c = 'zzz'", stats("a", "b")) == [True]
    assert kept_by_json(table(columns), "c IS NULL", stats(None, None)) == [False]


def test_an_unreadable_schema_keeps_all_files() -> None:
    for schema in ("", "{", "[]", "5", '{"type":"struct"}', '{"type":"struct","fields":[{"name":5}]}'):
        file_filter = Skipper(IsNull(Column(("c",))), Metadata(schema))
        assert file_filter.keeps_everything
        assert not file_filter.needs_statistics


def test_typed_statistics_can_have_other_widths_and_units() -> None:
    maps = pa.array([[]], MAP)

    def typed(type_: str, hint: str, bound: pa.Array) -> bool:
        leaf = pa.StructArray.from_arrays([bound], ["c"])
        structs = pa.StructArray.from_arrays([leaf, leaf], ["minValues", "maxValues"])
        return bool(skipper(table(column("c", type_)), hint).by_typed_statistics(maps, structs)[0].as_py())

    day = 18_745
    assert typed("long", "c > 5", pa.array([5], pa.int32())) is False
    assert typed("double", "c < 5", pa.array([5], pa.int32())) is False
    assert typed("timestamp_ntz", "c > '2021-04-28'", pa.array([day], pa.date32())) is True
    assert typed("timestamp_ntz", "c > '2021-04-29'", pa.array([day], pa.date32())) is False
    assert typed("timestamp", "c > '2050-01-01'", pa.array([0], pa.timestamp("us", "UTC"))) is False
    # Distant dates overflow in nanoseconds.
    assert typed("timestamp", "c > '2050-01-01'", pa.array([0], pa.timestamp("ns", "UTC"))) is True
    assert typed("decimal(10,2)", "c > 1.5", pa.array(["1.5"]).cast(pa.decimal128(5, 1))) is False
    assert typed("integer", "c > 5", pa.array(["1"])) is True
    assert typed("string", f"c = '{STEM}bz'", pa.array([STEM + "b"])) is True


@pytest.mark.parametrize("changes", [None, "float", [], [7], [{"fromType": "integer", "toType": "double"}]])
@pytest.mark.parametrize("number", [0.1, -0.1])
def test_bounds_of_widened_floats_are_widened(number: float, changes: Any) -> None:
    value = struct.unpack("<f", struct.pack("<f", number))[0]  # 0.10000000149011612: as the widened column has it
    widened = [{"fromType": "float", "toType": "double"}]
    typed = {"minValues": {"c": number}, "maxValues": {"c": number}, "nullCount": {"c": 0}, "numRecords": 1}
    for type_changes, literal, expected in ((widened, value, True), (widened, 0.2, False), (changes, value, False)):
        metadata = table(column("c", "double", **{"delta.typeChanges": type_changes}))
        hint = f"c = {literal!r}"
        assert kept_by_json(metadata, hint, stats(number, number)) == [expected]
        file_filter = skipper(metadata, hint)
        assert file_filter.by_bounds(pa.array([stats(number, number)], pa.string())).to_pylist() == [expected]
        for kind, bound in ((pa.float64(), number), (pa.float32(), value)):
            leaf = pa.struct([("c", kind)])
            shape = pa.struct([("minValues", leaf), ("maxValues", leaf), ("nullCount", pa.struct([("c", pa.int64())]))])
            statistics = typed | {"minValues": {"c": bound}, "maxValues": {"c": bound}}
            verdict = file_filter.by_typed_statistics(pa.array([[]], MAP), pa.array([statistics], shape)).to_pylist()
            assert verdict == [literal == bound or expected]


def test_an_absent_struct_keeps_the_file() -> None:
    kind = pa.struct([("maxValues", pa.struct([("c", pa.int32())]))])
    file_filter = skipper(table(column("c", "integer")), "c > 5")
    mask = file_filter.by_typed_statistics(pa.array([[]] * 3, MAP), pa.array([None, {"maxValues": {"c": 1}}, {}], kind))
    assert mask.to_pylist() == [True, False, True]
    assert file_filter.typed_leaves(pa.struct([("minValues", pa.struct([("d", pa.int32())]))])) == []


@pytest.mark.parametrize(
    ("statistics", "is_decided"),
    [
        ({"numRecords": 9, "minValues": {"c": 1}, "maxValues": {"c": 2}, "nullCount": {"c": 0}}, True),
        ({"numRecords": None, "minValues": {"c": 1}, "maxValues": {"c": 2}, "nullCount": {"c": 0}}, False),
        ({"numRecords": 9, "minValues": {"c": None}, "maxValues": {"c": 2}, "nullCount": {"c": 0}}, False),
        ({"numRecords": 9, "minValues": {"c": 1}, "maxValues": {"c": None}, "nullCount": {"c": 0}}, False),
        ({"numRecords": 9, "minValues": {"c": 1}, "maxValues": {"c": 2}, "nullCount": {"c": None}}, False),
        ({"minValues": {"c": 1}, "maxValues": {"c": 2}, "nullCount": {"c": 0}}, False),
        ({"numRecords": 9, "minValues": {"c": 1}, "nullCount": {"c": 0}}, False),
        ({"numRecords": 9, "minValues": {"c": 1}, "maxValues": {"c": 2}}, False),
        ({"numRecords": 9, "minValues": {"c": "1"}, "maxValues": {"c": "2"}, "nullCount": {"c": 0}}, False),
        (None, False),
    ],
)
def test_typed_statistics_decide_if_they_are_complete(statistics: dict[str, Any] | None, *, is_decided: bool) -> None:
    complete = {"numRecords": 9, "minValues": {"c": 1}, "maxValues": {"c": 2}, "nullCount": {"c": 0}}
    structs: Any = pa.array([statistics], pa.array([statistics or complete]).type)
    assert skipper(table(column("c", "integer")), "c > 5").is_decided_by(structs) is is_decided


def test_partition_values_are_needed_if_a_hint_uses_them() -> None:
    subject = table(column("c", "integer"), column("p", "string"), partitions=["p"])
    for hint, needed in (("c > 5", False), ("p = 'a'", True), ("c > 5 AND p = 'a'", True), ("c > 5 OR p = 'a'", True)):
        assert skipper(subject, hint).needs_partition_values is needed, hint


def test_long_lists_use_a_binary_search() -> None:
    hint = "c IN (" + ",".join(str(n * 10) for n in range(1000)) + ")"
    texts = [stats(11, 19), stats(15, 25), stats(-5, -1), stats(9990, 9990), stats(9991, 99999), stats(1)]
    assert kept_by_json(table(column("c", "integer")), hint, *texts) == [False, True, False, True, False, True]
    days = [f"2021-01-{day:02d}" for day in range(1, 31)]
    assert kept_by_partition("date", f"p IN {tuple(days)}", "2021-01-30", "2021-01-31", None) == [True, False, False]


def test_tests_above_the_limit_keep_more_files() -> None:
    metadata = table(*(column(f"c{n}", "integer") for n in range(1000)))
    text = '{"maxValues":{"c0":1,"c999":1}}'
    assert kept_by_json(metadata, " AND ".join(f"c{n} > 5" for n in range(1000)), text) == [False]
    assert kept_by_json(metadata, " AND ".join(f"c{n} > 5" for n in range(1, 1000)), text) == [True]
    assert kept_by_json(metadata, " OR ".join(f"c{n} > 5" for n in range(1000)), text) == [True]


def test_a_very_deep_predicate_keeps_all_files() -> None:
    tree: Any = IsNull(Column(("c",)))
    for _ in range(100_000):
        tree = Not(tree)
    assert Skipper(tree, table(column("c", "integer"))).keeps_everything


@pytest.mark.parametrize("value", ["\ud800", "a\udfff"], ids=ascii)
def test_half_a_surrogate_pair_keeps_the_file(value: str) -> None:
    assert is_kept("string", f"c = '{value}' OR c LIKE '{value}%'", stats("a", "b")) is True


def test_leaves_whose_names_differ_only_in_case_are_left_out() -> None:
    nested = {"type": "struct", "fields": [column("x", "long"), column("X", "long")]}
    columns = Columns(table(column("n", nested), column("v", "variant"), column("e", {"type": "struct", "fields": []})))
    assert [name for name, _ in columns.leaves()] == [("v",)]
