"""Convert filters to hints as Spark's sharing connector does: a reimplementation for tests.

Spark has resolved the types, coerced the literals and folded them in the session's time zone; then `OpConverter` of the
connector's client (1.3.10; 1.4.1 with partial filters) writes the JSON hint. What it cannot write is left out of an
AND, and takes everything else around it along. It shares no code with the product but the expression tree.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from deltaic.pruning.expressions import And, Cast, Column, Comparison, Expression, In, IsNull, Literal, Not, Operand, Or
from row_oracle import INTEGERS, JSON_OPERATORS, JSON_TYPES, single

SENT = ("boolean", "integer", "long", "string", "date", "float", "double", "timestamp")
"""The types that it has a name for; a filter with any other is not sent."""
MOST_EQUALS = 10
"""Values of an IN list beyond which Spark makes a set of it, which is not sent."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unsent(Exception):
    """A part that the connector cannot write."""


def as_connector(predicate: Expression, types: Mapping[str, str], zone: str = "UTC") -> str:
    """Return the `jsonPredicateHints` of a filter in a session of that zone; empty where nothing is sent.

    `types` are the columns' types by lower-case name. The literals of the predicate are what the user wrote.
    """
    try:
        return json.dumps(_Conversion(types, ZoneInfo(zone)).convert(predicate), ensure_ascii=False)
    except Unsent:
        return ""


def cut(instant: datetime) -> str:
    """Write a time as `Instant.ofEpochMilli(micros / 1000)` is written: cut towards 1970."""
    micros = (instant - EPOCH) // timedelta(microseconds=1)
    milliseconds = micros // 1000 if micros >= 0 else -(-micros // 1000)
    try:
        text = (EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
    except OverflowError:  # years that Java has and Python has not
        return "0000-12-31T12:00:00Z" if micros < 0 else "+10000-01-01T12:00:00Z"
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


class _Conversion:
    def __init__(self, types: Mapping[str, str], zone: ZoneInfo) -> None:
        self._types = types
        self._zone = zone

    def convert(self, predicate: Expression) -> dict[str, Any]:
        match predicate:
            case And(children):
                return self._all(children)
            case Or(children):
                return _node("or", *map(self.convert, children))
            case Not(operand):
                return _node("not", self._convert(operand))
            case Comparison("<>", left, right):
                return _node("not", self.convert(Comparison("=", left, right)))
            case Comparison("<=>", left, right):
                return self._null_safe(*self._pair(left, right))
            case Comparison(operator, left, right):
                return _node(JSON_OPERATORS[operator], *self._pair(left, right))
            case In(operand, values) if len(values) <= MOST_EQUALS:
                return self.convert(Or(tuple(Comparison("=", operand, value) for value in values)))
            case IsNull(operand):
                return _node("isNull", self._column(operand))
            case Column():
                return self._column(predicate)
        raise Unsent

    def _all(self, children: Sequence[Expression]) -> dict[str, Any]:
        """Convert those parts of a conjunction that can be written."""
        conditions = []
        for child in children:
            with suppress(Unsent):
                conditions.append(self.convert(child))
        if not conditions:
            raise Unsent
        return conditions[0] if len(conditions) == 1 else _node("and", *conditions)

    def _convert(self, predicate: Expression) -> dict[str, Any]:
        """Convert a filter of which no part may be left out."""
        if isinstance(predicate, And):
            return _node("and", *map(self._convert, predicate.children))
        if isinstance(predicate, Or):
            return _node("or", *map(self._convert, predicate.children))
        return _node("not", self._convert(predicate.operand)) if isinstance(predicate, Not) else self.convert(predicate)

    def _null_safe(self, first: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        left_null, right_null = _node("isNull", first), _node("isNull", right)
        equal = _node("equal", first, right)
        return _node(
            "or",
            _node("and", left_null, right_null),
            _node("and", _node("not", left_null), _node("not", right_null), equal),
        )

    def _pair(self, first: Operand, right: Operand) -> tuple[dict[str, Any], dict[str, Any]]:
        if isinstance(first, Literal):
            assert not isinstance(right, Literal)
            return self._literal(first, right), self._column(right)
        assert isinstance(right, Literal)
        return self._column(first), self._literal(right, first)

    def _column(self, operand: Operand) -> dict[str, Any]:
        """Write a column; the innermost of its casts determines the type."""
        assert not isinstance(operand, Literal)
        column = operand.operand if isinstance(operand, Cast) else operand
        name = ".".join(column.path)
        kind = operand.type if isinstance(operand, Cast) else self._types[name.lower()]
        if kind not in SENT or len(column.path) > 1:
            raise Unsent
        return {"op": "column", "name": name, "valueType": JSON_TYPES[kind]}

    def _literal(self, literal: Literal, other_side: Operand) -> dict[str, Any]:
        assert not isinstance(other_side, Literal)
        kind = other_side.type if isinstance(other_side, Cast) else self._types[".".join(other_side.path).lower()]
        if kind not in SENT:
            raise Unsent
        return {"op": "literal", "value": self._text(literal, str(kind)), "valueType": JSON_TYPES[str(kind)]}

    def _text(self, literal: Literal, kind: str) -> str:
        """Write a literal that Spark has cast to `kind`; omit one that Spark would round or refuse."""
        text = literal.text
        if text is None:
            return cut(EPOCH) if kind == "timestamp" else "null"
        if kind in INTEGERS and (literal.type in INTEGERS or literal.type == "string"):
            return str(int(text))
        if kind == "double" and (literal.type in {*INTEGERS, "double", "string"} or literal.type.startswith("decimal")):
            return _java(float(text))
        if kind == "float" and literal.type in {*INTEGERS, "float"}:
            return _java(single(float(text)))
        if kind == literal.type and kind in {"string", "boolean", "date"}:
            return text
        if kind == "date" and literal.type == "string":
            return text
        if kind == "timestamp" and literal.type in {"timestamp", "date", "string"}:
            instant = datetime.fromisoformat(text)
            return cut(instant if instant.tzinfo else instant.replace(tzinfo=self._zone))
        raise Unsent


def _node(op: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"op": op, "children": list(children)}


def _java(number: float) -> str:
    """Write a number as Java does: three names, and an exponent with a capital E."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = format(Decimal((sign, digits, exponent)), "f")
        return text if "." in text else text + ".0"
    rest = "".join(map(str, digits[1:])).rstrip("0") or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{exponent + len(digits) - 1}"
