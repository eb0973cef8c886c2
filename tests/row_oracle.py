"""Decides, slowly and plainly, whether one row makes a predicate true: what pruning is judged against.

It follows Spark: three-valued logic, NaN above every number and equal to itself, -0.0 equal to 0.0, times without a
zone read in the session's. It shares no code with the product but the expression tree, and renders that tree as hints.
"""

import json
import math
import struct
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

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

INTEGERS = ("byte", "short", "integer", "long")
JSON_TYPES = {
    "boolean": "bool",
    "integer": "int",
    "long": "long",
    "string": "string",
    "date": "date",
    "float": "float",
    "double": "double",
    "timestamp": "timestamp",
}
JSON_OPERATORS = {
    "=": "equal",
    "<": "lessThan",
    "<=": "lessThanOrEqual",
    ">": "greaterThan",
    ">=": "greaterThanOrEqual",
    "<>": "notEqual",
    "<=>": "equalNullSafe",
}
MIRRORED: dict[str, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Session:
    """A client's session: the types of the columns, by lower-case name, and the time zone."""

    def __init__(self, types: Mapping[str, str], zone: str) -> None:
        self.types = types
        self.zone = ZoneInfo(zone)

    def truth(self, predicate: Expression, row: Mapping[str, Any]) -> bool | None:
        """Return SQL's truth of the predicate for a row; `Unknown` is not something that a row can decide."""
        match predicate:
            case And(children):
                truths = [self.truth(child, row) for child in children]
                return False if False in truths else None if None in truths else True
            case Or(children):
                truths = [self.truth(child, row) for child in children]
                return True if True in truths else None if None in truths else False
            case Not(operand):
                inner = self.truth(operand, row)
                return None if inner is None else not inner
            case Comparison(operator, first, right):
                if isinstance(first, Literal):
                    operator, first, right = MIRRORED.get(operator, operator), right, first
                assert isinstance(right, Literal)
                return self._compare(operator, first, right, row)
            case In(operand, values):
                return self.truth(Or(tuple(Comparison("=", operand, value) for value in values)), row)
            case StartsWith(operand, prefix):
                value = self._value(operand, row)
                return None if value is None else bool(value.startswith(prefix))
            case IsNull(operand):
                return self._value(operand, row) is None
            case Column():
                value = self._value(predicate, row)
                return None if value is None else bool(value)
            case _:
                raise AssertionError(predicate)

    def _type(self, operand: Operand) -> str:
        if isinstance(operand, Column):
            return self.types[".".join(operand.path).lower()]
        return operand.type

    def _value(self, operand: Operand, row: Mapping[str, Any]) -> Any:
        if isinstance(operand, Cast):
            instant = self._value(operand.operand, row)
            assert operand.type == "date"
            if instant is None:
                return None
            return (instant.astimezone(self.zone) if instant.tzinfo else instant).date()
        assert isinstance(operand, Column)
        value: Any = row
        for name in operand.path:
            value = None if value is None else value[name]
        # A partition timestamp without a zone is one of the session's.
        if isinstance(value, datetime) and value.tzinfo is None and self._type(operand) == "timestamp":
            return value.replace(tzinfo=self.zone)
        return value

    def _instant(self, timestamp: datetime) -> timedelta:
        """Return the time since the epoch; a wall clock that a zone skips is moved on, as Java does."""
        aware = timestamp.replace(tzinfo=self.zone) if timestamp.tzinfo is None else timestamp
        return timestamp.replace(tzinfo=None) - datetime(1970, 1, 1) - (aware.utcoffset() or timedelta())  # noqa: DTZ001 -- both naive

    def _compare(self, operator: str, operand: Operand, literal: Literal, row: Mapping[str, Any]) -> bool | None:
        value = self._value(operand, row)
        if operator == "<=>" and (value is None or literal.text is None):
            return value is None and literal.text is None
        if value is None or literal.text is None:
            return None
        first, right = self._coerced(value, self._type(operand), literal)
        order = int(first > right) - int(first < right)
        truths: dict[str, bool] = {
            "=": order == 0,
            "<=>": order == 0,
            "<>": order != 0,
            "<": order < 0,
            "<=": order <= 0,
            ">": order > 0,
            ">=": order >= 0,
        }
        return truths[operator]

    def _coerced(self, value: Any, column: str, literal: Literal) -> tuple[Any, Any]:
        text, kind = literal.text or "", literal.type.partition("(")[0]
        if kind == "string" and column != "string":
            kind = "double" if column.startswith("decimal") else column
        if column == "boolean" or kind == "string":
            return value, text if kind == "string" else text == "true"
        if column in {"date", "timestamp", "timestamp_ntz"}:
            return self._moments(value, column, text, kind)
        if column in {"float", "double"} or kind in {"float", "double"}:
            number = float(text)
            if "float" in {kind, column} and (kind == "float" or kind in INTEGERS):
                number = single(number)
            return _ordered(float(value)), _ordered(number)
        return Decimal(value), Decimal(text)

    def _moments(self, value: Any, column: str, text: str, kind: str) -> tuple[Any, Any]:
        instant = datetime.fromisoformat(text)
        if kind == "date" and column == "date":
            return value, instant.date()
        start = datetime.combine(value, time()) if type(value) is date else value
        if kind == "timestamp_ntz" and column != "timestamp":
            return start, instant.replace(tzinfo=None)
        if kind == "date" and column == "timestamp_ntz":
            return start, instant
        return self._instant(start), self._instant(instant)


def single(number: float) -> float:
    """Round to 32 bits."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def _ordered(number: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(number) else (False, number)


def as_sql(predicate: Expression) -> str:
    """Return the predicate as a SQL hint; unsupported parts become a call of an unknown function."""
    match predicate:
        case And(children):
            return "(" + " AND ".join(map(as_sql, children)) + ")"
        case Or(children):
            return "(" + " OR ".join(map(as_sql, children)) + ")"
        case Not(operand):
            return f"NOT ({as_sql(operand)})"
        case Comparison(operator, left, right):
            return f"{_sql_operand(left)} {operator} {_sql_operand(right)}"
        case In(operand, values):
            return f"{_sql_operand(operand)} IN ({', '.join(map(_sql_operand, values))})"
        case StartsWith(operand, prefix):
            escaped = prefix.replace("%", "\\%").replace("_", "\\_")
            return f"{_sql_operand(operand)} LIKE '{escaped}%'"
        case IsNull(operand):
            return f"{_sql_operand(operand)} IS NULL"
        case Column() | Literal():
            return _sql_operand(predicate)
        case _:
            return "mystery(1)"


def _sql_operand(operand: Operand) -> str:
    match operand:
        case Column(path):
            return ".".join(f"`{name}`" for name in path)
        case Cast(inner, kind):
            return f"CAST({_sql_operand(inner)} AS {kind})"
        case Literal(None, _):
            return "NULL"
        case Literal(text, kind) if kind in {"integer", "boolean"} or kind.startswith("decimal"):
            return str(text)
        case Literal(str() as text, "string"):
            escaped = text.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case _:
            return f"CAST('{operand.text}' AS {operand.type})"


def as_json(predicate: Expression, types: Mapping[str, str]) -> str:
    """Return the predicate as a JSON hint; unsupported parts become an unknown op."""
    return json.dumps(_json(predicate, types))


def _json(predicate: Expression | Operand, types: Mapping[str, str]) -> dict[str, Any]:
    def node(op: str, *children: Expression | Operand) -> dict[str, Any]:
        return {"op": op, "children": [_json(child, types) for child in children]}

    match predicate:
        case And(children):
            return node("and", *children)
        case Or(children):
            return node("or", *children)
        case Not(operand):
            return node("not", operand)
        case Comparison(operator, left, right):
            return node(JSON_OPERATORS[operator], left, right)
        case In(operand, values):
            return node("in", operand, *values)
        case StartsWith(operand, prefix):
            return node("startsWith", operand, Literal(prefix, "string"))
        case IsNull(operand):
            return node("isNull", operand)
        case Column(path):
            name = ".".join(path)
            declared = JSON_TYPES.get(types[name.lower()])
            return {"op": "column", "name": name} | ({"valueType": declared} if declared else {})
        case Literal(text, kind) if text is not None and kind in JSON_TYPES:
            return {"op": "literal", "value": text, "valueType": JSON_TYPES[kind]}
        case Literal() | Cast() | Unknown():
            return {"op": "mystery"}
