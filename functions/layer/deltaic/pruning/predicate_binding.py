"""Binds a predicate to the columns of one table: which tests, on which side of a NOT.

Negation moves inwards (three-valued logic keeps De Morgan's laws) until it meets a test, which has an opposite of its
own. So "may some row make this true?" is all that is ever asked, and a part that cannot be decided is simply true.
"""

from typing import Final, Literal

from deltaic.pruning.column_tests import Compare, Null, Prefix
from deltaic.pruning.columns import Columns, TableColumn
from deltaic.pruning.expressions import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Not,
    Operand,
    Or,
    StartsWith,
)
from deltaic.pruning.expressions import Literal as Constant
from deltaic.pruning.intervals import Interval, for_statistics, interval
from deltaic.pruning.predicate_tree import AllOf, AnyOf, Leaf, Node, affordable, all_of, any_of, without_nan
from deltaic.pruning.values import ANY_ZONE, INTEGER_BITS, MICROSECONDS_A_DAY, Axis, column_type, integer, is_utf8

_OPPOSITE: Final[dict[str, Literal["<", "<=", ">", ">=", "=", "<>"]]] = {
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "=": "<>",
    "<>": "=",
}
_MIRRORED: Final[dict[str, Literal["<", "<=", ">", ">="]]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class PredicateBinder:
    """Binds predicates to the columns of one table."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def bind(self, expression: Expression) -> Node:
        """Return the tests that a file must pass to be kept; True keeps all files, False none."""
        try:
            return affordable(self._bind(expression, negated=False))
        except RecursionError:
            return True

    def _bind(self, expression: Expression, *, negated: bool) -> Node:
        if isinstance(expression, Not):
            return self._bind(expression.operand, negated=not negated)
        if isinstance(expression, (And, Or)):
            children = [self._bind(child, negated=negated) for child in expression.children]
            if isinstance(expression, And) == negated:
                return any_of(children)
            return without_nan(all_of(children))
        if isinstance(expression, Comparison):
            return self._comparison(expression, negated=negated)
        if isinstance(expression, In):
            return self._in(expression, negated=negated)
        if isinstance(expression, IsNull):
            return self._null(expression.operand, negated=negated)
        if isinstance(expression, StartsWith):
            column = self._column(expression.operand)
            known = column is not None and column.type.name == "string" and is_utf8(expression.prefix)
            return Leaf(column, Prefix(expression.prefix, negated)) if column and known else True
        if isinstance(expression, Column):
            return self._comparison(Comparison("=", expression, Constant("true", "boolean")), negated=negated)
        if isinstance(expression, Constant) and expression.type == "boolean" and expression.text in {"true", "false"}:
            return (expression.text == "true") != negated
        return True

    def _column(self, operand: Operand) -> TableColumn | None:
        """Return the column behind an operand whose value is the column's own, or keeps it and its order."""
        if isinstance(operand, Constant):
            return None
        if isinstance(operand, Cast):
            column = self._column(operand.operand)
            kept = column is not None and _keeps_values(column.type.name, operand.type)
            return column if kept or (column and column_type(operand.type) == column.type) else None
        column = self._columns.find(operand.path)
        # Another type than its own tells of a cast, and perhaps of others around it, which were not sent.
        known = column is None or operand.type is None or column_type(operand.type) == column.type
        return column if known else None

    def _comparison(self, comparison: Comparison, *, negated: bool) -> Node:
        operator, operand, constant = comparison.operator, comparison.left, comparison.right
        if isinstance(operand, Constant):
            operator, operand, constant = _MIRRORED.get(operator, operator), constant, operand
        if isinstance(operand, Constant) and isinstance(constant, Constant):
            return _constant(operator, operand, constant, negated=negated)
        if not isinstance(constant, Constant):
            return True
        if constant.text is None:
            if operator == "<=>":
                return self._null(operand, negated=negated)
            return self._null(operand, negated=False) is True  # false for every row, if there is such a column
        sign: Literal["<", "<=", ">", ">=", "=", "<>"] = "=" if operator == "<=>" else operator
        node = self._compare(_OPPOSITE[sign] if negated else sign, operand, constant)
        if operator == "<=>" and negated and node is not True:
            return any_of([node, self._null(operand, negated=False)])
        return node

    def _compare(self, sign: Literal["<", "<=", ">", ">=", "=", "<>"], operand: Operand, constant: Constant) -> Node:
        column = self._column(operand)
        if column is None:
            return self._day(sign, operand, constant)
        found = interval(constant, column.type)
        if found is None:
            return True
        return Leaf(column, Compare(sign, found if column.is_partition else for_statistics(found, column.type)))

    def _day(self, sign: str, operand: Operand, constant: Constant) -> Node:
        """Compare the day of a timestamp: the day begins and ends at instants, known but for the client's zone."""
        inner = self._column(operand.operand) if isinstance(operand, Cast) and operand.type == "date" else None
        if inner is None or inner.type.name not in {"timestamp", "timestamp_ntz"}:
            return True
        day = interval(constant, column_type("date")) if constant.type in {"date", "string"} else None
        if day is None:
            return True
        begin = Interval(Axis.WHOLE, day.low, day.high)
        begin = Interval(Axis.WHOLE, begin.low * MICROSECONDS_A_DAY, begin.high * MICROSECONDS_A_DAY)
        if inner.type.name == "timestamp":
            begin = begin.spread(ANY_ZONE)
        if not inner.is_partition:
            begin = for_statistics(begin, inner.type)
        end = Interval(Axis.WHOLE, begin.low + MICROSECONDS_A_DAY, begin.high + MICROSECONDS_A_DAY)
        after, before = Leaf(inner, Compare(">=", begin)), Leaf(inner, Compare("<", end))
        earlier, later = Leaf(inner, Compare("<", begin)), Leaf(inner, Compare(">=", end))
        single: dict[str, Node] = {">=": after, "<=": before, "<": earlier, ">": later}
        return single.get(sign) or (AllOf((after, before)) if sign == "=" else AnyOf((earlier, later)))

    def _in(self, test: In, *, negated: bool) -> Node:
        if any(value.text is None for value in test.values):
            if negated:  # x NOT IN (..., NULL) is never true
                return self._null(test.operand, negated=False) is True
            test = In(test.operand, tuple(value for value in test.values if value.text is not None))
        if not test.values:
            return self._null(test.operand, negated=False) is True
        equal = [Comparison("=", test.operand, value) for value in test.values]
        if not negated:
            return any_of([self._comparison(one, negated=False) for one in equal])
        return all_of([self._comparison(one, negated=True) for one in equal])

    def _null(self, operand: Operand, *, negated: bool) -> Node:
        if isinstance(operand, Constant):
            return (operand.text is None) != negated
        column = self._column(operand)
        return True if column is None else Leaf(column, Null(negated))


def _constant(operator: str, left: Constant, right: Constant, *, negated: bool) -> Node:
    """Decide what tools write to ask for every row or for none: `1 = 1`, `1 = 0`."""
    one, other = integer(left.text or ""), integer(right.text or "")
    if one is None or other is None or not {left.type, right.type} <= INTEGER_BITS.keys():
        return True
    truth = {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other, "<>": one != other}
    return truth.get(operator, one == other) != negated


def _keeps_values(column: str, target: str) -> bool:
    if column in INTEGER_BITS and target in INTEGER_BITS:
        return INTEGER_BITS[column] <= INTEGER_BITS[target]
    return column == "float" and target == "double"
