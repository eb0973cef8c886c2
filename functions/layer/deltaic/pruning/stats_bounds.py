"""Convert minima and maxima in file statistics to bounds that no value exceeds.

Writers truncate maxima of strings, with or without an appended character, and format timestamps, dates and numbers
differently in JSON. An invalid bound becomes null, which means no bound.
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
"""Length to which Spark truncates strings by default; writers that truncate to a smaller length append a character."""
_APPENDED: Final = ("\ufffd", "\U0010ffff", "?")
"""Characters that writers append to a truncated maximum, and the replacement of half a surrogate pair before them."""
_WHOLE_TIME: Final = len("YYYY-MM-DDThh:mm:ss")
_MINUTE: Final = 60_000_000
_WHOLE_OFFSETS: Final = 78_796_800 * 1_000_000
"""1972-07-01T00:00:00Z in microseconds since the epoch: since then all UTC offsets are whole minutes."""
_LAST: Final = 0x10FFFF
_INFINITIES: Final = {"Infinity": inf, "-Infinity": -inf}
_SURROGATES: Final = range(0xD800, 0xE000)


def json_type(type_: ColumnType) -> Any:
    """Return the Python type as which a JSON bound is decoded; decimals are never decoded as doubles."""
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


def upper_bound(maximum: str) -> str | None:
    """Return an upper bound for a maximum that may be truncated; None if there is no such bound.

    Spark keeps 32 characters and appends U+FFFD (older) or the last code point, possibly after half a surrogate pair.
    That is not always an upper bound in the order of UTF-8, so every value with the same prefix is allowed.
    """
    if len(maximum) < _CUT and not maximum.endswith(_APPENDED):
        return maximum
    return least_above_prefix(maximum.rstrip("".join(_APPENDED)))


def least_above_prefix(begin: str) -> str | None:
    """Return the smallest string above all strings with a prefix; None if there is none."""
    while begin and ord(begin[-1]) == _LAST:
        begin = begin[:-1]
    if not begin:
        return None
    after = ord(begin[-1]) + 1
    return begin[:-1] + chr(_SURROGATES.stop if after in _SURROGATES else after)


def from_json(values: list[Any], type_: ColumnType, *, upper: bool) -> pa.Array | None:
    """Convert JSON minima or maxima to bounds for comparison; None for types without bounds."""
    return _widen_old_times(_parse_bounds(values, type_, upper=upper), type_, upper=upper)


def _parse_bounds(values: list[Any], type_: ColumnType, *, upper: bool) -> pa.Array | None:
    if type_.axis is None:
        return None
    if type_.axis is Axis.TEXT:
        return pa.array([None if v is None else upper_bound(v) for v in values] if upper else values, pa.string())
    if type_.axis is Axis.DOUBLE:
        numbers = [v if type(v) is not str else _INFINITIES.get(v) for v in values]
        if type_.name == "float":
            numbers = [single(v) if v else v for v in numbers]
        doubles = pa.array(numbers, pa.float64())
        return _widen_to_float32(doubles, upper=upper) if type_.was_float else doubles
    if type_.axis is Axis.DECIMAL:
        return _parse_decimals(values, type_.scale, upper=upper)
    return _parse_integers(values, type_, upper=upper)


def in_type(points: pa.Array, type_: ColumnType) -> pa.Array:
    """Convert comparable values to the Arrow type of a column; null if out of range."""
    null = pa.scalar(None, points.type)
    if type_.name in {"byte", "short", "integer"}:
        limit = 1 << INTEGER_BITS[type_.name]
        points = pc.if_else(pc.and_(pc.greater_equal(points, -limit), pc.less(points, limit)), points, null)
    if type_.name == "decimal" and type_.precision < MAX_PRECISION:
        end = pa.scalar(Decimal(1).scaleb(type_.precision - type_.scale), points.type)
        points = pc.if_else(pc.less(pc.abs(points), end), points, null)
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


def _widen_to_float32(doubles: pa.Array, *, upper: bool) -> pa.Array:
    """Widen bounds to include the 32-bit floats with the same digits.

    Files store these values as floats, which readers convert to doubles. A bound outside the range of floats was a
    double.
    """
    floats = pc.cast(pc.cast(doubles, pa.float32(), safe=False), pa.float64())
    widens = pc.greater(floats, doubles) if upper else pc.less(floats, doubles)
    return pc.if_else(pc.and_(widens, pc.is_finite(floats)), floats, doubles)


def _parse_decimals(values: list[Any], scale: int, *, upper: bool) -> pa.Array:
    kind = pa.decimal128(MAX_PRECISION, scale)
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:  # more digits than the type, because the writer used a double
        return pa.array([_round(value, scale, upper=upper) for value in values], kind)


def _round(value: Decimal | None, scale: int, *, upper: bool) -> Decimal | None:
    if value is None or not value.is_finite() or value.adjusted() >= MAX_PRECISION - scale - 1:
        return None
    return value.quantize(Decimal(1).scaleb(-scale), ROUND_CEILING if upper else ROUND_FLOOR, EXACTLY)


def _parse_integers(values: list[Any], type_: ColumnType, *, upper: bool) -> pa.Array | None:
    if type_.name in {"date", "timestamp", "timestamp_ntz"}:
        kind = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}
        texts = pa.array(values, pa.string())
        # Arrow accepts incomplete times and fills in the missing parts.
        if type_.name == "date" or not pc.less(pc.utf8_length(texts), _WHOLE_TIME).true_count:
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                return _to_int64(pc.cast(texts, kind[type_.name]))
        read = days if type_.name == "date" else _time_parser(type_.name, upper=upper)
        return pa.array([read(v) if v else None for v in values], pa.int64())
    if type_.name == "boolean":
        return pc.cast(pa.array(values, pa.bool_()), pa.int64())
    return integers(values)


def _widen_old_times(bounds: pa.Array | None, type_: ColumnType, *, upper: bool) -> pa.Array | None:
    """Widen bounds before mid-1972 by a minute, because writers round UTC offsets that are no whole minutes.

    Typed statistics can be created from JSON with such offsets, and no longer contain them.
    """
    if bounds is None or type_.name != "timestamp":
        return bounds
    # Arrow overflows silently, so raise the smallest bounds before the subtraction.
    widened = pc.add(bounds, _MINUTE) if upper else pc.subtract(pc.max_element_wise(bounds, _MINUTE - INT64), _MINUTE)
    return pc.if_else(pc.less(bounds, _WHOLE_OFFSETS), widened, bounds)


def integers(values: list[int | None]) -> pa.Array:
    """Convert numbers to an int64 array, with null for numbers out of range."""
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        return pa.array([v if v is not None and -INT64 <= v < INT64 else None for v in values], pa.int64())


def _time_parser(type_: str, *, upper: bool) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        timestamp = microseconds(text)
        if timestamp is None:
            return None
        instant, has_offset = timestamp
        spread = 0 if has_offset == (type_ == "timestamp") else ANY_ZONE
        if len(text) <= len("YYYY-MM-DD") and upper:  # a date, if the column was widened or its times were cut
            spread += MICROSECONDS_A_DAY
        return instant + spread if upper else instant - spread

    return read


def _to_int64(array: pa.Array) -> pa.Array:
    if pa.types.is_date32(array.type):
        array = pc.cast(array, pa.int32())
    return pc.cast(array, pa.int64())


def from_typed(array: pa.Array, type_: ColumnType, *, upper: bool) -> pa.Array | None:
    """Convert typed minima or maxima to bounds for comparison; None for unsupported types.

    The type of the statistics can be narrower than the column's, if the column was widened later.
    """
    try:
        return _widen_old_times(_convert_typed(array, type_, upper=upper), type_, upper=upper)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


def is_text(stored: pa.DataType) -> bool:
    """Return whether bounds of this Arrow type can be read as strings."""
    return pa.types.is_string(stored) or pa.types.is_large_string(stored)


def _convert_typed(array: pa.Array, type_: ColumnType, *, upper: bool) -> pa.Array | None:
    stored = array.type
    if type_.axis is Axis.TEXT and is_text(stored):
        texts = pc.cast(array, pa.string())
        return _convert_typed_texts(texts) if upper else texts
    if type_.axis is Axis.DOUBLE and (pa.types.is_floating(stored) or pa.types.is_integer(stored)):
        numbers = pc.cast(array, pa.float64(), safe=False)
        if type_.name == "float":
            numbers = pc.cast(pc.cast(numbers, pa.float32(), safe=False), pa.float64())
        if type_.was_float:
            numbers = _widen_to_float32(numbers, upper=upper)
        return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    if type_.axis is Axis.DECIMAL and (pa.types.is_decimal(stored) or pa.types.is_integer(stored)):
        return pc.cast(array, pa.decimal128(MAX_PRECISION, type_.scale))
    if type_.name == "boolean" and pa.types.is_boolean(stored):
        return pc.cast(array, pa.int64())
    if type_.name in {"byte", "short", "integer", "long"} and pa.types.is_integer(stored):
        return pc.cast(array, pa.int64())
    if type_.name == "date" and pa.types.is_date32(stored):
        return _to_int64(array)
    if type_.name == "timestamp_ntz" and pa.types.is_date32(stored):
        return _to_int64(pc.cast(array, pa.timestamp("us")))
    if type_.name in {"timestamp", "timestamp_ntz"} and pa.types.is_timestamp(stored) and stored.unit in {"us", "ms"}:
        # Nanoseconds can come from INT96, in which distant dates overflow.
        return _to_int64(pc.cast(array, pa.timestamp("us", stored.tz)))
    return None


def _convert_typed_texts(array: pa.StringArray) -> pa.StringArray:
    possibly_cut = pc.greater_equal(pc.utf8_length(array), _CUT)
    for end in _APPENDED:
        possibly_cut = pc.or_(possibly_cut, pc.ends_with(array, end))
    if not possibly_cut.true_count:
        return array
    return pa.array([None if value is None else upper_bound(value) for value in array.to_pylist()], pa.string())
