"""Gives the adds of a checkpoint what their writer left as text only: typed statistics, typed partition values.

Spark leaves typed ones where `delta.checkpoint.writeStatsAsStruct` says so; other writers seldom do. Statistics are
written with the sorted rows, for whoever reads them. Partition values serve the order and its bounds alone: a null
would say that the value is null, where it was no more than unreadable.
"""

from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from deltaic.delta.actions import Metadata
from deltaic.delta.scan.add_rows import child, partition_values
from deltaic.pruning.columns import Columns, TableColumn
from deltaic.pruning.partition_facts import facts, values_of_any_shape
from deltaic.pruning.partition_facts import values as values_of
from deltaic.pruning.stats_bounds import exactly, in_type

from deltaic_pipeline.maintenance.sorted_checkpoint.order import PARTITION, STATISTICS, Key, has
from deltaic_pipeline.maintenance.sorted_checkpoint.typed_statistics import TypedStatistics, indexed


class TypedAdds:
    """What the adds of a checkpoint lack, given their type, the table and its order."""

    def __init__(self, add: pa.DataType, metadata: Metadata, order: Sequence[Key]) -> None:
        lacks_statistics = not _has_field(add, STATISTICS) and has(add, ("stats",))
        self._lacks_partitions = not _has_field(add, PARTITION)
        known = {column.path: column for _, column in Columns(metadata).leaves()}
        keys = [known[key.path] for key in order if key.path in known]
        partitions = [column for column in keys if column.is_partition and column.type.axis is not None]
        of_order = [column for column in keys if not column.is_partition and exactly([], column.type) is not None]
        of_rows = list(dict.fromkeys([*indexed(metadata), *of_order]))
        self._partitions = partitions if self._lacks_partitions else []
        self._of_order = TypedStatistics(of_order) if lacks_statistics and of_order else None
        self._of_rows = TypedStatistics(of_rows) if lacks_statistics else None

    def source(self, key: Key) -> str:
        """Name the column of a checkpoint from which `for_order` has the least value of a key."""
        if key.is_partition and self._lacks_partitions:
            return "add.partitionValues"
        if not key.is_partition and self._of_order is not None:
            return "add.stats"
        return ".".join(("add", *key.low))

    def for_order(self, adds: pa.StructArray) -> pa.StructArray:
        """Return adds that have what an order asks for, as far as the checkpoint tells."""
        return self.with_partitions(_with_statistics(adds, self._of_order))

    def for_rows(self, adds: pa.StructArray) -> pa.StructArray:
        """Return adds as they are written: with typed statistics of all indexed columns."""
        return _with_statistics(adds, self._of_rows)

    def with_partitions(self, adds: pa.StructArray) -> pa.StructArray:
        """Return adds with `partitionValues_parsed`, of the order's columns."""
        if not self._partitions:
            return adds
        present = adds.is_valid()
        maps = partition_values(adds).filter(present)
        found = {column.path[0]: _partition(maps, column) for column in self._partitions}
        spread = [pc.replace_with_mask(pa.nulls(len(adds), values.type), present, values) for values in found.values()]
        return _with(adds, PARTITION, pa.StructArray.from_arrays(spread, names=list(found)))


def _has_field(add: pa.DataType, name: str) -> bool:
    return pa.types.is_struct(add) and add.get_field_index(name) >= 0


def _with_statistics(adds: pa.StructArray, typed: TypedStatistics | None) -> pa.StructArray:
    return adds if typed is None else _with(adds, STATISTICS, typed.of(cast("pa.StringArray", child(adds, "stats"))))


def _with(adds: pa.StructArray, name: str, values: pa.Array) -> pa.StructArray:
    names = [*(field.name for field in adds.type), name]
    children = [adds.field(at) for at in range(adds.type.num_fields)]
    return pa.StructArray.from_arrays([*children, values], names=names, mask=adds.is_null())


def _partition(maps: pa.MapArray, column: TableColumn) -> pa.Array:
    """Return a partition column's values; null also where they are unreadable, and the least that they may mean."""
    raws = values_of(maps, column.path[0])
    if raws is None:
        low = facts(values_of_any_shape(maps, column.path[0]), column.type).low
    else:
        distinct = raws.dictionary_encode("encode")
        low = facts(distinct.dictionary.to_pylist(), column.type).low
        low = None if low is None else low.take(distinct.indices)
    # One value that no type holds takes the others with it.
    return pa.nulls(len(maps), _kind(column)) if low is None else in_type(low, column.type)


def _kind(column: TableColumn) -> pa.DataType:
    none = facts([], column.type).low
    return pa.string() if none is None else in_type(none, column.type).type
