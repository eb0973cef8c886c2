"""Add typed statistics and partition values to `add` actions of checkpoints that have them only as strings.

Spark writes typed statistics if `delta.checkpoint.writeStatsAsStruct` is set; other writers rarely do. Statistics are
written with the sorted rows, for all readers. Partition values are used only to sort rows, and for min/max values: a
null in the file would mean that the value is null, although it can be an unreadable string.

Typed statistics equal those of Spark (Delta protocol, "Per-file Statistics"). Values that the column's type cannot
represent become null, which means unknown: numbers that are too large, other time formats, NaN, invalid JSON. Times
stay truncated to milliseconds, and long maxima of strings stay truncated, as readers expect.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltaic.delta.actions import Metadata
from deltaic.delta.scan.add_rows import child, partition_values
from deltaic.pruning.columns import Columns, TableColumn
from deltaic.pruning.partition_facts import facts, values_of_any_shape
from deltaic.pruning.partition_facts import values as values_of
from deltaic.pruning.statistics_facts import LOWER, NULLS, ROWS, UPPER, JsonStatistics
from deltaic.pruning.stats_bounds import exact_bounds, in_type, integers

from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import PARTITION, STATISTICS, SortKey, has_field

_BY_DEFAULT: Final = 32
"""Number of leaf columns with statistics if the table's properties set no number, as in Delta."""
_MOST: Final = 100
"""Maximum number of leaf columns with typed statistics, which are in memory with the rows of a sidecar."""
_ROWS: Final = 10_000


def indexed_columns(metadata: Metadata) -> tuple[TableColumn, ...]:
    """Return the leaf columns for which the table's properties request statistics, at most 100."""
    leaves = [(name, column) for name, column in Columns(metadata).leaves() if not column.is_partition]
    setting = metadata.configuration.get("delta.dataSkippingStatsColumns")
    if setting is not None:
        names = [name.strip().replace("`", "").lower() for name in setting.split(",")]
        paths = [(".".join(path).lower(), column) for path, column in leaves]
        return tuple(
            column for path, column in paths if any(path == name or path.startswith(f"{name}.") for name in names)
        )[:_MOST]
    try:
        count = int(metadata.configuration.get("delta.dataSkippingNumIndexedCols", _BY_DEFAULT))
    except ValueError:
        count = _BY_DEFAULT
    return tuple(column for _, column in leaves[: _MOST if count < 0 else min(count, _MOST)])


class _TableStatistics(msgspec.Struct, gc=False, rename="camel"):
    tight_bounds: bool | None = None


_table_statistics: Final = msgspec.json.Decoder(_TableStatistics)


