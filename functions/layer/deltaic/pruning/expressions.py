"""Expression tree for query predicates, whether they were written in SQL or as JSON.

`sql_hints` and `json_hints` parse into it, and `skipper` asks for each file whether it may contain a row for which the
tree is true. It has SQL's three-valued logic, where only true selects a row. Type names are those of a Delta schema:
boolean, byte, short, integer, long, float, double, decimal(p,s), string, date, timestamp, timestamp_ntz, binary.
"""

from typing import Literal as OneOf
from typing import TypeAlias

import msgspec

Operator: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">=", "<=>"]
"""`<=>` is null-safe equality: null equals null, and the result is never null."""


class Column(msgspec.Struct, frozen=True):
    """A column by its case-insensitive logical name, with one element per level of nesting.

    `type` is the type in the predicate, None if it has none. If it is not the column's own type, the client omitted a
    cast. An element can contain dots that separate levels, because JSON hints have a single name.
    """

    path: tuple[str, ...]
    type: str | None = None


class Literal(msgspec.Struct, frozen=True):
    """A constant: a string to parse as `type`. None means null, whatever the type."""

    text: str | None
    type: str
    tolerance: int = 0
    """Microseconds by which a time can be off, in both directions, because some clients round times."""


class Cast(msgspec.Struct, frozen=True):
    """`CAST(operand AS type)` of a column's value."""

    operand: Column
    type: str


Operand: TypeAlias = Column | Cast | Literal


class Comparison(msgspec.Struct, frozen=True):
    """`left operator right`, with the operands in the order of the query."""

    operator: Operator
    left: Operand
    right: Operand


class In(msgspec.Struct, frozen=True):
    """`operand IN (values)`, with null as in SQL."""

    operand: Operand
    values: tuple[Literal, ...]


class StartsWith(msgspec.Struct, frozen=True):
    """Case-sensitive test whether a string starts with `prefix`."""

    operand: Column
    prefix: str


class IsNull(msgspec.Struct, frozen=True):
    """`operand IS NULL`; the result is never null."""

    operand: Operand


class And(msgspec.Struct, frozen=True):
    """AND of all children in three-valued logic."""

    children: tuple["Expression", ...]


class Or(msgspec.Struct, frozen=True):
    """OR of all children in three-valued logic."""

    children: tuple["Expression", ...]


class Not(msgspec.Struct, frozen=True):
    """Negation in three-valued logic: null remains null."""

    operand: "Expression"


class Unknown(msgspec.Struct, frozen=True):
    """An unsupported part of a predicate, whose result can be true, false or null."""


Expression: TypeAlias = Column | Literal | Comparison | In | StartsWith | IsNull | And | Or | Not | Unknown
"""A boolean column or literal is an expression by itself."""


def conjunction(*predicates: Expression | None) -> Expression | None:
    """Combine the predicates that are not None with AND; None if there are none, which selects all rows."""
    present = tuple(predicate for predicate in predicates if predicate is not None)
    if len(present) > 1:
        return And(present)
    return present[0] if present else None
