"""Gives the adds of a checkpoint what their writer left as text only: typed statistics, typed partition values.

Spark leaves typed ones where `delta.checkpoint.writeStatsAsStruct` says so; other writers seldom do. Statistics are
written with the sorted rows, for whoever reads them. Partition values serve the order and its bounds alone: a null
would say that the value is null, where it was no more than unreadable.

Typed statistics are as Spark would have written both (Delta protocol, "Per-file Statistics"). What cannot be said in
the column's type is null, which says nothing: a number that is too large, a time of another form, NaN, a text that is
no JSON. Times stay cut to milliseconds, and maxima of strings cut: every reader knows it of both kinds of statistics.
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

from deltaic_pipeline.maintenance.sorted_checkpoint.row_order import PARTITION, STATISTICS, Key, has

_BY_DEFAULT: Final = 32
"""Leaves of which Delta's writers keep statistics."""
_MOST: Final = 100
"""Leaves that get types at most: a sidecar's rows are in memory with all of them."""
_ROWS: Final = 10_000


def indexed(metadata: Metadata) -> tuple[TableColumn, ...]:
    """Return the columns of which a table's writers keep statistics, by its properties."""
    leaves = [(name, column) for name, column in Columns(metadata).leaves() if not column.is_partition]
    named = metadata.configuration.get("delta.dataSkippingStatsColumns")
    if named is not None:
        wanted = [name.strip().replace("`", "").lower() for name in named.split(",")]
        texts = [(".".join(name).lower(), column) for name, column in leaves]
        return tuple(
            column for text, column in texts if any(text == one or text.startswith(f"{one}.") for one in wanted)
        )[:_MOST]
    try:
        count = int(metadata.configuration.get("delta.dataSkippingNumIndexedCols", _BY_DEFAULT))
    except ValueError:
        count = _BY_DEFAULT
    return tuple(column for _, column in leaves[: _MOST if count < 0 else min(count, _MOST)])


class _OfAllColumns(msgspec.Struct, gc=False, rename="camel"):
    tight_bounds: bool | None = None


_of_all_columns: Final = msgspec.json.Decoder(_OfAllColumns)


class TypedStatistics:
    """Reads from statistics in JSON what concerns some columns."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._json = JsonStatistics(columns)

    def of(self, texts: pa.StringArray) -> pa.StructArray:
        """Return `stats_parsed`, one value a text: null where that is null or cannot be read."""
        starts = range(0, max(len(texts), 1), _ROWS)
        return pa.concat_arrays([self._some(texts.slice(start, _ROWS)) for start in starts])

    def _some(self, texts: pa.StringArray) -> pa.StructArray:
        whole = [_read(text) for text in texts.to_pylist()]
        counts, named = self._json.values(texts)
        rows = integers(counts)
        values: dict[str, dict[tuple[str, ...], pa.Array]] = {LOWER: {}, UPPER: {}, NULLS: {}}
        for column, said in named.items():
            nulls = integers(said.nulls)
            for part, bounds in ((LOWER, said.low), (UPPER, said.high)):
                exact = exact_bounds(bounds, column.type)
                if exact is not None:
                    values[part][column.path] = exact
                nulls = _doubted(nulls, rows, bounds, exact)
            values[NULLS][column.path] = nulls
        fields = {ROWS: rows}
        fields |= {part: _nested(exact) for part, exact in values.items() if exact}
        fields["tightBounds"] = pa.array([None if one is None else one.tight_bounds for one in whole], pa.bool_())
        return _structs(fields, pa.array([one is None for one in whole], pa.bool_()))


def _read(text: str | None) -> _OfAllColumns | None:
    try:
        return None if text is None else _of_all_columns.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _doubted(nulls: pa.Array, rows: pa.Array, given: Sequence[object], kept: pa.Array | None) -> pa.Array:
    """Leave out null counts that say that all is null, where a bound says otherwise that types cannot say."""
    missing = pa.array([bound is not None for bound in given], pa.bool_())
    if kept is not None:
        missing = pc.and_(missing, kept.is_null())
    if not missing.true_count:
        return nulls
    contradicts = pc.and_(missing, pc.fill_null(pc.equal(nulls, rows), True))  # noqa: FBT003 -- Arrow's signature
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
    """What the adds of a checkpoint lack, given their type, the table and its order."""

    def __init__(self, add: pa.DataType, metadata: Metadata, order: Sequence[Key]) -> None:
        lacks_statistics = not _has_field(add, STATISTICS) and has(add, ("stats",))
        self._lacks_partitions = not _has_field(add, PARTITION)
        known = {column.path: column for _, column in Columns(metadata).leaves()}
        keys = [known[key.path] for key in order if key.path in known]
        partitions = [column for column in keys if column.is_partition and column.type.axis is not None]
        of_order = [column for column in keys if not column.is_partition and exact_bounds([], column.type) is not None]
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
