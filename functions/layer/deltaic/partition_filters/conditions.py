"""Holds what a partition filter says: a tree of conditions over columns, literals and properties of the recipient."""

from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
Kind: TypeAlias = Literal["text", "number", "boolean", "date", "timestamp", "timestamp_ntz"]


class FilterColumn(msgspec.Struct, frozen=True):
    """A column by the name that was written, in any case."""

    name: str
    position: int


class Property(msgspec.Struct, frozen=True):
    """What the recipient's property of that name holds."""

    name: str
    position: int


class FilterLiteral(msgspec.Struct, frozen=True):
    """A constant."""

    kind: Kind
    value: str | int | Decimal
    """A boolean is 1 or 0, a date days, a timestamp microseconds since the epoch."""
    position: int
    shown: str


Operand: TypeAlias = FilterColumn | Property | FilterLiteral
Item: TypeAlias = Property | FilterLiteral


class FilterComparison(msgspec.Struct, frozen=True):
    """Two operands, not both literals."""

    operator: Operator
    left: Operand
    right: Operand


class FilterIn(msgspec.Struct, frozen=True):
    """Whether an operand equals one of the items; a property among them may hold a list."""

    operand: Operand
    items: tuple[Item, ...]


class FilterIsNull(msgspec.Struct, frozen=True):
    """Whether a column is null."""

    column: FilterColumn


class FilterStartsWith(msgspec.Struct, frozen=True):
    """Whether a text begins so (LIKE 'x%')."""

    operand: FilterColumn | Property
    prefix: str


class FilterNot(msgspec.Struct, frozen=True):
    """The opposite."""

    condition: "Condition"


class FilterAnd(msgspec.Struct, frozen=True):
    """All of two or more."""

    conditions: tuple["Condition", ...]


class FilterOr(msgspec.Struct, frozen=True):
    """One of two or more."""

    conditions: tuple["Condition", ...]


Condition: TypeAlias = FilterComparison | FilterIn | FilterIsNull | FilterStartsWith | FilterNot | FilterAnd | FilterOr


class PartitionFilter(msgspec.Struct, frozen=True):
    """A filter that was read: equal to another one if the text is the same."""

    text: str
    columns: tuple[str, ...]
    """The columns that it names, as first written, each once whatever the case."""
    properties: tuple[str, ...]
    """The recipient's properties that it names; a recipient that lacks one of them sees no rows."""
    condition: Condition
