"""Bounds that hold, from minimum and maximum as writers store them.

Maxima of strings may be cut, with or without something appended; timestamps, dates and numbers come as JSON text of
several makes. A bound that cannot be read is null: it bounds nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import inf
from typing import Any, Final

import pyarrow as pa

from deltaic import compute as pc
from deltaic.pruning.values import (
    ANY_ZONE,
    EXACTLY,
    INT64,
    INTEGER_BITS,
    MAX_PRECISION,
    MICROSECONDS_A_DAY,
    Axis,
    ColumnType,
    days,
    microseconds,
    single,
)

_CUT: Final = 32
"""Characters at which Spark cuts strings by default; nobody is known to cut sooner without appending something."""
_APPENDED: Final = ("\ufffd", "\U0010ffff", "?")
"""What writers append to a cut maximum, and what became of half a surrogate pair before it."""
_WHOLE_TIME: Final = len("YYYY-MM-DDThh:mm:ss")
_MINUTE: Final = 60_000_000
_WHOLE_OFFSETS: Final = 78_796_800 * 1_000_000
"""1972-07-01T00:00:00Z in microseconds since the epoch: since then all zones are whole minutes away from UTC."""
_LAST: Final = 0x10FFFF
_NAMED: Final = {"Infinity": inf, "-Infinity": -inf}
_SURROGATES: Final = range(0xD800, 0xE000)


def json_type(type_: ColumnType) -> Any:
    """Return what a bound of that type is decoded as: decimals never go through a double."""
    if type_.name in {"date", "timestamp", "timestamp_ntz"}:
        return str
    if type_.name == "boolean":
        return bool
    kinds: dict[Axis | None, Any] = {
        Axis.WHOLE: int,
        Axis.DECIMAL: Decimal,
        Axis.DOUBLE: float | str,
        Axis.TEXT: str,
        None: Any,
    }
    return kinds[type_.axis]


def above(maximum: str) -> str | None:
    """Return a string that no value exceeds, given a maximum that may be cut; None when there is none.

    Spark keeps 32 characters and appends U+FFFD (older) or the last code point, after half a surrogate pair where the
    cut fell into one: not always an upper bound in the order of UTF-8. So every value that begins like the maximum is
    allowed.
    """
    if len(maximum) < _CUT and not maximum.endswith(_APPENDED):
        return maximum
    return following(maximum.rstrip("".join(_APPENDED)))


def following(begin: str) -> str | None:
    """Return the least string above all that begin so; None when there is none."""
    while begin and ord(begin[-1]) == _LAST:
        begin = begin[:-1]
    if not begin:
        return None
    after = ord(begin[-1]) + 1
    return begin[:-1] + chr(_SURROGATES.stop if after in _SURROGATES else after)


def from_json(values: list[Any], type_: ColumnType, *, upper: bool) -> pa.Array | None:
    """Return bounds on the type's axis from values as JSON has them; None when they bound nothing."""
    return _widen_old_times(_as_written(values, type_, upper=upper), type_, upper=upper)


def _as_written(values: list[Any], type_: ColumnType, *, upper: bool) -> pa.Array | None:
    if type_.axis is None:
        return None
    if type_.axis is Axis.TEXT:
        return pa.array([None if v is None else above(v) for v in values] if upper else values, pa.string())
    if type_.axis is Axis.DOUBLE:
        numbers = [v if type(v) is not str else _NAMED.get(v) for v in values]
        if type_.name == "float":
            numbers = [single(v) if v else v for v in numbers]
        found = pa.array(numbers, pa.float64())
        return _as_of_a_float(found, upper=upper) if type_.was_float else found
    if type_.axis is Axis.DECIMAL:
        return _decimals(values, type_.scale, upper=upper)
    return _wholes(values, type_, upper=upper)


