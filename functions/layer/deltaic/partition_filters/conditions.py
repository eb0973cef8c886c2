"""Holds what a partition filter says: a tree of conditions over columns, literals and properties of the recipient."""

from decimal import Decimal
from typing import Literal as OneOf
from typing import TypeAlias

import msgspec

Operator: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">="]
Kind: TypeAlias = OneOf["text", "number", "boolean", "date", "timestamp", "timestamp_ntz"]


class Column(msgspec.Struct, frozen=True):
    """A column by the name that was written, in any case."""

    name: str
    position: int


class Property(msgspec.Struct, frozen=True):
    """What the recipient's property of that name holds."""

    name: str
    position: int


class Literal(msgspec.Struct, frozen=True):
    """A constant."""

    kind: Kind
    value: str | int | Decimal
    """A boolean is 1 or 0, a date days, a timestamp microseconds since the epoch."""
    position: int
    shown: str


Operand: TypeAlias = Column | Property | Literal
Item: TypeAlias = Property | Literal


class Comparison(msgspec.Struct, frozen=True):
    """Two operands, not both literals."""

    operator: Operator
    left: Operand
    right: Operand


class In(msgspec.Struct, frozen=True):
    """Whether an operand equals one of the items; a property among them may hold a list."""

    operand: Operand
    items: tuple[Item, ...]


class IsNull(msgspec.Struct, frozen=True):
    """Whether a column is null."""

    column: Column


class StartsWith(msgspec.Struct, frozen=True):
    """Whether a text begins so (LIKE 'x%')."""

    operand: Column | Property
    prefix: str


class Not(msgspec.Struct, frozen=True):
    """The opposite."""

    condition: "Condition"


class And(msgspec.Struct, frozen=True):
    """All of two or more."""

    conditions: tuple["Condition", ...]


class Or(msgspec.Struct, frozen=True):
    """One of two or more."""

    conditions: tuple["Condition", ...]


Condition: TypeAlias = Comparison | In | IsNull | StartsWith | Not | And | Or


class PartitionFilter(msgspec.Struct, frozen=True):
    """A filter that was read: equal to another one if the text is the same."""

    text: str
    columns: tuple[str, ...]
    """The columns that it names, as first written, each once whatever the case."""
    properties: tuple[str, ...]
    """The recipient's properties that it names; a recipient that lacks one of them sees no rows."""
    condition: Condition
