"""A query predicate, whichever language it was written in: one tree of frozen nodes.

`sql_hints` and `json_hints` parse into it; `skipper` asks of each file whether it may hold a row for which the tree is
true. The meaning is SQL's three-valued logic, where only true selects a row. Type names are those
of a Delta schema: boolean, byte, short, integer, long, float, double, decimal(p,s), string, date, timestamp,
timestamp_ntz, binary.
"""

from typing import Literal as OneOf
from typing import TypeAlias

import msgspec

Operator: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">=", "<=>"]
"""`<=>` is null-safe equality: null equals null, and the answer is never null."""


class Column(msgspec.Struct, frozen=True):
    """A column by its logical name, nested ones by one element a level; names match whatever their case.

    `type` is what the predicate says that the column is, None where it says nothing; one that is not the column's own
    tells of a cast. An element may hold dots that were meant as levels: JSON hints have one name only.
    """

    path: tuple[str, ...]
    type: str | None = None


class Literal(msgspec.Struct, frozen=True):
    """A constant as text that is still to be read as `type`; no text means null, whatever the type."""

    text: str | None
    type: str
    within: int = 0
    """Microseconds by which a time may be off, either way: some clients cut what their users wrote."""


class Cast(msgspec.Struct, frozen=True):
    """A column's value, converted to another type."""

    operand: Column
    type: str


Operand: TypeAlias = Column | Cast | Literal


class Comparison(msgspec.Struct, frozen=True):
    """`left operator right`, in the order in which it was written."""

    operator: Operator
    left: Operand
    right: Operand


class In(msgspec.Struct, frozen=True):
    """Equality with any of `values`; null as SQL has it."""

    operand: Operand
    values: tuple[Literal, ...]


class StartsWith(msgspec.Struct, frozen=True):
    """The string begins with `prefix`, case-sensitively."""

    operand: Column
    prefix: str


class IsNull(msgspec.Struct, frozen=True):
    """The operand is null; never null itself."""

    operand: Operand


class And(msgspec.Struct, frozen=True):
    """All children, by three-valued logic."""

    children: tuple["Expression", ...]


class Or(msgspec.Struct, frozen=True):
    """Any child, by three-valued logic."""

    children: tuple["Expression", ...]


class Not(msgspec.Struct, frozen=True):
    """The opposite; of null, null."""

    operand: "Expression"


class Unknown(msgspec.Struct, frozen=True):
    """A part that was not understood: it may be true, false or null for any row, and so may its opposite."""


Expression: TypeAlias = Column | Literal | Comparison | In | StartsWith | IsNull | And | Or | Not | Unknown
"""A column or a literal stands alone where it is boolean."""


def conjunction(*predicates: Expression | None) -> Expression | None:
    """Return the conjunction of what is there; None, which selects everything, when nothing is."""
    present = tuple(predicate for predicate in predicates if predicate is not None)
    if len(present) > 1:
        return And(present)
    return present[0] if present else None
