"""Binds a filter's conditions to a table's partition columns: names become columns, literals their values.

Properties of the recipient are filled in at the same time. A condition becomes a function of the readings of a file's
partition values, in the order of `Bound.columns`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from deltaic.partition_filters.conditions import (
    Condition,
    FilterAnd,
    FilterColumn,
    FilterComparison,
    FilterIn,
    FilterIsNull,
    FilterLiteral,
    FilterNot,
    FilterOr,
    FilterStartsWith,
    Operand,
    PartitionFilter,
    Property,
)
from deltaic.partition_filters.lexer import refusal, shown
from deltaic.partition_filters.properties import value_of
from deltaic.partition_filters.readings import Reading, Unreadable, value, why_not_compared
from deltaic.partition_filters.truth import ANY, BOTH, EITHER, FALSE, OPPOSITE, TRUE, UNKNOWN, Truth, truth
from deltaic.pruning.columns import Columns, TableColumn, TableMetadata
from deltaic.pruning.values import INTEGER_BITS, ColumnType, Value, column_type

Readings: TypeAlias = Sequence[Reading]
Test: TypeAlias = Callable[[Readings], Truth]
Source: TypeAlias = Callable[[Readings], Reading]

_TEXT: Final = column_type("string")
_WRITTEN: Final = {
    "string": "a text, as 'EU'",
    "decimal": "a number, as 12.50",
    "boolean": "TRUE or FALSE",
    "date": "DATE '2024-12-31'",
    "timestamp": "TIMESTAMP '2024-12-31 12:00:00Z', with its offset from UTC",
    "timestamp_ntz": "TIMESTAMP_NTZ '2024-12-31 12:00:00', without an offset",
    **dict.fromkeys(INTEGER_BITS, "a number, as 2024"),
}
"""How a literal for a column of that type is written."""
_KINDS: Final = {"string": "text", "decimal": "number", **dict.fromkeys(INTEGER_BITS, "number")}
"""The kind of literal for a column of that type, where it is not the type's own name."""


def type_name(type_: ColumnType) -> str:
    """Return a type as schemas name it."""
    return f"decimal({type_.precision},{type_.scale})" if type_.name == "decimal" else type_.name


class FilterBinder:
    """Binds the conditions of filters to one table and one recipient."""

    def __init__(self, metadata: TableMetadata, properties: Mapping[str, str] | None) -> None:
        """Without properties the filters are only checked: none counts as lacking."""
        self._columns = Columns(metadata)
        self._partition_columns = ", ".join(shown(name) for name in metadata.partition_columns or ())
        self._properties = properties
        self._by_name: dict[str, TableColumn] = {}
        self.columns: dict[str, ColumnType] = {}
        """The columns that were named, by their physical names."""
        self.lacking = False
        """Whether the recipient lacks a property, or its text is no value of the type that is wanted."""

    def bind(self, filter_: PartitionFilter) -> Test:
        """Return the filter as a test; raises InvalidParameter if it does not fit the table."""
        return self._test(filter_.condition)

    def _test(self, condition: Condition) -> Test:
        match condition:
            case FilterAnd(conditions):
                return _fold(BOTH, [self._test(one) for one in conditions])
            case FilterOr(conditions):
                return _fold(EITHER, [self._test(one) for one in conditions])
            case FilterNot(inner):
                return _not(self._test(inner))
            case FilterIsNull(column):
                return _is_null(self._source(column, self._column(column)))
            case FilterStartsWith(operand, prefix):
                return self._starts_with(operand, prefix)
            case FilterIn(operand, items):
                type_ = self._type(operand, items[0])
                values = frozenset(one for item in items for one in self._values(item, type_, operand))
                return _is_in(self._source(operand, type_), values)
            case FilterComparison():
                return self._comparison(condition)

    def _comparison(self, condition: FilterComparison) -> Test:
        left, right = condition.left, condition.right
        type_ = self._type(left, right)
        if (
            isinstance(left, FilterColumn)
            and isinstance(right, FilterColumn)
            and (other := self._column(right)) != type_
        ):
            remedy = "compare columns of the same type only"
            raise refusal(
                right.position,
                f"{shown(left.name)} is of type {type_name(type_)} and {shown(right.name)} of type {type_name(other)}",
                remedy,
            )
        one, two = self._source(left, type_, right), self._source(right, type_, left)
        match condition.operator:
            case "=":
                return _pair(_equal, one, two)
            case "<>":
                return _not(_pair(_equal, one, two))
            case "<":
                return _pair(_less, one, two)
            case ">=":
                return _not(_pair(_less, one, two))
            case ">":
                return _pair(_less, two, one)
            case "<=":
                return _not(_pair(_less, two, one))

    def _starts_with(self, operand: FilterColumn | Property, prefix: str) -> Test:
        type_ = self._column(operand) if isinstance(operand, FilterColumn) else _TEXT
        if type_.name != "string":
            what = f"{shown(operand.name)} is of type {type_name(type_)}, and LIKE is for texts"
            raise refusal(operand.position, what, "compare with >= and <, or BETWEEN")
        source = self._source(operand, type_)

        def test(row: Readings) -> Truth:
            reading = source(row)
            if reading is None or isinstance(reading, Unreadable):
                return UNKNOWN if reading is None else ANY
            low, high = str(reading[0]), str(reading[1])
            within = low[: len(prefix)] <= prefix <= high
            # Between two texts that begin so there are only such texts.
            return truth(may_hold=within, may_fail=not (low.startswith(prefix) and high.startswith(prefix)))

        return test

    def _type(self, *operands: Operand) -> ColumnType:
        """Return the type that operands are compared as: the first column's, else text."""
        return next((self._column(one) for one in operands if isinstance(one, FilterColumn)), _TEXT)

    def _column(self, column: FilterColumn) -> ColumnType:
        return self._table_column(column).type

    def _table_column(self, column: FilterColumn) -> TableColumn:
        if column.name not in self._by_name:
            self._by_name[column.name] = self._find(column)
        return self._by_name[column.name]

    def _find(self, column: FilterColumn) -> TableColumn:
        match = self._columns.find((column.name,))
        name, remedy = shown(column.name), f"its partition columns are {self._partition_columns}"
        if not self._partition_columns:
            remedy = "the table has no partition columns: only tables that have some can be filtered by partition"
        if match is None:
            raise refusal(column.position, f"the table has no column {name} to filter by", remedy)
        if not match.is_partition or len(match.path) != 1:
            raise refusal(column.position, f"{name} is not a partition column", remedy)
        why = why_not_compared(match.type)
        if why is not None:
            what = f"{name} is of type {type_name(match.type)}, and cannot be compared exactly: {why}"
            raise refusal(column.position, what, "filter by another partition column")
        return match

    def _source(self, operand: Operand, type_: ColumnType, beside: Operand | None = None) -> Source:
        if isinstance(operand, FilterColumn):
            physical = self._table_column(operand).path[0]
            self.columns.setdefault(physical, type_)
            at = list(self.columns).index(physical)
            return lambda row: row[at]
        values = self._values(operand, type_, beside, one=True)
        if not values:
            return lambda _: Unreadable.UNREADABLE
        reading = (values[0], values[0])
        return lambda _: reading

    def _values(
        self, operand: Operand, type_: ColumnType, beside: Operand | None, *, one: bool = False
    ) -> Sequence[Value]:
        """Return what a literal or property says as values of a type; none if the recipient lacks the property."""
        if isinstance(operand, FilterLiteral):
            return [_literal(operand, type_, beside)]
        if self._properties is None or not isinstance(operand, Property):
            return []
        property_value = value_of(self._properties[operand.name]) if operand.name in self._properties else ()
        texts = (property_value,) if isinstance(property_value, str) else () if one else property_value
        found = [read for text in texts if (read := value(text, type_)) is not None]
        if not found or len(found) < len(texts):
            self.lacking = True
            return []
        return found


