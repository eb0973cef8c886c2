"""Convert bounds and counts of Iceberg files to Delta's statistics, by column.

Iceberg specification, "Bound serialization". Bounds can be truncated, so `tightBounds` is false. Floating-point bounds
do not cover NaN, which is the largest value for Delta clients: they are used only if the file is known to have none.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.scan.stats_json import json_statistics
from deltaic.iceberg_source.delta_schema import Path
from deltaic.pruning.values import ColumnType

_FLOATS: Final = frozenset({"float", "double"})
_FLOAT_BYTES: Final = 4
_FLOATS_BY_SIZE: Final = {4: pa.float32(), 8: pa.float64()}
_INTEGERS_BY_SIZE: Final = {4: pa.int32(), 8: pa.int64()}
_DECIMAL: Final = pa.decimal128(38, 0)
_DAYS: Final = (-719_162, 2_932_896)
"""First and last day of the years 1 to 9999, as JSON of Delta's statistics can express them."""
_MICROSECONDS: Final = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1000)
_LONGS: Final = (-(1 << 63), (1 << 63) - 1)
_DECIMALS: Final = (1 - 10**38, 10**38 - 1)

Values = Mapping[int, Sequence[Any]]
"""Values of each column by field id; None for missing values. Columns can be missing."""


def encode_statistics(
    rows: Sequence[int] | None, columns: Mapping[int, tuple[Path, ColumnType]], metrics: Sequence[Values]
) -> pa.StringArray:
    """Return the statistics of files as JSON (Delta protocol, "Per-file Statistics").

    `metrics` are lower and upper bounds, null counts and NaN counts, with a value for each file.
    """
    lower, upper, null_counts, nan_counts = metrics
    trees: dict[str, Any] = {} if rows is None else {"numRecords": pa.array(rows, pa.int64())}
    trees |= {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for field_id, (path, type_) in columns.items():
        if field_id in null_counts:
            _put(trees["nullCount"], path, pa.array(null_counts[field_id], pa.int64()))
        for tree, bounds in ((trees["minValues"], lower), (trees["maxValues"], upper)):
            if field_id in bounds:
                values = bounds[field_id]
                if type_.name in _FLOATS:
                    counts = nan_counts.get(field_id, ())
                    values = [value if count == 0 else None for value, count in zip(values, counts, strict=False)]
                if any(values) or any(value is not None for value in values):
                    _put(tree, path, _read_bounds(type_, values, upper=bounds is upper))
    length = next((len(values) for kind in metrics for values in kind.values()), 0) if rows is None else len(rows)
    texts: pa.StringArray = json_statistics(_struct(trees | {"tightBounds": pa.array([False] * length)}))
    return texts


def to_dict(pairs: Iterable[Mapping[str, Any]] | None) -> dict[int, Any]:
    """Convert a map, which Iceberg stores as an array of records, to a dict."""
    return {pair["key"]: pair["value"] for pair in pairs or ()}


def partition_text(value: Any) -> str | None:
    """Return a partition value as text (Delta protocol, "Partition Value Serialization"); None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _put(tree: dict[str, Any], path: Path, values: pa.Array | None) -> None:
    if values is not None:
        for name in path[:-1]:
            tree = tree.setdefault(name, {})
        tree[path[-1]] = values


def _struct(tree: Mapping[str, Any]) -> pa.StructArray:
    arrays = {
        name: _struct(values) if isinstance(values, dict) else values for name, values in tree.items() if values != {}
    }
    return pa.StructArray.from_arrays(list(arrays.values()), list(arrays))


def _read_bounds(type_: ColumnType, values: Sequence[bytes | None], *, upper: bool) -> Any:
    """Return bounds as an array; null for invalid values, None for types without bounds in Delta."""
    if type_.name == "string":
        return _read_texts(values)
    if type_.name in _FLOATS:
        floats = _join_numbers(values, _FLOATS_BY_SIZE)
        if floats is None:
            return pa.array([_read_float(value) for value in values], pa.float64())
        floats = pc.cast(floats, pa.float64())
        return pc.if_else(pc.is_finite(floats), floats, pa.scalar(None, pa.float64()))
    if type_.name == "decimal":
        numbers = pa.array(_integers(values, "big", _DECIMALS), _DECIMAL)
        # The same numbers, with another point.
        return pa.Array.from_buffers(pa.decimal128(38, type_.scale), len(numbers), numbers.buffers())
    if type_.name == "date":
        days: Any = pc.cast(_read_integers(values, _DAYS), pa.int32())
        return days.view(pa.date32())
    if type_.name in {"timestamp", "timestamp_ntz"}:
        # JSON has milliseconds, rounded down. Upper bounds are rounded up, which clients do not expect but accept.
        times = pc.add(_read_integers(values, _MICROSECONDS), 999 if upper else 0)
        return times.view(pa.timestamp("us", "UTC" if type_.name == "timestamp" else None))
    return _read_integers(values, _LONGS) if type_.name in {"integer", "long"} else None


def _join_numbers(values: Sequence[bytes | None], types: Mapping[int, pa.DataType]) -> Any:
    """Return numbers in Arrow's layout as an array; None if a value is missing or they differ in size."""
    sizes = {len(value or b"") for value in values}
    kind = types.get(sizes.pop()) if len(sizes) == 1 else None
    if kind is None:
        return None
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(b"".join(filter(None, values)))])


def _read_integers(values: Sequence[bytes | None], limits: tuple[int, int]) -> Any:
    # A bound keeps the width of the column's type when the file was written: ints can be longs today.
    numbers = _join_numbers(values, _INTEGERS_BY_SIZE)
    if numbers is None:
        return pa.array(_integers(values, "little", limits), pa.int64())
    numbers = pc.cast(numbers, pa.int64())
    is_valid = pc.and_(pc.greater_equal(numbers, limits[0]), pc.less_equal(numbers, limits[1]))
    return pc.if_else(is_valid, numbers, pa.scalar(None, pa.int64()))


def _integers(values: Sequence[bytes | None], order: Any, limits: tuple[int, int]) -> Sequence[int | None]:
    read: Callable[..., int] = int.from_bytes
    numbers = [read(value, order, signed=True) if value else None for value in values]
    low, high = limits
    return [number if number is not None and low <= number <= high else None for number in numbers]


def _read_float(value: bytes | None) -> float | None:
    try:
        number = struct.unpack("<f" if len(value or b"") == _FLOAT_BYTES else "<d", value or b"")[0]
    except struct.error:
        return None
    return number if isfinite(number) else None


def _read_texts(values: Sequence[bytes | None]) -> pa.StringArray:
    try:
        return pc.cast(pa.array(values, pa.binary()), pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return pa.array([_read_text(value) for value in values], pa.string())


def _read_text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
