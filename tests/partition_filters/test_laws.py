"""Filters against DuckDB: a file is shown where the same SQL is true of its values, whatever else they may be."""

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
from deltaic_pipeline.maintenance.sorted_checkpoint.order import Key
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
WORDS = ["a", "A", "ab", "a%", "a_b", "a\\b", "it's", "\u00e9", "e\u0301", "\uffff", "\U0001f600", "north", "", "null"]
FIRST, LAST = date(1, 1, 1), date(9999, 12, 31)


def dates() -> st.SearchStrategy[str]:
    usual = st.sampled_from([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), LAST])
    return (usual | st.dates(FIRST, LAST)).map(str)


def moments() -> st.SearchStrategy[datetime]:
    few = [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2024, 1, 1, tzinfo=UTC)]
    # A day away from both ends, so that every offset stays within the calendar.
    near = st.timedeltas(timedelta(days=-1), timedelta(days=1)).map(lambda away: few[1] + away)
    return (
        st.sampled_from(few) | near | st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC))  # noqa: DTZ001 -- it adds them
    )


def texts_of(type_: str) -> st.SearchStrategy[str]:
    """Draw the text of a value that is neither null nor empty, as Delta's log has it."""
    match type_:
        case "string":
            alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
            return st.sampled_from(WORDS) | st.text(alphabet, max_size=3)
        case "decimal(10,2)":
            few = st.integers(-300, 300) | st.integers(-(10**10) + 1, 10**10 - 1)
            return few.map(lambda cents: f"{'-' * (cents < 0)}{abs(cents) // 100}.{abs(cents) % 100:02}")
        case "date":
            return dates()
        case "timestamp":
            return moments().map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0"))
        case "timestamp_ntz":
            return moments().map(lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0"))
        case "boolean":
            return st.sampled_from(["true", "false"])
        case _:
            limit = LIMITS[type_]
            few = st.sampled_from([-limit, -1, 0, 1, 2, limit - 1])
            return (few | st.integers(-3, 3) | st.integers(-limit, limit - 1)).map(str)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Written:
    """A piece of a filter, the same for DuckDB, and the properties that it names."""

    ours: str
    theirs: str
    properties: frozenset[str] = frozenset()


def join(pieces: Sequence[Written], ours: str, theirs: str | None = None) -> Written:
    return Written(
        ours.format(*(piece.ours for piece in pieces)),
        (theirs or ours).format(*(piece.theirs for piece in pieces)),
        frozenset().union(*(piece.properties for piece in pieces)),
    )


@st.composite
def literals(draw: st.DrawFn, type_: str) -> Written:
    """Draw a literal for a column of that type: of its range and beyond, of its scale and finer."""
    text = draw(texts_of(type_))
    match type_:
        case "string":
            return Written(quoted(text), quoted(text))
        case "boolean":
            return Written(draw(st.sampled_from([text, text.upper()])), text)
        case "date" | "timestamp" | "timestamp_ntz":
            theirs = f"{SQL_TYPES[type_]} {quoted(text)}"
            return Written(draw(st.sampled_from([quoted(text), f"{type_.upper()} {quoted(text)}"])), theirs)
        case "decimal(10,2)":
            number = draw(st.sampled_from([text, text + "0", text + "5", text.split(".")[0]]))
        case _:
            number = draw(st.sampled_from([text, str(LIMITS[type_]), str(-LIMITS[type_] - 1), "1.5", "-0.0"]))
    return Written(number, number)


@dataclass(frozen=True)
class Recipient:
    """The properties of a recipient: one value and one list of each type, of which some are lacking."""

    properties: dict[str, str]
    lists: dict[str, list[str]]

    def one(self, type_: str) -> Written:
        name = f"one {type_}"
        return Written(
            f"current_recipient('{name}')",
            f"CAST({quoted(self.properties.get(name, ''))} AS {SQL_TYPES[type_]})",
            frozenset([name]),
        )

    def several(self, type_: str) -> Written:
        name = f"list {type_}"
        values = [f"CAST({quoted(text)} AS {SQL_TYPES[type_]})" for text in self.lists[type_]]
        return Written(f"current_recipient('{name}')", ", ".join(values), frozenset([name]))


@st.composite
def recipients(draw: st.DrawFn, types: Sequence[str]) -> Recipient:
    lists = {type_: draw(st.lists(texts_of(type_), min_size=1, max_size=3)) for type_ in types}
    properties = {f"one {type_}": draw(texts_of(type_)) for type_ in types}
    properties |= {
        f"list {type_}": "["
        + ",".join('"' + "".join(f"\\u{ord(c):04x}" for c in utf16(text)) + '"' for text in some)
        + "]"
        for type_, some in lists.items()
    }
    lacking = draw(st.sets(st.sampled_from(sorted(properties)), max_size=1)) if draw(st.integers(0, 3)) == 0 else set()
    return Recipient({name: text for name, text in properties.items() if name not in lacking}, lists)


def utf16(text: str) -> str:
    """Return a text in UTF-16's units, as JSON escapes it."""
    units = text.encode("utf-16-be")
    return "".join(chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))


