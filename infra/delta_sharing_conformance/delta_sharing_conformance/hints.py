"""Checks of predicate hints: they may keep too many files, never too few; those that cannot be used are ignored.

Which files must stay is told by their own partition values and statistics: those that certainly have a matching row.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check, check_each_table, on_each
from delta_sharing_conformance.client import BOTH
from delta_sharing_conformance.files import FileLine, HintColumn, Value
from delta_sharing_conformance.shared import ListedTable, Shared

_OPERATORS = {
    "=": ("equal", "="),
    "<": ("lessThan", ">"),
    "<=": ("lessThanOrEqual", ">="),
    ">": ("greaterThan", "<"),
    ">=": ("greaterThanOrEqual", "<="),
    "<>": ("", "<>"),
}
"""SQL's operator; JSON's; SQL's with the sides changed."""
_WAYS = {
    "=": ("plain", "sides changed", "or null", "and not null"),
    "<": ("plain", "sides changed", "as a denial"),
    ">=": ("sides changed", "as a denial"),
}
"""In which ways a JSON predicate is written."""
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
_COLUMNS = 2
_WANTED = "has columns with partition values or statistics that can be compared"


@dataclass(frozen=True, slots=True)
class _Predicate:
    column: HintColumn
    operator: str
    """SQL's; or IS NULL, IS NOT NULL."""
    literal: Value = ""

    def certain(self, file: FileLine) -> bool:
        """Whether some row of the file matches for certain."""
        if self.operator.startswith("IS"):
            null, other = file.nulls(self.column)
            return null if self.operator == "IS NULL" else other
        ends = file.range(self.column)
        return ends is not None and any(_compare(end, self.operator, self.literal) for end in ends)

    def sql(self, *, turned: bool = False) -> str:
        if self.operator.startswith("IS"):
            return f"{self.column.name} {self.operator}"
        literal = str(self.literal) if isinstance(self.literal, int) else f"'{self.literal}'"
        if turned:
            return f"{literal} {_OPERATORS[self.operator][1]} {self.column.name}"
        return f"{self.column.name} {self.operator} {literal}"

    def json(self, *, turned: bool = False) -> Mapping[str, Any]:
        column = {"op": "column", "name": self.column.name, "valueType": self.column.value_type}
        if self.operator.startswith("IS"):
            null = {"op": "isNull", "children": [column]}
            return null if self.operator == "IS NULL" else {"op": "not", "children": [null]}
        if self.operator == "<>":
            return {"op": "not", "children": [_Predicate(self.column, "=", self.literal).json(turned=turned)]}
        literal = {"op": "literal", "value": str(self.literal), "valueType": self.column.value_type}
        if turned:
            back = _OPERATORS[_OPERATORS[self.operator][1]][0]
            return {"op": back, "children": [literal, column]}
        return {"op": _OPERATORS[self.operator][0], "children": [column, literal]}

    def denied(self) -> Mapping[str, Any]:
        """Return the same as the denial of its contrary."""
        return {"op": "not", "children": [_Predicate(self.column, _NEGATED[self.operator], self.literal).json()]}


def _compare(value: Value, operator: str, literal: Value) -> bool:
    left, right = (value, literal) if isinstance(value, type(literal)) else (str(value), str(literal))
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,  # type: ignore[operator]  # both are of one type
        "<=": left <= right,  # type: ignore[operator]
        ">": left > right,  # type: ignore[operator]
        ">=": left >= right,  # type: ignore[operator]
    }[operator]