def _literal(literal: FilterLiteral, type_: ColumnType, beside: Operand | None) -> Value:
    """Return a literal as a value of a column's type; raises InvalidParameter if it is of another kind."""
    if literal.kind == _KINDS.get(type_.name, type_.name):
        return literal.value
    if literal.kind == "text" and type_.name in {"date", "timestamp", "timestamp_ntz"}:
        read = value(str(literal.value), type_)
        if read is not None:
            return read
    name = shown(beside.name) if isinstance(beside, FilterColumn) else "the other side"
    what = f"{name} is of type {type_name(type_)}, which {literal.shown} is not"
    raise refusal(literal.position, what, f"write {_WRITTEN[type_.name]}")


def _fold(table: tuple[tuple[Truth, ...], ...], tests: Sequence[Test]) -> Test:
    first, *others = tests

    def test(row: Readings) -> Truth:
        found = first(row)
        for other in others:
            found = table[found][other(row)]
        return found

    return test


def _not(test: Test) -> Test:
    return lambda row: OPPOSITE[test(row)]


def _is_null(source: Source) -> Test:
    def test(row: Readings) -> Truth:
        reading = source(row)
        if isinstance(reading, Unreadable):
            return ANY
        return TRUE if reading is None else FALSE

    return test


def _is_in(source: Source, values: frozenset[Value]) -> Test:
    def test(row: Readings) -> Truth:
        reading = source(row)
        if reading is None or isinstance(reading, Unreadable):
            return UNKNOWN if reading is None else ANY
        if reading[0] == reading[1]:
            return TRUE if reading[0] in values else FALSE
        within = any(not _before(one, reading[0]) and not _before(reading[1], one) for one in values)
        return truth(may_hold=within, may_fail=True)

    return test


def _pair(compare: Callable[[Value, Value, Value, Value], Truth], left: Source, right: Source) -> Test:
    def test(row: Readings) -> Truth:
        one, other = left(row), right(row)
        if one is None or other is None:
            # Null beside what cannot be read is unknown, whatever that is.
            return UNKNOWN
        if isinstance(one, Unreadable) or isinstance(other, Unreadable):
            return ANY
        return compare(*one, *other)

    return test


def _equal(low: Value, high: Value, other_low: Value, other_high: Value) -> Truth:
    apart = _before(high, other_low) or _before(other_high, low)
    points = low == high and other_low == other_high
    return truth(may_hold=not apart, may_fail=apart or not points)


def _less(low: Value, high: Value, other_low: Value, other_high: Value) -> Truth:
    return truth(may_hold=_before(low, other_high), may_fail=not _before(high, other_low))


def _before(one: Any, other: Any) -> bool:
    """Compare two values of one type: texts by code point, numbers of any kind exactly."""
    return bool(one < other)
