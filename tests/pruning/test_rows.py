"""Test pruning against brute force over real Parquet files: no file with a matching row is dropped."""

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_hints import SENT, as_connector
from deltaic.pruning.expressions import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    StartsWith,
    Unknown,
)
from deltaic.pruning.json_hints import parse_json
from deltaic.pruning.skipper import Skipper
from deltaic.pruning.sql_hints import parse_sql
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import tries
from row_oracle import Session, as_json, as_sql, single

pytestmark = pytest.mark.slow

ZONES = ("UTC", "America/New_York", "Asia/Tokyo", "Pacific/Apia")
TYPES = {
    "sh": "short",
    "i": "integer",
    "l": "long",
    "f": "float",
    "d": "double",
    "dec": "decimal(8,2)",
    "wide": "decimal(30,6)",
    "s": "string",
    "u": "string",
    "b": "boolean",
    "day": "date",
    "ts": "timestamp",
    "ntz": "timestamp_ntz",
}
NESTED = {"n.l": "long", "n.s": "string"}
PARTITIONS = {"pl": "long", "pd": "double", "ps": "string", "pday": "date", "pts": "timestamp"}
ALL_TYPES = TYPES | NESTED | PARTITIONS
ARROW = {
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(8,2)": pa.decimal128(8, 2),
    "decimal(30,6)": pa.decimal128(30, 6),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(names: Sequence[str]) -> Any:
    """Return the struct type of these columns."""
    fields = [(name, ARROW[TYPES[name]]) for name in names if name in TYPES]
    inner = [(name[2:], ARROW[NESTED[name]]) for name in names if name in NESTED]
    return pa.struct([*fields, *([("n", pa.struct(inner))] if inner else [])])


_STEM = "https://example.org/a/long/st"
_INSTANTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 -- wall clocks are what is tested
    datetime(1970, 1, 1),  # noqa: DTZ001 -- as above
    datetime(2021, 3, 14, 2, 30),  # noqa: DTZ001 -- skipped by the clocks of New York
    datetime(2021, 4, 28, 23, 33, 48, 719_001),  # noqa: DTZ001 -- as above
    datetime(2021, 4, 28, 23, 33, 48, 719_999),  # noqa: DTZ001 -- as above
    datetime(2021, 4, 29, 12),  # noqa: DTZ001 -- as above
    datetime(9998, 12, 30, 1, 2, 3, 4),  # noqa: DTZ001 -- as above
]
_DOUBLES = [math.nan, -math.inf, math.inf, -0.0, 0.0, 1.1, 1.5, -2.5, 16777217.0, 9007199254740993.0, 1e308, 5e-324]
_STRINGS = ["", "a", "ab", "\u00e9", "\ufffd", "\U0001f600", "\U0010ffff", "?", "__HIVE_DEFAULT_PARTITION__"]
_LONG = [
    *(_STEM + tail for tail in ("aab", "aab\U0001f600", "aa\U0001f600b", "aab?", "aab\ufffdz")),
    _STEM + "aab\U0010ffff\U0010ffff",
]
POOLS: dict[str, list[Any]] = {
    "short": [-(2**15), -1, 0, 1, 2, 7, 2**15 - 1],
    "integer": [-(2**31), -1, 0, 1, 2, 7, 2**31 - 1],
    "long": [-(2**63), -1, 0, 1, 2, 7, 2**53, 2**53 + 1, 2**63 - 1],
    "float": [single(n) for n in _DOUBLES if not 1e39 < n < math.inf],
    "double": _DOUBLES,
    "decimal(8,2)": [Decimal(text) for text in ("-999999.99", "-1.50", "0.00", "0.01", "1.10", "7.00", "999999.99")],
    "decimal(30,6)": [
        Decimal(text)
        for text in ("0.000000", "7.000000", "123456789012345678.000001", "123456789012345678.000002", "-1.100000")
    ],
    "string": _STRINGS,
    "u": _LONG,
    "boolean": [True, False],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(2021, 4, 28), date(2021, 4, 29), date(9999, 12, 31)],
    "timestamp": [moment.replace(tzinfo=UTC) for moment in _INSTANTS],
    "timestamp_ntz": _INSTANTS,
}
LITERALS: dict[str, list[str]] = {
    "integer": ["-1", "0", "1", "2", "7", "2147483647", "-2147483648", "16777217"],
    "long": ["3", "9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808"],
    "decimal(3,1)": ["0.0", "1.1", "1.5", "-1.5", "7.0"],
    "decimal(24,6)": ["123456789012345678.000001", "123456789012345678.000002"],
    "float": ["1.1", "0.0", "16777216"],
    "double": ["1.1e0", "-0.0e0", "7e0", "9007199254740992e0", "1e309", "NaN", "-Infinity", "1.5e0"],
    "string": _STRINGS,
    "u": [*_LONG, _STEM, _STEM + "aab\U0001f601"],
    "boolean": ["true", "false"],
    "date": ["2021-04-28", "2021-04-29", "0001-01-01", "1969-12-31"],
    "timestamp": [
        "2021-04-28T23:33:48.719999Z",
        "2021-04-29T01:33:48.719001+02:00",
        "2021-03-14 02:30:00",
        "2021-04-29",
        "1969-12-31T23:59:59.999999Z",
        "9998-12-30 01:02:03.000004",
    ],
    "timestamp_ntz": ["2021-04-28 23:33:48.719999", "2021-04-29", "1970-01-01 00:00:00"],
}
COMPARABLE: dict[str, list[str]] = {
    **{kind: ["integer", "long", "decimal(3,1)", "double"] for kind in ("short", "integer", "long")},
    **{kind: ["integer", "long", "decimal(3,1)", "double", "float"] for kind in ("float", "double")},
    **{kind: ["integer", "decimal(3,1)", "decimal(24,6)", "double"] for kind in ("decimal(8,2)", "decimal(30,6)")},
    "string": ["string"],
    "boolean": ["boolean"],
    "date": ["date", "timestamp", "timestamp_ntz"],
    "timestamp": ["timestamp", "date"],
    "timestamp_ntz": ["timestamp_ntz", "date", "timestamp"],
}
# String literals that are unambiguous for the type.
AS_STRING = {
    "long": ["7", "-1"],
    "integer": ["7", "-1"],
    "double": ["1.5", "7"],
    "decimal(8,2)": ["1.5", "7"],
    "date": ["2021-04-28"],
    "timestamp": ["2021-04-28T23:33:48.719001Z", "2021-04-28 23:33:48", "2021-04-29"],
    "timestamp_ntz": ["2021-04-28 23:33:48.719001", "2021-04-29"],
}


