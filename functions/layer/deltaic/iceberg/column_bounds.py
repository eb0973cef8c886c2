"""Delta's statistics of files as the metrics of Iceberg's manifests: null counts, lower and upper bounds.

Bounds are read as pruning reads them. What Iceberg's readers take otherwise than Delta's is seen to here: they tell
-0.0 from 0.0, and take no bound for one that was cut. Bounds say what a file may hold and never what the greatest
value is, which `deltaic.iceberg.table_document` tells readers by a property.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from deltaic import compute as pc
from deltaic.iceberg import avro
from deltaic.iceberg.column_types import single_value
from deltaic.iceberg.table_schema import IcebergSchema
from deltaic.pruning.columns import Columns, TableColumn, TableMetadata
from deltaic.pruning.statistics_facts import JsonStatistics
from deltaic.pruning.stats_bounds import following, from_json, in_type

_CUT: Final = 16
"""Characters of a string that a bound has, as Iceberg's own writers cut them."""
_MILLISECOND: Final = 1_000


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
        nulls: list[list[bytes]] = []
        lower: list[list[bytes]] = []
        upper: list[list[bytes]] = []
        for column, key in self._columns:
            own = values[column]
            nulls.append([key + avro.whole(n) if type(n) is int and n >= 0 else b"" for n in own.nulls])
            lower.append(_bounds(column, key, own.low, upper=False))
            upper.append(_bounds(column, key, own.high, upper=True))
        maps = [_maps(part, len(texts)) for part in (nulls, lower, upper)]
        return rows, [b"".join(parts) for parts in zip(*maps, strict=True)]


def _maps(columns: Sequence[Sequence[bytes]], files: int) -> list[bytes]:
    """Return an optional map for each file, of the encoded entries that columns have for it."""
    if not columns:
        return [avro.NULL] * files
    found = (list(filter(None, entries)) for entries in zip(*columns, strict=True))
    return [avro.PRESENT + avro.items(entries) if entries else avro.NULL for entries in found]


def _bounds(column: TableColumn, key: bytes, values: list[Any], *, upper: bool) -> list[bytes]:
    type_ = column.type
    bounds = None if type_.name == "boolean" else from_json(values, type_, upper=upper)
    if bounds is None:
        return [b""] * len(values)
    numbers = _in_its_type(bounds, column).to_pylist()
    write, adjust = single_value(type_), _ADJUSTED.get(type_.name)
    if adjust is not None:
        numbers = [None if value is None else adjust(value, upper) for value in numbers]
    return [b"" if value is None else key + avro.data(write(value)) for value in numbers]


def _in_its_type(bounds: pa.Array, column: TableColumn) -> pa.Array:
    """Return bounds that the type holds, as numbers where it counts something."""
    if column.type.name in {"byte", "short", "integer"}:
        return in_type(bounds, column.type)
    if column.type.name == "decimal":
        return in_type(bounds, column.type)
    if column.type.name == "date":
        return pc.cast(bounds, pa.int32())
    return bounds


def _cut(value: str, upper: bool) -> str | None:
    begin = value[:_CUT]
    return following(begin) if upper and len(value) > _CUT else begin


def _whole_millisecond(value: int, upper: bool) -> int:
    """Delta's statistics are cut to milliseconds."""
    return value + _MILLISECOND - 1 if upper and value % _MILLISECOND == 0 else value


def _zero(value: float, upper: bool) -> float:
    return value or (0.0 if upper else -0.0)


def _digits(value: Any, _upper: bool) -> int:
    return int(value.scaleb(-value.as_tuple().exponent))


_ADJUSTED: Final[dict[str, Callable[[Any, bool], Any]]] = {
    "string": _cut,
    "timestamp": _whole_millisecond,
    "timestamp_ntz": _whole_millisecond,
    "float": _zero,
    "double": _zero,
    "decimal": _digits,
}
