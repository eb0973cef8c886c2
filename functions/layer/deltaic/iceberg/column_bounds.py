"""Delta's statistics of files as the metrics of Iceberg's manifests: null counts, lower and upper bounds.

Bounds are read as pruning reads them. What Iceberg's readers take otherwise than Delta's is seen to here: they tell
-0.0 from 0.0, and take no bound for one that was cut. Bounds say what a file may hold and never what the greatest
value is, which `deltaic.iceberg.table_document` tells readers by a property.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from deltaic import compute as pc
from deltaic.iceberg import avro
from deltaic.iceberg.column_types import unscaled
from deltaic.iceberg.table_schema import IcebergSchema
from deltaic.pruning.columns import Columns, TableMetadata
from deltaic.pruning.statistics_facts import JsonStatistics
from deltaic.pruning.stats_bounds import following, from_json, in_type
from deltaic.pruning.values import ColumnType

_CUT: Final = 16
"""Characters of a string that a bound has, as Iceberg's own writers cut them."""
_MILLISECOND: Final = 1_000
_DECIMAL_WIDTH: Final = 16


class FileMetrics:
    """Encodes the statistics of files, for the columns of one schema."""

    def __init__(self, metadata: TableMetadata, schema: IcebergSchema) -> None:
        ids = schema.leaf_ids
        columns = [one for _, one in Columns(metadata).leaves() if one.path in ids and not one.is_partition]
        self._statistics = JsonStatistics(columns)
        self._columns = [(column, avro.whole(ids[column.path])) for column in columns]

    def encode(self, texts: pa.StringArray) -> tuple[list[int | None], list[bytes]]:
        """Return for each file how many rows its statistics tell, and the maps of its counts and bounds."""
        rows, values = self._statistics.values(texts)
        nulls, lower, upper = [], [], []
        for column, key in self._columns:
            own = values[column]
            nulls.append(_counts(key, own.nulls))
            lower.append(_bounds(column.type, key, own.low, upper=False))
            upper.append(_bounds(column.type, key, own.high, upper=True))
        maps = [_maps(part, len(texts)) for part in (nulls, lower, upper)]
        return rows, list(map(b"".join, zip(*maps, strict=True)))


def _maps(columns: Sequence[Sequence[bytes]], files: int) -> list[bytes]:
    """Return an optional map for each file, of the encoded entries that columns have for it."""
    if not columns:
        return [avro.NULL] * files
    full = avro.PRESENT + avro.whole(len(columns))
    return [
        full + b"".join(entries) + avro.END if all(entries) else _partial(entries)
        for entries in zip(*columns, strict=True)
    ]


def _partial(entries: Sequence[bytes]) -> bytes:
    there = list(filter(None, entries))
    return avro.PRESENT + avro.items(there) if there else avro.NULL


def _counts(key: bytes, counts: Sequence[int | None]) -> list[bytes]:
    encoded = {n: key + avro.whole(n) if type(n) is int and n >= 0 else b"" for n in set(counts)}
    return [encoded[n] for n in counts]


def _bounds(type_: ColumnType, key: bytes, values: list[Any], *, upper: bool) -> list[bytes]:
    bounds = None if type_.name == "boolean" else from_json(values, type_, upper=upper)
    if bounds is None:
        return [b""] * len(values)
    if type_.name == "string":
        texts = [_cut(value, upper) for value in bounds.to_pylist()]
        return [b"" if text is None else key + avro.text(text) for text in texts]
    if type_.name == "decimal":
        return _decimals(key, in_type(bounds, type_))
    return _packed(key, _stored(type_, bounds, upper))


def _cut(value: str | None, upper: bool) -> str | None:
    if value is None or len(value) <= _CUT:
        return value
    begin = value[:_CUT]
    return following(begin) if upper else begin


def _stored(type_: ColumnType, bounds: pa.Array, upper: bool) -> pa.Array:
    if type_.name in {"byte", "short", "integer"}:
        return pc.cast(in_type(bounds, type_), pa.int32())
    if type_.name == "date":
        return pc.cast(bounds, pa.int32())
    if type_.name in {"timestamp", "timestamp_ntz"} and upper:
        # Delta's statistics are cut to milliseconds.
        return pc.add(bounds, pa.scalar(_MILLISECOND - 1, pa.int64()))
    if type_.name in {"float", "double"}:
        bounds = pc.if_else(pc.equal(bounds, 0.0), 0.0 if upper else -0.0, bounds)
        return pc.cast(bounds, pa.float32(), safe=False) if type_.name == "float" else bounds
    return bounds


def _packed(key: bytes, bounds: pa.Array) -> list[bytes]:
    """Return entries of numbers that Arrow holds as Iceberg writes them: little-endian."""
    width = bounds.type.bit_width // 8
    held = bounds.buffers()[1]
    if held is None:
        return [b""] * len(bounds)
    start = key + avro.whole(width)
    first = bounds.offset * width
    content = held.to_pybytes()[first : first + len(bounds) * width]
    found = [start + content[at : at + width] for at in range(0, len(content), width)]
    return found if not bounds.null_count else _where(pc.is_valid(bounds), found)


def _where(valid: pa.BooleanArray, entries: Sequence[bytes]) -> list[bytes]:
    return [entry if there else b"" for there, entry in zip(valid.to_pylist(), entries, strict=True)]


def _decimals(key: bytes, bounds: pa.Array) -> list[bytes]:
    held = bounds.buffers()[1]
    if held is None:
        return [b""] * len(bounds)
    content = memoryview(held)[bounds.offset * _DECIMAL_WIDTH :]
    numbers = [
        int.from_bytes(content[at : at + _DECIMAL_WIDTH], "little", signed=True)
        for at in range(0, len(bounds) * _DECIMAL_WIDTH, _DECIMAL_WIDTH)
    ]
    found = [key + avro.data(unscaled(number)) for number in numbers]
    return found if not bounds.null_count else _where(pc.is_valid(bounds), found)
