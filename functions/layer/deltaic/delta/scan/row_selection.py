"""Select a row group's rows by partition values and typed statistics."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log_files import reading
from deltaic.delta.scan.add_rows import (
    coded_partition_values,
    no_partition_values,
    parsed_statistics,
    partition_values,
)
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.scan.parquet_file import NOTHING, Blocks, Cursor
from deltaic.delta.scan.partition_codes import PartitionCodes, partition_codes
from deltaic.delta.scan.row_group_cache import PartCache


class _PartitionMaps(msgspec.Struct, frozen=True):
    """Partition values of consecutive rows, as maps."""

    maps: pa.MapArray
    adds: pa.BooleanArray
    """Mask of the rows that are `add` actions."""

    @property
    def num_adds(self) -> int:
        return int(self.adds.true_count)

    def select_rows(self, file_filter: FileFilter) -> pa.BooleanArray:
        """Return a mask of the `add` rows whose partition values pass the filter."""
        return _refine(self.adds, file_filter.by_partition(self.values(self.adds)))

    def values(self, rows: pa.BooleanArray) -> pa.MapArray:
        return pc.filter(self.maps, rows)


_Partitions = PartitionCodes | _PartitionMaps


class RowChoice(NamedTuple):
    """Rows of a row group that a filter keeps by partition values and typed statistics."""

    rows: pa.BooleanArray
    """Mask of the row group's rows; false for dropped rows and for rows that are not `add` actions."""
    is_final: bool
    """Whether JSON statistics cannot drop more of these rows."""
    adds: int
    """Number of rows in the row group that appear to be `add` actions."""


class Selection:
    """Select rows that a filter keeps, by partition values and then by typed statistics."""

    def __init__(self, part: ParquetPart, file_filter: FileFilter, groups: Sequence[int], cache: PartCache) -> None:
        self._part = part
        self._cache = cache
        self._file_filter = file_filter
        # A part without adds may lack their column.
        typed_leaves = _find_typed_leaves(part, file_filter) if groups and file_filter.needs_statistics else []
        partition_leaves: list[int] = []
        if file_filter.needs_partition_values or not typed_leaves:
            partition_leaves = part.file.leaves("add.partitionValues") or part.file.leaves("add.path")
        self._partition_columns = _SmallColumns(part, groups, partition_leaves, coded=cache.is_enabled)
        self._typed_columns = _SmallColumns(part, groups, typed_leaves) if typed_leaves else None
        self.leaves = [*partition_leaves, *typed_leaves]
        """Indexes of the leaf columns that the selection reads."""

    def use_prefetched(self, blocks: Blocks) -> None:
        """Use these blocks instead of fetching the columns."""
        self._partition_columns.prefetched = blocks
        if self._typed_columns is not None:
            self._typed_columns.prefetched = blocks

    def select(self, group: int) -> RowChoice:
        """Return which rows of a row group the filter keeps."""
        if self._typed_columns is not None and not self._file_filter.needs_partition_values:
            return self._by_typed_statistics(group, self._typed_columns, None)
        partitions = self._read_partitions(group)
        masks = [run.select_rows(self._file_filter) for run in partitions]
        if self._typed_columns is not None and any(mask.true_count for mask in masks):
            return self._by_typed_statistics(group, self._typed_columns, list(zip(partitions, masks, strict=True)))
        rows = pa.concat_arrays(masks) if masks else pa.array([], pa.bool_())
        return RowChoice(rows, not self._file_filter.needs_statistics, sum(run.num_adds for run in partitions))

    def _by_typed_statistics(
        self, group: int, columns: "_SmallColumns", partitions: Sequence[tuple[_Partitions, pa.BooleanArray]] | None
    ) -> RowChoice:
        """Filter rows by typed statistics; `partitions` has values and a mask of rows to test, None for all rows."""
        masks: list[pa.BooleanArray] = []
        is_final, adds = True, 0
        for at, batch in enumerate(columns.batches(group)):
            add = batch.column("add")
            run, mask = (None, pc.is_valid(add)) if partitions is None else partitions[at]
            adds += mask.true_count if run is None else run.num_adds
            with reading(self._part.path):
                parsed = parsed_statistics(add, self._part.file.zoned) if mask.true_count else None
            if parsed is None:
                is_final = is_final and mask.true_count == 0
            else:
                parsed = pc.filter(parsed, mask)
                values = no_partition_values(len(parsed)) if run is None else run.values(mask)
                verdict = self._file_filter.by_typed_statistics(values, parsed)
                is_final = is_final and self._file_filter.is_decided_by(pc.filter(parsed, verdict))
                mask = _refine(mask, verdict)
            masks.append(mask)
        return RowChoice(pa.concat_arrays(masks) if masks else pa.array([], pa.bool_()), is_final, adds)

    def _read_partitions(self, group: int) -> Sequence[_Partitions]:
        """Return the partition values of a row group, in runs of consecutive rows; PartitionCodes are cached."""
        if (cached_codes := self._cache.partition_codes.get(group)) is not None:
            return cached_codes
        runs: list[_Partitions] = []
        for batch in self._partition_columns.batches(group):
            add = batch.column("add")
            adds = pc.is_valid(add)
            with reading(self._part.path):
                codes = partition_codes(coded_partition_values(add), adds) if self._cache.is_enabled else None
                runs.append(codes or _PartitionMaps(partition_values(add), adds))
        in_codes = [run for run in runs if isinstance(run, PartitionCodes)]
        if len(in_codes) == len(runs):
            self._cache.partition_codes.put(group, in_codes, sum(run.nbytes for run in in_codes))
        return runs


class _SmallColumns:
    """Reader of small columns of row groups in ascending order; string columns in `coded` become dictionary arrays."""

    def __init__(self, part: ParquetPart, groups: Sequence[int], leaves: Sequence[int], *, coded: bool = False) -> None:
        self._part = part
        self._groups = groups
        self._leaves = leaves
        self.prefetched: Blocks = NOTHING
        self._coded: Sequence[int] = leaves if coded else ()
        self._cursor: Cursor | None = None

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in order."""
        with reading(self._part.path):
            if self._cursor is None:
                # Fetch the chunks of all further row groups together, because they are small and far apart.
                ranges = self._part.file.ranges([number for number in self._groups if number >= group], self._leaves)
                blocks = self._part.file.fetch(ranges, self.prefetched)
                self._cursor = Cursor(self._part.file, blocks, coded=self._coded)
            batches = self._cursor.batches(group, self._leaves)
        while True:
            with reading(self._part.path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _find_typed_leaves(part: ParquetPart, file_filter: FileFilter) -> list[int]:
    add = part.file.schema.field("add").type
    at = add.get_field_index("stats_parsed") if pa.types.is_struct(add) else -1
    parsed = add.field(at).type if at >= 0 and pa.types.is_struct(add) else None
    if parsed is None or not pa.types.is_struct(parsed):
        return []
    names = file_filter.typed_leaves(parsed)
    return part.file.leaves(*(f"add.stats_parsed.{name}" for name in names))


def _refine(mask: pa.BooleanArray, verdict: pa.BooleanArray) -> pa.BooleanArray:
    """Return a mask with its true values replaced by the values of `verdict`, in order."""
    return mask if verdict.true_count == len(verdict) else pc.replace_with_mask(mask, mask, verdict)