def exactly(values: list[Any], type_: ColumnType) -> pa.Array | None:
    """Return what bounds in JSON say in their column's type; null where they cannot be said so, or only by widening.

    None for types without bounds in Delta's statistics, booleans among them. `from_typed` makes of a bound what
    `from_json` makes of its text; a maximum that was cut stays so.
    """
    if type_.axis is None or type_.name == "boolean":
        return None
    if type_.axis is Axis.TEXT:
        return pa.array(values, pa.string())
    low, high = _as_written(values, type_, upper=False), _as_written(values, type_, upper=True)
    if low is None or high is None:
        return None
    return in_type(pc.if_else(pc.equal(low, high), low, pa.scalar(None, low.type)), type_)


def in_type(points: pa.Array, type_: ColumnType) -> pa.Array:
    """Return values that lie on a type's axis as Arrow has that type; null where it does not hold them."""
    nothing = pa.scalar(None, points.type)
    if type_.name in {"byte", "short", "integer"}:
        limit = 1 << INTEGER_BITS[type_.name]
        points = pc.if_else(pc.and_(pc.greater_equal(points, -limit), pc.less(points, limit)), points, nothing)
    if type_.name == "decimal" and type_.precision < MAX_PRECISION:
        end = pa.scalar(Decimal(1).scaleb(type_.precision - type_.scale), points.type)
        points = pc.if_else(pc.less(pc.abs(points), end), points, nothing)
    kinds = {
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "float": pa.float32(),
        "boolean": pa.bool_(),
        "decimal": pa.decimal128(type_.precision or 1, type_.scale),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    if type_.name == "date":
        return pc.cast(pc.cast(points, pa.int32()), pa.date32())
    return pc.cast(points, kinds.get(type_.name, points.type))


def _as_of_a_float(doubles: pa.Array, *, upper: bool) -> pa.Array:
    """Widen bounds by the floats that their digits stand for: 0.1 is one that is greater than the double of that name.

    They lie in the files as floats, which become doubles when they are read. What is beyond all floats was a double.
    """
    floats = pc.cast(pc.cast(doubles, pa.float32(), safe=False), pa.float64())
    widens = pc.greater(floats, doubles) if upper else pc.less(floats, doubles)
    return pc.if_else(pc.and_(widens, pc.is_finite(floats)), floats, doubles)


def _decimals(values: list[Any], scale: int, *, upper: bool) -> pa.Array:
    kind = pa.decimal128(MAX_PRECISION, scale)
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:  # more digits than the type has: a writer that went through a double
        return pa.array([_rounded(value, scale, upper=upper) for value in values], kind)


def _rounded(value: Decimal | None, scale: int, *, upper: bool) -> Decimal | None:
    if value is None or not value.is_finite() or value.adjusted() >= MAX_PRECISION - scale - 1:
        return None
    return value.quantize(Decimal(1).scaleb(-scale), ROUND_CEILING if upper else ROUND_FLOOR, EXACTLY)


def _wholes(values: list[Any], type_: ColumnType, *, upper: bool) -> pa.Array | None:
    if type_.name in {"date", "timestamp", "timestamp_ntz"}:
        kind = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}
        texts = pa.array(values, pa.string())
        # Arrow takes a time of which something is missing for one that is whole.
        if type_.name == "date" or not pc.less(pc.utf8_length(texts), _WHOLE_TIME).true_count:
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                return _as_whole(pc.cast(texts, kind[type_.name]))
        read = days if type_.name == "date" else _moment(type_.name, upper=upper)
        return pa.array([read(v) if v else None for v in values], pa.int64())
    if type_.name == "boolean":
        return pc.cast(pa.array(values, pa.bool_()), pa.int64())
    return integers(values)


