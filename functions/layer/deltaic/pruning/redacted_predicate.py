"""Format predicates without their values, for logs that may show columns but not literals.

A known column has its name in the table; an unknown name comes from the recipient, so it becomes `?` like a literal.
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
_MAX_LENGTH: Final = 1000
"""Maximum number of characters; a longer string is truncated and ends in dots."""


def redacted_predicate(predicate: Expression, metadata: TableMetadata) -> str:
    """Format a predicate's columns and operators without values, such as `day = ?`."""
    columns = Columns(metadata)
    try:
        text = _redact(predicate, columns)
    except RecursionError:
        return _VALUE
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}..."


def _redact(part: Expression | Cast, columns: Columns) -> str:
    match part:
        case Column(path):
            return ".".join(path).lower() if columns.find(path) is not None else _VALUE
        case Literal() | Unknown():
            return _VALUE
        case Cast(operand, _):
            return _redact(operand, columns)
        case Comparison(operator, left, right):
            return f"{_redact(left, columns)} {operator} {_redact(right, columns)}"
        case In(operand, _):
            return f"{_redact(operand, columns)} IN ({_VALUE})"
        case StartsWith(operand, _):
            return f"{_redact(operand, columns)} LIKE {_VALUE}"
        case IsNull(operand):
            return f"{_redact(operand, columns)} IS NULL"
        case Not(operand):
            return f"NOT ({_redact(operand, columns)})"
        case And(children):
            return " AND ".join(_redact_child(child, columns) for child in children)
        case Or(children):
            return " OR ".join(_redact_child(child, columns) for child in children)


def _redact_child(part: Expression, columns: Columns) -> str:
    text = _redact(part, columns)
    return f"({text})" if isinstance(part, And | Or) and len(part.children) > 1 else text
