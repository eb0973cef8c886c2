"""Convert the literals of a parsed SQL tree to values and types as in Spark.

Only `sql_tree` imports this module, after the parser. A literal that would be rounded, overflow or depend on
Spark's configuration raises UnsupportedSql.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from deltaic.pruning.expressions import Literal
from deltaic.pruning.values import INTEGER_BITS, MAX_PRECISION

_TYPES: Final = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}
_NULL: Final = Literal(None, "string")

Trust = Callable[[Any], bool]
"""Returns whether a string literal is unambiguous."""


class UnsupportedSql(Exception):
    """Raised for a SQL node that is not supported."""


def check_arguments(node: Any, *supported: str) -> None:
    """Raise UnsupportedSql if a node has arguments other than `supported`, which could invert its meaning."""
    if any(value for name, value in node.args.items() if name not in supported):
        raise UnsupportedSql


def type_name(node: Any) -> str:
    """Return the Delta schema name of a SQL type."""
    name = node.this.name
    arguments = [int(str(argument.this.this)) for argument in node.expressions]
    if name == "DECIMAL":
        precision, scale = (*arguments, 10, 0)[:2] if not arguments else (*arguments, 0)[:2]
        return f"decimal({precision},{scale})"
    if arguments or name not in _TYPES:
        raise UnsupportedSql
    return _TYPES[name]


def literal(node: Any, trusted: Trust) -> Literal:
    """Convert a SQL node to a constant; raises UnsupportedSql for other nodes and ambiguous strings."""
    if isinstance(node, exp.Paren):
        return literal(node.this, trusted)
    if isinstance(node, exp.Null):
        return _NULL
    if isinstance(node, exp.Boolean):
        return Literal("true" if node.this else "false", "boolean")
    if isinstance(node, exp.Neg):
        number = literal(node.this, trusted)
        if number.text is None or number.text.startswith("-") or not _is_number(number.type):
            raise UnsupportedSql
        return Literal("-" + number.text, number.type)
    if isinstance(node, exp.Cast):
        check_arguments(node, "this", "to", "safe")
        return _cast(literal(node.this, trusted), type_name(node.to))
    if isinstance(node, exp.Literal) and (not node.is_string or trusted(node)):
        return Literal(str(node.this), "string") if node.is_string else _number(str(node.this))
    raise UnsupportedSql


def _is_number(type_: str) -> bool:
    return type_ in INTEGER_BITS or type_ in {"float", "double"} or type_.startswith("decimal")


def _number(text: str) -> Literal:
    """Return a numeric literal with its type in Spark: integer, long, double or decimal."""
    if "e" in text.lower():
        return Literal(text, "double")
    if not text.isascii() or not text.replace(".", "", 1).isdigit():
        raise UnsupportedSql
    digits = Decimal(text).as_tuple()
    scale = -int(digits.exponent)
    precision = max(len(digits.digits), scale)
    if "." not in text:
        for type_ in ("integer", "long"):
            if abs(int(text)) < 1 << INTEGER_BITS[type_]:
                return Literal(text, type_)
    if precision > MAX_PRECISION:
        raise UnsupportedSql
    return Literal(text, f"decimal({precision},{scale})")


def _cast(literal: Literal, type_: str) -> Literal:
    """Convert a literal to another type; raises UnsupportedSql if its value could change."""
    if literal.text is None or literal.type == type_:
        return Literal(literal.text, type_)
    numeric = _is_number(literal.type) and literal.type not in {"float", "double"}
    if literal.type == "string" or (numeric and type_ in {"float", "double"}):
        return Literal(literal.text, type_)
    if literal.type == "date" and type_ in {"timestamp", "timestamp_ntz"}:
        return Literal(literal.text, type_)
    if literal.type in INTEGER_BITS and type_ in INTEGER_BITS and abs(int(literal.text)) < 1 << INTEGER_BITS[type_]:
        return Literal(literal.text, type_)
    if numeric and type_.startswith("decimal"):
        return Literal(literal.text, type_)
    raise UnsupportedSql
