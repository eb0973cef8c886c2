"""Hints over HTTP: which files JSON and SQL predicates keep; what cannot be decided keeps the file.

The truth tables are those of the reference's evaluator, but for the two that lose rows there: a negated comparison
over a range that holds both answers, and `isNull` of a column of which only some values are null.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from contract.logs import TableLog, column
from contract.recipient import Table
from contract.server import Server

Node = dict[str, Any]

TYPES = {"date": pa.date32(), "int": pa.int32(), "double": pa.float64(), "string": pa.string(), "bool": pa.bool_()}
TYPES |= {"timestamp": pa.timestamp("us", "UTC")}
TRUTH = pa.schema([column("file", pa.string()), *(column(name, kind) for name, kind in TYPES.items())])
"""A file has one or two rows: a value, a range, or nulls of each type. One file has no statistics."""

FILES: Mapping[str, tuple[Any, ...]] = {
    "date 28": (date(2021, 4, 28),),
    "date 29": (date(2021, 4, 29),),
    "date 27..29": (date(2021, 4, 27), date(2021, 4, 29)),
    "date 29..30": (date(2021, 4, 29), date(2021, 4, 30)),
    "date 27..05-01": (date(2021, 4, 27), date(2021, 5, 1)),
    "date 27..28": (date(2021, 4, 27), date(2021, 4, 28)),
    "date 30..05-28": (date(2021, 4, 30), date(2021, 5, 28)),
    "int 1": (1,),
    "int 7": (7,),
    "int 2..5": (2, 5),
    "int 2..10": (2, 10),
    "int null": (None,),
    "int null..3": (None, 3),
    "double 5.2": (5.2,),
    "double 5.21": (5.21,),
    "double 0..200": (0.0, 200.0),
    "double 5.21..10": (5.21, 10.0),
    "bool t": (True,),
    "bool f": (False,),
    "bool f..t": (False, True),
    "timestamp 06-09": (datetime(2023, 6, 9, 23, 59, 59, tzinfo=UTC),),
    "timestamp 06-10": (datetime(2023, 6, 10, 12, tzinfo=UTC),),
    "timestamp 06-20": (datetime(2023, 6, 20, tzinfo=UTC),),
    "untold": (),
}


@pytest.fixture(scope="module")
def truth(server: Server) -> Iterator[Table]:
    """Return a table with one file for each of FILES, each in a partition of its name."""
    log = server.shelf.log("truth", TRUTH, partitions=("file",), timed=False)
    log.create(*(_file(log, name, values) for name, values in FILES.items()))
    server.admin.tables.create("share1", "default", "truth", log.location)
    yield Table(server.alice, "share1", "default", "truth")
    server.admin.tables.delete("share1", "default", "truth")


def _file(log: TableLog, name: str, values: tuple[Any, ...]) -> dict[str, Any]:
    action = log.add([{name.split(maxsplit=1)[0]: value} for value in values], file=name)
    if not values:
        del action["add"]["stats"]
    return action


def rows_of(kind: str, *names: str) -> set[str]:
    return {f"{kind} {text}" for text in names}


def matching_rows(table: Table, kind: str, **hints: Any) -> set[str]:
    """Return the files of a type that a query with these hints answers with."""
    lines = table.query(**hints).only("file")
    names = {line["partitionValues"]["file"] for line in lines}
    return {name for name in names if name.startswith(kind)}


def col(name: str, kind: str) -> Node:
    return {"op": "column", "name": name, "valueType": kind}


def lit(value: Any, kind: str) -> Node:
    return {"op": "literal", "value": str(value), "valueType": kind}


def op(name: str, *children: Node) -> Node:
    return {"op": name, "children": list(children)}


DATE = lit("2021-04-29", "date")
JSON_CASES: Mapping[str, tuple[Node, set[str]]] = {
    "equal": (op("equal", col("date", "date"), DATE), rows_of("date", "29", "27..29", "29..30", "27..05-01")),
    "equal, reversed": (op("equal", DATE, col("date", "date")), rows_of("date", "29", "27..29", "29..30", "27..05-01")),
    "lessThan": (
        op("lessThan", col("date", "date"), DATE),
        rows_of("date", "28", "27..29", "27..05-01", "27..28"),
    ),
    "lessThan, reversed": (
        op("lessThan", DATE, col("date", "date")),
        rows_of("date", "29..30", "27..05-01", "30..05-28"),
    ),
    "lessThanOrEqual": (
        op("lessThanOrEqual", col("double", "double"), lit(5.2, "double")),
        rows_of("double", "5.2", "0..200"),
    ),
    "greaterThanOrEqual": (op("greaterThanOrEqual", col("int", "int"), lit(7, "int")), rows_of("int", "7", "2..10")),
    "greaterThan": (op("greaterThan", col("int", "int"), lit(7, "int")), rows_of("int", "2..10")),
    "not, over a range with both answers": (
        op("not", op("greaterThanOrEqual", col("int", "int"), lit(7, "int"))),
        rows_of("int", "1", "2..5", "2..10", "null..3"),
    ),
    "not null and a comparison": (
        op("and", op("not", op("isNull", col("int", "int"))), op("lessThan", col("int", "int"), lit(4, "int"))),
        rows_of("int", "1", "2..5", "2..10", "null..3"),
    ),
    "isNull": (op("isNull", col("int", "int")), rows_of("int", "null", "null..3")),
    "and with one side false": (
        op("and", op("lessThan", col("int", "int"), lit(2, "int")), op("equal", col("nope", "int"), lit("x", "int"))),
        rows_of("int", "1"),
    ),
    "or with one side undecidable": (
        op("or", op("lessThan", col("int", "int"), lit(0, "int")), op("equal", col("nope", "int"), lit(1, "int"))),
        {name for name in FILES if name.startswith("int")},
    ),
    "or with one side true": (
        op("or", op("lessThan", col("int", "int"), lit(2, "int")), op("equal", col("int", "int"), lit(7, "int"))),
        rows_of("int", "1", "7", "2..10"),
    ),
    "a bool column": (col("bool", "bool"), rows_of("bool", "t", "f..t")),
    "a timestamp": (
        op("lessThan", col("timestamp", "timestamp"), lit("2023-06-10T02:00:00+02:00", "timestamp")),
        rows_of("timestamp", "06-09"),
    ),
    "a timestamp of any zone": (
        op("lessThan", col("timestamp", "timestamp"), lit("2023-06-10 00:00:00", "timestamp")),
        rows_of("timestamp", "06-09", "06-10"),
    ),
    "a day for a timestamp": (
        op("lessThan", col("timestamp", "timestamp"), lit("2023-06-10", "timestamp")),
        rows_of("timestamp", "06-09", "06-10"),
    ),
    "a bool literal": (lit("false", "bool"), set()),
}
EVERYTHING: Mapping[str, str] = {
    "empty": "",
    "no JSON": "{",
    "an unsupported op": json.dumps(op("concat", col("int", "int"), lit(1, "int"))),
    "not an object": "[]",
    "one child": json.dumps(op("equal", col("int", "int"))),
    "three children": json.dumps(op("equal", col("int", "int"), lit(1, "int"), lit(1, "int"))),
    "an unknown column": json.dumps(op("equal", col("nope", "int"), lit(1, "int"))),
    "an unknown type": json.dumps(op("equal", col("int", "decimal"), lit(1, "decimal"))),
    "a literal that is no truth value": json.dumps(lit(7, "int")),
    "a literal that is none": json.dumps(op("equal", col("date", "date"), lit("soon", "date"))),
    "too deep": "".join('{"op":"not","children":[' for _ in range(200)) + json.dumps(lit("false", "bool")) + "]}" * 200,
    "too long": json.dumps(op("equal", col("int", "int"), lit("1" * 1_100_000, "int"))),
}


@pytest.mark.parametrize(("node", "files"), JSON_CASES.values(), ids=JSON_CASES)
def test_json_hints_select_files(truth: Table, node: Node, files: set[str]) -> None:
    kind = next((name.split()[0] for name in sorted(files)), "bool")
    assert matching_rows(truth, kind, jsonPredicateHints=json.dumps(node)) == files
    # Where nothing is known of a file, only a hint that holds nowhere drops it.
    assert matching_rows(truth, "untold", jsonPredicateHints=json.dumps(node)) == ({"untold"} if files else set())


@pytest.mark.parametrize("hint", EVERYTHING.values(), ids=EVERYTHING)
def test_an_invalid_json_hint_keeps_all_files(truth: Table, hint: str) -> None:
    assert matching_rows(truth, "", jsonPredicateHints=hint) == set(FILES)


SQL_CASES: Mapping[str, tuple[str, set[str]]] = {
    "equal": ("int = 7", rows_of("int", "7", "2..10")),
    "unequal": ("int <> 7", rows_of("int", "1", "2..5", "2..10", "null..3")),
    "less": ("int < 2", rows_of("int", "1")),
    "more": ("int > 5", rows_of("int", "7", "2..10")),
    "at most": ("int <= 1", rows_of("int", "1")),
    "at least": ("int >= 10", rows_of("int", "2..10")),
    "reversed": ("10 <= int", rows_of("int", "2..10")),
    "is null": ("int is null", rows_of("int", "null", "null..3")),
    "is not null": ("int IS NOT NULL", rows_of("int", "1", "7", "2..5", "2..10", "null..3")),
    "a date as text": ("date = '2021-04-28'", rows_of("date", "28", "27..29", "27..28", "27..05-01")),
    "a date by cast": ("date = CAST('2021-04-28' AS DATE)", rows_of("date", "28", "27..29", "27..28", "27..05-01")),
    "another case": ("INT = 7", rows_of("int", "7", "2..10")),
}


@pytest.mark.parametrize(("hint", "files"), SQL_CASES.values(), ids=SQL_CASES)
def test_sql_hints_select_files(truth: Table, hint: str, files: set[str]) -> None:
    assert matching_rows(truth, next(iter(files)).split()[0], predicateHints=[hint]) == files


@pytest.mark.parametrize(
    "hint", ["", "int = 0 +", "int = 0 + 1", "int ~ 7", "SELECT 1; DROP TABLE x", "nope = 3", "((((", "int = 'x'"]
)
def test_an_invalid_sql_hint_keeps_all_files(truth: Table, hint: str) -> None:
    assert matching_rows(truth, "", predicateHints=[hint]) == set(FILES)


def test_hints_are_combined_with_and(truth: Table) -> None:
    assert matching_rows(truth, "int", predicateHints=["int > 1", "int < 5", "garbage ("]) == rows_of(
        "int", "2..5", "2..10", "null..3"
    )
    node = op("equal", col("file", "string"), lit("int 2..5", "string"))
    assert matching_rows(truth, "", predicateHints=["int > 1"], jsonPredicateHints=json.dumps(node)) == rows_of(
        "int", "2..5"
    )


def test_partition_values_are_decided_exactly(truth: Table) -> None:
    assert matching_rows(truth, "", predicateHints=["file = 'int 7'"]) == {"int 7"}
    assert matching_rows(truth, "", predicateHints=["file IS NULL"]) == set()


B = col("birthday", "date")
NOT_NULL = op("not", op("isNull", B))
PEOPLE_CASES: Mapping[str, tuple[str, list[str]]] = {
    "none": ("", ["2020-01-01", "2020-02-02"]),
    "equal": (json.dumps(op("and", NOT_NULL, op("equal", B, lit("2020-01-01", "date")))), ["2020-01-01"]),
    "greaterThan": (json.dumps(op("and", NOT_NULL, op("greaterThan", B, lit("2020-01-01", "date")))), ["2020-02-02"]),
    "a range": (
        json.dumps(
            op(
                "and",
                op("lessThan", B, lit("2020-02-03", "date")),
                op("greaterThanOrEqual", B, lit("2020-01-01", "date")),
            )
        ),
        ["2020-01-01", "2020-02-02"],
    ),
    "a data column": (
        json.dumps(op("and", NOT_NULL, op("equal", col("age", "int"), lit(2, "int")))),
        ["2020-02-02"],
    ),
    "a data column below": (
        json.dumps(op("and", NOT_NULL, op("lessThan", col("age", "int"), lit(3, "int")))),
        ["2020-01-01", "2020-02-02"],
    ),
    "partition and data": (
        json.dumps(
            op(
                "and",
                op("lessThan", B, lit("2020-02-03", "date")),
                op("greaterThanOrEqual", B, lit("2020-01-01", "date")),
                op("lessThan", col("age", "int"), lit(2, "int")),
            )
        ),
        ["2020-01-01"],
    ),
    "an unsupported op": (json.dumps(op("concat", B, B)), ["2020-01-01", "2020-02-02"]),
}


@pytest.mark.parametrize("capabilities", [None, "responseformat=delta"], ids=["parquet", "delta"])
@pytest.mark.parametrize(("hint", "birthdays"), PEOPLE_CASES.values(), ids=PEOPLE_CASES)
def test_json_hints_use_partitions_and_statistics(
    table: Callable[[str], Table], hint: str, birthdays: list[str], capabilities: str | None
) -> None:
    reply = table("cdf_table_with_partition").with_capabilities(capabilities).query(jsonPredicateHints=hint)
    actions = [line.get("deltaSingleAction", {}).get("add", line) for line in reply.only("file")]
    assert sorted(action["partitionValues"]["birthday"] for action in actions) == birthdays


def test_hints_apply_to_pages(table: Callable[[str], Table]) -> None:
    hint = PEOPLE_CASES["equal"][0]
    reply = table("cdf_table_with_partition").query(jsonPredicateHints=hint, maxFiles=1)
    assert reply.kinds == ["protocol", "metaData", "file", "endStreamAction"]
    assert reply.end == {"minUrlExpirationTimestamp": reply.only("file")[0]["expirationTimestamp"]}


def test_a_limit_counts_files_after_hints(truth: Table) -> None:
    """The reference ignores the limit where there are hints."""
    lines = truth.query(predicateHints=["file >= 'int'"], limitHint=1).only("file")
    assert len(lines) == 1
