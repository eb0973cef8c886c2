"""Convert a filter to tests of a table's partition values, with the values of a recipient's properties.

Each condition becomes a function of the possible partition values of a file, in the order of `FilterBinder.columns`.
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
from deltaic.partition_filters.lexer import filter_error, shorten
from deltaic.partition_filters.properties import value_of
from deltaic.partition_filters.readings import InvalidValue, Reading, incomparable_reason, value
from deltaic.partition_filters.truth import AND, ANY, FALSE, NOT, OR, TRUE, UNKNOWN, Truth, truth
from deltaic.pruning.columns import Columns, TableColumn, TableMetadata
from deltaic.pruning.values import INTEGER_BITS, ColumnType, Value, column_type

Readings: TypeAlias = Sequence[Reading]
Test: TypeAlias = Callable[[Readings], Truth]
Source: TypeAlias = Callable[[Readings], Reading]

_STRING: Final = column_type("string")
_EXAMPLES: Final = {
    "string": "a string such as 'EU'",
    "decimal": "a number such as 12.50",
    "boolean": "TRUE or FALSE",
    "date": "DATE '2024-12-31'",
    "timestamp": "TIMESTAMP '2024-12-31 12:00:00Z', with its offset from UTC",
    "timestamp_ntz": "TIMESTAMP_NTZ '2024-12-31 12:00:00', without an offset",
    **dict.fromkeys(INTEGER_BITS, "a number such as 2024"),
}
"""Instruction for messages: how to write a literal for a column of each type."""
_KINDS: Final = {"string": "text", "decimal": "number", **dict.fromkeys(INTEGER_BITS, "number")}
"""Kind of literal (`FilterLiteral.kind`) for each column type whose name differs from the kind."""


def type_name(type_: ColumnType) -> str:
    """Return the name of a type in a Delta schema."""
    return f"decimal({type_.precision},{type_.scale})" if type_.name == "decimal" else type_.name


class FilterBinder:
    """Convert filters to tests for one table and one recipient."""

    def __init__(self, metadata: TableMetadata, properties: Mapping[str, str] | None) -> None:
        """Create a binder; with `properties=None`, it only checks filters, and no property counts as missing."""
        self._columns = Columns(metadata)
        self._partition_columns = ", ".join(shorten(name) for name in metadata.partition_columns or ())
        self._properties = properties
        self._by_name: dict[str, TableColumn] = {}
        self.columns: dict[str, ColumnType] = {}
        """Types of the filters' columns, by physical name."""
        self.is_missing_property = False
        """Whether the recipient lacks a property or its value has the wrong type."""

    def bind(self, filter_: PartitionFilter) -> Test:
        """Convert a filter to a test; raises InvalidParameter if it does not match the table's columns."""
        return self._test(filter_.condition)

    def _test(self, condition: Condition) -> Test:
        match condition:
            case FilterAnd(conditions):
                return _fold(AND, [self._test(item) for item in conditions])
            case FilterOr(conditions):
                return _fold(OR, [self._test(item) for item in conditions])
            case FilterNot(inner):
                return _not(self._test(inner))
            case FilterIsNull(column):
                return _is_null(self._source(column, self._column(column)))
            case FilterStartsWith(operand, prefix):
                return self._starts_with(operand, prefix)
            case FilterIn(operand, items):
                type_ = self._type(operand, items[0])
                values = frozenset(value for item in items for value in self._values(item, type_, operand))
                return _is_in(self._source(operand, type_), values)
            case FilterComparison():
                return self._comparison(condition)

    def _comparison(self, condition: FilterComparison) -> Test:
        left, right = condition.left, condition.right
        type_ = self._type(left, right)
        if isinstance(left, FilterColumn) and isinstance(right, FilterColumn) and self._column(right) != type_:
            left_type, right_type = type_name(type_), type_name(self._column(right))
            problem = f"{shorten(left.name)} has type {left_type} and {shorten(right.name)} type {right_type}"
            raise filter_error(right.position, problem, "compare only columns of the same type")
        first, second = self._source(left, type_, right), self._source(right, type_, left)
        match condition.operator:
            case "=":
                return _pair(_equal, first, second)
            case "<>":
                return _not(_pair(_equal, first, second))
            case "<":
                return _pair(_less, first, second)
            case ">=":
                return _not(_pair(_less, first, second))
            case ">":
                return _pair(_less, second, first)
            case "<=":
                return _not(_pair(_less, second, first))

    def _starts_with(self, operand: FilterColumn | Property, prefix: str) -> Test:
        type_ = self._column(operand) if isinstance(operand, FilterColumn) else _STRING
        if type_.name != "string":
            problem = f"{shorten(operand.name)} has type {type_name(type_)}, and LIKE requires strings"
            raise filter_error(operand.position, problem, "use >= and <, or BETWEEN")
        source = self._source(operand, type_)

        def test(row: Readings) -> Truth:
            reading = source(row)
            if reading is None or isinstance(reading, InvalidValue):
                return UNKNOWN if reading is None else ANY
            low, high = str(reading[0]), str(reading[1])
            may_match = low[: len(prefix)] <= prefix <= high
            # All strings between two strings with this prefix have it too.
            return truth(may_hold=may_match, may_fail=not (low.startswith(prefix) and high.startswith(prefix)))

        return test

    def _type(self, *operands: Operand) -> ColumnType:
        """Return the type in which operands are compared: that of the first column, or else string."""
        return next((self._column(item) for item in operands if isinstance(item, FilterColumn)), _STRING)

    def _column(self, column: FilterColumn) -> ColumnType:
        return self._table_column(column).type

    def _table_column(self, column: FilterColumn) -> TableColumn:
        if column.name not in self._by_name:
            self._by_name[column.name] = self._find(column)
        return self._by_name[column.name]

    def _find(self, column: FilterColumn) -> TableColumn:
        match = self._columns.find((column.name,))
        name, remedy = shorten(column.name), f"use a partition column: {self._partition_columns}"
        if not self._partition_columns:
            remedy = "the table has no partition columns, which a filter requires"
        if match is None:
            raise filter_error(column.position, f"the table has no column {name}", remedy)
        if not match.is_partition or len(match.path) != 1:
            raise filter_error(column.position, f"{name} is not a partition column", remedy)
        reason = incomparable_reason(match.type)
        if reason is not None:
            problem = f"{name} has type {type_name(match.type)}, and {reason}"
            raise filter_error(column.position, problem, "use another partition column")
        return match

    def _source(self, operand: Operand, type_: ColumnType, other_side: Operand | None = None) -> Source:
        if isinstance(operand, FilterColumn):
            physical = self._table_column(operand).path[0]
            self.columns.setdefault(physical, type_)
            index = list(self.columns).index(physical)
            return lambda row: row[index]
        values = self._values(operand, type_, other_side, single=True)
        if not values:
            return lambda _: InvalidValue.INVALID
        reading = (values[0], values[0])
        return lambda _: reading

    def _values(
        self, operand: Operand, type_: ColumnType, other_side: Operand | None, *, single: bool = False
    ) -> Sequence[Value]:
        """Return the values of a literal or property (if `single`, not a list); empty if the recipient lacks it."""
        if isinstance(operand, FilterLiteral):
            return [_literal(operand, type_, other_side)]
        if self._properties is None or not isinstance(operand, Property):
            return []
        property_value = value_of(self._properties[operand.name]) if operand.name in self._properties else ()
        texts = (property_value,) if isinstance(property_value, str) else () if single else property_value
        values = [parsed for text in texts if (parsed := value(text, type_)) is not None]
        if not values or len(values) < len(texts):
            self.is_missing_property = True
            return []
        return values


