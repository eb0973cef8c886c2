"""Order of a version's files, and scans that start at a position in this order.

First come the files that commits after the checkpoint added, by (path, deletion vector id), then the rows of the
checkpoint, part by part. The order depends only on the checkpoint, not on compaction files or on how commits are
fetched. No sort of the table is needed, so the first of a million files are sent at once. A Position contains the
checkpoint's identity: a later page reads the same checkpoint from its row group on, or fails if the checkpoint no
longer exists.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from deltaic import compute as pc
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.scan.add_rows import both, replace_column
from deltaic.delta.scan.checkpoint_parts import LinesPart, ParquetPart, Part, bounded_groups
from deltaic.delta.scan.file_batches import FileBatch, Position
from deltaic.delta.scan.filter_cache import FilterCache, from_row
from deltaic.delta.scan.parquet_scan import ParquetScan
from deltaic.delta.scan.row_group_cache import RowGroupCache
from deltaic.delta.scan.stats_json import json_statistics

_FIRST_ROWS: Final = 1024
"""Rows decoded at a time if only a few row groups are read, so that the first line is sent early."""


Unmentioned = Callable[[pa.StringArray, pa.StructArray | None], pa.BooleanArray | None]
"""Returns a mask of the checkpoint rows that no later commit adds or removes; None if these are all rows."""


class Scan(msgspec.Struct, frozen=True):
    """Scan of the live files of a version."""

    later: pa.RecordBatch
    """Files that commits after the checkpoint added (FILE_SCHEMA), in order."""
    select_unmentioned: Unmentioned
    parts: Sequence[Part]
    file_filter: FileFilter | None
    batch_rows: int
    cache: RowGroupCache
    table: str
    """Key of the table in the cache."""

    def run(self, start: Position) -> Generator[FileBatch]:
        """Yield the live files that the filter keeps from `start` on, in non-empty batches."""
        if start.part == 0:
            yield from self._scan_memory(self.later, None, start)
            start = Position(start.base, 1, 0, 0)
        bounded = bounded_groups(self.parts, self.file_filter)
        for number in range(start.part, len(self.parts) + 1):
            part = self.parts[number - 1]
            if isinstance(part, LinesPart):
                yield from self._scan_memory(part.files, self.select_unmentioned, start)
            else:
                groups = bounded[number - 1]
                groups_of_part = part.groups_of_adds() if groups is None else groups
                if remaining := [group for group in groups_of_part if group >= start.row_group]:
                    yield from self._scan_parquet(part, remaining, start, few=groups is not None)
            start = Position(start.base, number + 1, 0, 0)

    def _scan_memory(
        self, files: pa.RecordBatch, select_unmentioned: Unmentioned | None, start: Position
    ) -> Iterator[FileBatch]:
        for at in range(start.row, files.num_rows, self.batch_rows):
            batch = files.slice(at, self.batch_rows)
            mask = None if select_unmentioned is None else select_unmentioned(batch["path"], batch["deletionVector"])
            if self.file_filter is not None:
                mask = both(mask, self.file_filter.by_partition(batch["partitionValues"]))
            yield from self._finish(batch, mask, None, start._replace(row=at), is_final=False)

    def _scan_parquet(
        self, part: ParquetPart, groups: Sequence[int], start: Position, *, few: bool
    ) -> Iterator[FileBatch]:
        """Scan row groups of a part; `few` means that bounds selected these groups, so most contain matching files."""
        cache = self.cache.part(self.table, part.identity)
        batch_rows = min(self.batch_rows, _FIRST_ROWS) if few else self.batch_rows
        scan = ParquetScan(part, self.file_filter, batch_rows, cache, read_ahead=few)
        if self.file_filter is None or not cache.is_enabled:
            yield from self._read(scan, groups, start, self.select_unmentioned)
            return
        filter_cache = FilterCache(cache, self.file_filter.identity)
        cached_batches = filter_cache.find(groups)
        if cached_batches is None:
            for batch in filter_cache.cache_batches(self._read(scan, groups, start, None), groups, start.row):
                yield from self._drop_mentioned(batch)
        else:
            for batch in cached_batches:
                is_first = batch.start.row_group == start.row_group
                yield from self._drop_mentioned(from_row(batch, start.row) if is_first else batch)

    def _read(
        self, scan: ParquetScan, groups: Sequence[int], start: Position, select_unmentioned: Unmentioned | None
    ) -> Iterator[FileBatch]:
        """Read the rows that the filter keeps; with `select_unmentioned`, drop rows that later commits replace."""
        for row_batch in scan.rows(groups, start.row_group, start.row):
            rows = row_batch.from_row(start.row) if row_batch.row_group == start.row_group else row_batch
            for at in range(0, rows.files.num_rows, self.batch_rows):
                files = rows.files.slice(at, self.batch_rows)
                mask = None if rows.mask is None else rows.mask.slice(at, self.batch_rows)
                parsed = None if rows.parsed is None else rows.parsed.slice(at, self.batch_rows)
                if select_unmentioned is not None:
                    mask = both(mask, select_unmentioned(files["path"], files["deletionVector"]))
                at_position = start._replace(row_group=rows.row_group, row=rows.start + at)
                yield from self._finish(files, mask, parsed, at_position, is_final=rows.is_final)

    def _drop_mentioned(self, batch: FileBatch) -> Iterator[FileBatch]:
        """Drop files that later commits add or remove, and split the batch into small ones."""
        mask = self.select_unmentioned(batch.files["path"], batch.files["deletionVector"])
        if mask is not None:
            rows = pc.indices_nonzero(mask) if batch.rows is None else pc.filter(batch.rows, mask)
            batch = replace(batch, files=pc.filter(batch.files, mask), rows=rows)
        for at in range(0, batch.files.num_rows, self.batch_rows):
            yield batch.slice(at, self.batch_rows)

    def _finish(
        self,
        files: pa.RecordBatch,
        mask: pa.BooleanArray | None,
        parsed: pa.StructArray | None,
        start: Position,
        *,
        is_final: bool,
    ) -> Iterator[FileBatch]:
        """Apply the mask, filter by JSON statistics unless `is_final`, and yield the remaining files."""
        num_scanned = files.num_rows
        rows: pa.UInt64Array | None = None
        if mask is not None and mask.true_count < num_scanned:
            rows = pc.indices_nonzero(mask)
            files = pc.filter(files, mask)
            parsed = None if parsed is None else pc.filter(parsed, mask)
        if parsed is not None:
            files = _with_statistics(files, parsed)
        if self.file_filter is not None and self.file_filter.needs_statistics and not is_final and files.num_rows:
            verdict = self.file_filter.by_json_statistics(files["partitionValues"], files["stats"])
            if verdict.true_count < files.num_rows:
                rows = pc.indices_nonzero(verdict) if rows is None else pc.filter(rows, verdict)
                files = pc.filter(files, verdict)
        if files.num_rows:
            yield FileBatch(files, start, num_scanned, rows)


def _with_statistics(files: pa.RecordBatch, parsed: pa.StructArray) -> pa.RecordBatch:
    """Create missing JSON statistics (`stats`) from typed ones (`stats_parsed`)."""
    missing = pc.is_null(files["stats"])
    if not missing.true_count:
        return files
    rebuilt = json_statistics(pc.filter(parsed, missing))
    return replace_column(files, "stats", pc.replace_with_mask(files["stats"], missing, rebuilt))