OPERATORS: list[Operator] = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


def column(name: str) -> Column:
    return Column(tuple(name.split(".")))


@st.composite
def column_tests(draw: st.DrawFn, names: Sequence[str]) -> Expression:
    name = draw(st.sampled_from(names))
    kind = ALL_TYPES[name]
    operand = column(name)
    texts = LITERALS | ({"string": LITERALS["u"]} if name == "u" else {})

    def literal() -> Literal:
        if draw(st.integers(0, 19)) == 0:
            return Literal(None, "string")
        if kind in AS_STRING and draw(st.integers(0, 4)) == 0:
            return Literal(draw(st.sampled_from(AS_STRING[kind])), "string")
        literal_type = draw(st.sampled_from(COMPARABLE[kind]))
        return Literal(draw(st.sampled_from(texts[literal_type])), literal_type)

    shape = draw(st.sampled_from(["compare", "compare", "compare", "between", "null", "in", "special", "unknown"]))
    if shape == "null":
        return IsNull(operand)
    if shape == "unknown":
        return Unknown()
    if shape == "in":
        return In(operand, tuple(literal() for _ in range(draw(st.sampled_from([1, 2, 3, 20])))))
    if shape == "between":
        return And((Comparison(">=", operand, literal()), Comparison("<=", operand, literal())))
    if shape == "special" and kind == "string":
        return StartsWith(operand, draw(st.sampled_from(texts["string"])))
    if shape == "special" and kind == "boolean":
        return operand
    operator: Operator = draw(st.sampled_from(OPERATORS))
    if shape == "special" and kind in {"timestamp", "timestamp_ntz"}:
        return Comparison(operator, Cast(operand, "date"), Literal(draw(st.sampled_from(LITERALS["date"])), "date"))
    sides = (operand, literal())
    return Comparison(operator, *(sides if draw(st.booleans()) else sides[::-1]))


def predicates(names: Sequence[str], size: int) -> st.SearchStrategy[Expression]:
    return st.recursive(
        column_tests(names),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda children: And(tuple(children))),
            st.lists(inner, min_size=2, max_size=3).map(lambda children: Or(tuple(children))),
            inner.map(Not),
        ),
        max_leaves=size,
    )