def _literal(literal: FilterLiteral, type_: ColumnType, other_side: Operand | None) -> Value:
    """Return a literal's value for comparison with a column of this type; raises InvalidParameter if types differ."""
    if literal.kind == _KINDS.get(type_.name, type_.name):
        return literal.value
    if literal.kind == "text" and type_.name in {"date", "timestamp", "timestamp_ntz"}:
        parsed = value(str(literal.value), type_)
        if parsed is not None:
            return parsed
    name = shorten(other_side.name) if isinstance(other_side, FilterColumn) else "the other side"
    problem = f"{name} has type {type_name(type_)}, and {literal.text} is not valid for it"
    raise filter_error(literal.position, problem, f"write {_EXAMPLES[type_.name]}")


def _fold(table: tuple[tuple[Truth, ...], ...], tests: Sequence[Test]) -> Test:
    first, *rest = tests

    def test(row: Readings) -> Truth:
        result = first(row)
        for following in rest:
            result = table[result][following(row)]
        return result

    return test


def _not(test: Test) -> Test:
    return lambda row: NOT[test(row)]


def _is_null(source: Source) -> Test:
    def test(row: Readings) -> Truth:
        reading = source(row)
        if isinstance(reading, InvalidValue):
            return ANY
        return TRUE if reading is None else FALSE

    return test


def _is_in(source: Source, values: frozenset[Value]) -> Test:
    def test(row: Readings) -> Truth:
        reading = source(row)
        if reading is None or isinstance(reading, InvalidValue):
            return UNKNOWN if reading is None else ANY
        if reading[0] == reading[1]:
            return TRUE if reading[0] in values else FALSE
        may_match = any(not _is_less(item, reading[0]) and not _is_less(reading[1], item) for item in values)
        return truth(may_hold=may_match, may_fail=True)

    return test


def _pair(compare: Callable[[Value, Value, Value, Value], Truth], left: Source, right: Source) -> Test:
    def test(row: Readings) -> Truth:
        first, second = left(row), right(row)
        if first is None or second is None:
            # A comparison with null is unknown, even if the other value is unreadable.
            return UNKNOWN
        if isinstance(first, InvalidValue) or isinstance(second, InvalidValue):
            return ANY
        return compare(*first, *second)

    return test


def _equal(low: Value, high: Value, other_low: Value, other_high: Value) -> Truth:
    is_disjoint = _is_less(high, other_low) or _is_less(other_high, low)
    is_exact = low == high and other_low == other_high
    return truth(may_hold=not is_disjoint, may_fail=is_disjoint or not is_exact)


def _less(low: Value, high: Value, other_low: Value, other_high: Value) -> Truth:
    return truth(may_hold=_is_less(low, other_high), may_fail=not _is_less(high, other_low))


def _is_less(left: Any, right: Any) -> bool:
    """Compare two values of the same type: strings by code point, numbers exactly."""
    return bool(left < right)
