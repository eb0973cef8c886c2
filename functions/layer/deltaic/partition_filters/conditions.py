"""Holds what a partition filter says: a tree of conditions over columns, literals and properties of the recipient."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal as OneOf
from typing import TypeAlias

Operator: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">="]
Kind: TypeAlias = OneOf["text", "number", "boolean", "date", "timestamp", "timestamp_ntz"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column by the name that was written, in any case."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Property:
    """What the recipient's property of that name holds."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    kind: Kind
    value: str | int | Decimal
    """A boolean is 1 or 0, a date days, a timestamp microseconds since the epoch."""
    position: int
    shown: str


Operand: TypeAlias = Column | Property | Literal
Item: TypeAlias = Property | Literal


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two operands, not both literals."""

    operator: Operator
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class In:
    """Whether an operand equals one of the items; a property among them may hold a list."""

    operand: Operand
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is null."""

    column: Column


@dataclass(frozen=True, slots=True)
class StartsWith:
    """Whether a text begins so (LIKE 'x%')."""

    operand: Column | Property
    prefix: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    condition: "Condition"


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of two or more."""

    conditions: tuple["Condition", ...]


Condition: TypeAlias = Comparison | In | IsNull | StartsWith | Not | And | Or


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A filter that was read: equal to another one if the text is the same."""

    text: str
    columns: tuple[str, ...]
    """The columns that it names, as first written, each once whatever the case."""
    properties: tuple[str, ...]
    """The recipient's properties that it names; a recipient that lacks one of them sees no rows."""
    condition: Condition