def replace_unknown(predicate: Expression, *, negated: bool = False) -> Expression:
    """Return the predicate with unknown parts replaced by true, also below NOT."""
    match predicate:
        case And(children):
            return And(tuple(replace_unknown(child, negated=negated) for child in children))
        case Or(children):
            return Or(tuple(replace_unknown(child, negated=negated) for child in children))
        case Not(operand):
            return Not(replace_unknown(operand, negated=not negated))
        case Unknown():
            return Not(Or(())) if not negated else Or(())
        case _:
            return predicate


@dataclass
class DataFile:
    """A Parquet file with some columns, its partition values as in a log, and its statistics."""

    names: Sequence[str]
    rows: list[dict[str, Any]]
    partition_values: dict[str, str | None]
    partition_rows: list[dict[str, Any]]
    stats: dict[str, Any] | None = field(default=None)


PARTITION_TEXTS: dict[str, list[tuple[str | None, list[Any]]]] = {
    "pl": [("7", [7]), ("-1", [-1]), ("9007199254740993", [2**53 + 1]), (None, [None]), ("", [None])],
    "pd": [("NaN", [math.nan]), ("1.1", [1.1]), ("-0.0", [-0.0]), ("Infinity", [math.inf]), (None, [None])],
    "ps": [
        *((text, [text]) for text in _STRINGS[1:-1]),
        ("", ["", None]),
        ("__HIVE_DEFAULT_PARTITION__", [None, "__HIVE_DEFAULT_PARTITION__"]),
        (None, [None]),
    ],
    "pday": [("2021-04-28", [date(2021, 4, 28)]), ("0001-01-01", [date(1, 1, 1)]), (None, [None])],
    "pts": [
        ("2021-04-28T23:33:48.719001Z", [_INSTANTS[3].replace(tzinfo=UTC)]),
        ("2021-04-28 23:33:48.719001", [_INSTANTS[3]]),
        ("2021-03-14 02:30:00", [_INSTANTS[2]]),
        (None, [None]),
    ],
}


@st.composite
def data_files(draw: st.DrawFn, names: Sequence[str]) -> DataFile:
    partitions = {name: draw(st.sampled_from(PARTITION_TEXTS[name])) for name in names if name in PARTITIONS}
    nulls = draw(st.sampled_from([0, 0, 4, 10]))  # tenths of the values

    def value(kind: str) -> Any:
        return None if draw(st.integers(1, 10)) <= nulls else draw(st.sampled_from(POOLS[kind]))

    def row() -> dict[str, Any]:
        columns = {name: value("u" if name == "u" else TYPES[name]) for name in names if name in TYPES}
        inner = {name[2:]: value(NESTED[name]) for name in names if name in NESTED}
        return columns | ({"n": inner if draw(st.integers(1, 10)) > nulls else None} if inner else {})

    rows = [row() for _ in range(draw(st.integers(0, 3)))]
    keys = draw(st.permutations(sorted(partitions))) if draw(st.integers(0, 3)) == 0 else list(partitions)
    readings: list[dict[str, Any]] = [{}]
    for name in keys:
        readings = [partial | {name: reading} for partial in readings for reading in partitions[name][1]]
    data_file = DataFile(names, rows, {name: partitions[name][0] for name in keys}, readings)
    writer = draw(st.sampled_from([spark_statistics, spark_statistics, footer_statistics, no_statistics]))
    data_file.stats = writer(data_file)
    if data_file.stats and draw(st.integers(0, 7)) == 0:
        del data_file.stats[draw(st.sampled_from(sorted(data_file.stats)))]
    return data_file


def leaf(row: Mapping[str, Any], name: str) -> Any:
    for part in name.split("."):
        row = None if row is None else row[part]
    return row


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        outer, _, inner = name.rpartition(".")
        (nested.setdefault(outer, {}) if outer else nested)[inner] = value
    return nested


def no_statistics(_: DataFile) -> None:
    return None


def spark_statistics(data: DataFile) -> dict[str, Any]:
    """Return statistics as Spark writes them: cut strings and times, NaN as the maximum."""
    lower, upper, nulls = {}, {}, {}
    for name in data.names:
        if name in PARTITIONS:
            continue
        kind = ALL_TYPES[name]
        values = [value for row in data.rows if (value := leaf(row, name)) is not None]
        nulls[name] = len(data.rows) - len(values)
        if not values or kind == "boolean":
            continue
        key = (lambda v: (math.isnan(v), v)) if kind in {"float", "double"} else None
        lower[name], upper[name] = cut(min(values, key=key), kind, top=False), cut(max(values, key=key), kind, top=True)
    return {"numRecords": len(data.rows), "minValues": nest(lower), "maxValues": nest(upper), "nullCount": nest(nulls)}


