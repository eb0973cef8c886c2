"""Decides which rows of a row group a filter keeps, by the cheap columns alone: partition values, typed statistics."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.delta.file_filter import FileFilter
from deltaic.delta.scan.add_rows import parsed_statistics, partition_values
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.scan.parquet_file import Cursor
from deltaic.delta.scan.partition_codes import PartitionCodes, partition_codes
from deltaic.delta.scan.row_group_cache import KeptOfTable
from deltaic.delta.unreadable import reading

_PARTITIONS: Final = "partitions"
_STATISTICS: Final = "statistics"


@dataclass(frozen=True, slots=True)
class _PartitionMaps:
    """The partition values of consecutive rows, as maps."""

    maps: pa.MapArray
    alive: pa.BooleanArray
    """Which rows are adds."""

    def values(self, alive: pa.BooleanArray) -> pa.MapArray:
        """Return the partition values of these rows."""
        return self.maps.filter(alive)


class Selection:
    """Tells which rows of a row group a filter keeps, by partition values and then by typed statistics."""

    def __init__(self, part: ParquetPart, wanted: FileFilter, groups: Sequence[int], kept: KeptOfTable | None) -> None:
        self._part = part
        self._kept = kept
        self._wanted = wanted
        self._groups = groups
        self._cheap = part.file.leaves("add.partitionValues") or part.file.leaves("add.path")
        self._typed = self._typed_leaves()
        self._cursors: dict[str, Cursor] = {}

    def of(self, group: int) -> pa.BooleanArray:
        """Return one value per row of the row group; false for what is no add."""
        values = self._partitions(group)
        chunks: list[pa.BooleanArray] = []
        for value in values:
            if isinstance(value, PartitionCodes):
                chunks.append(value.keep(self._wanted))
            else:
                chunks.append(_refine(value.alive, self._wanted.by_partition(value.values(value.alive))))
        if self._typed and any(chunk.true_count for chunk in chunks):
            for at, batch in enumerate(self._batches(_STATISTICS, group, self._typed)):
                alive = chunks[at]
                if alive.true_count:
                    with reading(self._part.path):
                        parsed = parsed_statistics(batch.column("add"), self._part.file.zoned).filter(alive)
                    chunks[at] = _refine(alive, self._wanted.by_typed_statistics(values[at].values(alive), parsed))
        return pa.concat_arrays(chunks) if chunks else pa.array([], pa.bool_())

    def _partitions(self, group: int) -> "Sequence[PartitionCodes | _PartitionMaps]":
        """Return the partition values of a row group, in runs of rows; kept in short form where there is room."""
        held = self._kept.get(_PARTITIONS, self._part.identity, group) if self._kept else None
        if held is not None:
            return cast("Sequence[PartitionCodes]", held)
        found: list[PartitionCodes | _PartitionMaps] = []
        for batch in self._batches(_PARTITIONS, group, self._cheap):
            add = batch.column("add")
            alive = add.is_valid()
            with reading(self._part.path):
                present = partition_values(add)
                codes = partition_codes(present, alive) if self._kept else None
            found.append(codes or _PartitionMaps(present, alive))
        codes_only = [one for one in found if isinstance(one, PartitionCodes)]
        if self._kept is not None and len(codes_only) == len(found):
            self._kept.put(_PARTITIONS, self._part.identity, group, found, sum(one.nbytes for one in codes_only))
        return found

    def _batches(self, kind: str, group: int, leaves: Sequence[int]) -> Iterator[pa.RecordBatch]:
        with reading(self._part.path):
            if kind not in self._cursors:
                # One call for all row groups to come: the chunks are small and far apart.
                ranges = self._part.file.ranges([g for g in self._groups if g >= group], leaves)
                self._cursors[kind] = Cursor(self._part.file, self._part.file.fetch(ranges))
            batches = self._cursors[kind].batches(group, leaves)
        while True:
            with reading(self._part.path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _typed_leaves(self) -> list[int]:
        # A part without adds need not have their column at all.
        if not self._groups or not self._wanted.needs_statistics:
            return []
        add = self._part.file.schema.field("add").type
        at = add.get_field_index("stats_parsed")
        if at < 0 or not pa.types.is_struct(add.field(at).type):
            return []
        names = self._wanted.typed_leaves(add.field(at).type)
        return self._part.file.leaves(*(f"add.stats_parsed.{name}" for name in names))


def _refine(alive: pa.BooleanArray, verdict: pa.BooleanArray) -> pa.BooleanArray:
    """Spread a verdict over the rows that were alive back to all rows."""
    return alive if verdict.true_count == len(verdict) else pc.replace_with_mask(alive, alive, verdict)
