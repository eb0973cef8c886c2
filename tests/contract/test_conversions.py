"""Filters as clients send them: of every type and operator, in both dialects, what the server makes of what arrives.

A client cuts, casts and drops before it sends. The first table says for each type how far a value may lie from the
literal that arrives and still be meant; everything else is decided exactly. The second names each conversion of
Spark's connector (`OpConverter` of its client) that makes a hint mean more than it says, and what it must keep.
"""

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from connector_hints import as_connector, cut
from contract.logs import TableLog, column
from contract.recipient import Table
from contract.server import Server
from deltaic.pruning.expressions import Column, Comparison, Expression, In, IsNull, Literal, Not, Or
from row_oracle import as_sql

pytestmark = pytest.mark.slow

MICROSECOND: Final = timedelta(microseconds=1)
NOON: Final = datetime(2026, 1, 1, 10, 20, 30, 123_456, tzinfo=UTC)
OLD: Final = datetime(1965, 1, 1, 10, 20, 30, 123_456, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """A type: three values in order, of which filters name the middle one, and how it is sent."""

    arrow: pa.DataType
    name: str
    values: Sequence[Any]
    literal: str
    cut: timedelta = timedelta()
    """How far a literal in JSON may be from what was written, and so may statistics from the values."""
    offset: timedelta = timedelta()
    """How far statistics may be from the values because old writers cut the offset of local mean time to minutes."""
    sent: bool = True
    """Whether the connector has a name for the type; of others it sends no hint."""


def around(instant: datetime) -> tuple[datetime, ...]:
    """Return a time with neighbours that a cut to milliseconds can and cannot confuse with it."""
    return tuple(instant + offset * MICROSECOND for offset in (-4000, -1455, -456, 0, 1, 543, 1500, 4000))


def iso(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


KINDS: Final[Mapping[str, Kind]] = {
    "boolean": Kind(pa.bool_(), "boolean", (False, True), "true"),
    "integer": Kind(pa.int32(), "integer", (-(2**31), 6, 7, 8), "7"),
    "long": Kind(pa.int64(), "long", (-1, 2**53, 2**53 + 1, 2**53 + 2), str(2**53 + 1)),
    "short": Kind(pa.int16(), "short", (6, 7, 8), "7", sent=False),
    "float": Kind(pa.float32(), "float", (-0.25, 0.5, 0.75), "0.5"),
    "double": Kind(pa.float64(), "double", (-0.0, 19.98, 19.99, 19.990000000000002), "19.99"),
    "decimal": Kind(
        pa.decimal128(10, 2), "decimal(10,2)", tuple(map(Decimal, ("1.49", "1.50", "1.51"))), "1.50", sent=False
    ),
    "string": Kind(pa.string(), "string", ("a", "it's", 'it"s \\ %_\u2028\u00e9', "null"), "it's"),
    "date": Kind(pa.date32(), "date", (date(1, 1, 1), date(2025, 12, 31), date(2026, 1, 1)), "2025-12-31"),
    "timestamp": Kind(pa.timestamp("us", "UTC"), "timestamp", around(NOON), iso(NOON), 999 * MICROSECOND),
    "timestamp before 1970": Kind(
        pa.timestamp("us", "UTC"),
        "timestamp",
        (OLD - timedelta(minutes=2), *around(OLD), OLD + timedelta(minutes=2)),
        iso(OLD),
        999 * MICROSECOND,
        timedelta(minutes=1),
    ),
}


def name_of(kind: str) -> str:
    return kind.replace(" ", "_")


def text_of(value: Any) -> str:
    """Write a partition value as the log has it (Delta protocol, "Partition Value Serialization")."""
    if isinstance(value, bool):
        return str(value).lower()
    return iso(value) if isinstance(value, datetime) else str(value)


SCHEMA: Final = pa.schema(
    [column("file", pa.string())]
    + [column(f"{prefix}_{name_of(kind)}", kind_.arrow) for prefix in ("p", "d") for kind, kind_ in KINDS.items()]
)
TYPES: Final = {field.name: KINDS[field.name[2:].replace("_", " ")].name for field in list(SCHEMA)[1:]}


@pytest.fixture(scope="module")
def typed(server: Server) -> Iterator[Table]:
    """Return a table with a file for each value of each type, as a column and as a partition."""
    partitions = ("file", *(f"p_{name_of(kind)}" for kind in KINDS))
    log = server.shelf.log("conversions", SCHEMA, partitions=partitions, timed=False)
    log.create(*(_file(log, kind, value) for kind, kind_ in KINDS.items() for value in (*kind_.values, None)))
    server.admin.tables.create("share1", "default", "conversions", log.location)
    yield Table(server.alice, "share1", "default", "conversions")
    server.admin.tables.delete("share1", "default", "conversions")


def _file(log: TableLog, kind: str, value: Any) -> dict[str, Any]:
    name = name_of(kind)
    partition: dict[str, Any] = {} if value is None else {f"p_{name}": text_of(value)}
    action = log.add([{f"d_{name}": value}], file=f"{kind}: {value}", **partition)
    stats = json.loads(action["add"]["stats"])
    if KINDS[kind].name == "boolean":  # of which Spark writes no bounds
        stats["minValues"], stats["maxValues"] = {}, {}
    action["add"]["stats"] = json.dumps(stats)
    return action


Holds = Callable[[Any, Any], bool]
OPERATORS: Final[Mapping[str, tuple[Callable[[Column, Literal], Expression], Holds]]] = {
    "=": (lambda c, v: Comparison("=", c, v), operator.eq),
    "<>": (lambda c, v: Comparison("<>", c, v), operator.ne),
    "<": (lambda c, v: Comparison("<", c, v), operator.lt),
    "<=": (lambda c, v: Comparison("<=", c, v), operator.le),
    ">": (lambda c, v: Comparison(">", c, v), operator.gt),
    ">=": (lambda c, v: Comparison(">=", c, v), operator.ge),
    "<=>": (lambda c, v: Comparison("<=>", c, v), operator.eq),
    "in": (lambda c, v: In(c, (v, v)), operator.eq),
    "not =": (lambda c, v: Not(Comparison("=", c, v)), operator.ne),
    "not <": (lambda c, v: Not(Comparison("<", c, v)), operator.ge),
    "not <=>": (lambda c, v: Not(Comparison("<=>", c, v)), operator.ne),
    "not >=": (lambda c, v: Not(Comparison(">=", c, v)), operator.lt),
    "not in": (lambda c, v: Not(In(c, (v,))), operator.ne),
    "or": (lambda c, v: Or((Comparison("<", c, v), Comparison(">", c, v))), operator.ne),
}
NULL_TOO: Final = {"not <=>"}
"""Operators that hold for null."""


def meant(kind_: Kind, holds: Holds, dialect: str, prefix: str) -> set[str]:
    """Return the values that a filter must keep; it can keep no others."""
    if prefix == "d" and (kind_.name == "boolean" or (kind_.name in {"float", "double"} and holds in ABOVE)):
        return set(map(str, kind_.values))  # no bounds; and NaN, which bounds may leave out, is above everything
    literal: Any = next(value for value in kind_.values if text_of(value) == kind_.literal)
    if kind_.name != "timestamp":
        return {str(value) for value in kind_.values if holds(value, literal)}
    arrives = literal if dialect == "SQL" else datetime.fromisoformat(cut(literal))
    slack = (kind_.cut if dialect == "JSON" else timedelta()) + (
        kind_.cut + kind_.offset if prefix == "d" else timedelta()
    )
    names = set()
    for value in kind_.values:
        bound = value if prefix == "p" else value.replace(microsecond=value.microsecond // 1000 * 1000)
        nearest = min(max(bound, arrives - slack), arrives + slack)
        if any(holds(bound, time_) for time_ in (arrives - slack, nearest, arrives + slack)):
            names.add(str(value))
    return names


ABOVE: Final = (operator.gt, operator.ge, operator.ne)


def matching_rows(table: Table, kind: str, **hints: Any) -> set[str]:
    names = {line["partitionValues"]["file"] for line in table.query(**hints).only("file")}
    return {name.removeprefix(f"{kind}: ") for name in names if name.startswith(f"{kind}: ")}


@pytest.mark.parametrize("shape", OPERATORS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_converted_predicate_keeps_exactly_the_possible_rows(typed: Table, kind: str, shape: str) -> None:
    kind_, (build, holds) = KINDS[kind], OPERATORS[shape]
    null = {"None"} if shape in NULL_TOO else set()
    for prefix in ("p", "d"):
        predicate = build(Column((f"{prefix}_{name_of(kind)}",)), Literal(kind_.literal, kind_.name))
        in_sql = {"predicateHints": [as_sql(predicate)]}
        sql = matching_rows(typed, kind, **in_sql)
        assert sql == meant(kind_, holds, "SQL", prefix) | null, in_sql
        hint = as_connector(predicate, TYPES)
        assert bool(hint) == kind_.sent
        if hint:
            in_json = {"jsonPredicateHints": hint}
            assert matching_rows(typed, kind, **in_json) == meant(kind_, holds, "JSON", prefix) | null, hint
            assert matching_rows(typed, kind, **in_sql, **in_json) == sql


@pytest.mark.parametrize("kind", KINDS)
def test_nulls_and_values_are_distinguished(typed: Table, kind: str) -> None:
    everything = {str(value) for value in (*KINDS[kind].values, None)}
    for prefix in ("p", "d"):
        tested = Column((f"{prefix}_{name_of(kind)}",))
        for predicate, expected in ((IsNull(tested), {"None"}), (Not(IsNull(tested)), everything - {"None"})):
            assert matching_rows(typed, kind, predicateHints=[as_sql(predicate)]) == expected
            hint = as_connector(predicate, TYPES)
            assert matching_rows(typed, kind, jsonPredicateHints=hint) == (expected if hint else everything)


def col(kind: str, declared: str | None = None) -> dict[str, Any]:
    return {"op": "column", "name": kind, "valueType": declared or kind[2:]}


def lit(text: str, kind: str) -> dict[str, Any]:
    return {"op": "literal", "value": text, "valueType": kind}


def op(name: str, *children: Any) -> dict[str, Any]:
    return {"op": name, "children": list(children)}


def null_safe(first: Any, right: Any) -> dict[str, Any]:
    """Return what the connector makes of `<=>`."""
    left_null, right_null = op("isNull", first), op("isNull", right)
    both = op("and", op("not", left_null), op("not", right_null), op("equal", first, right))
    return op("or", op("and", left_null, right_null), both)


CONVERSIONS: Final[Mapping[str, tuple[str, dict[str, Any], str, set[str]]]] = {
    # Predicate of the user: the sent literal, its type, and the values for which the filter can be true.
    "cast(d as bigint) = 5.0D": (
        "the literal's type tells of an outer cast",
        op("equal", col("p_double", "long"), lit("19.0", "double")),
        "double",
        {"-0.0", "19.98", "19.99", "19.990000000000002"},
    ),
    "cast(cast(d as string) as double) = 19.9": (
        "of two casts the inner one is sent",
        op("equal", col("p_double", "string"), lit("19.9", "double")),
        "double",
        {"-0.0", "19.98", "19.99", "19.990000000000002"},
    ),
    "cast(cast(i as bigint) as string) < '6'": (
        "an order of texts, not of numbers",
        op("lessThan", col("p_integer", "long"), lit("6", "string")),
        "integer",
        {str(-(2**31)), "6", "7", "8"},
    ),
    "cast(cast(f as double) as decimal(10,1)) = 0.0D": (
        "a cast that keeps every value, within others that do not",
        op("equal", col("p_float", "double"), lit("0.0", "double")),
        "float",
        {"-0.25", "0.5", "0.75"},
    ),
    "cast(s as date) = '2026-01-01'": (
        "texts that are read as dates",
        op("equal", col("p_string", "date"), lit("2026-01-01", "date")),
        "string",
        {"a", "it's", 'it"s \\ %_\u2028\u00e9', "null"},
    ),
    "cast(cast(s as boolean) as string)": (
        "a column that stands alone, as another type",
        col("p_integer", "bool"),
        "integer",
        {str(-(2**31)), "6", "7", "8"},
    ),
    "s <=> null": (
        "null is written as its name",
        null_safe(col("p_string"), lit("null", "string")),
        "string",
        {"None", "null"},
    ),
    "s <=> 'a'": (
        "which leaves other texts alone",
        null_safe(col("p_string"), lit("a", "string")),
        "string",
        {"a"},
    ),
    "ts <=> null": (
        "a null time is written as the epoch",
        null_safe(col("p_timestamp"), lit("1970-01-01T00:00:00Z", "timestamp")),
        "timestamp",
        {"None"},
    ),
    "s < X'FF'": (
        "bytes that are no text become U+FFFD, which says nothing of their order",
        op("lessThan", col("p_string"), lit("\ufffd", "string")),
        "string",
        {"a", "it's", 'it"s \\ %_\u2028\u00e9', "null"},
    ),
    "s < 'it' (and no bytes are wrong)": (
        "which a text without it does",
        op("lessThan", col("p_string"), lit("it", "string")),
        "string",
        {"a"},
    ),
    "ts < timestamp'+12000-01-01'": (
        "a year that has no four digits",
        op("not", op("lessThan", col("p_timestamp"), lit("+12000-01-01T00:00:00Z", "timestamp"))),
        "timestamp",
        set(map(str, around(NOON))),
    ),
}


@pytest.mark.parametrize("written", CONVERSIONS)
def test_rows_of_dropped_conditions_are_not_lost(typed: Table, written: str) -> None:
    _, sent, kind, remaining = CONVERSIONS[written]
    assert matching_rows(typed, kind, jsonPredicateHints=json.dumps(sent)) - {"None"} == remaining - {"None"}
    if "None" in remaining:
        assert "None" in matching_rows(typed, kind, jsonPredicateHints=json.dumps(sent))
