"""Convert a literal to the interval of its possible values when compared with a column, by SQL's type coercion.

The interval contains the literal's value for every engine and time zone; None means that the comparison is undecidable.
The rules are Spark's, because Spark sends most hints.
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
"""Decimal digits that a double preserves; some writers store decimal statistics as doubles."""


class Interval(msgspec.Struct, frozen=True):
    """Range of a literal's possible values, both bounds included; `axis` is their type and order."""

    axis: Axis
    low: Any
    high: Any

    @property
    def is_point(self) -> bool:
        """Return whether the literal has exactly one possible value."""
        return bool(self.low == self.high)

    def widen(self, by: Any) -> "Interval":
        """Return the interval extended by `by` in both directions."""
        if isinstance(by, Decimal):
            return Interval(self.axis, EXACTLY.subtract(self.low, by), EXACTLY.add(self.high, by))
        return Interval(self.axis, self.low - by, self.high + by)


def interval(literal: Literal, column: ColumnType) -> Interval | None:
    """Return the range of values that a literal can have if compared with this column; None if undecidable or null."""
    text = literal.text
    if text is None:
        return None
    type_ = column_type(literal.type)
    if column.name in INTEGER_BITS:
        return _integer_interval(text, type_, column)
    if column.name == "decimal":
        return _decimal_interval(text, type_, column)
    if column.name in {"float", "double"}:
        return _double_interval(text, type_, column)
    if column.name in {"date", "timestamp", "timestamp_ntz"}:
        return _time_interval(text, type_, column, literal.tolerance)
    if column.name == "boolean" and type_.name in {"boolean", "string"}:
        bit = boolean(text)
        return None if bit is None else Interval(Axis.WHOLE, bit, bit)
    # For any other literal, SQL converts a string column, and the conversion does not preserve the order.
    return Interval(Axis.TEXT, text, text) if column.name == type_.name == "string" and is_utf8(text) else None


def widen_for_statistics(exact: Interval, column: ColumnType) -> Interval:
    """Widen a literal's interval by the possible error of a column's statistics.

    Spark rounds timestamps down to milliseconds, even maxima; some writers store decimals as doubles.
    """
    if column.name in {"timestamp", "timestamp_ntz"}:
        return exact.widen(999)
    if column.name == "decimal" and exact.axis is Axis.DECIMAL and column.precision > _FLOAT_DIGITS:
        return exact.widen(EXACTLY.multiply(max(exact.low.copy_abs(), exact.high.copy_abs()), Decimal("1e-15")))
    return exact


def _parse_number(text: str, type_: ColumnType) -> Decimal | None:
    """Parse a numeric literal; None if its string is not valid for its type."""
    number = exact(text)
    if number is None:
        return None
    if type_.name in INTEGER_BITS:
        integer_value = integer(text)
        limit = 1 << INTEGER_BITS[type_.name]
        return number if integer_value is not None and -limit <= integer_value < limit else None
    if type_.name == "decimal":
        digits, scale = _count_digits(number)
        return number if scale <= type_.scale and digits <= type_.precision - type_.scale else None
    return None


def _count_digits(number: Decimal) -> tuple[int, int]:
    _, digits, exponent = number.normalize(EXACTLY).as_tuple()
    return max(len(digits) + int(exponent), 0), max(-int(exponent), 0)


def _integer_interval(text: str, type_: ColumnType, column: ColumnType) -> Interval | None:
    if type_.name == "double":
        value = double(text)
        # The column is converted to double, which rounds above 2**53; exact comparison differs by at most one ulp.
        return None if value is None else _widen_by_ulp(Interval(Axis.DOUBLE, value, value))
    # A string is converted to the column's type; out of range, engines return null or fail.
    number = _parse_number(text, column if type_.name == "string" else type_)
    if number is None or 20 + type_.scale > MAX_PRECISION:
        return None
    point = int(number) if _count_digits(number)[1] == 0 else Fraction(number)
    return Interval(Axis.WHOLE, point, point)


def _decimal_interval(text: str, type_: ColumnType, column: ColumnType) -> Interval | None:
    if type_.name in {"double", "float", "string"}:
        value = double(text)
        if value is None or isinf(value):
            return None
        # The column is converted to double, and conversions differ in the last digits.
        return _widen_by_ulp(Interval(Axis.DOUBLE, value, value).widen(abs(value) * 1e-13))
    number = _parse_number(text, type_)
    if number is None:
        return None
    digits, scale = _count_digits(number)
    if max(digits, column.precision - column.scale) + max(scale, column.scale) > MAX_PRECISION:
        return None  # the common type rounds
    return Interval(Axis.DECIMAL, number, number)


def _double_interval(text: str, type_: ColumnType, column: ColumnType) -> Interval | None:
    value = double(text)
    if value is None or not (_parse_number(text, type_) is not None or type_.name in {"float", "double", "string"}):
        return None
    bounds = Interval(Axis.DOUBLE, value, value)
    if type_.name not in {"float", "double"} and not isinf(value) and exact(text) != Decimal(value):
        bounds = _widen_by_ulp(bounds)
    if "float" in {type_.name, column.name}:
        # Some engines compare doubles, some floats.
        rounded = single(value)
        return None if rounded is None else Interval(Axis.DOUBLE, min(bounds.low, rounded), max(bounds.high, rounded))
    return bounds


def _widen_by_ulp(bounds: Interval) -> Interval:
    return Interval(bounds.axis, nextafter(bounds.low, -inf), nextafter(bounds.high, inf))


def _time_interval(text: str, type_: ColumnType, column: ColumnType, tolerance: int) -> Interval | None:
    if column.name == "date" and type_.name in {"date", "string"}:
        day = days(text)
        return None if day is None else Interval(Axis.WHOLE, day, day)
    timestamp = microseconds(text) if type_.name in {"date", "timestamp", "timestamp_ntz", "string"} else None
    if timestamp is None or (type_.name in {"date", "timestamp_ntz"} and timestamp[1]):
        return None
    widen = _zone_spread(type_.name, column.name, zoned=timestamp[1])
    bounds = Interval(Axis.WHOLE, timestamp[0], timestamp[0]).widen(widen + tolerance)
    if column.name != "date":
        return bounds
    return Interval(Axis.WHOLE, Fraction(bounds.low, MICROSECONDS_A_DAY), Fraction(bounds.high, MICROSECONDS_A_DAY))


def _zone_spread(literal: str, column: str, *, zoned: bool) -> int:
    """Return the microseconds by which the client's unknown time zone can shift a literal of this type.

    Local clocks of one zone can jump by up to a day, so the shifts of two local times do not cancel out.
    """
    if column == "timestamp":
        return 0 if zoned else ANY_ZONE
    if literal == "timestamp":  # the client's zone converts the column's local time to an instant
        return ANY_ZONE if zoned else 2 * ANY_ZONE
    return ANY_ZONE if zoned else 0
