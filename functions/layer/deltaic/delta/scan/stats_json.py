"""Convert typed statistics to JSON as Spark writes it.

Delta protocol, "Per-file Statistics". Column names stay physical. Dates and timestamps are ISO strings (timestamps
truncated to milliseconds, with `Z` unless they have no time zone), decimals are numbers with all digits, NaN and
infinities are strings; null fields are omitted.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from deltaic import compute as pc

_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7


def json_statistics(stats: pa.StructArray) -> pa.StringArray:
    """Return one JSON string per row, which takes microseconds each; null if the struct is null."""
    render = _renderer(stats.type)
    if render is None:
        return pa.array([None] * len(stats), pa.string())
    rendered = render(stats)
    valid = pc.is_valid(stats).to_pylist()
    return pa.array([text if ok else None for text, ok in zip(rendered, valid, strict=True)], pa.string())


_Renderer = Callable[[Any], list[str | None]]
"""Renders the values of an array as JSON; the array must have the type for which the function was created."""


def _renderer(kind: pa.DataType) -> _Renderer | None:
    """Return a function that renders a column as JSON fragments; None for unsupported types."""
    if pa.types.is_struct(kind):
        return _struct_renderer(kind)
    if pa.types.is_timestamp(kind):
        suffix = "Z" if kind.tz else ""
        # Spark rounds both bounds down to milliseconds, and readers of `maxValues` allow for that.
        return lambda column: _quote(pc.strftime(_floor(column), format="%Y-%m-%dT%H:%M:%S"), suffix)
    if pa.types.is_date(kind):
        return lambda column: _quote(pc.cast(column, pa.string()))
    if pa.types.is_decimal(kind):
        return lambda column: [None if v is None else format(v, "f") for v in column.to_pylist()]
    if pa.types.is_floating(kind):
        return _format_floats
    if pa.types.is_boolean(kind):
        return lambda column: [None if v is None else "true" if v else "false" for v in column.to_pylist()]
    if pa.types.is_integer(kind):
        return lambda column: [None if v is None else str(v) for v in column.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return lambda column: [None if v is None else json.dumps(v, ensure_ascii=False) for v in column.to_pylist()]
    # Spark's JSON has no bounds for binary, arrays, maps and variants; without bounds a file is kept.
    return None


def _struct_renderer(kind: pa.StructType) -> _Renderer | None:
    all_fields = [(json.dumps(f.name, ensure_ascii=False) + ":", i, _renderer(f.type)) for i, f in enumerate(kind)]
    fields = [(name, index, render) for name, index, render in all_fields if render is not None]

    def render_struct(column: pa.StructArray) -> list[str | None]:
        children = [[None if v is None else name + v for v in render(column.field(at))] for name, at, render in fields]
        valid = pc.is_valid(column).to_pylist()
        rows = zip(*children, strict=True) if children else ((),) * len(column)
        return [
            "{" + ",".join([part for part in row if part is not None]) + "}" if ok else None
            for row, ok in zip(rows, valid, strict=True)
        ]

    return render_struct


def _floor(column: pa.Array) -> pa.Array:
    kind = column.type
    zone, unit = (kind.tz, kind.unit) if pa.types.is_timestamp(kind) else (None, "s")
    rounded = pc.floor_temporal(column, 1, unit="millisecond") if unit != "s" else column
    # strftime without a zone needs no time zone database; the instants are in UTC.
    if zone:
        rounded = pc.cast(rounded, pa.timestamp("ms", "UTC"))
    return pc.cast(rounded, pa.timestamp("ms"))


def _quote(column: pa.StringArray, suffix: str = "") -> list[str | None]:
    return [None if value is None else f'"{value}{suffix}"' for value in column.to_pylist()]


def _format_floats(column: pa.Array) -> list[str | None]:
    # Arrow returns the shortest digits for the column's precision, which float32 needs.
    digits = pc.cast(column, pa.string()).to_pylist()
    return [None if text is None else _format_java_number(text) for text in digits]


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
