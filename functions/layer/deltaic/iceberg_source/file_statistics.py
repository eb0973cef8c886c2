"""Convert bounds and counts of Iceberg files to Delta's statistics, by column.

Iceberg specification, "Bound serialization". Bounds can be truncated, so `tightBounds` is false. Floating-point bounds
do not cover NaN, which is the largest value for Delta clients: they are used only if the file is known to have none.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.scan.stats_json import json_statistics
from deltaic.iceberg_source.delta_schema import Path
from deltaic.pruning.values import ColumnType

_FLOATS: Final = frozenset({"float", "double"})
_DECIMAL_BYTES: Final = 16
_DECIMAL: Final = pa.decimal128(38, 0)
_DECIMALS: Final = tuple(pa.scalar(Decimal(number), _DECIMAL) for number in (1 - 10**38, 10**38 - 1))
_DAYS: Final = (-719_162, 2_932_896)
"""First and last day of the years 1 to 9999, as JSON of Delta's statistics can express them."""
_MICROSECONDS: Final = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1000)

Values = Mapping[int, Any]
"""Arrays of values by field id; null for missing values. Columns can be missing."""


def encode_statistics(
    length: int, rows: Any, columns: Mapping[int, tuple[Path, ColumnType]], metrics: Sequence[Values]
) -> pa.StringArray:
    """Return the statistics of `length` files as JSON (Delta protocol, "Per-file Statistics").

    `metrics` are lower and upper bounds, null counts and NaN counts; `rows` are the numbers of rows, or None.
    """
    lower, upper, null_counts, nan_counts = metrics
    trees: dict[str, Any] = {} if rows is None else {"numRecords": rows}
    trees |= {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for field_id, (path, type_) in columns.items():
        _put(trees["nullCount"], path, null_counts.get(field_id))
        for tree, bounds in ((trees["minValues"], lower), (trees["maxValues"], upper)):
            values = bounds.get(field_id)
            if values is not None and type_.name in _FLOATS:
                counts = nan_counts.get(field_id)
                values = None if counts is None else _where(pc.equal(counts, 0), values)
            if values is not None:
                _put(tree, path, _read_bounds(type_, values, upper=bounds is upper))
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
    if values is not None and values.null_count < len(values):
        for name in path[:-1]:
            tree = tree.setdefault(name, {})
        tree[path[-1]] = values


def _struct(tree: Mapping[str, Any]) -> pa.StructArray:
    arrays = {
        name: _struct(values) if isinstance(values, dict) else values for name, values in tree.items() if values != {}
    }
    return pa.StructArray.from_arrays(list(arrays.values()), list(arrays))


def _read_bounds(type_: ColumnType, values: Any, *, upper: bool) -> Any:
    """Return bounds as an array; null for invalid values, None for types without bounds in Delta."""
    if type_.name == "string":
        return _read_texts(values)
    if type_.name in _FLOATS:
        floats = _read_numbers(type_, values, pa.float32(), pa.float64())
        return _where(pc.is_finite(floats), floats)
    if type_.name == "decimal":
        numbers = _within(_view(_little_endian(values), _DECIMAL), *_DECIMALS)
        # The same numbers, with another point.
        return pa.Array.from_buffers(pa.decimal128(38, type_.scale), len(numbers), numbers.buffers())
    if type_.name not in {"date", "timestamp", "timestamp_ntz", "integer", "long"}:
        return None
    numbers = _read_numbers(type_, values, pa.int32(), pa.int64())
    if type_.name == "date":
        days: Any = pc.cast(_within(numbers, *_DAYS), pa.int32())
        return days.view(pa.date32())
    if type_.name in {"timestamp", "timestamp_ntz"}:
        # JSON has milliseconds, rounded down. Upper bounds are rounded up, which clients do not expect but accept.
        times = pc.add(_within(numbers, *_MICROSECONDS), 999 if upper else 0)
        return times.view(pa.timestamp("us", "UTC" if type_.name == "timestamp" else None))
    return numbers


def _read_numbers(type_: ColumnType, values: Any, narrow: pa.DataType, wide: pa.DataType) -> Any:
    # A bound keeps the width of the column's type when the file was written: ints can be longs today.
    kinds = (narrow, wide) if type_.name in {"integer", "date", "float"} else (wide, narrow)
    numbers = pc.cast(_view(values, kinds[0]), wide)
    return pc.coalesce(numbers, pc.cast(_view(values, kinds[1]), wide)) if numbers.null_count else numbers


def _view(values: Any, kind: Any) -> Any:
    """Return values as an array of `kind`, which has their layout; null if they have another length."""
    size = kind.bit_width // 8
    fits = pc.coalesce(pc.equal(pc.binary_length(values), pa.scalar(size, pa.int32())), False)  # avoids a cast
    if fits.true_count < len(values):
        values = pc.if_else(fits, values, bytes(size))
    return _where(fits, pa.Array.from_buffers(kind, len(values), [None, values.buffers()[2]]))


def _little_endian(values: Any) -> Any:
    """Return integers in big-endian order as little-endian ones with the length of decimals; null if empty."""
    reversed_bytes = pc.binary_reverse(values).view(pa.string())
    padded = pc.ascii_rpad(reversed_bytes, _DECIMAL_BYTES, b"\0")
    is_negative = pc.greater_equal(pc.binary_slice(values, 0, 1), b"\x80")
    if is_negative.true_count:
        padded = pc.if_else(is_negative, pc.ascii_rpad(reversed_bytes, _DECIMAL_BYTES, b"\xff"), padded)
    return _where(pc.greater(values, b""), padded.view(pa.binary()))


def _within(numbers: Any, low: Any, high: Any) -> Any:
    return _where(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)), numbers)


def _where(mask: Any, values: Any) -> Any:
    """Return values as they are where the mask is true, and null elsewhere."""
    return values if mask.true_count == len(values) else pc.if_else(mask, values, pa.scalar(None, values.type))


def _read_texts(values: Any) -> Any:
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        texts = [None if value is None else value.decode(errors="replace") for value in values.to_pylist()]
        return pa.array([None if text is None or "\ufffd" in text else text for text in texts], pa.string())
