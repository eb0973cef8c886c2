"""Times that a client cut: whatever was written about one to the microsecond, no file that holds it is dropped."""

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
    """A table that is partitioned by one time and holds another."""

    schema_string: str = json.dumps(
        {
            "type": "struct",
            "fields": [{"name": name, "type": "timestamp", "nullable": True, "metadata": {}} for name in TYPES],
        }
    )
    partition_columns: tuple[str, ...] = ("p",)
    configuration: dict[str, str] = field(default_factory=dict)


def iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def filters(name: str, moment: datetime, other: datetime) -> list[tuple[Expression, Callable[[datetime], bool]]]:
    """Return what users write about one time, and for which rows it holds."""
    column, literal = Column((name,)), Literal(iso(moment), "timestamp")
    second = Literal(iso(other), "timestamp")
    holds: dict[Operator, Callable[[datetime], bool]] = {
        "=": lambda row: row == moment,
        "<>": lambda row: row != moment,
        "<": lambda row: row < moment,
        "<=": lambda row: row <= moment,
        ">": lambda row: row > moment,
        ">=": lambda row: row >= moment,
        "<=>": lambda row: row == moment,
    }
    found: list[tuple[Expression, Callable[[datetime], bool]]] = []
    opposite: dict[Operator, Operator] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "<=>": "<>"}
    for operator in OPERATORS:
        found.append((Comparison(operator, column, literal), holds[operator]))
        found.append((Not(Comparison(operator, column, literal)), holds[opposite[operator]]))
    low, high = min(moment, other), max(moment, other)
    ends = Literal(iso(low), "timestamp"), Literal(iso(high), "timestamp")
    between = And((Comparison(">=", column, ends[0]), Comparison("<=", column, ends[1])))
    found.append((between, lambda row: low <= row <= high))
    found.append((Not(between), lambda row: not low <= row <= high))
    found.append((In(column, (literal, second, Literal(None, "timestamp"))), lambda row: row in {moment, other}))
    found.append((Not(In(column, (literal, second))), lambda row: row not in {moment, other}))
    found.append((Or((IsNull(column), Comparison("=", column, literal))), lambda row: row == moment))
    return found


def as_spark_writes(rows: Sequence[datetime]) -> str:
    """Return statistics of a file with these rows: both bounds cut to milliseconds."""
    low, high = (one.isoformat(timespec="milliseconds").replace("+00:00", "Z") for one in (min(rows), max(rows)))
    counts = {"numRecords": len(rows), "nullCount": {"d": 0}}
    return json.dumps(counts | {"minValues": {"d": low}, "maxValues": {"d": high}})


def typed(files: Sequence[Sequence[datetime]]) -> pa.StructArray:
    def cut(moment: datetime) -> datetime:
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

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
            "numRecords": len(one),
            "minValues": {"d": cut(min(one))},
            "maxValues": {"d": cut(max(one))},
            "nullCount": {"d": 0},
        }
        for one in files
    ]
    return pa.array(rows, kind)


def dialects(written: Expression) -> dict[str, Expression | None]:
    by_sql, by_json = parse_sql([as_sql(written)]), parse_json(as_connector(written, TYPES))
    return {"SQL": by_sql, "JSON": by_json, "both": conjunction(by_sql, by_json)}


MOMENTS: Final = st.integers(0, (GREATEST - LEAST) // MICROSECOND).map(lambda after: LEAST + after * MICROSECOND) | (
    st.sampled_from([0, -1, 999, -999, 1000, -1000, 1_500, -1_500]).map(
        lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + micros * MICROSECOND
    )
)


@settings(deadline=None, max_examples=tries(25))
@given(moment=MOMENTS, apart=st.integers(-2000, 2000), width=st.sampled_from([0, 0, 1, 700, 5000]))
def test_no_file_with_the_time_is_dropped(moment: datetime, apart: int, width: int) -> None:
    """Each example is some 5,000 tries: filters x dialects x files, of partitions and of both kinds of statistics."""
    near = [moment + offset * MICROSECOND for offset in NEAR]
    files = [[one, one + width * MICROSECOND] for one in near]
    partitions = pa.array([[("p", iso(one))] for one in near], MAP)
    texts, structs = pa.array(map(as_spark_writes, files), pa.string()), typed(files)
    for name in TYPES:
        for written, holds in filters(name, moment, moment + apart * MICROSECOND):
            wanted = [holds(one) for one in near] if name == "p" else [any(map(holds, rows)) for rows in files]
            for dialect, predicate in dialects(written).items():
                assert predicate is not None, (dialect, written)
                skipper = Skipper(predicate, Metadata())
                answers = [skipper.by_partition(partitions)]
                if name == "d":
                    answers += [
                        skipper.by_json_statistics(partitions, texts),
                        skipper.by_typed_statistics(partitions, structs),
                    ]
                for answer in answers:
                    lost = [at for at, want in enumerate(wanted) if want and not answer[at].as_py()]
                    assert not lost, (dialect, as_sql(written), [files[at] for at in lost])


def test_a_filter_on_times_still_drops_what_is_far() -> None:
    moment = datetime(2026, 1, 1, 10, 20, 30, 123_456, tzinfo=UTC)
    far = [moment - 2 * timedelta(milliseconds=2), moment + 2 * timedelta(milliseconds=2)]
    partitions = pa.array([[("p", iso(one))] for one in far], MAP)
    cases: dict[Expression, list[bool]] = {
        Comparison("=", Column(("p",)), Literal(iso(moment), "timestamp")): [False, False],
        Comparison("<", Column(("p",)), Literal(iso(moment), "timestamp")): [True, False],
        Not(Comparison("<", Column(("p",)), Literal(iso(moment), "timestamp"))): [False, True],
    }
    for written, wanted in cases.items():
        for dialect, predicate in dialects(written).items():
            assert predicate is not None
            assert Skipper(predicate, Metadata()).by_partition(partitions).to_pylist() == wanted, dialect