def cut(value: Any, kind: str, *, top: bool) -> Any:
    if kind in {"timestamp", "timestamp_ntz"}:
        return value - timedelta(microseconds=value.microsecond % 1000)
    units = value.encode("utf-16-le") if kind == "string" else b""
    if len(units) <= 64:
        return value
    # Java writes half of a cut surrogate pair as a question mark.
    text = units[:64].decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()
    if not top:
        return text
    rest = units[64:]
    while rest and int.from_bytes(rest[:2], "little") >= 0xFFFD:
        text += rest[:2].decode("utf-16-le")
        rest = rest[2:]
    return text + "\ufffd"


def footer_statistics(data: DataFile) -> dict[str, Any] | None:
    """Return statistics as some writers copy them from the Parquet footer: without NaN, nothing cut."""
    kind = arrow_type(data.names)
    if not kind.num_fields:  # only partition columns: such a Parquet file has no rows
        return None
    table = pa.Table.from_struct_array(pa.array(data.rows, kind))
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    assert pq.read_table(buffer).num_rows == len(data.rows)
    footer = pq.read_metadata(buffer)
    if footer.num_row_groups != 1:
        return None
    group = footer.row_group(0)
    lower, upper, nulls = {}, {}, {}
    for position in range(group.num_columns):
        chunk = group.column(position)
        name = chunk.path_in_schema
        if chunk.statistics is None or not chunk.statistics.has_null_count:
            continue
        nulls[name] = chunk.statistics.null_count
        if chunk.statistics.has_min_max:
            lower[name], upper[name] = chunk.statistics.min, chunk.statistics.max
    return {"numRecords": len(data.rows), "minValues": nest(lower), "maxValues": nest(upper), "nullCount": nest(nulls)}


def as_text(value: Any) -> str:
    """Return statistics as JSON: decimals with all digits, NaN and infinities as strings."""
    match value:
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}:{as_text(inner)}" for key, inner in value.items()) + "}"
        case Decimal():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
        case datetime():
            text = value.isoformat(timespec="milliseconds" if value.microsecond % 1000 == 0 else "microseconds")
            return json.dumps(text.replace("+00:00", "Z"))
        case date():
            return json.dumps(value.isoformat())
        case _:
            return json.dumps(value)


def typed_statistics(files: list[DataFile]) -> pa.StructArray:
    bounds = arrow_type([name for name in files[0].names if name != "b"])
    counts = count_type(arrow_type(files[0].names))
    kind = pa.struct(
        [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)],
    )
    return pa.array([data.stats for data in files], kind)


def count_type(kind: Any) -> Any:
    return pa.struct([(f.name, count_type(f.type) if pa.types.is_struct(f.type) else pa.int64()) for f in kind])


@dataclass(frozen=True)
class Metadata:
    """Metadata of a table for pruning."""

    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]


def metadata(*, mapped: bool) -> Metadata:
    def described(name: str, kind: Any) -> dict[str, Any]:
        extra = {"delta.columnMapping.physicalName": f"col-{name}", "delta.columnMapping.id": 1} if mapped else {}
        return {"name": name, "type": kind, "nullable": True, "metadata": extra}

    inner = {"type": "struct", "fields": [described(name[2:], kind) for name, kind in NESTED.items()]}
    fields = [described(name, kind) for name, kind in (TYPES | PARTITIONS).items()]
    schema = {"type": "struct", "fields": [*fields, described("n", inner)]}
    return Metadata(json.dumps(schema), list(PARTITIONS), {"delta.columnMapping.mode": "name"} if mapped else {})


def physical(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if key in {"numRecords", "minValues", "maxValues", "nullCount"} else f"col-{key}": physical(inner)
            for key, inner in value.items()
        }
    return value


def mapped_type(kind: Any, depth: int = 0) -> Any:
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([(f.name if depth == 0 else f"col-{f.name}", mapped_type(f.type, depth + 1)) for f in kind])


