"""Syntax tree of a partition filter: conditions over columns, literals and properties of the recipient."""

from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
Kind: TypeAlias = Literal["text", "number", "boolean", "date", "timestamp", "timestamp_ntz"]


class FilterColumn(msgspec.Struct, frozen=True):
    """Reference to a column, by case-insensitive name."""

    name: str
    position: int


class Property(msgspec.Struct, frozen=True):
    """Reference to a property of the recipient."""

    name: str
    position: int


class FilterLiteral(msgspec.Struct, frozen=True):
    """A literal in a filter."""

    kind: Kind
    value: str | int | Decimal
    """Booleans are 1 or 0, dates are days and timestamps microseconds since the epoch."""
    position: int
    text: str
    """The literal as written, shortened for messages."""


Operand: TypeAlias = FilterColumn | Property | FilterLiteral
Item: TypeAlias = Property | FilterLiteral


class FilterComparison(msgspec.Struct, frozen=True):
    """A comparison of two operands, at most one of which is a literal."""

    operator: Operator
    left: Operand
    right: Operand


class FilterIn(msgspec.Struct, frozen=True):
    """Condition `operand IN (items)`, in which properties can be lists."""

    operand: Operand
    items: tuple[Item, ...]


class FilterIsNull(msgspec.Struct, frozen=True):
    """Condition `column IS NULL`."""

    column: FilterColumn


class FilterStartsWith(msgspec.Struct, frozen=True):
    """Condition `operand LIKE 'prefix%'`."""

    operand: FilterColumn | Property
    prefix: str


class FilterNot(msgspec.Struct, frozen=True):
    """Negation of a condition."""

    condition: "Condition"


class FilterAnd(msgspec.Struct, frozen=True):
    """AND of two or more conditions."""

    conditions: tuple["Condition", ...]


class FilterOr(msgspec.Struct, frozen=True):
    """OR of two or more conditions."""

    conditions: tuple["Condition", ...]


Condition: TypeAlias = FilterComparison | FilterIn | FilterIsNull | FilterStartsWith | FilterNot | FilterAnd | FilterOr


class PartitionFilter(msgspec.Struct, frozen=True):
    """A parsed partition filter. Filters that are written the same are equal."""

    text: str
    columns: tuple[str, ...]
    """Distinct column names, each as it is first written in the filter."""
    properties: tuple[str, ...]
    """Properties that the filter uses. A recipient who lacks a property sees no rows."""
    condition: Condition
