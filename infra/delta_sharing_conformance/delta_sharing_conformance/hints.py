"""Checks of predicate hints. A response can list too many files, but never too few; invalid hints are ignored.

Partition values and statistics prove that some files have a matching row, so that the response must list them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import Catalog, ListedTable
from delta_sharing_conformance.check import CheckSkipped, check, check_each_table, run_on_each
from delta_sharing_conformance.client import BOTH
from delta_sharing_conformance.files import FileLine, HintColumn, Value

_OPERATORS = {
    "=": ("equal", "="),
    "<": ("lessThan", ">"),
    "<=": ("lessThanOrEqual", ">="),
    ">": ("greaterThan", "<"),
    ">=": ("greaterThanOrEqual", "<="),
    "<>": ("", "<>"),
}
"""For each SQL operator, its name in JSON predicates, and the SQL operator with swapped operands."""
_SPELLINGS = {
    "=": ("direct", "swapped", "or null", "and not null"),
    "<": ("direct", "swapped", "negated"),
    ">=": ("swapped", "negated"),
}
"""Equivalent forms in which each JSON predicate is sent, by SQL operator; `swapped` has the column on the right."""
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
_COLUMNS = 2
_REQUIREMENT = "has columns with partition values or statistics that can be compared"


@dataclass(frozen=True, slots=True)
class _Predicate:
    column: HintColumn
    operator: str
    """SQL comparison operator, IS NULL or IS NOT NULL."""
    literal: Value = ""

    def matches(self, file: FileLine) -> bool:
        """Return whether partition values or statistics prove that a row of the file matches."""
        if self.operator.startswith("IS"):
            has_null, has_value = file.nulls(self.column)
            return has_null if self.operator == "IS NULL" else has_value
        bounds = file.range(self.column)
        return bounds is not None and any(_compare(bound, self.operator, self.literal) for bound in bounds)

    def sql(self, *, swapped: bool = False) -> str:
        if self.operator.startswith("IS"):
            return f"{self.column.name} {self.operator}"
        literal = str(self.literal) if isinstance(self.literal, int) else f"'{self.literal}'"
        if swapped:
            return f"{literal} {_OPERATORS[self.operator][1]} {self.column.name}"
        return f"{self.column.name} {self.operator} {literal}"

    def json(self, *, swapped: bool = False) -> Mapping[str, Any]:
        column = {"op": "column", "name": self.column.name, "valueType": self.column.value_type}
        if self.operator.startswith("IS"):
            null = {"op": "isNull", "children": [column]}
            return null if self.operator == "IS NULL" else {"op": "not", "children": [null]}
        if self.operator == "<>":
            return {"op": "not", "children": [_Predicate(self.column, "=", self.literal).json(swapped=swapped)]}
        literal = {"op": "literal", "value": str(self.literal), "valueType": self.column.value_type}
        if swapped:
            operator = _OPERATORS[_OPERATORS[self.operator][1]][0]
            return {"op": operator, "children": [literal, column]}
        return {"op": _OPERATORS[self.operator][0], "children": [column, literal]}

    def negated(self) -> Mapping[str, Any]:
        """Return the JSON predicate as a NOT of the opposite operator."""
        return {"op": "not", "children": [_Predicate(self.column, _NEGATED[self.operator], self.literal).json()]}


def _compare(value: Value, operator: str, literal: Value) -> bool:
    left, right = (value, literal) if isinstance(value, type(literal)) else (str(value), str(literal))
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,  # type: ignore[operator]  # both have the same type
        "<=": left <= right,  # type: ignore[operator]
        ">": left > right,  # type: ignore[operator]
        ">=": left >= right,  # type: ignore[operator]
    }[operator]


def _predicates(table: ListedTable, files: list[FileLine]) -> Iterator[_Predicate]:
    """Yield predicates on a few columns of a table, partition columns first."""
    columns = sorted(table.columns.values(), key=lambda column: not column.partition)
    usable = [column for column in columns if any(file.range(column) or any(file.nulls(column)) for file in files)]
    for column in usable[:_COLUMNS]:
        for operator in ("IS NULL", "IS NOT NULL"):
            yield _Predicate(column, operator)
        ranges = [bounds for file in files if (bounds := file.range(column))]
        if not ranges or any("'" in str(bound) or "\\" in str(bound) for bounds in ranges for bound in bounds):
            continue
        low, high = max(ranges, key=_width)
        middle = (low + high) // 2 if isinstance(low, int) and isinstance(high, int) else high
        for operator in _OPERATORS:
            yield _Predicate(column, operator, middle)


def _width(bounds: tuple[Value, Value]) -> int:
    low, high = bounds
    return high - low if isinstance(low, int) and isinstance(high, int) else int(low != high)


def _check_hints(tables: list[ListedTable], syntax: str, **fields: Any) -> str:
    """Send each predicate in all equivalent forms, and expect all files that have a matching row."""
    queries = 0

    def send_hints(table: ListedTable) -> None:
        nonlocal queries
        response_format, capabilities = table.formats[0]
        files = table.files(response_format)
        has_predicates = False
        for predicate in _predicates(table, files):
            required = {file.id for file in files if predicate.matches(file)}
            for description, hint in _spellings(syntax, predicate):
                ids = set(expect.ids(table.query(capabilities, **hint, **fields)))
                missing = len(required - ids)
                expect.that(not missing, f"{description} omits {missing} of {len(required)} files with matching rows")
                expect.that(ids <= {file.id for file in files}, f"{description} returns files of another table")
                has_predicates, queries = True, queries + 1
        if not has_predicates:
            raise CheckSkipped(f"no shared table {_REQUIREMENT}")

    return f"{run_on_each(tables, send_hints, _REQUIREMENT)}, {queries} queries"


def _spellings(syntax: str, predicate: _Predicate) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the description and the request body's fields for each equivalent form of a predicate."""
    if syntax == "sql":
        for text in {predicate.sql(), predicate.sql(swapped=True)}:
            yield f"predicateHints [{text}]", {"predicateHints": [text]}
        return
    for spelling in _SPELLINGS.get(predicate.operator, ("direct",)):
        yield (
            f"jsonPredicateHints of {predicate.sql()} ({spelling})",
            {"jsonPredicateHints": json.dumps(_tree(predicate, spelling))},
        )


