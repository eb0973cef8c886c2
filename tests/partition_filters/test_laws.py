"""Compare filters with DuckDB: a file is visible if the same SQL is true for all its possible values."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltaic.partition_filters import check, evaluate, parse
from deltaic.partition_filters.masks import by_file
from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import SortKey
from deltaic_pipeline.maintenance.sorted_checkpoint.sidecars import statistics
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from partitioned_table import TABLE, TYPES

ARROW = {
    "string": pa.string(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
}
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
SQL_TYPES = {
    "string": "VARCHAR",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "decimal(10,2)": "DECIMAL(10,2)",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "boolean": "BOOLEAN",
}
LIMITS = {"byte": 1 << 7, "short": 1 << 15, "integer": 1 << 31, "long": 1 << 63}
STRINGS = [
    "a",
    "A",
    "ab",
    "a%",
    "a_b",
    "a\\b",
    "it's",
    "\u00e9",
    "e\u0301",
    "\uffff",
    "\U0001f600",
    "north",
    "",
    "null",
]
FIRST, LAST = date(1, 1, 1), date(9999, 12, 31)


def dates() -> st.SearchStrategy[str]:
    usual = st.sampled_from([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), LAST])
    return (usual | st.dates(FIRST, LAST)).map(str)


def instants() -> st.SearchStrategy[datetime]:
    boundaries = [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2024, 1, 1, tzinfo=UTC)]
    # At least a day from both ends of the calendar, so that every offset is valid.
    near = st.timedeltas(timedelta(days=-1), timedelta(days=1)).map(lambda distance: boundaries[1] + distance)
    return (
        st.sampled_from(boundaries)
        | near
        | st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC))  # noqa: DTZ001 -- it adds them
    )


def texts_of(type_: str) -> st.SearchStrategy[str]:
    """Generate partition values that are neither null nor empty."""
    match type_:
        case "string":
            alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
            return st.sampled_from(STRINGS) | st.text(alphabet, max_size=3)
        case "decimal(10,2)":
            few = st.integers(-300, 300) | st.integers(-(10**10) + 1, 10**10 - 1)
            return few.map(lambda cents: f"{'-' * (cents < 0)}{abs(cents) // 100}.{abs(cents) % 100:02}")
        case "date":
            return dates()
        case "timestamp":
            return instants().map(lambda instant: instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0"))
        case "timestamp_ntz":
            return instants().map(lambda instant: instant.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0"))
        case "boolean":
            return st.sampled_from(["true", "false"])
        case _:
            limit = LIMITS[type_]
            few = st.sampled_from([-limit, -1, 0, 1, 2, limit - 1])
            return (few | st.integers(-3, 3) | st.integers(-limit, limit - 1)).map(str)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class FilterText:
    """Part of a filter, its SQL for DuckDB, and its properties."""

    ours: str
    theirs: str
    properties: frozenset[str] = frozenset()


def join(pieces: Sequence[FilterText], ours: str, theirs: str | None = None) -> FilterText:
    return FilterText(
        ours.format(*(piece.ours for piece in pieces)),
        (theirs or ours).format(*(piece.theirs for piece in pieces)),
        frozenset().union(*(piece.properties for piece in pieces)),
    )


@st.composite
def literals(draw: st.DrawFn, type_: str) -> FilterText:
    """Generate literals for a column type, also outside its range and scale."""
    text = draw(texts_of(type_))
    match type_:
        case "string":
            return FilterText(quoted(text), quoted(text))
        case "boolean":
            return FilterText(draw(st.sampled_from([text, text.upper()])), text)
        case "date" | "timestamp" | "timestamp_ntz":
            theirs = f"{SQL_TYPES[type_]} {quoted(text)}"
            return FilterText(draw(st.sampled_from([quoted(text), f"{type_.upper()} {quoted(text)}"])), theirs)
        case "decimal(10,2)":
            number = draw(st.sampled_from([text, text + "0", text + "5", text.split(".")[0]]))
        case _:
            number = draw(st.sampled_from([text, str(LIMITS[type_]), str(-LIMITS[type_] - 1), "1.5", "-0.0"]))
    return FilterText(number, number)


@dataclass(frozen=True)
class Recipient:
    """Properties of a recipient: a single value and a list of each type, some of which are missing."""

    properties: dict[str, str]
    lists: dict[str, list[str]]

    def single(self, type_: str) -> FilterText:
        name = f"single {type_}"
        return FilterText(
            f"current_recipient('{name}')",
            f"CAST({quoted(self.properties.get(name, ''))} AS {SQL_TYPES[type_]})",
            frozenset([name]),
        )

    def several(self, type_: str) -> FilterText:
        name = f"list {type_}"
        values = [f"CAST({quoted(text)} AS {SQL_TYPES[type_]})" for text in self.lists[type_]]
        return FilterText(f"current_recipient('{name}')", ", ".join(values), frozenset([name]))


@st.composite
def recipients(draw: st.DrawFn, types: Sequence[str]) -> Recipient:
    lists = {type_: draw(st.lists(texts_of(type_), min_size=1, max_size=3)) for type_ in types}
    properties = {f"single {type_}": draw(texts_of(type_)) for type_ in types}
    properties |= {
        f"list {type_}": "["
        + ",".join('"' + "".join(f"\\u{ord(c):04x}" for c in utf16(text)) + '"' for text in values)
        + "]"
        for type_, values in lists.items()
    }
    missing = draw(st.sets(st.sampled_from(sorted(properties)), max_size=1)) if draw(st.integers(0, 3)) == 0 else set()
    return Recipient({name: text for name, text in properties.items() if name not in missing}, lists)


def utf16(text: str) -> str:
    """Return the UTF-16 code units of a text, as in JSON escapes."""
    units = text.encode("utf-16-be")
    return "".join(chr(int.from_bytes(units[index : index + 2], "big")) for index in range(0, len(units), 2))


@st.composite
def column_tests(draw: st.DrawFn, columns: Sequence[str], recipient: Recipient) -> FilterText:
    name = draw(st.sampled_from(columns))
    type_ = TYPES[name]
    column = FilterText(draw(st.sampled_from([name, name.upper(), f"`{name.title()}`"])), f't."{name}"')
    constants = literals(type_) | st.just(recipient.single(type_))
    shape = draw(st.sampled_from(["compare", "compare", "compare", "between", "in", "list", "null", "special"]))
    negated = draw(st.sampled_from(["", "NOT "]))
    if shape == "null":
        return join([column], f"{{}} IS {negated}NULL")
    if shape == "between":
        return join([column, draw(constants), draw(constants)], f"{{}} {negated}BETWEEN {{}} AND {{}}")
    if shape == "list":
        return join([column, recipient.several(type_)], f"{{}} {negated}IN {{}}", f"{{}} {negated}IN ({{}})")
    if shape == "in":
        items = draw(st.lists(constants | st.just(recipient.several(type_)), min_size=1, max_size=3))
        return join([column, *items], f"{{}} {negated}IN (" + ", ".join(["{}"] * len(items)) + ")")
    operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    if shape == "special" and type_ == "string":
        prefix = draw(texts_of("string").filter(lambda text: not set(text) & set("%_\\")))
        return join([column], f"{{}} {negated}LIKE {quoted(prefix + '%').replace('{', '{{').replace('}', '}}')}")
    if shape == "special":
        property_ = draw(st.sampled_from(sorted(recipient.lists)))
        text = recipient.properties.get(f"single {property_}", "")
        value = FilterText(f"current_recipient('single {property_}')", quoted(text), frozenset([f"single {property_}"]))
        return join([value, draw(literals("string"))], f"{{}} {operator} {{}}")
    same = [FilterText(item, f't."{item}"') for item in columns if TYPES[item] == type_ and item != name]
    sides = [column, draw(constants | st.sampled_from(same) if same else constants)]
    return join(sides if draw(st.booleans()) else sides[::-1], f"{{}} {operator} {{}}")


def conditions(columns: Sequence[str], recipient: Recipient) -> st.SearchStrategy[FilterText]:
    return st.recursive(
        column_tests(columns, recipient),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda items: join(items, " AND ".join(["({})"] * len(items)))),
            st.lists(inner, min_size=2, max_size=3).map(lambda items: join(items, " OR ".join(["({})"] * len(items)))),
            # NOT has the highest precedence, then AND, then OR.
            st.tuples(inner, column_tests(columns, recipient), column_tests(columns, recipient)).map(
                lambda items: join(items, "({}) OR NOT {} AND {}")
            ),
            inner.map(lambda item: join([item], "NOT ({})")),
        ),
        max_leaves=6,
    )


def readings(text: str | None, type_: str) -> list[str | None]:
    """Return all possible values of a partition value, or some for an ambiguous timestamp."""
    if text in {"", HIVE_NULL}:
        return [None, text] if type_ == "string" else [None]
    if text is None or (type_ in {"timestamp", "timestamp_ntz"}) == 0 or text.endswith("Z") == (type_ == "timestamp"):
        return [text]
    instant = datetime.fromisoformat(text.removesuffix("Z"))
    return [
        f"{instant + timedelta(hours=hours)}".rjust(19, "0") + "Z" * (type_ == "timestamp") for hours in (-18, 0, 14)
    ]


def partition_texts(type_: str) -> st.SearchStrategy[str | None]:
    odd = st.sampled_from([None, None, "", HIVE_NULL])
    regular = texts_of(type_)
    swapped = {"timestamp": "timestamp_ntz", "timestamp_ntz": "timestamp"}.get(type_)
    return st.integers(0, 9).flatmap(
        lambda roll: odd if roll < 2 else texts_of(swapped) if swapped and roll == 2 else regular
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[FilterText, Recipient, list[dict[str, str | None]]]:
    columns = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True))
    if "region" in columns:
        columns = sorted({*columns, "site"})
    recipient = draw(recipients(sorted({TYPES[name] for name in columns})))
    condition = draw(conditions(columns, recipient))
    values = st.fixed_dictionaries({name: partition_texts(TYPES[name]) for name in columns})
    return condition, recipient, draw(st.lists(values, min_size=1, max_size=6))


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        yield connection


def results(oracle: duckdb.DuckDBPyConnection, condition: str, rows: list[dict[str, str | None]]) -> list[bool | None]:
    columns = sorted(rows[0])
    typed = [
        "(" + ", ".join([str(index), *(cast(row[name], TYPES[name]) for name in columns)]) + ")"
        for index, row in enumerate(rows)
    ]
    names = ", ".join(["at_row", *(f'"{name}"' for name in columns)])
    query = f"SELECT {condition} FROM (VALUES {', '.join(typed)}) t({names}) ORDER BY at_row"  # noqa: S608 -- generated by this test
    return [result for (result,) in oracle.execute(query).fetchall()]


def cast(text: str | None, type_: str) -> str:
    return f"CAST({'NULL' if text is None else quoted(text)} AS {SQL_TYPES[type_]})"


@settings(max_examples=tries(60), deadline=None)
@given(case=cases())
def test_file_is_visible_if_the_same_sql_is_true_for_all_possible_values(
    oracle: duckdb.DuckDBPyConnection, case: tuple[FilterText, Recipient, list[dict[str, str | None]]]
) -> None:
    condition, recipient, rows = case
    parsed = parse(condition.ours)
    check(parsed, TABLE)
    assert set(parsed.properties) == condition.properties
    bound = evaluate([parsed], recipient.properties, TABLE)
    if not condition.properties <= recipient.properties.keys():
        assert not any(map(bound.sees, rows))
        return
    expanded, owners, exact = [], [], []
    for index, row in enumerate(rows):
        possible = [readings(text, TYPES[name]) for name, text in row.items()]
        exact.append(all(len(values) < 3 for values in possible))
        for combination in product(*possible):
            expanded.append(dict(zip(row, combination, strict=True)))
            owners.append(index)
    expected = list(zip(owners, results(oracle, condition.theirs, expanded), strict=True))
    for index, row in enumerate(rows):
        visible = all(result is True for owner, result in expected if owner == index)
        assert bound.sees(row) <= visible
        # DuckDB evaluated only some of the possible values of an ambiguous timestamp.
        assert not exact[index] or bound.sees(row) == visible


def typed(text: str | None, type_: str) -> Any:
    """Return a partition value as in a checkpoint's columns; null for timestamps, which have no bounds."""
    if text is None or type_.startswith("timestamp") or (type_ != "string" and text in {"", HIVE_NULL}):
        return None
    match type_:
        case "string":
            return text
        case "decimal(10,2)":
            return Decimal(text)
        case "date":
            return date.fromisoformat(text)
        case "boolean":
            return text == "true"
        case _:
            return int(text)


