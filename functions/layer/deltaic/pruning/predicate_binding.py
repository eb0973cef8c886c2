"""Resolve a predicate's columns in a table, convert it to column tests, and move NOT inwards to them.

Each test has an opposite, and De Morgan's laws hold in three-valued logic. So the tree only asks whether some row may
make it true, and an undecidable part is simply true.
"""

from operator import eq, ge, gt, le, lt, ne
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
from deltaic.pruning.intervals import Interval, interval, widen_for_statistics
from deltaic.pruning.predicate_tree import AllOf, AnyOf, Leaf, Node, all_of, any_of, limit_leaves, mark_nan_excluded
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
    """Convert predicates to tests of one table's columns."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def bind(self, expression: Expression) -> Node:
        """Return the tests that a file must pass to be kept; True keeps all files, False none."""
        try:
            return limit_leaves(self._bind(expression, negated=False))
        except RecursionError:
            return True

    def _bind(self, expression: Expression, *, negated: bool) -> Node:
        if isinstance(expression, Not):
            return self._bind(expression.operand, negated=not negated)
        if isinstance(expression, (And, Or)):
            children = [self._bind(child, negated=negated) for child in expression.children]
            if isinstance(expression, And) == negated:
                return any_of(children)
            return mark_nan_excluded(all_of(children))
        if isinstance(expression, Comparison):
            return self._bind_comparison(expression, negated=negated)
        if isinstance(expression, In):
            return self._bind_in(expression, negated=negated)
        if isinstance(expression, IsNull):
            return self._bind_null(expression.operand, negated=negated)
        if isinstance(expression, StartsWith):
            column = self._find_column(expression.operand)
            is_prunable = column is not None and column.type.name == "string" and is_utf8(expression.prefix)
            return Leaf(column, Prefix(expression.prefix, negated)) if column and is_prunable else True
        if isinstance(expression, Column):
            return self._bind_comparison(Comparison("=", expression, Constant("true", "boolean")), negated=negated)
        if isinstance(expression, Constant) and expression.type == "boolean" and expression.text in {"true", "false"}:
            return (expression.text == "true") != negated
        return True

    def _find_column(self, operand: Operand) -> TableColumn | None:
        """Return the column of an operand, if casts in it preserve the values or their order; else None."""
        if isinstance(operand, Constant):
            return None
        if isinstance(operand, Cast):
            column = self._find_column(operand.operand)
            keeps_values = column is not None and _keeps_values(column.type.name, operand.type)
            return column if keeps_values or (column and column_type(operand.type) == column.type) else None
        column = self._columns.find(operand.path)
        # A type other than the column's own means that the client omitted a cast, and possibly outer casts.
        has_own_type = column is None or operand.type is None or column_type(operand.type) == column.type
        return column if has_own_type else None

    def _bind_comparison(self, comparison: Comparison, *, negated: bool) -> Node:
        operator, operand, constant = comparison.operator, comparison.left, comparison.right
        if isinstance(operand, Constant):
            operator, operand, constant = _MIRRORED.get(operator, operator), constant, operand
        if isinstance(operand, Constant) and isinstance(constant, Constant):
            return _evaluate_constants(operator, operand, constant, negated=negated)
        if not isinstance(constant, Constant):
            return True
        if constant.text is None:
            if operator == "<=>":
                return self._bind_null(operand, negated=negated)
            return self._bind_null(operand, negated=False) is True  # false for every row if the column exists
        sign: Literal["<", "<=", ">", ">=", "=", "<>"] = "=" if operator == "<=>" else operator
        node = self._bind_test(_OPPOSITE[sign] if negated else sign, operand, constant)
        if operator == "<=>" and negated and node is not True:
            return any_of([node, self._bind_null(operand, negated=False)])
        return node

    def _bind_test(self, sign: Literal["<", "<=", ">", ">=", "=", "<>"], operand: Operand, constant: Constant) -> Node:
        column = self._find_column(operand)
        if column is None:
            return self._bind_day(sign, operand, constant)
        bounds = interval(constant, column.type)
        if bounds is None:
            return True
        return Leaf(column, Compare(sign, bounds if column.is_partition else widen_for_statistics(bounds, column.type)))

    def _bind_day(self, sign: str, operand: Operand, constant: Constant) -> Node:
        """Convert a comparison of a timestamp's date to ranges of instants, widened for any time zone of the client."""
        inner = self._find_column(operand.operand) if isinstance(operand, Cast) and operand.type == "date" else None
        if inner is None or inner.type.name not in {"timestamp", "timestamp_ntz"}:
            return True
        day = interval(constant, column_type("date")) if constant.type in {"date", "string"} else None
        if day is None:
            return True
        begin = Interval(Axis.WHOLE, day.low, day.high)
        begin = Interval(Axis.WHOLE, begin.low * MICROSECONDS_A_DAY, begin.high * MICROSECONDS_A_DAY)
        if inner.type.name == "timestamp":
            begin = begin.widen(ANY_ZONE)
        if not inner.is_partition:
            begin = widen_for_statistics(begin, inner.type)
        end = Interval(Axis.WHOLE, begin.low + MICROSECONDS_A_DAY, begin.high + MICROSECONDS_A_DAY)
        after, before = Leaf(inner, Compare(">=", begin)), Leaf(inner, Compare("<", end))
        earlier, later = Leaf(inner, Compare("<", begin)), Leaf(inner, Compare(">=", end))
        single: dict[str, Node] = {">=": after, "<=": before, "<": earlier, ">": later}
        return single.get(sign) or (AllOf((after, before)) if sign == "=" else AnyOf((earlier, later)))

    def _bind_in(self, test: In, *, negated: bool) -> Node:
        if any(value.text is None for value in test.values):
            if negated:  # x NOT IN (..., NULL) is never true
                return self._bind_null(test.operand, negated=False) is True
            test = In(test.operand, tuple(value for value in test.values if value.text is not None))
        if not test.values:
            return self._bind_null(test.operand, negated=False) is True
        equal = [Comparison("=", test.operand, value) for value in test.values]
        if not negated:
            return any_of([self._bind_comparison(comparison, negated=False) for comparison in equal])
        return all_of([self._bind_comparison(comparison, negated=True) for comparison in equal])

    def _bind_null(self, operand: Operand, *, negated: bool) -> Node:
        if isinstance(operand, Constant):
            return (operand.text is None) != negated
        column = self._find_column(operand)
        return True if column is None else Leaf(column, Null(negated))


def _evaluate_constants(operator: str, left: Constant, right: Constant, *, negated: bool) -> Node:
    """Evaluate comparisons of constants, such as `1 = 1`, with which tools request all or no rows."""
    first, second = integer(left.text or ""), integer(right.text or "")
    if first is None or second is None or not {left.type, right.type} <= INTEGER_BITS.keys():
        return True
    compare = {"<": lt, "<=": le, ">": gt, ">=": ge, "<>": ne}.get(operator, eq)
    return bool(compare(first, second)) != negated


def _keeps_values(column: str, target: str) -> bool:
    if column in INTEGER_BITS and target in INTEGER_BITS:
        return INTEGER_BITS[column] <= INTEGER_BITS[target]
    return column == "float" and target == "double"
