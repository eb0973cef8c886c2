"""The shape of a predicate, for those who may know which columns are asked for but not the values that are looked for.

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
"""Characters; a longer shape ends in dots."""


def shape(predicate: Expression, metadata: TableMetadata) -> str:
    """Return columns and operators, such as `day = ? AND site IN (?)`, and none of the values."""
    columns = Columns(metadata)
    try:
        said = _said(predicate, columns)
    except RecursionError:
        return _VALUE
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."


def _said(part: Expression | Cast, columns: Columns) -> str:
    match part:
        case Column(path):
            return ".".join(path).lower() if columns.find(path) is not None else _VALUE
        case Literal() | Unknown():
            return _VALUE
        case Cast(operand, _):
            return _said(operand, columns)
        case Comparison(operator, left, right):
            return f"{_said(left, columns)} {operator} {_said(right, columns)}"
        case In(operand, _):
            return f"{_said(operand, columns)} IN ({_VALUE})"
        case StartsWith(operand, _):
            return f"{_said(operand, columns)} LIKE {_VALUE}"
        case IsNull(operand):
            return f"{_said(operand, columns)} IS NULL"
        case Not(operand):
            return f"NOT ({_said(operand, columns)})"
        case And(children):
            return " AND ".join(_inner(child, columns) for child in children)
        case Or(children):
            return " OR ".join(_inner(child, columns) for child in children)


def _inner(part: Expression, columns: Columns) -> str:
    said = _said(part, columns)
    return f"({said})" if isinstance(part, And | Or) and len(part.children) > 1 else said