@st.composite
def column_tests(draw: st.DrawFn, columns: Sequence[str], recipient: Recipient) -> Written:
    name = draw(st.sampled_from(columns))
    type_ = TYPES[name]
    written = Written(draw(st.sampled_from([name, name.upper(), f"`{name.title()}`"])), f't."{name}"')
    constants = literals(type_) | st.just(recipient.one(type_))
    shape = draw(st.sampled_from(["compare", "compare", "compare", "between", "in", "list", "null", "special"]))
    negated = draw(st.sampled_from(["", "NOT "]))
    if shape == "null":
        return join([written], f"{{}} IS {negated}NULL")
    if shape == "between":
        return join([written, draw(constants), draw(constants)], f"{{}} {negated}BETWEEN {{}} AND {{}}")
    if shape == "list":
        return join([written, recipient.several(type_)], f"{{}} {negated}IN {{}}", f"{{}} {negated}IN ({{}})")
    if shape == "in":
        items = draw(st.lists(constants | st.just(recipient.several(type_)), min_size=1, max_size=3))
        return join([written, *items], f"{{}} {negated}IN (" + ", ".join(["{}"] * len(items)) + ")")
    operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    if shape == "special" and type_ == "string":
        prefix = draw(texts_of("string").filter(lambda text: not set(text) & set("%_\\")))
        return join([written], f"{{}} {negated}LIKE {quoted(prefix + '%').replace('{', '{{').replace('}', '}}')}")
    if shape == "special":
        property_ = draw(st.sampled_from(sorted(recipient.lists)))
        text = recipient.properties.get(f"one {property_}", "")
        plain = Written(f"current_recipient('one {property_}')", quoted(text), frozenset([f"one {property_}"]))
        return join([plain, draw(literals("string"))], f"{{}} {operator} {{}}")
    same = [Written(other, f't."{other}"') for other in columns if TYPES[other] == type_ and other != name]
    sides = [written, draw(constants | st.sampled_from(same) if same else constants)]
    return join(sides if draw(st.booleans()) else sides[::-1], f"{{}} {operator} {{}}")


def conditions(columns: Sequence[str], recipient: Recipient) -> st.SearchStrategy[Written]:
    return st.recursive(
        column_tests(columns, recipient),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda some: join(some, " AND ".join(["({})"] * len(some)))),
            st.lists(inner, min_size=2, max_size=3).map(lambda some: join(some, " OR ".join(["({})"] * len(some)))),
            # Without parentheses, AND binds closer than OR and NOT closer than both.
            st.tuples(inner, column_tests(columns, recipient), column_tests(columns, recipient)).map(
                lambda some: join(some, "({}) OR NOT {} AND {}")
            ),
            inner.map(lambda one: join([one], "NOT ({})")),
        ),
        max_leaves=6,
    )


def readings(text: str | None, type_: str) -> list[str | None]:
    """Return what a partition value may be; of a time without its zone some of what it may be."""
    if text in {"", HIVE_NULL}:
        return [None, text] if type_ == "string" else [None]
    if text is None or (type_ in {"timestamp", "timestamp_ntz"}) == 0 or text.endswith("Z") == (type_ == "timestamp"):
        return [text]
    moment = datetime.fromisoformat(text.removesuffix("Z"))
    return [
        f"{moment + timedelta(hours=hours)}".rjust(19, "0") + "Z" * (type_ == "timestamp") for hours in (-18, 0, 14)
    ]


