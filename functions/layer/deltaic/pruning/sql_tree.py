"""Turns a parsed SQL tree into an expression: the grammar of the protocol and what clients write besides.

Imported by `sql_hints` alone, after the parser: everything here is a node of sqlglot's tree on one side and of ours on
the other. An argument that is not known (a negated LIKE, a subquery in IN) makes the node Unknown, never ignored.
"""

from typing import Any, Final

from sqlglot import exp

from deltaic.pruning.expressions import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Operand,
    Operator,
    Or,
    StartsWith,
    Unknown,
)
from deltaic.pruning.sql_literals import Misread, Trust, literal, only, type_name

_COMPARISONS: Final[dict[type[exp.Expression], Operator]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}


def expression(node: Any, trusted: Trust) -> Expression:
    """Return what a parsed condition means; `trusted` is false for string literals that may mean something else."""
    try:
        return _expression(node, trusted)
    except Misread:
        return Unknown()


def _expression(node: Any, trusted: Trust) -> Expression:
    if isinstance(node, exp.Paren):
        return expression(node.this, trusted)
    if isinstance(node, (exp.And, exp.Or)):
        children = tuple(expression(child, trusted) for child in node.flatten())
        return And(children) if isinstance(node, exp.And) else Or(children)
    if isinstance(node, exp.Not):
        return Not(expression(node.this, trusted))
    if type(node) in _COMPARISONS:
        only(node, "this", "expression")
        return _comparison(_COMPARISONS[type(node)], node, trusted)
    if isinstance(node, exp.NullSafeNEQ):
        only(node, "this", "expression")
        return Not(_comparison("<=>", node, trusted))
    if isinstance(node, exp.Between):
        only(node, "this", "low", "high")
        operand = _operand(node.this, trusted)
        low, high = _bound(node.args["low"], trusted), _bound(node.args["high"], trusted)
        return And(
            (
                Unknown() if low is None else Comparison(">=", operand, low),
                Unknown() if high is None else Comparison("<=", operand, high),
            )
        )
    if isinstance(node, exp.In):
        only(node, "this", "expressions")
        if not node.expressions:
            raise Misread
        return In(_operand(node.this, trusted), tuple(literal(value, trusted) for value in node.expressions))
    if isinstance(node, exp.Is):
        only(node, "this", "expression")
        return _is(node, trusted)
    if isinstance(node, (exp.Like, exp.Escape, exp.StartsWith)):
        return _like(node, trusted)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in {"isnull", "isnotnull"}:
        (argument,) = node.expressions
        test = IsNull(_operand(argument, trusted))
        return test if str(node.this).lower() == "isnull" else Not(test)
    operand = _operand(node, trusted)
    return Unknown() if isinstance(operand, Cast) else operand


def _comparison(operator: Operator, node: Any, trusted: Trust) -> Comparison:
    return Comparison(operator, _operand(node.this, trusted), _operand(node.expression, trusted))


def _bound(node: Any, trusted: Trust) -> Operand | None:
    try:
        return _operand(node, trusted)
    except Misread:
        return None


def _is(node: Any, trusted: Trust) -> Expression:
    if isinstance(node.expression, exp.Null):
        return IsNull(_operand(node.this, trusted))
    if isinstance(node.expression, exp.Boolean):
        return _comparison("<=>", node, trusted)
    raise Misread


def _like(node: Any, trusted: Trust) -> Expression:
    escape, like = "\\", node
    if isinstance(node, exp.Escape):
        escape, like = str(node.expression.this), node.this
    only(like, "this", "expression", "negate")
    column, pattern = _operand(like.this, trusted), literal(like.expression, trusted)
    if not isinstance(column, Column) or pattern.type != "string" or pattern.text is None:
        raise Misread
    if isinstance(like, exp.StartsWith):
        return StartsWith(column, pattern.text)
    if not isinstance(like, exp.Like) or len(escape) != 1:
        raise Misread
    test = _pattern(column, pattern.text, escape)
    return Not(test) if like.args.get("negate") else test


def _pattern(column: Column, pattern: str, escape: str) -> Expression:
    prefix, position = "", 0
    while position < len(pattern) and pattern[position] not in "%_":
        if pattern[position] == escape:
            position += 1
            if pattern[position : position + 1] not in ("%", "_", escape):
                raise Misread
        prefix += pattern[position]
        position += 1
    if position == len(pattern):
        return Comparison("=", column, Literal(prefix, "string"))
    if pattern[position:] == "%":
        return StartsWith(column, prefix)
    return And((StartsWith(column, prefix), Unknown()))


def _operand(node: Any, trusted: Trust) -> Operand:
    if isinstance(node, exp.Paren):
        return _operand(node.this, trusted)
    if isinstance(node, (exp.Column, exp.Dot)):
        return _column(node)
    if isinstance(node, exp.Cast) and isinstance(node.this, (exp.Column, exp.Dot)):
        only(node, "this", "to", "safe")
        return Cast(_column(node.this), type_name(node.to))
    return literal(node, trusted)


def _column(node: Any) -> Column:
    path = _path(node)
    # Spark's connector writes `partitionValues.day` for the partition column `day`; a struct may have that name too.
    if len(path) > 1 and path[0] == "partitionValues":
        raise Misread
    return Column(path)


def _path(node: Any) -> tuple[str, ...]:
    if isinstance(node, exp.Dot):
        return (*_path(node.this), *_path(node.expression))
    if isinstance(node, exp.Identifier):
        return (str(node.this),)
    if isinstance(node, exp.Column) and all(isinstance(part, exp.Identifier) for part in node.parts):
        return tuple(str(part.this) for part in node.parts)
    raise Misread