def _tree(predicate: _Predicate, spelling: str) -> Mapping[str, Any]:
    match spelling:
        case "swapped":
            return predicate.json(swapped=True)
        case "negated":
            return predicate.negated()
        case "or null":
            return {"op": "or", "children": [predicate.json(), _Predicate(predicate.column, "IS NULL").json()]}
        case "and not null":
            return {"op": "and", "children": [predicate.json(), _Predicate(predicate.column, "IS NOT NULL").json()]}
    return predicate.json()


@check("SQL Expressions for Filtering", id="predicateHints keep what matches")
def predicateHints_keep_matching_files(catalog: Catalog) -> str:  # noqa: N802 -- the field's name
    """Omit for predicateHints only files without matching rows, also with the column on the right."""
    return _check_hints(catalog.readable, "sql")


@check("JSON predicates for Filtering", id="jsonPredicateHints keep what matches")
def jsonPredicateHints_keep_matching_files(catalog: Catalog) -> str:  # noqa: N802 -- the field's name
    """Omit for jsonPredicateHints only files without matching rows, also for not and swapped operands."""
    return _check_hints(catalog.readable, "json")


@check("JSON predicates for Filtering", id="jsonPredicateHints keep what matches on pages")
def jsonPredicateHints_keep_matching_files_on_pages(catalog: Catalog) -> str:  # noqa: N802 -- the field's name
    """Omit no file with matching rows if jsonPredicateHints are combined with maxFiles."""
    return _check_hints(catalog.readable[:3], "json", maxFiles=10_000)


@check_each_table("Request Body", max_tables=3, id="hints that cannot be used are ignored")
def invalid_hints_are_ignored(table: ListedTable) -> None:
    """Return all files for hints that cannot be parsed or have unknown columns, operators or types."""
    column = {"op": "column", "name": "no_such_column", "valueType": "int"}
    literal = {"op": "literal", "value": "1", "valueType": "int"}
    hints: tuple[dict[str, Any], ...] = (
        {"predicateHints": ["this is (no SQL", "no_such_column = 1", ""]},
        {"jsonPredicateHints": ""},
        {"jsonPredicateHints": "{"},
        {"jsonPredicateHints": "[1]"},
        {"jsonPredicateHints": json.dumps({"op": "equal", "children": [column, literal]})},
        {"jsonPredicateHints": json.dumps({"op": "noSuchOp", "children": [column, literal]})},
        {"jsonPredicateHints": json.dumps({"op": "equal", "children": [column]})},
    )
    expected = expect.ids(table.query(BOTH))
    for hint in hints:
        expect.same_ids(f"{hint}", expect.ids(table.query(BOTH, **hint)), expected)
