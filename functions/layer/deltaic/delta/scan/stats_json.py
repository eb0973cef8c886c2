"""Convert typed statistics to JSON as Spark writes it.

Delta protocol, "Per-file Statistics". Column names stay physical. Dates and timestamps are ISO strings (timestamps
truncated to milliseconds, with `Z` unless they have no time zone), decimals are numbers with all digits, NaN and
infinities are strings; null fields are omitted.
"""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain, groupby
from json.encoder import encode_basestring
from typing import Any, Final

import pyarrow as pa

from deltaic import compute as pc

_ESCAPED: Final = bytes([*range(32), *b'"\\'])
_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7


def json_statistics(stats: Any) -> Any:
    """Return one JSON string per row, which takes microseconds each; null if the struct is null."""
    texts = groupby(
        (*_render_struct(stats), pa.array([""] * len(stats), pa.string())), lambda part: isinstance(part, str)
    )
    return _join(*chain.from_iterable(["".join(parts)] if is_text else parts for is_text, parts in texts))


def _render_struct(stats: Any) -> Sequence[Any]:
    fields = {field.name: _render(stats.field(at)) for at, field in enumerate(stats.type)}
    named = [(json.dumps(name, ensure_ascii=False) + ":", parts) for name, parts in fields.items() if parts]
    columns = [part for _, parts in named for part in parts if isinstance(part, pa.Array)]
    if not any(column.null_count for column in (stats, *columns)):
        # One join of all columns takes half the time.
        return "{", *[part for name, parts in named for part in (",", name, *parts)][1:], "}"
    empty = pa.array([""] * len(stats), pa.string())
    text = _join_present([_join(name, *parts, empty) for name, parts in named], empty)
    return (pc.if_else(pc.is_valid(stats), _join("{", text, "}"), pa.scalar(None, pa.string())),)


def _render(column: Any) -> Sequence[Any]:
    """Return parts that joined are the values as JSON, null for null; none for unsupported types."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _render_struct(column)
    if pa.types.is_timestamp(kind):
        # Spark rounds both bounds down to milliseconds, and readers of `maxValues` allow for that.
        text = pc.replace_substring(pc.cast(_floor(column), pa.string()), " ", "T")
        return '"', text, 'Z"' if kind.tz else '"'
    if pa.types.is_date(kind):
        return '"', pc.cast(column, pa.string()), '"'
    if pa.types.is_decimal(kind):
        text = pc.cast(column, pa.string())
        return (_replace(text, pc.match_substring(text, "E"), lambda value: format(Decimal(value), "f")),)
    if pa.types.is_floating(kind):
        return (_render_floats(column),)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        limits = pc.min_max(column)
        if column.null_count == 0 and limits["min"] == limits["max"]:  # such as null counts of many files
            return (json.dumps(limits["min"].as_py()),)
        return (pc.cast(column, pa.string()),)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        text = pc.cast(column, pa.string())
        # Searching all values at once takes a tenth of the time; the buffer is None if a value is null.
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(text)], text), "")[0].as_buffer()
        if joined is None or len(joined.to_pybytes().translate(None, _ESCAPED)) < joined.size:
            needs_escapes = pc.match_substring_regex(text, r'["\\\x00-\x1f]')
            text = _replace(text, needs_escapes, lambda value: encode_basestring(value)[1:-1])
        return '"', text, '"'
    # Spark's JSON has no bounds for binary, arrays, maps and variants; without bounds a file is kept.
    return ()


def _join_present(fields: Sequence[Any], empty: Any) -> Any:
    """Join the fields of each row that are not null, with commas."""
    if any(field.null_count == 0 for field in fields):
        return pc.binary_join_element_wise(*fields, ",", null_handling="skip")
    # Arrow drops rows in which all values are skipped, so that each row starts with an empty value.
    text = pc.binary_join_element_wise(empty, *fields, ",", null_handling="skip")
    return pc.utf8_slice_codeunits(text, 1)


def _join(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _replace(text: Any, mask: pa.BooleanArray, convert: Callable[[str], str]) -> Any:
    """Convert the texts that the mask selects, which are few."""
    if not mask.true_count:
        return text
    converted = [convert(value) for value in pc.filter(text, mask).to_pylist()]
    return pc.replace_with_mask(text, pc.coalesce(mask, False), pa.array(converted, pa.string()))


def _floor(column: Any) -> pa.Array:
    # The instants are in UTC: without a zone, they need no time zone database.
    times = column.view(pa.timestamp(column.type.unit))
    rounded = pc.floor_temporal(times, 1, unit="millisecond") if column.type.unit != "s" else times
    return pc.cast(rounded, pa.timestamp("ms"))


def _render_floats(column: pa.Array) -> Any:
    # Arrow returns the shortest digits for the column's precision, which float32 needs.
    text: Any = pc.cast(column, pa.string())
    magnitude = pc.abs(pc.cast(column, pa.float64()))
    is_plain = pc.and_(pc.greater_equal(magnitude, _PLAIN_FROM), pc.less(magnitude, _PLAIN_BELOW))
    lacks_point = pc.and_(is_plain, pc.equal(pc.floor(magnitude), magnitude))
    if lacks_point.true_count:
        with_points = _join(pc.filter(text, lacks_point), ".0")
        text = pc.replace_with_mask(text, pc.coalesce(lacks_point, False), with_points)
    return _replace(text, pc.invert(is_plain), _format_java_number)


def _format_java_number(text: str) -> str:
    """Format a number's shortest digits as Java's Double.toString does, which Spark's JSON uses."""
    value = float(text)
    if value != value:  # noqa: PLR0124 -- NaN is the number that differs from itself
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    mantissa, _, exponent = text.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    integer_part, _, fraction = mantissa.lstrip("+-").partition(".")
    digits = (integer_part + fraction).lstrip("0")
    if not digits:
        return sign + "0.0"
    point = len(integer_part) + int(exponent or 0) - (len(integer_part + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    if _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        padded = digits.ljust(point, "0")
        return f"{sign}{padded[:point]}.{padded[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
