"""Parse `jsonPredicateHints` into an expression; an unreadable hint selects all rows.

PROTOCOL.md, "JSON predicates for Filtering": hints are best effort, so nothing here raises an error. An unsupported
node becomes Unknown, and the other nodes still prune.

A hint must keep the rows of every query that could have produced it (decision 7). Spark's connector loses details
(`OpConverter` of its client, up to 1.4.1): it rounds times towards zero to milliseconds; it sends null as the string
`null`, and a null time as the epoch; it sends only the innermost of nested casts, so a literal can have another type
than the column; it replaces bytes that are not UTF-8 by U+FFFD.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from deltaic.pruning.expressions import (
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    StartsWith,
    Unknown,
)

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 100

_TYPES: Final = {
    "bool": "boolean",
    "int": "integer",
    "long": "long",
    "string": "string",
    "date": "date",
    "float": "float",
    "double": "double",
    "timestamp": "timestamp",
}
# The last two are not in the protocol, but some clients send them.
_COMPARISONS: Final[dict[str, Operator]] = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
    "notEqual": "<>",
    "equalNullSafe": "<=>",
}
_PAIR: Final = 2
_CUT: Final = 999
"""Microseconds that a time can lose when it is rounded to milliseconds."""
_NULL: Final = "null"
_NULL_TIME: Final = "1970-01-01T00:00:00Z"
_REPLACED: Final = "\ufffd"


class _UnreadableNode(Exception):
    """Raised for a JSON node without the fields that its `op` requires."""


class _TooDeep(Exception):
    """Raised for a JSON tree that is deeper than those of known clients."""


def parse_json(hint: str) -> Expression | None:
    """Parse a JSON hint to a predicate; None if it is empty, invalid or too large."""
    if not hint.strip() or len(hint) > MAX_BYTES:
        return None
    try:
        text = hint.encode()
        if len(text) > MAX_BYTES:
            return None
        return _parse_node(msgspec.json.decode(text), 1)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, _TooDeep):
        return None


def _parse_node(node: Any, depth: int) -> Expression:
    if depth > MAX_DEPTH:
        raise _TooDeep
    if not isinstance(node, dict):
        return Unknown()
    op = node.get("op")
    read = _READERS.get(op) if isinstance(op, str) else None
    if read is None:
        return Unknown()
    try:
        return read(node, depth)
    except _UnreadableNode:
        return Unknown()


def _read_children(node: dict[str, Any], *counts: int) -> list[Any]:
    children = node.get("children")
    if not isinstance(children, list) or (counts and len(children) not in counts):
        raise _UnreadableNode
    return children


def _parse_leaf(node: Any) -> Column | Literal:
    op = node.get("op") if isinstance(node, dict) else None
    if op == "column":
        return _parse_column(node, 0)
    if op == "literal":
        return _parse_literal(node, 0)
    raise _UnreadableNode


def _read_type(node: dict[str, Any]) -> str | None:
    name = node.get("valueType")
    if name is None:
        return None
    if not isinstance(name, str) or name.lower() not in _TYPES:
        raise _UnreadableNode
    return _TYPES[name.lower()]


def _parse_column(node: dict[str, Any], _: int) -> Column:
    name = node.get("name")
    if not isinstance(name, str) or not name:
        raise _UnreadableNode
    return Column((name,), _read_type(node))


def _parse_literal(node: dict[str, Any], _: int) -> Literal:
    value, type_ = node.get("value"), _read_type(node)
    # The protocol sends "value" as a string; other JSON scalars are unambiguous too, except null.
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int):
        value = str(value)
    if not isinstance(value, str) or type_ is None or _REPLACED in value:
        raise _UnreadableNode
    return Literal(value, type_, _CUT if type_ == "timestamp" else 0)


def _may_be_null(leaf: Column | Literal) -> bool:
    if not isinstance(leaf, Literal):
        return False
    return leaf.text == _NULL or (leaf.type == "timestamp" and leaf.text == _NULL_TIME)


def _check_same_type(*leaves: Column | Literal) -> None:
    """Reject operands of different types, as the reference server does, because the client omitted a cast."""
    if len({leaf.type for leaf in leaves if leaf.type is not None}) > 1:
        raise _UnreadableNode


def _parse_comparison(node: dict[str, Any], _: int) -> Expression:
    left, right = map(_parse_leaf, _read_children(node, _PAIR))
    _check_same_type(left, right)
    operator = _COMPARISONS[node["op"]]
    if operator == "<=>" and (_may_be_null(left) or _may_be_null(right)):
        raise _UnreadableNode
    return Comparison(operator, left, right)


def _parse_is_null(node: dict[str, Any], _: int) -> Expression:
    (operand,) = map(_parse_leaf, _read_children(node, 1))
    return Unknown() if _may_be_null(operand) else IsNull(operand)


def _parse_in(node: dict[str, Any], _: int) -> Expression:
    leaves = list(map(_parse_leaf, _read_children(node)))
    _check_same_type(*leaves)
    literals = tuple(value for value in leaves[1:] if isinstance(value, Literal))
    if not literals or len(literals) < len(leaves) - 1:
        raise _UnreadableNode
    return In(leaves[0], literals)


def _parse_starts_with(node: dict[str, Any], _: int) -> Expression:
    column, prefix = map(_parse_leaf, _read_children(node, _PAIR))
    if not isinstance(column, Column) or not isinstance(prefix, Literal) or prefix.text is None:
        raise _UnreadableNode
    return StartsWith(column, prefix.text) if prefix.type == "string" else Unknown()


def _parse_junction(node: dict[str, Any], depth: int) -> Expression:
    children = tuple(_parse_node(child, depth + 1) for child in _read_children(node))
    if not children:
        return Unknown()
    return And(children) if node["op"] == "and" else Or(children)


def _parse_not(node: dict[str, Any], depth: int) -> Expression:
    (operand,) = _read_children(node, 1)
    return Not(_parse_node(operand, depth + 1))


_READERS: Final[dict[str, Callable[[dict[str, Any], int], Expression]]] = {
    **dict.fromkeys(_COMPARISONS, _parse_comparison),
    "column": _parse_column,
    "literal": _parse_literal,
    "isNull": _parse_is_null,
    "in": _parse_in,
    "startsWith": _parse_starts_with,
    "and": _parse_junction,
    "or": _parse_junction,
    "not": _parse_not,
}
