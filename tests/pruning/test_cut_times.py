"""Test that no file with a matching row is dropped if the client cuts times to milliseconds."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from connector_hints import as_connector
from deltaic.pruning.expressions import (
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    conjunction,
)
from deltaic.pruning.json_hints import parse_json
from deltaic.pruning.skipper import Skipper
from deltaic.pruning.sql_hints import parse_sql
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from row_oracle import as_sql

MICROSECOND: Final = timedelta(microseconds=1)
LEAST: Final = datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC)
GREATEST: Final = datetime(9999, 12, 31, 23, 59, 58, tzinfo=UTC)
NEAR: Final = (*range(-2002, 2003, 143), -1000, -999, -998, -1, 0, 1, 998, 999, 1000, 1998, 1999)
"""Microseconds between the time of a filter and that of a row."""
MAP: Final = pa.map_(pa.string(), pa.string())
TYPES: Final = {"p": "timestamp", "d": "timestamp"}
OPERATORS: Final[tuple[Operator, ...]] = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True)
class Metadata:
    """Metadata of a table with a partition column and a data column of times."""

    schema_string: str = json.dumps(
        {
            "type": "struct",
            "fields": [{"name": name, "type": "timestamp", "nullable": True, "metadata": {}} for name in TYPES],
        }
    )
    partition_columns: tuple[str, ...] = ("p",)
    configuration: dict[str, str] = field(default_factory=dict)


def iso(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def filters(
    name: str, instant: datetime, second_instant: datetime
) -> list[tuple[Expression, Callable[[datetime], bool]]]:
    """Return filters about a time, each with a function that says for which rows it holds."""
    column, literal = Column((name,)), Literal(iso(instant), "timestamp")
    second = Literal(iso(second_instant), "timestamp")
    holds: dict[Operator, Callable[[datetime], bool]] = {
        "=": lambda row: row == instant,
        "<>": lambda row: row != instant,
        "<": lambda row: row < instant,
        "<=": lambda row: row <= instant,
        ">": lambda row: row > instant,
        ">=": lambda row: row >= instant,
        "<=>": lambda row: row == instant,
    }
    filters_and_tests: list[tuple[Expression, Callable[[datetime], bool]]] = []
    opposite: dict[Operator, Operator] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "<=>": "<>"}
    for operator in OPERATORS:
        filters_and_tests.append((Comparison(operator, column, literal), holds[operator]))
        filters_and_tests.append((Not(Comparison(operator, column, literal)), holds[opposite[operator]]))
    low, high = min(instant, second_instant), max(instant, second_instant)
    ends = Literal(iso(low), "timestamp"), Literal(iso(high), "timestamp")
    between = And((Comparison(">=", column, ends[0]), Comparison("<=", column, ends[1])))
    filters_and_tests.append((between, lambda row: low <= row <= high))
    filters_and_tests.append((Not(between), lambda row: not low <= row <= high))
    filters_and_tests.append(
        (In(column, (literal, second, Literal(None, "timestamp"))), lambda row: row in {instant, second_instant})
    )
    filters_and_tests.append((Not(In(column, (literal, second))), lambda row: row not in {instant, second_instant}))
    filters_and_tests.append((Or((IsNull(column), Comparison("=", column, literal))), lambda row: row == instant))
    return filters_and_tests


def as_spark_writes(rows: Sequence[datetime]) -> str:
    """Return a file's statistics for these rows, with both bounds cut to milliseconds."""
    low, high = (time.isoformat(timespec="milliseconds").replace("+00:00", "Z") for time in (min(rows), max(rows)))
    counts = {"numRecords": len(rows), "nullCount": {"d": 0}}
    return json.dumps(counts | {"minValues": {"d": low}, "maxValues": {"d": high}})


def typed_statistics(files: Sequence[Sequence[datetime]]) -> pa.StructArray:
    def cut(instant: datetime) -> datetime:
        return instant.replace(microsecond=instant.microsecond // 1000 * 1000)

    times = pa.struct([("d", pa.timestamp("us", "UTC"))])
    kind = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", times),
            ("maxValues", times),
            ("nullCount", pa.struct([("d", pa.int64())])),
        ]
    )
    rows: list[Any] = [
        {
            "numRecords": len(time),
            "minValues": {"d": cut(min(time))},
            "maxValues": {"d": cut(max(time))},
            "nullCount": {"d": 0},
        }
        for time in files
    ]
    return pa.array(rows, kind)


def dialects(original: Expression) -> dict[str, Expression | None]:
    by_sql, by_json = parse_sql([as_sql(original)]), parse_json(as_connector(original, TYPES))
    return {"SQL": by_sql, "JSON": by_json, "both": conjunction(by_sql, by_json)}


INSTANTS: Final = st.integers(0, (GREATEST - LEAST) // MICROSECOND).map(lambda after: LEAST + after * MICROSECOND) | (
    st.sampled_from([0, -1, 999, -999, 1000, -1000, 1_500, -1_500]).map(
        lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + micros * MICROSECOND
    )
)


@settings(deadline=None, max_examples=tries(25))
@given(instant=INSTANTS, distance=st.integers(-2000, 2000), width=st.sampled_from([0, 0, 1, 700, 5000]))
def test_no_file_with_a_matching_time_is_dropped(instant: datetime, distance: int, width: int) -> None:
    """Each example tests about 5,000 combinations of filters, dialects and files."""
    nearby = [instant + offset * MICROSECOND for offset in NEAR]
    files = [[time, time + width * MICROSECOND] for time in nearby]
    partitions = pa.array([[("p", iso(time))] for time in nearby], MAP)
    texts, structs = pa.array(map(as_spark_writes, files), pa.string()), typed_statistics(files)
    for name in TYPES:
        for original, holds in filters(name, instant, instant + distance * MICROSECOND):
            expected = [holds(time) for time in nearby] if name == "p" else [any(map(holds, rows)) for rows in files]
            for dialect, predicate in dialects(original).items():
                assert predicate is not None, (dialect, original)
                skipper = Skipper(predicate, Metadata())
                answers = [skipper.by_partition(partitions)]
                if name == "d":
                    answers += [
                        skipper.by_json_statistics(partitions, texts),
                        skipper.by_typed_statistics(partitions, structs),
                    ]
                for answer in answers:
                    dropped = [at for at, want in enumerate(expected) if want and not answer[at].as_py()]
                    assert not dropped, (dialect, as_sql(original), [files[at] for at in dropped])


def test_files_with_distant_times_are_dropped() -> None:
    instant = datetime(2026, 1, 1, 10, 20, 30, 123_456, tzinfo=UTC)
    distant = [instant - 2 * timedelta(milliseconds=2), instant + 2 * timedelta(milliseconds=2)]
    partitions = pa.array([[("p", iso(time))] for time in distant], MAP)
    cases: dict[Expression, list[bool]] = {
        Comparison("=", Column(("p",)), Literal(iso(instant), "timestamp")): [False, False],
        Comparison("<", Column(("p",)), Literal(iso(instant), "timestamp")): [True, False],
        Not(Comparison("<", Column(("p",)), Literal(iso(instant), "timestamp"))): [False, True],
    }
    for original, expected in cases.items():
        for dialect, predicate in dialects(original).items():
            assert predicate is not None
            assert Skipper(predicate, Metadata()).by_partition(partitions).to_pylist() == expected, dialect