@settings(max_examples=tries(60), deadline=None)
@given(case=cases())
def test_bounds_of_a_group_keep_its_visible_files(
    case: tuple[FilterText, Recipient, list[dict[str, str | None]]],
) -> None:
    condition, recipient, rows = case
    bound = evaluate([parse(condition.ours)], recipient.properties, TABLE)
    columns = {name: pa.array([typed(row[name], TYPES[name]) for row in rows], ARROW[TYPES[name]]) for name in rows[0]}
    values = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
    adds = pa.StructArray.from_arrays([values], names=["partitionValues_parsed"])
    for group in (slice(0, len(rows)), *(slice(index, index + 1) for index in range(len(rows)))):
        bounds = statistics(adds[group], [SortKey((name,), is_partition=True) for name in columns])
        (may_show,) = bound.by_bounds(pa.array([bounds.decode()], pa.string())).to_pylist()
        assert may_show or not any(map(bound.sees, rows[group]))


@pytest.mark.parametrize(
    ("text", "low", "high", "may_show"),
    [
        ("region = 'b'", "a", "c", True),
        ("region = 'b'", "c", "d", False),
        ("region <> 'b'", "b", "b", False),
        ("region <> 'b'", "b", "c", True),
        ("region LIKE 'bc%'", "a", "bb", False),
        ("region LIKE 'bc%'", "bcd", "bce", True),
        ("region LIKE 'bc%'", "b", "c", True),
        ("region LIKE 'bc%'", "bd", "c", False),
        ("NOT region LIKE 'bc%'", "bcd", "bce", False),
        ("NOT region LIKE 'bc%'", "bcd", "bd", True),
        ("region IN ('a', 'x')", "b", "w", False),
        ("region IN ('a', 'x')", "b", "x", True),
        ("region IS NULL", "a", "b", False),
        ("region >= 'b' AND region < 'c'", "a", "az", False),
        ("region = 'x' OR region IS NOT NULL", "a", "b", True),
        ("region = site", "a", "b", True),
        ("region = current_recipient('p')", "a", "b", False),
    ],
)
def test_bounds_decide_about_a_group(text: str, low: str, high: str, *, may_show: bool) -> None:
    bounds = {"minValues": {"region": low}, "maxValues": {"region": high}, "nullCount": {"region": 0}}
    groups = [json.dumps(bounds), json.dumps(bounds | {"nullCount": {}}), "{}", "not JSON"]
    actual = evaluate([parse(text)], {"p": "c"}, TABLE).by_bounds(pa.array(groups, pa.string())).to_pylist()
    assert actual == [may_show, may_show or text == "region IS NULL", True, True]


