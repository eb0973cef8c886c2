"""Predicates without their values, for those who may know which columns are asked for but not what is looked for.

A column is named as the table has it; what the table does not have is as much the reader's text as a literal is, and
becomes `?` like one.
"""

from typing import Final

from deltaic.pruning.columns import Columns, TableMetadata
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
    Or,
    StartsWith,
    Unknown,
)

_VALUE: Final = "?"
_LONGEST: Final = 1000
"""Characters; a longer one ends in dots."""


def redacted_predicate(predicate: Expression, metadata: TableMetadata) -> str:
    """Return columns and operators, such as `day = ? AND site IN (?)`, and none of the values."""
    columns = Columns(metadata)
    try:
        text = _redacted(predicate, columns)
    except RecursionError:
        return _VALUE
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _redacted(part: Expression | Cast, columns: Columns) -> str:
    match part:
        case Column(path):
            return ".".join(path).lower() if columns.find(path) is not None else _VALUE
        case Literal() | Unknown():
            return _VALUE
        case Cast(operand, _):
            return _redacted(operand, columns)
        case Comparison(operator, left, right):
            return f"{_redacted(left, columns)} {operator} {_redacted(right, columns)}"
        case In(operand, _):
            return f"{_redacted(operand, columns)} IN ({_VALUE})"
        case StartsWith(operand, _):
            return f"{_redacted(operand, columns)} LIKE {_VALUE}"
        case IsNull(operand):
            return f"{_redacted(operand, columns)} IS NULL"
        case Not(operand):
            return f"NOT ({_redacted(operand, columns)})"
        case And(children):
            return " AND ".join(_inner(child, columns) for child in children)
        case Or(children):
            return " OR ".join(_inner(child, columns) for child in children)


def _inner(part: Expression, columns: Columns) -> str:
    text = _redacted(part, columns)
    return f"({text})" if isinstance(part, And | Or) and len(part.children) > 1 else text