def verdicts(predicate: Expression | None, files: list[DataFile], *, mapped: bool) -> dict[str, list[bool]]:
    """Return the results of all pruning steps for the files; without a predicate none."""
    if predicate is None:
        return {}
    skipper = Skipper(predicate, metadata(mapped=mapped))
    partitions: list[Any] = [physical(f.partition_values) if mapped else f.partition_values for f in files]
    maps = pa.array([list(file_stats.items()) for file_stats in partitions], pa.map_(pa.string(), pa.string()))
    stats = [None if f.stats is None else physical(f.stats) if mapped else f.stats for f in files]
    texts = pa.array([None if file_stats is None else as_text(file_stats) for file_stats in stats], pa.string())
    typed = typed_statistics(files)
    if mapped:
        typed = pa.array(stats, mapped_type(typed.type))
    masks = {
        "partition": skipper.by_partition(maps),
        "json": skipper.by_json_statistics(maps, texts),
        "typed": skipper.by_typed_statistics(maps, typed),
    }
    no_values = pa.array([None] * len(files), pa.map_(pa.string(), pa.string()))
    if skipper.needs_statistics and not skipper.needs_partition_values:
        assert masks["partition"].true_count == len(files)
        assert skipper.by_json_statistics(no_values, texts) == masks["json"]
        assert skipper.by_typed_statistics(no_values, typed) == masks["typed"]
    for at, (by_json, by_typed) in enumerate(zip(masks["json"].to_pylist(), masks["typed"].to_pylist(), strict=True)):
        assert by_json or not by_typed or not skipper.is_decided_by(typed.slice(at, 1)), as_sql(predicate)
    for mask in masks.values():
        assert mask.type == pa.bool_()
        assert len(mask) == len(files)
        assert mask.null_count == 0
    return {path: mask.to_pylist() for path, mask in masks.items()}


def matching(predicate: Expression, data: DataFile, zones: Sequence[str] = ZONES) -> bool:
    return any(
        session.truth(predicate, row | partition) is True
        for session in (Session(ALL_TYPES, zone) for zone in zones)
        for partition in data.partition_rows
        for row in data.rows
    )


def check(predicate: Expression, files: list[DataFile], *, mapped: bool) -> None:
    """Assert that no pruning step, for any form of the predicate, drops a file with a matching row."""
    expected = [matching(replace_unknown(predicate), data) for data in files]
    forms = {
        "tree": predicate,
        "SQL": parse_sql([as_sql(predicate)]),
        "JSON": parse_json(as_json(predicate, ALL_TYPES)),
    }
    for form, parsed in forms.items():
        for path, mask in verdicts(parsed, files, mapped=mapped).items():
            dropped = [
                i for i, (is_kept, matches) in enumerate(zip(mask, expected, strict=True)) if matches and not is_kept
            ]
            assert not dropped, (form, path, dropped, as_sql(predicate))


def check_connector(predicate: Expression, files: list[DataFile]) -> None:
    """Assert that the connector's hint, in any session time zone, drops no file with a matching row."""
    for hint, zone in {as_connector(predicate, ALL_TYPES, zone): zone for zone in reversed(ZONES)}.items():
        expected = [matching(replace_unknown(predicate), data, [zone]) for data in files]
        for path, mask in verdicts(parse_json(hint), files, mapped=False).items():
            dropped = [
                i for i, (is_kept, matches) in enumerate(zip(mask, expected, strict=True)) if matches and not is_kept
            ]
            assert not dropped, (zone, path, dropped, as_sql(predicate), hint)


def with_examples(count: int) -> settings:
    return settings(deadline=None, max_examples=tries(count), suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", sorted(ALL_TYPES))
@given(data=st.data())
@with_examples(40)
def test_no_file_with_a_matching_row_is_dropped_for_any_type(name: str, data: st.DataObject) -> None:
    files = data.draw(st.lists(data_files([name]), min_size=1, max_size=6))
    check(data.draw(predicates([name], 3)), files, mapped=False)


@pytest.mark.parametrize("mapped", [False, True], ids=["logical names", "column mapping"])
@given(data=st.data())
@with_examples(60)
def test_no_file_with_a_matching_row_is_dropped_for_any_predicate(data: st.DataObject, *, mapped: bool) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(ALL_TYPES)), min_size=2, max_size=4, unique=True))
    files = data.draw(st.lists(data_files(names), min_size=1, max_size=4))
    check(data.draw(predicates(names, 6)), files, mapped=mapped)


@pytest.mark.parametrize("name", sorted({name for name, kind in ALL_TYPES.items() if kind in SENT} - set(NESTED)))
@given(data=st.data())
@with_examples(40)
def test_no_matching_file_is_dropped_by_a_hint_of_the_connector(name: str, data: st.DataObject) -> None:
    files = data.draw(st.lists(data_files([name]), min_size=1, max_size=6))
    check_connector(data.draw(predicates([name], 3)), files)


@given(data=st.data())
@with_examples(60)
def test_no_matching_file_is_dropped_by_a_hint_about_several_columns(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(ALL_TYPES)), min_size=2, max_size=4, unique=True))
    files = data.draw(st.lists(data_files(names), min_size=1, max_size=4))
    check_connector(data.draw(predicates(names, 6)), files)