def test_recipient_without_visible_files_needs_no_group() -> None:
    groups = pa.array(["{}", "{}"], pa.string())
    assert evaluate([parse("region = current_recipient('p')")], {}, TABLE).by_bounds(groups).to_pylist() == [False] * 2
    assert evaluate([], {}, TABLE).by_bounds(groups).to_pylist() == [True] * 2


FILTERS = [
    "region = 'a' OR year = 1",
    "region IS NULL AND NOT year = 2",
    "year > 1",
    "current_recipient('p') = 'x'",
    "site = region OR region IN current_recipient('p')",
]
PARTITIONS = st.fixed_dictionaries(
    {},
    optional={
        "region": st.sampled_from([None, "a", "b", ""]),
        "year": st.sampled_from([None, "1", "2", "odd"]),
        "site": st.sampled_from([None, "a"]),
    },
)
ALL_KEYS = st.fixed_dictionaries(
    {
        "site": st.sampled_from([None, "a"]),
        "region": st.sampled_from([None, "a", "b", ""]),
        "year": st.sampled_from([None, "1", "2", "odd"]),
    }
)


@settings(max_examples=tries(40), deadline=None)
@given(
    filters=st.lists(st.sampled_from(FILTERS), max_size=2),
    files=st.lists(ALL_KEYS, max_size=12) | st.lists(PARTITIONS | st.none(), max_size=12),
    cut=st.integers(0, 3),
    properties=st.sampled_from([{}, {"p": "x"}, {"p": '["a"]'}]),
)
def test_mask_agrees_with_sees(
    filters: list[str], files: list[dict[str, str | None] | None], cut: int, properties: dict[str, str]
) -> None:
    bound = evaluate(list(map(parse, filters)), properties, TABLE)
    rows = [None if file is None else list(file.items()) for file in files]
    maps = pa.array(rows, pa.map_(pa.string(), pa.string()))[cut:]
    mask = bound.mask(maps)
    assert mask.type == pa.bool_()
    assert mask.to_pylist() == list(map(bound.sees, files[cut:]))
    if bound.columns:
        assert by_file(list(bound.columns), bound.shows, maps).to_pylist() == mask.to_pylist()