def _widen_old_times(bounds: pa.Array | None, type_: ColumnType, *, upper: bool) -> pa.Array | None:
    """Widen instants before mid-1972 by a minute: older Spark writes local mean time with an offset in whole minutes.

    Typed statistics are made from that JSON, and no longer show which offset it named.
    """
    if bounds is None or type_.name != "timestamp":
        return bounds
    # Arrow wraps around instead of failing, so the least bounds are raised to what a minute can be taken from.
    moved = pc.add(bounds, _MINUTE) if upper else pc.subtract(pc.max_element_wise(bounds, _MINUTE - INT64), _MINUTE)
    return pc.if_else(pc.less(bounds, _WHOLE_OFFSETS), moved, bounds)


def integers(values: list[int | None]) -> pa.Array:
    """Return an int64 array, null where a number is too large to be of any column."""
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        return pa.array([v if v is not None and -INT64 <= v < INT64 else None for v in values], pa.int64())


def _moment(type_: str, *, upper: bool) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        found = microseconds(text)
        if found is None:
            return None
        moment, zoned = found
        spread = 0 if zoned == (type_ == "timestamp") else ANY_ZONE
        if len(text) <= len("YYYY-MM-DD") and upper:  # a date: the column was widened, or its times were cut
            spread += MICROSECONDS_A_DAY
        return moment + spread if upper else moment - spread

    return read


def _as_whole(array: pa.Array) -> pa.Array:
    if pa.types.is_date32(array.type):
        array = pc.cast(array, pa.int32())
    return pc.cast(array, pa.int64())


def from_typed(array: pa.Array, type_: ColumnType, *, upper: bool) -> pa.Array | None:
    """Return bounds on the type's axis from a leaf of typed statistics; None when its type says nothing of use.

    The leaf may be narrower than the column, where the column was widened since.
    """
    try:
        return _widen_old_times(_typed(array, type_, upper=upper), type_, upper=upper)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


def is_text(stored: pa.DataType) -> bool:
    """Return whether bounds of this type are text that can be read."""
    return pa.types.is_string(stored) or pa.types.is_large_string(stored)


def _typed(array: pa.Array, type_: ColumnType, *, upper: bool) -> pa.Array | None:
    stored = array.type
    if type_.axis is Axis.TEXT and is_text(stored):
        texts = pc.cast(array, pa.string())
        return _typed_texts(texts) if upper else texts
    if type_.axis is Axis.DOUBLE and (pa.types.is_floating(stored) or pa.types.is_integer(stored)):
        numbers = pc.cast(array, pa.float64(), safe=False)
        if type_.name == "float":
            numbers = pc.cast(pc.cast(numbers, pa.float32(), safe=False), pa.float64())
        if type_.was_float:
            numbers = _as_of_a_float(numbers, upper=upper)
        return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    if type_.axis is Axis.DECIMAL and (pa.types.is_decimal(stored) or pa.types.is_integer(stored)):
        return pc.cast(array, pa.decimal128(MAX_PRECISION, type_.scale))
    if type_.name == "boolean" and pa.types.is_boolean(stored):
        return pc.cast(array, pa.int64())
    if type_.name in {"byte", "short", "integer", "long"} and pa.types.is_integer(stored):
        return pc.cast(array, pa.int64())
    if type_.name == "date" and pa.types.is_date32(stored):
        return _as_whole(array)
    if type_.name == "timestamp_ntz" and pa.types.is_date32(stored):
        return _as_whole(pc.cast(array, pa.timestamp("us")))
    if type_.name in {"timestamp", "timestamp_ntz"} and pa.types.is_timestamp(stored) and stored.unit in {"us", "ms"}:
        # Nanoseconds may come from INT96, where far dates have wrapped around.
        return _as_whole(pc.cast(array, pa.timestamp("us", stored.tz)))
    return None


def _typed_texts(array: pa.StringArray) -> pa.StringArray:
    doubted = pc.greater_equal(pc.utf8_length(array), _CUT)
    for end in _APPENDED:
        doubted = pc.or_(doubted, pc.ends_with(array, end))
    if not doubted.true_count:
        return array
    return pa.array([None if value is None else above(value) for value in array.to_pylist()], pa.string())