def partition_texts(type_: str) -> st.SearchStrategy[str | None]:
    odd = st.sampled_from([None, None, "", HIVE_NULL])
    usual = texts_of(type_)
    other = {"timestamp": "timestamp_ntz", "timestamp_ntz": "timestamp"}.get(type_)
    return st.integers(0, 9).flatmap(
        lambda roll: odd if roll < 2 else texts_of(other) if other and roll == 2 else usual
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Written, Recipient, list[dict[str, str | None]]]:
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


def answers(oracle: duckdb.DuckDBPyConnection, condition: str, rows: list[dict[str, str | None]]) -> list[bool | None]:
    columns = sorted(rows[0])
    typed = [
        "(" + ", ".join([str(at), *(cast(row[name], TYPES[name]) for name in columns)]) + ")"
        for at, row in enumerate(rows)
    ]
    names = ", ".join(["at_row", *(f'"{name}"' for name in columns)])
    asked = f"SELECT {condition} FROM (VALUES {', '.join(typed)}) t({names}) ORDER BY at_row"  # noqa: S608 -- ours
    return [answer for (answer,) in oracle.execute(asked).fetchall()]


def cast(text: str | None, type_: str) -> str:
    return f"CAST({'NULL' if text is None else quoted(text)} AS {SQL_TYPES[type_]})"


@settings(max_examples=tries(60), deadline=None)
@given(case=cases())
def test_a_file_is_shown_where_the_same_sql_is_true_for_every_reading(
    oracle: duckdb.DuckDBPyConnection, case: tuple[Written, Recipient, list[dict[str, str | None]]]
) -> None:
    condition, recipient, rows = case
    found = parse(condition.ours)
    check(found, TABLE)
    assert set(found.properties) == condition.properties
    evaluated = evaluate([found], recipient.properties, TABLE)
    if not condition.properties <= recipient.properties.keys():
        assert not any(map(evaluated.sees, rows))
        return
    expanded, owners, exact = [], [], []
    for at, row in enumerate(rows):
        possible = [readings(text, TYPES[name]) for name, text in row.items()]
        exact.append(all(len(some) < 3 for some in possible))
        for one in product(*possible):
            expanded.append(dict(zip(row, one, strict=True)))
            owners.append(at)
    said = list(zip(owners, answers(oracle, condition.theirs, expanded), strict=True))
    for at, row in enumerate(rows):
        shown = all(answer is True for owner, answer in said if owner == at)
        assert evaluated.sees(row) <= shown
        # What a time without its zone may be is endless, and only some of it was asked.
        assert not exact[at] or evaluated.sees(row) == shown


def typed(text: str | None, type_: str) -> Any:
    """Return a partition value as a checkpoint has it in columns; null for times, which have no bounds."""
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
def test_bounds_of_many_files_keep_what_shows_one_of_them(
    case: tuple[Written, Recipient, list[dict[str, str | None]]],
) -> None:
    condition, recipient, rows = case
    evaluated = evaluate([parse(condition.ours)], recipient.properties, TABLE)
    columns = {name: pa.array([typed(row[name], TYPES[name]) for row in rows], ARROW[TYPES[name]]) for name in rows[0]}
    values = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
    adds = pa.StructArray.from_arrays([values], names=["partitionValues_parsed"])
    for some in (slice(0, len(rows)), *(slice(at, at + 1) for at in range(len(rows)))):
        bounds = statistics(adds[some], [Key((name,), is_partition=True) for name in columns])
        (kept,) = evaluated.by_bounds(pa.array([bounds.decode()], pa.string())).to_pylist()
        assert kept or not any(map(evaluated.sees, rows[some]))


