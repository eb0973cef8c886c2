"""Convert bounds and counts of Iceberg files to Delta's statistics (JSON) and partition values (text).

Iceberg specification, "Bound serialization". Bounds can be truncated, so `tightBounds` is false. Floating-point bounds
do not cover NaN, which is the largest value for Delta clients: they are used only if the file is known to have none.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import msgspec

from deltaic.iceberg_source.delta_schema import Path
from deltaic.pruning.values import EXACTLY, ColumnType

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = date(1970, 1, 1).toordinal()
_FLOAT_BYTES: Final = 4
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


def encode_statistics(
    rows: int | None,
    columns: Mapping[int, tuple[Path, ColumnType]],
    metrics: Sequence[Mapping[int, Any]],
) -> str:
    """Return the statistics of columns as JSON (Delta protocol, "Per-file Statistics").

    `metrics` are lower and upper bounds, null counts and NaN counts, each by field id.
    """
    lower, upper, null_counts, nan_counts = metrics
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for field_id, (path, type_) in columns.items():
        _put(nulls, path, null_counts.get(field_id))
        if nan_counts.get(field_id) == 0 or type_.name not in {"float", "double"}:
            _put(low, path, _read_bound(type_, lower.get(field_id), upper=False))
            _put(high, path, _read_bound(type_, upper.get(field_id), upper=True))
    head = {} if rows is None else {"numRecords": rows}
    return _encode({**head, "minValues": low, "maxValues": high, "nullCount": nulls, "tightBounds": False}).decode()


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


def _put(target: dict[str, Any], path: Path, value: Any) -> None:
    if value is not None:
        for name in path[:-1]:
            target = target.setdefault(name, {})
        target[path[-1]] = value


def _read_bound(type_: ColumnType, raw: bytes | None, *, upper: bool) -> Any:
    """Return a bound in Delta's JSON; None for types without bounds there and for invalid values."""
    if raw is None or (not raw and type_.name != "string"):
        return None
    try:
        if type_.name == "string":
            return raw.decode()
        if type_.name in {"float", "double"}:
            value = struct.unpack("<f" if len(raw) == _FLOAT_BYTES else "<d", raw)[0]
            return value if isfinite(value) else None
        if type_.name == "decimal":
            return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-type_.scale, EXACTLY)
        # A bound keeps the width of the column's type when the file was written: ints can be longs today.
        number = int.from_bytes(raw, "little", signed=True)
        if type_.name == "date":
            return date.fromordinal(_DAY + number)
        if type_.name in {"timestamp", "timestamp_ntz"}:
            # Clients expect that statistics are truncated to milliseconds, but this server need not rely on it.
            time = _EPOCH + timedelta(milliseconds=(number + 999 * upper) // 1000)
            return time.isoformat(timespec="milliseconds")[:-6] + "Z" * (type_.name == "timestamp")
        if type_.name in {"integer", "long"}:
            return number
    except (ValueError, struct.error, OverflowError, ArithmeticError):
        pass
    return None