def _predicates(table: ListedTable, files: list[FileLine]) -> Iterator[_Predicate]:
    """Yield predicates for which some file must stay, on a few columns, those of partitions first."""
    columns = sorted(table.columns.values(), key=lambda column: not column.partition)
    usable = [column for column in columns if any(file.range(column) or any(file.nulls(column)) for file in files)]
    for column in usable[:_COLUMNS]:
        for operator in ("IS NULL", "IS NOT NULL"):
            yield _Predicate(column, operator)
        ends = [ends for file in files if (ends := file.range(column))]
        if not ends or any("'" in str(end) or "\\" in str(end) for pair in ends for end in pair):
            continue
        low, high = max(ends, key=_width)
        middle = (low + high) // 2 if isinstance(low, int) and isinstance(high, int) else high
        for operator in _OPERATORS:
            yield _Predicate(column, operator, middle)


def _width(ends: tuple[Value, Value]) -> int:
    low, high = ends
    return high - low if isinstance(low, int) and isinstance(high, int) else int(low != high)


def _keeps(tables: list[ListedTable], kind: str, **besides: Any) -> str:
    """Send each predicate in every spelling, and expect the files that certainly match."""
    queries = 0

    def ask(table: ListedTable) -> None:
        nonlocal queries
        response_format, capabilities = table.formats[0]
        files = table.files(response_format)
        tried = False
        for predicate in _predicates(table, files):
            must = {file.id for file in files if predicate.certain(file)}
            for told, hint in _spellings(kind, predicate):
                kept = set(expect.ids(table.query(capabilities, **hint, **besides)))
                lost = len(must - kept)
                expect.that(not lost, f"{told} loses {lost} of {len(must)} files that have such rows")
                expect.that(kept <= {file.id for file in files}, f"{told} gives files that the table has not")
                tried, queries = True, queries + 1
        if not tried:
            raise NotTried(f"no table that the profile sees {_WANTED}")

    return f"{on_each(tables, ask, _WANTED)}, {queries} queries"


def _spellings(kind: str, predicate: _Predicate) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield how it is told to people, and the fields of the body."""
    if kind == "sql":
        for text in {predicate.sql(), predicate.sql(turned=True)}:
            yield f"predicateHints [{text}]", {"predicateHints": [text]}
        return
    for way in _WAYS.get(predicate.operator, ("plain",)):
        yield (
            f"jsonPredicateHints of {predicate.sql()} ({way})",
            {"jsonPredicateHints": json.dumps(_tree(predicate, way))},
        )


def _tree(predicate: _Predicate, way: str) -> Mapping[str, Any]:
    match way:
        case "sides changed":
            return predicate.json(turned=True)
        case "as a denial":
            return predicate.denied()
        case "or null":
            return {"op": "or", "children": [predicate.json(), _Predicate(predicate.column, "IS NULL").json()]}
        case "and not null":
            return {"op": "and", "children": [predicate.json(), _Predicate(predicate.column, "IS NOT NULL").json()]}
    return predicate.json()


@check("SQL Expressions for Filtering")
def predicateHints_keep_what_matches(shared: Shared) -> str:  # noqa: N802 -- the field's name
    """Leave out for predicateHints only files without a matching row, whichever side the column stands on."""
    return _keeps(shared.readable, "sql")


@check("JSON predicates for Filtering")
def jsonPredicateHints_keep_what_matches(shared: Shared) -> str:  # noqa: N802 -- the field's name
    """Leave out for jsonPredicateHints only files without a matching row, also below not, and whatever the sides."""
    return _keeps(shared.readable, "json")


@check("JSON predicates for Filtering")
def jsonPredicateHints_keep_what_matches_on_pages(shared: Shared) -> str:  # noqa: N802 -- the field's name
    """Leave out no file with a matching row where jsonPredicateHints come with maxFiles."""
    return _keeps(shared.readable[:3], "json", maxFiles=10_000)


@check_each_table("Request Body", most=3)
def hints_that_cannot_be_used_are_ignored(table: ListedTable) -> None:
    """Return all files for hints that cannot be parsed, or that name columns, operators or types that are not there."""
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
    reply = table.query(BOTH)
    whole = expect.ids(reply)
    for hint in hints:
        expect.same(f"{hint}", expect.ids(table.query(BOTH, **hint)), whole)
