"""Decides where a literal lies on a column's axis: SQL's type coercion, widened wherever engines or zones differ.

A literal becomes a closed interval that holds its value under every reading; no interval means that the comparison
cannot be decided. Spark's rules are the ones followed, because Spark is the client that sends most hints.
"""

from decimal import Decimal
from fractions import Fraction
from math import inf, isinf, nextafter
from typing import Any

import msgspec

from deltaic.pruning.expressions import Literal
from deltaic.pruning.values import (
    ANY_ZONE,
    EXACTLY,
    INTEGER_BITS,
    MAX_PRECISION,
    MICROSECONDS_A_DAY,
    Axis,
    ColumnType,
    boolean,
    column_type,
    days,
    double,
    exact,
    integer,
    is_utf8,
    microseconds,
    single,
)

_FLOAT_DIGITS = 15
"""Decimal digits that survive a trip through a double, in which some writers put decimal statistics."""


class Interval(msgspec.Struct, frozen=True):
    """All values that a literal may stand for, both ends included, on `axis`."""

    axis: Axis
    low: Any
    high: Any

    @property
    def is_point(self) -> bool:
        """Whether the literal has one value for sure."""
        return bool(self.low == self.high)

    def spread(self, by: Any) -> "Interval":
        """Return the interval with `by` more at either end."""
        if isinstance(by, Decimal):
            return Interval(self.axis, EXACTLY.subtract(self.low, by), EXACTLY.add(self.high, by))
        return Interval(self.axis, self.low - by, self.high + by)


def interval(literal: Literal, column: ColumnType) -> Interval | None:
    """Return where a non-null literal lies, compared with a column of that type."""
    text = literal.text
    if text is None:
        return None
    type_ = column_type(literal.type)
    if column.name in INTEGER_BITS:
        return _beside_integer(text, type_, column)
    if column.name == "decimal":
        return _beside_decimal(text, type_, column)
    if column.name in {"float", "double"}:
        return _beside_double(text, type_, column)
    if column.name in {"date", "timestamp", "timestamp_ntz"}:
        return _beside_time(text, type_, column, literal.within)
    if column.name == "boolean" and type_.name in {"boolean", "string"}:
        bit = boolean(text)
        return None if bit is None else Interval(Axis.WHOLE, bit, bit)
    # Any other type beside a string column would have the column converted, which follows no order.
    return Interval(Axis.TEXT, text, text) if column.name == type_.name == "string" and is_utf8(text) else None


def for_statistics(exact: Interval, column: ColumnType) -> Interval:
    """Widen the interval by what statistics may be off.

    Spark cuts timestamps to milliseconds, maxima too; some writers send decimals through doubles.
    """
    if column.name in {"timestamp", "timestamp_ntz"}:
        return exact.spread(999)
    if column.name == "decimal" and exact.axis is Axis.DECIMAL and column.precision > _FLOAT_DIGITS:
        return exact.spread(EXACTLY.multiply(max(exact.low.copy_abs(), exact.high.copy_abs()), Decimal("1e-15")))
    return exact


def _number(text: str, type_: ColumnType) -> Decimal | None:
    """Read a numeric literal that is valid for its own type."""
    number = exact(text)
    if number is None:
        return None
    if type_.name in INTEGER_BITS:
        whole = integer(text)
        limit = 1 << INTEGER_BITS[type_.name]
        return number if whole is not None and -limit <= whole < limit else None
    if type_.name == "decimal":
        digits, scale = _shape(number)
        return number if scale <= type_.scale and digits <= type_.precision - type_.scale else None
    return None


def _shape(number: Decimal) -> tuple[int, int]:
    """Return the digits before the point and those after it."""
    _, digits, exponent = number.normalize(EXACTLY).as_tuple()
    return max(len(digits) + int(exponent), 0), max(-int(exponent), 0)


def _beside_integer(text: str, type_: ColumnType, column: ColumnType) -> Interval | None:
    if type_.name == "double":
        value = double(text)
        # The column becomes a double, which rounds above 2**53; an engine that compares exactly agrees within an ulp.
        return None if value is None else _ulp(Interval(Axis.DOUBLE, value, value))
    # A string becomes what the column is; out of range that is null to some and an error to others.
    number = _number(text, column if type_.name == "string" else type_)
    if number is None or 20 + type_.scale > MAX_PRECISION:
        return None
    point = int(number) if _shape(number)[1] == 0 else Fraction(number)
    return Interval(Axis.WHOLE, point, point)


def _beside_decimal(text: str, type_: ColumnType, column: ColumnType) -> Interval | None:
    if type_.name in {"double", "float", "string"}:
        value = double(text)
        if value is None or isinf(value):
            return None
        # The column becomes a double, and conversions differ in the last digits.
        return _ulp(Interval(Axis.DOUBLE, value, value).spread(abs(value) * 1e-13))
    number = _number(text, type_)
    if number is None:
        return None
    digits, scale = _shape(number)
    if max(digits, column.precision - column.scale) + max(scale, column.scale) > MAX_PRECISION:
        return None  # the common type would round
    return Interval(Axis.DECIMAL, number, number)


def _beside_double(text: str, type_: ColumnType, column: ColumnType) -> Interval | None:
    value = double(text)
    if value is None or not (_number(text, type_) is not None or type_.name in {"float", "double", "string"}):
        return None
    bounds = Interval(Axis.DOUBLE, value, value)
    if type_.name not in {"float", "double"} and not isinf(value) and exact(text) != Decimal(value):
        bounds = _ulp(bounds)
    if "float" in {type_.name, column.name}:
        # Some engines compare as doubles, some as floats.
        rounded = single(value)
        return None if rounded is None else Interval(Axis.DOUBLE, min(bounds.low, rounded), max(bounds.high, rounded))
    return bounds


def _ulp(found: Interval) -> Interval:
    return Interval(found.axis, nextafter(found.low, -inf), nextafter(found.high, inf))


def _beside_time(text: str, type_: ColumnType, column: ColumnType, within: int) -> Interval | None:
    if column.name == "date" and type_.name in {"date", "string"}:
        day = days(text)
        return None if day is None else Interval(Axis.WHOLE, day, day)
    moment = microseconds(text) if type_.name in {"date", "timestamp", "timestamp_ntz", "string"} else None
    if moment is None or (type_.name in {"date", "timestamp_ntz"} and moment[1]):
        return None
    spread = _zone_spread(type_.name, column.name, zoned=moment[1])
    found = Interval(Axis.WHOLE, moment[0], moment[0]).spread(spread + within)
    if column.name != "date":
        return found
    return Interval(Axis.WHOLE, Fraction(found.low, MICROSECONDS_A_DAY), Fraction(found.high, MICROSECONDS_A_DAY))


def _zone_spread(literal: str, column: str, *, zoned: bool) -> int:
    """Return how far the client's zone, which is not sent, may move the literal against the column.

    Within one zone, wall clocks can still jump by up to a day, so two local times do not cancel out.
    """
    if column == "timestamp":
        return 0 if zoned else ANY_ZONE
    if literal == "timestamp":  # beside a wall clock, which the client's zone turns into an instant
        return ANY_ZONE if zoned else 2 * ANY_ZONE
    return ANY_ZONE if zoned else 0
