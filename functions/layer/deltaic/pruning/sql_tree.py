"""Convert a parsed SQL tree to an expression.

Only `sql_hints` imports this module, after the parser. A node with an unsupported argument (a negated LIKE, a subquery
in IN) becomes Unknown; the argument is never ignored.
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
from deltaic.pruning.sql_literals import Trust, UnsupportedSql, check_arguments, literal, type_name

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
    """Convert a parsed condition to an expression; `trusted` returns false for ambiguous string literals."""
    try:
        return _convert(node, trusted)
    except UnsupportedSql:
        return Unknown()


def _convert(node: Any, trusted: Trust) -> Expression:
    if isinstance(node, exp.Paren):
        return expression(node.this, trusted)
    if isinstance(node, (exp.And, exp.Or)):
        children = tuple(expression(child, trusted) for child in node.flatten())
        return And(children) if isinstance(node, exp.And) else Or(children)
    if isinstance(node, exp.Not):
        return Not(expression(node.this, trusted))
    if type(node) in _COMPARISONS:
        check_arguments(node, "this", "expression")
        return _convert_comparison(_COMPARISONS[type(node)], node, trusted)
    if isinstance(node, exp.NullSafeNEQ):
        check_arguments(node, "this", "expression")
        return Not(_convert_comparison("<=>", node, trusted))
    if isinstance(node, exp.Between):
        check_arguments(node, "this", "low", "high")
        operand = _convert_operand(node.this, trusted)
        low, high = _convert_bound(node.args["low"], trusted), _convert_bound(node.args["high"], trusted)
        return And(
            (
                Unknown() if low is None else Comparison(">=", operand, low),
                Unknown() if high is None else Comparison("<=", operand, high),
            )
        )
    if isinstance(node, exp.In):
        check_arguments(node, "this", "expressions")
        if not node.expressions:
            raise UnsupportedSql
        return In(_convert_operand(node.this, trusted), tuple(literal(value, trusted) for value in node.expressions))
    if isinstance(node, exp.Is):
        check_arguments(node, "this", "expression")
        return _convert_is(node, trusted)
    if isinstance(node, (exp.Like, exp.Escape, exp.StartsWith)):
        return _convert_like(node, trusted)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in {"isnull", "isnotnull"}:
        (argument,) = node.expressions
        test = IsNull(_convert_operand(argument, trusted))
        return test if str(node.this).lower() == "isnull" else Not(test)
    operand = _convert_operand(node, trusted)
    return Unknown() if isinstance(operand, Cast) else operand


def _convert_comparison(operator: Operator, node: Any, trusted: Trust) -> Comparison:
    return Comparison(operator, _convert_operand(node.this, trusted), _convert_operand(node.expression, trusted))


def _convert_bound(node: Any, trusted: Trust) -> Operand | None:
    try:
        return _convert_operand(node, trusted)
    except UnsupportedSql:
        return None


def _convert_is(node: Any, trusted: Trust) -> Expression:
    if isinstance(node.expression, exp.Null):
        return IsNull(_convert_operand(node.this, trusted))
    if isinstance(node.expression, exp.Boolean):
        return _convert_comparison("<=>", node, trusted)
    raise UnsupportedSql


def _convert_like(node: Any, trusted: Trust) -> Expression:
    escape, like = "\\", node
    if isinstance(node, exp.Escape):
        escape, like = str(node.expression.this), node.this
    check_arguments(like, "this", "expression", "negate")
    column, pattern = _convert_operand(like.this, trusted), literal(like.expression, trusted)
    if not isinstance(column, Column) or pattern.type != "string" or pattern.text is None:
        raise UnsupportedSql
    if isinstance(like, exp.StartsWith):
        return StartsWith(column, pattern.text)
    if not isinstance(like, exp.Like) or len(escape) != 1:
        raise UnsupportedSql
    test = _convert_pattern(column, pattern.text, escape)
    return Not(test) if like.args.get("negate") else test


def _convert_pattern(column: Column, pattern: str, escape: str) -> Expression:
    prefix, position = "", 0
    while position < len(pattern) and pattern[position] not in "%_":
        if pattern[position] == escape:
            position += 1
            if pattern[position : position + 1] not in ("%", "_", escape):
                raise UnsupportedSql
        prefix += pattern[position]
        position += 1
    if position == len(pattern):
        return Comparison("=", column, Literal(prefix, "string"))
    if pattern[position:] == "%":
        return StartsWith(column, prefix)
    return And((StartsWith(column, prefix), Unknown()))


def _convert_operand(node: Any, trusted: Trust) -> Operand:
    if isinstance(node, exp.Paren):
        return _convert_operand(node.this, trusted)
    if isinstance(node, (exp.Column, exp.Dot)):
        return _convert_column(node)
    if isinstance(node, exp.Cast) and isinstance(node.this, (exp.Column, exp.Dot)):
        check_arguments(node, "this", "to", "safe")
        return Cast(_convert_column(node.this), type_name(node.to))
    return literal(node, trusted)


def _convert_column(node: Any) -> Column:
    path = _column_path(node)
    # Spark's connector writes `partitionValues.day` for the partition column `day`; a struct can have that name too.
    if len(path) > 1 and path[0] == "partitionValues":
        raise UnsupportedSql
    return Column(path)


def _column_path(node: Any) -> tuple[str, ...]:
    if isinstance(node, exp.Dot):
        return (*_column_path(node.this), *_column_path(node.expression))
    if isinstance(node, exp.Identifier):
        return (str(node.this),)
    if isinstance(node, exp.Column) and all(isinstance(part, exp.Identifier) for part in node.parts):
        return tuple(str(part.this) for part in node.parts)
    raise UnsupportedSql
