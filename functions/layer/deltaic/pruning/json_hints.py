"""Parses `jsonPredicateHints` into an expression; what it cannot read selects everything.

PROTOCOL.md, "JSON predicates for Filtering": hints are best effort, so nothing here raises. A node that is not
understood becomes Unknown, and what stands beside it still prunes.

A hint stands for everything that its user may have written (decision 7), and Spark's connector writes less than it was
given (`OpConverter` of its client, up to 1.4.1): times are cut to milliseconds, towards zero; null becomes the text
`null`, a null time the epoch; of casts within casts only the innermost is left, and what a literal was compared with
then has another type than the literal; bytes that are no UTF-8 become U+FFFD.
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
# The last two are not in the protocol; clients that have them mean what their names say.
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
"""Microseconds that a time loses when it is cut to milliseconds."""
_NULL: Final = "null"
_NULL_TIME: Final = "1970-01-01T00:00:00Z"
_REPLACED: Final = "\ufffd"


class _UnreadableNode(Exception):
    """The node does not have the shape that its op requires."""


class _TooDeep(Exception):
    """The tree is deeper than any client builds."""


def parse_json(hint: str) -> Expression | None:
    """Return the predicate, or None when the hint filters nothing: empty, over 1 MiB, over 100 levels, or not JSON."""
    if not hint.strip() or len(hint) > MAX_BYTES:
        return None
    try:
        text = hint.encode()
        if len(text) > MAX_BYTES:
            return None
        return _node(msgspec.json.decode(text), 1)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, _TooDeep):
        return None


def _node(node: Any, depth: int) -> Expression:
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


def _children(node: dict[str, Any], *counts: int) -> list[Any]:
    children = node.get("children")
    if not isinstance(children, list) or (counts and len(children) not in counts):
        raise _UnreadableNode
    return children


def _leaf(node: Any) -> Column | Literal:
    op = node.get("op") if isinstance(node, dict) else None
    if op == "column":
        return _column(node, 0)
    if op == "literal":
        return _literal(node, 0)
    raise _UnreadableNode


def _type(node: dict[str, Any]) -> str | None:
    name = node.get("valueType")
    if name is None:
        return None
    if not isinstance(name, str) or name.lower() not in _TYPES:
        raise _UnreadableNode
    return _TYPES[name.lower()]


def _column(node: dict[str, Any], _: int) -> Column:
    name = node.get("name")
    if not isinstance(name, str) or not name:
        raise _UnreadableNode
    return Column((name,), _type(node))


def _literal(node: dict[str, Any], _: int) -> Literal:
    value, type_ = node.get("value"), _type(node)
    # "value" is a string on the wire; a bare JSON scalar has one reading too, but null may be an absent value.
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


def _same_type(*leaves: Column | Literal) -> None:
    """Refuse operands of different types, as the reference does: a cast between them was left out."""
    if len({leaf.type for leaf in leaves if leaf.type is not None}) > 1:
        raise _UnreadableNode


def _comparison(node: dict[str, Any], _: int) -> Expression:
    left, right = map(_leaf, _children(node, _PAIR))
    _same_type(left, right)
    operator = _COMPARISONS[node["op"]]
    if operator == "<=>" and (_may_be_null(left) or _may_be_null(right)):
        raise _UnreadableNode
    return Comparison(operator, left, right)


def _is_null(node: dict[str, Any], _: int) -> Expression:
    (operand,) = map(_leaf, _children(node, 1))
    return Unknown() if _may_be_null(operand) else IsNull(operand)


def _in(node: dict[str, Any], _: int) -> Expression:
    leaves = list(map(_leaf, _children(node)))
    _same_type(*leaves)
    literals = tuple(value for value in leaves[1:] if isinstance(value, Literal))
    if not literals or len(literals) < len(leaves) - 1:
        raise _UnreadableNode
    return In(leaves[0], literals)


def _starts_with(node: dict[str, Any], _: int) -> Expression:
    column, prefix = map(_leaf, _children(node, _PAIR))
    if not isinstance(column, Column) or not isinstance(prefix, Literal) or prefix.text is None:
        raise _UnreadableNode
    return StartsWith(column, prefix.text) if prefix.type == "string" else Unknown()


def _junction(node: dict[str, Any], depth: int) -> Expression:
    children = tuple(_node(child, depth + 1) for child in _children(node))
    if not children:
        return Unknown()
    return And(children) if node["op"] == "and" else Or(children)


def _not(node: dict[str, Any], depth: int) -> Expression:
    (operand,) = _children(node, 1)
    return Not(_node(operand, depth + 1))


_READERS: Final[dict[str, Callable[[dict[str, Any], int], Expression]]] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    "column": _column,
    "literal": _literal,
    "isNull": _is_null,
    "in": _in,
    "startsWith": _starts_with,
    "and": _junction,
    "or": _junction,
    "not": _not,
}