def test_duplicate_key_hides_the_file() -> None:
    bound = evaluate([parse("region = 'a'")], {}, TABLE)
    rows = [[("region", "b"), ("region", "a")], [("region", "a"), ("region", "a")], [("year", "1"), ("region", "a")]]
    maps = pa.array(rows, pa.map_(pa.string(), pa.string()))
    assert bound.mask(maps).to_pylist() == [False, False, True]


def test_null_map_hides_the_file_and_empty_map_means_nulls() -> None:
    maps = pa.array([None, [], [("region", None)]], pa.map_(pa.string(), pa.string()))
    assert evaluate([parse("region IS NULL")], {}, TABLE).mask(maps).to_pylist() == [False, True, True]
    assert evaluate([], {}, TABLE).mask(maps).to_pylist() == [True, True, True]


def test_mask_of_many_files_is_correct_for_each_combination() -> None:
    count = 100_000
    keys = pa.array(["region", "year"] * count)
    items = pa.array([text for index in range(count) for text in (f"r{index % 7}", str(index % 11))])
    maps = pa.MapArray.from_arrays(pa.array(range(0, 2 * count + 1, 2), pa.int32()), keys, items)
    mask = evaluate([parse("region = 'r3' AND year <> 4")], {}, TABLE).mask(maps)
    assert mask.to_pylist() == [index % 7 == 3 and index % 11 != 4 for index in range(count)]


@settings(max_examples=tries(40), deadline=None)
@given(
    values=st.dictionaries(st.sampled_from(sorted(TYPES)), st.none() | st.text(max_size=12)),
    properties=st.dictionaries(st.sampled_from(["p", "q"]), st.text(max_size=12)),
    name=st.sampled_from(sorted(TYPES)),
    negated=st.booleans(),
)
def test_any_value_and_property_can_be_evaluated(
    values: dict[str, str | None], properties: dict[str, str], name: str, *, negated: bool
) -> None:
    for text in (f"{name} <= current_recipient('p')", f"{name} IN current_recipient('p') OR {name} IS NULL"):
        bound = evaluate([parse(f"NOT ({text})" if negated else text)], properties, TABLE)
        visible = bound.sees(values)
        assert not visible or "p" in properties