class TypedStatistics:
    """Converter from JSON statistics of files to typed statistics (values of the columns' types) of some columns."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._json = JsonStatistics(columns)

    def parse(self, texts: pa.StringArray) -> pa.StructArray:
        """Return `stats_parsed` with one struct for each JSON string; null for null and unreadable strings."""
        starts = range(0, max(len(texts), 1), _ROWS)
        return pa.concat_arrays([self._parse_slice(texts.slice(start, _ROWS)) for start in starts])

    def _parse_slice(self, texts: pa.StringArray) -> pa.StructArray:
        tables = [_parse(text) for text in texts.to_pylist()]
        counts, facts_by_column = self._json.values(texts)
        rows = integers(counts)
        values: dict[str, dict[tuple[str, ...], pa.Array]] = {LOWER: {}, UPPER: {}, NULLS: {}}
        for column, column_facts in facts_by_column.items():
            nulls = integers(column_facts.nulls)
            for part, bounds in ((LOWER, column_facts.low), (UPPER, column_facts.high)):
                exact = exact_bounds(bounds, column.type)
                if exact is not None:
                    values[part][column.path] = exact
                nulls = _drop_doubtful(nulls, rows, bounds, exact)
            values[NULLS][column.path] = nulls
        fields = {ROWS: rows}
        fields |= {part: _nested(exact) for part, exact in values.items() if exact}
        fields["tightBounds"] = pa.array([table and table.tight_bounds for table in tables], pa.bool_())
        return _structs(fields, pa.array([table is None for table in tables], pa.bool_()))


def _parse(text: str | None) -> _TableStatistics | None:
    try:
        return None if text is None else _table_statistics.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _drop_doubtful(
    nulls: pa.Array, rows: pa.Array, bounds: Sequence[object], typed_bounds: pa.Array | None
) -> pa.Array:
    """Remove inconsistent null counts: all rows null, but with a min/max value that the type cannot represent."""
    untyped = pa.array([bound is not None for bound in bounds], pa.bool_())
    if typed_bounds is not None:
        untyped = pc.and_(untyped, typed_bounds.is_null())
    if not untyped.true_count:
        return nulls
    contradicts = pc.and_(untyped, pc.fill_null(pc.equal(nulls, rows), True))  # noqa: FBT003 -- Arrow's signature
    return pc.if_else(contradicts, pa.scalar(None, pa.int64()), nulls)


def _nested(leaves: Mapping[tuple[str, ...], pa.Array]) -> pa.StructArray:
    groups: dict[str, dict[tuple[str, ...], pa.Array]] = {}
    for path, leaf in leaves.items():
        groups.setdefault(path[0], {})[path[1:]] = leaf
    fields = {name: inner[()] if () in inner else _nested(inner) for name, inner in groups.items()}
    return _structs(fields, None)


def _structs(fields: Mapping[str, pa.Array], absent: pa.BooleanArray | None) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=absent)


class TypedAdds:
    """Converter of a checkpoint's `add` actions, given their Arrow type, the table's metadata and the sort order."""

    def __init__(self, add: pa.DataType, metadata: Metadata, order: Sequence[SortKey]) -> None:
        lacks_statistics = not _has_field(add, STATISTICS) and has_field(add, ("stats",))
        self._lacks_partitions = not _has_field(add, PARTITION)
        columns_by_path = {column.path: column for _, column in Columns(metadata).leaves()}
        sort_columns = [columns_by_path[key.path] for key in order if key.path in columns_by_path]
        partitions = [column for column in sort_columns if column.is_partition and column.type.axis is not None]
        order_columns = [
            column for column in sort_columns if not column.is_partition and exact_bounds([], column.type) is not None
        ]
        row_columns = list(dict.fromkeys([*indexed_columns(metadata), *order_columns]))
        self._partitions = partitions if self._lacks_partitions else []
        self._order_statistics = TypedStatistics(order_columns) if lacks_statistics and order_columns else None
        self._row_statistics = TypedStatistics(row_columns) if lacks_statistics else None

    def source(self, key: SortKey) -> str:
        """Return the checkpoint's column from which `for_order` reads the minimum value of a sort key."""
        if key.is_partition and self._lacks_partitions:
            return "add.partitionValues"
        if not key.is_partition and self._order_statistics is not None:
            return "add.stats"
        return ".".join(("add", *key.low))

    def for_order(self, adds: pa.StructArray) -> pa.StructArray:
        """Add typed statistics and partition values of the sort columns to `add` actions that lack them."""
        return self.with_partitions(_with_statistics(adds, self._order_statistics))

    def for_rows(self, adds: pa.StructArray) -> pa.StructArray:
        """Add typed statistics of all indexed columns to `add` actions that will be written."""
        return _with_statistics(adds, self._row_statistics)

    def with_partitions(self, adds: pa.StructArray) -> pa.StructArray:
        """Add `partitionValues_parsed` of the sort columns to `add` actions."""
        if not self._partitions:
            return adds
        present = adds.is_valid()
        maps = partition_values(adds).filter(present)
        typed_values = {column.path[0]: _partition(maps, column) for column in self._partitions}
        spread = [
            pc.replace_with_mask(pa.nulls(len(adds), values.type), present, values) for values in typed_values.values()
        ]
        return _with(adds, PARTITION, pa.StructArray.from_arrays(spread, names=list(typed_values)))


def _has_field(add: pa.DataType, name: str) -> bool:
    return pa.types.is_struct(add) and add.get_field_index(name) >= 0


def _with_statistics(adds: pa.StructArray, typed: TypedStatistics | None) -> pa.StructArray:
    return adds if typed is None else _with(adds, STATISTICS, typed.parse(cast("pa.StringArray", child(adds, "stats"))))


def _with(adds: pa.StructArray, name: str, values: pa.Array) -> pa.StructArray:
    names = [*(field.name for field in adds.type), name]
    children = [adds.field(number) for number in range(adds.type.num_fields)]
    return pa.StructArray.from_arrays([*children, values], names=names, mask=adds.is_null())


def _partition(maps: pa.MapArray, column: TableColumn) -> pa.Array:
    """Cast a partition column's strings to its type: null if invalid, the lowest of several readings."""
    raws = values_of(maps, column.path[0])
    if raws is None:
        low = facts(values_of_any_shape(maps, column.path[0]), column.type).low
    else:
        distinct = raws.dictionary_encode("encode")
        low = facts(distinct.dictionary.to_pylist(), column.type).low
        low = None if low is None else low.take(distinct.indices)
    # A single value that no type can represent makes all values null.
    return pa.nulls(len(maps), _arrow_type(column)) if low is None else in_type(low, column.type)


def _arrow_type(column: TableColumn) -> pa.DataType:
    bounds = facts([], column.type).low
    return pa.string() if bounds is None else in_type(bounds, column.type).type
