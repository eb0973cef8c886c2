"""Convert Delta file statistics to metrics of Iceberg manifests: null counts, lower and upper bounds.

Bounds are parsed as for pruning, then adapted to Iceberg readers, which distinguish -0.0 from 0.0 and assume that
bounds are not truncated. Bounds are not an exact minimum and maximum: a property that
`deltaic.iceberg.table_document` sets tells this to readers.
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
from deltaic.pruning.stats_bounds import from_json, in_type, least_above_prefix
from deltaic.pruning.values import ColumnType

_MAX_CHARACTERS: Final = 16
"""Maximum length of string bounds, in characters: the default of Iceberg's writers."""
_MILLISECOND: Final = 1_000


class FileMetrics:
    """Encoder of file statistics as Iceberg metrics, for the columns of one schema."""

    def __init__(self, metadata: TableMetadata, schema: IcebergSchema) -> None:
        ids = schema.leaf_ids
        columns = [column for _, column in Columns(metadata).leaves() if column.path in ids and not column.is_partition]
        self._statistics = JsonStatistics(columns)
        self._columns = [(column, avro.integer(ids[column.path])) for column in columns]

    def encode(self, texts: pa.StringArray) -> tuple[list[int | None], list[bytes]]:
        """Return each file's row count (None if missing) and encoded null counts and bounds, from JSON statistics."""
        rows, values = self._statistics.values(texts)
        nulls, lower, upper = [], [], []
        for column, key in self._columns:
            statistics = values[column]
            nulls.append(_encode_counts(key, statistics.nulls))
            lower.append(_encode_bounds(column.type, key, statistics.low, upper=False))
            upper.append(_encode_bounds(column.type, key, statistics.high, upper=True))
        maps = [_encode_maps(column_entries, len(texts)) for column_entries in (nulls, lower, upper)]
        return rows, list(map(b"".join, zip(*maps, strict=True)))


def _encode_maps(columns: Sequence[Sequence[bytes]], files: int) -> list[bytes]:
    if not columns:
        return [avro.NULL] * files
    full = avro.PRESENT + avro.integer(len(columns))
    return [
        full + b"".join(entries) + avro.END if all(entries) else _encode_partial_map(entries)
        for entries in zip(*columns, strict=True)
    ]


def _encode_partial_map(entries: Sequence[bytes]) -> bytes:
    present = list(filter(None, entries))
    return avro.PRESENT + avro.items(present) if present else avro.NULL


def _encode_counts(key: bytes, counts: Sequence[int | None]) -> list[bytes]:
    encoded = {n: key + avro.integer(n) if type(n) is int and n >= 0 else b"" for n in set(counts)}
    return [encoded[n] for n in counts]


def _encode_bounds(type_: ColumnType, key: bytes, values: list[Any], *, upper: bool) -> list[bytes]:
    bounds = None if type_.name == "boolean" else from_json(values, type_, upper=upper)
    if bounds is None:
        return [b""] * len(values)
    if type_.name == "string":
        texts = [_truncate(value, upper) for value in bounds.to_pylist()]
        return [b"" if text is None else key + avro.text(text) for text in texts]
    return _encode_fixed(type_, key, _to_iceberg(type_, bounds, upper))


def _truncate(value: str | None, upper: bool) -> str | None:
    if value is None or len(value) <= _MAX_CHARACTERS:
        return value
    prefix = value[:_MAX_CHARACTERS]
    return least_above_prefix(prefix) if upper else prefix


def _to_iceberg(type_: ColumnType, bounds: pa.Array, upper: bool) -> pa.Array:
    if type_.name == "decimal":
        return in_type(bounds, type_)
    if type_.name in {"byte", "short", "integer"}:
        return pc.cast(in_type(bounds, type_), pa.int32())
    if type_.name == "date":
        return pc.cast(bounds, pa.int32())
    if type_.name in {"timestamp", "timestamp_ntz"} and upper:
        # Delta truncates timestamps in statistics to milliseconds.
        return pc.add(bounds, pa.scalar(_MILLISECOND - 1, pa.int64()))
    if type_.name in {"float", "double"}:
        bounds = pc.if_else(pc.equal(bounds, 0.0), 0.0 if upper else -0.0, bounds)
        return pc.cast(bounds, pa.float32(), safe=False) if type_.name == "float" else bounds
    return bounds


def _encode_fixed(type_: ColumnType, key: bytes, bounds: pa.Array) -> list[bytes]:
    """Return encoded map entries of numbers; except decimals, Arrow's buffer has them in Iceberg's format."""
    width, buffer = bounds.type.bit_width // 8, bounds.buffers()[1]
    if buffer is None:
        return [b""] * len(bounds)
    content = buffer.to_pybytes()[bounds.offset * width : (bounds.offset + len(bounds)) * width]
    numbers = [content[start : start + width] for start in range(0, len(content), width)]
    if type_.name == "decimal":
        numbers = [unscaled(int.from_bytes(number, "little", signed=True)) for number in numbers]
        entries = [key + avro.data(number) for number in numbers]
    else:
        head = key + avro.integer(width)
        entries = [head + number for number in numbers]
    if not bounds.null_count:
        return entries
    validity = pc.is_valid(bounds).to_pylist()
    return [entry if is_valid else b"" for is_valid, entry in zip(validity, entries, strict=True)]
