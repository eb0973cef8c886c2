"""Decides which rows of a row group a filter keeps, by the cheap columns alone: partition values, typed statistics."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.delta.file_filter import FileFilter
from deltaic.delta.scan.add_rows import parsed_statistics, partition_values
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.scan.parquet_file import NOTHING, Blocks, Cursor
from deltaic.delta.scan.partition_codes import PartitionCodes, partition_codes
from deltaic.delta.scan.row_group_cache import PartCache
from deltaic.delta.unreadable import reading


@dataclass(frozen=True, slots=True)
class _PartitionMaps:
    """The partition values of consecutive rows, where they have no codes."""

    maps: pa.MapArray
    adds: pa.BooleanArray
    """Which rows are adds."""

    def chosen_by(self, wanted: FileFilter) -> pa.BooleanArray:
        """Return which rows the filter keeps by partition values alone; false for what is no add."""
        return _refine(self.adds, wanted.by_partition(self.values(self.adds)))

    def values(self, rows: pa.BooleanArray) -> pa.MapArray:
        """Return the partition values of these rows."""
        return self.maps.filter(rows)


_Partitions = PartitionCodes | _PartitionMaps


class Selection:
    """Tells which rows of a row group a filter keeps, by partition values and then by typed statistics."""

    def __init__(
        self, part: ParquetPart, wanted: FileFilter, groups: Sequence[int], cache: PartCache, ahead: Blocks = NOTHING
    ) -> None:
        self._part = part
        self._cache = cache
        self._wanted = wanted
        partition_leaves = part.file.leaves("add.partitionValues") or part.file.leaves("add.path")
        self._partition_columns = _Columns(part, groups, partition_leaves, ahead)
        # A part without adds need not have their column at all.
        typed_leaves = _typed_leaves(part, wanted) if groups and wanted.needs_statistics else []
        self._typed_columns = _Columns(part, groups, typed_leaves, ahead) if typed_leaves else None

    def of(self, group: int) -> pa.BooleanArray:
        """Return one value per row of the row group; false for what is no add."""
        partitions = self._partitions(group)
        masks = [run.chosen_by(self._wanted) for run in partitions]
        if self._typed_columns is not None and any(mask.true_count for mask in masks):
            for at, batch in enumerate(self._typed_columns.batches(group)):
                mask = masks[at]
                if mask.true_count:
                    with reading(self._part.path):
                        parsed = parsed_statistics(batch.column("add"), self._part.file.zoned)
                    if parsed is not None:
                        verdict = self._wanted.by_typed_statistics(partitions[at].values(mask), parsed.filter(mask))
                        masks[at] = _refine(mask, verdict)
        return pa.concat_arrays(masks) if masks else pa.array([], pa.bool_())

    def _partitions(self, group: int) -> Sequence[_Partitions]:
        """Return the partition values of a row group, in runs of rows; those in short form are kept."""
        if (kept := self._cache.partition_codes(group)) is not None:
            return kept
        runs: list[_Partitions] = []
        for batch in self._partition_columns.batches(group):
            add = batch.column("add")
            adds = add.is_valid()
            with reading(self._part.path):
                maps = partition_values(add)
                codes = partition_codes(maps, adds) if self._cache.has_room else None
            runs.append(codes or _PartitionMaps(maps, adds))
        in_codes = [run for run in runs if isinstance(run, PartitionCodes)]
        if len(in_codes) == len(runs):
            self._cache.keep_partition_codes(group, in_codes)
        return runs


class _Columns:
    """Some small columns of row groups that are asked for in ascending order."""

    def __init__(self, part: ParquetPart, groups: Sequence[int], leaves: Sequence[int], ahead: Blocks) -> None:
        self._part = part
        self._groups = groups
        self._leaves = leaves
        self._ahead = ahead
        self._cursor: Cursor | None = None

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in order."""
        with reading(self._part.path):
            if self._cursor is None:
                # One call for all row groups to come: the chunks are small and far apart.
                ranges = self._part.file.ranges([number for number in self._groups if number >= group], self._leaves)
                self._cursor = Cursor(self._part.file, self._part.file.fetch(ranges, self._ahead))
            batches = self._cursor.batches(group, self._leaves)
        while True:
            with reading(self._part.path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _typed_leaves(part: ParquetPart, wanted: FileFilter) -> list[int]:
    add = part.file.schema.field("add").type
    at = add.get_field_index("stats_parsed") if pa.types.is_struct(add) else -1
    parsed = add.field(at).type if at >= 0 and pa.types.is_struct(add) else None
    if parsed is None or not pa.types.is_struct(parsed):
        return []
    names = wanted.typed_leaves(parsed)
    return part.file.leaves(*(f"add.stats_parsed.{name}" for name in names))


def _refine(mask: pa.BooleanArray, verdict: pa.BooleanArray) -> pa.BooleanArray:
    """Spread a verdict over the rows that a mask has back to all rows."""
    return mask if verdict.true_count == len(verdict) else pc.replace_with_mask(mask, mask, verdict)