@pytest.mark.parametrize(
    ("text", "low", "high", "kept"),
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
def test_bounds_decide_about_many_files(text: str, low: str, high: str, *, kept: bool) -> None:
    told = {"minValues": {"region": low}, "maxValues": {"region": high}, "nullCount": {"region": 0}}
    groups = [json.dumps(told), json.dumps(told | {"nullCount": {}}), "{}", "not JSON"]
    found = evaluate([parse(text)], {"p": "c"}, TABLE).by_bounds(pa.array(groups, pa.string())).to_pylist()
    assert found == [kept, kept or text == "region IS NULL", True, True]


def test_who_sees_nothing_needs_no_group() -> None:
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
WHOLE = st.fixed_dictionaries(
    {
        "site": st.sampled_from([None, "a"]),
        "region": st.sampled_from([None, "a", "b", ""]),
        "year": st.sampled_from([None, "1", "2", "odd"]),
    }
)


@settings(max_examples=tries(40), deadline=None)
@given(
    filters=st.lists(st.sampled_from(FILTERS), max_size=2),
    files=st.lists(WHOLE, max_size=12) | st.lists(PARTITIONS | st.none(), max_size=12),
    cut=st.integers(0, 3),
    properties=st.sampled_from([{}, {"p": "x"}, {"p": '["a"]'}]),
)
def test_a_mask_says_what_each_file_is_told(
    filters: list[str], files: list[dict[str, str | None] | None], cut: int, properties: dict[str, str]
) -> None:
    evaluated = evaluate(list(map(parse, filters)), properties, TABLE)
    rows = [None if file is None else list(file.items()) for file in files]
    maps = pa.array(rows, pa.map_(pa.string(), pa.string()))[cut:]
    mask = evaluated.mask(maps)
    assert mask.type == pa.bool_()
    assert mask.to_pylist() == list(map(evaluated.sees, files[cut:]))
    if evaluated.columns:
        assert by_file(list(evaluated.columns), evaluated.shows, maps).to_pylist() == mask.to_pylist()


def test_a_key_that_is_given_twice_hides_the_file() -> None:
    evaluated = evaluate([parse("region = 'a'")], {}, TABLE)
    rows = [[("region", "b"), ("region", "a")], [("region", "a"), ("region", "a")], [("year", "1"), ("region", "a")]]
    maps = pa.array(rows, pa.map_(pa.string(), pa.string()))
    assert evaluated.mask(maps).to_pylist() == [False, False, True]


def test_a_file_without_a_map_is_hidden_and_one_with_an_empty_map_is_all_null() -> None:
    maps = pa.array([None, [], [("region", None)]], pa.map_(pa.string(), pa.string()))
    assert evaluate([parse("region IS NULL")], {}, TABLE).mask(maps).to_pylist() == [False, True, True]
    assert evaluate([], {}, TABLE).mask(maps).to_pylist() == [True, True, True]


def test_a_mask_of_many_files_asks_once_for_each_combination() -> None:
    count = 100_000
    keys = pa.array(["region", "year"] * count)
    items = pa.array([text for at in range(count) for text in (f"r{at % 7}", str(at % 11))])
    maps = pa.MapArray.from_arrays(pa.array(range(0, 2 * count + 1, 2), pa.int32()), keys, items)
    mask = evaluate([parse("region = 'r3' AND year <> 4")], {}, TABLE).mask(maps)
    assert mask.to_pylist() == [at % 7 == 3 and at % 11 != 4 for at in range(count)]


@settings(max_examples=tries(40), deadline=None)
@given(
    values=st.dictionaries(st.sampled_from(sorted(TYPES)), st.none() | st.text(max_size=12)),
    properties=st.dictionaries(st.sampled_from(["p", "q"]), st.text(max_size=12)),
    name=st.sampled_from(sorted(TYPES)),
    negated=st.booleans(),
)
def test_no_text_of_a_value_or_a_property_is_an_error(
    values: dict[str, str | None], properties: dict[str, str], name: str, *, negated: bool
) -> None:
    for text in (f"{name} <= current_recipient('p')", f"{name} IN current_recipient('p') OR {name} IS NULL"):
        evaluated = evaluate([parse(f"NOT ({text})" if negated else text)], properties, TABLE)
        shown = evaluated.sees(values)
        assert not shown or "p" in properties
