"""Decides the order of a version's files, and where a page of them starts again.

First come the live adds of the commits after the checkpoint, by (path, deletion vector id); then the rows of the
checkpoint as they stand, part by part. So the order depends on which checkpoint a version is read from and on nothing
else (not on compaction files, not on how commits were fetched), and no row waits for a sort of the table: the first
files of a million leave at once. A Position names that checkpoint, so that a later page is read from the same one, or
is refused when it is gone, and starts at its own row group.
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
"""Rows that are decoded at a time where a few row groups are read: the first line waits for no more."""


Unmentioned = Callable[[pa.StringArray, pa.StructArray | None], pa.BooleanArray | None]
"""Tells which rows of a checkpoint later commits do not mention; None when that is all of them."""


class Scan(msgspec.Struct, frozen=True):
    """What one reading of a version looks for, and in what."""

    later: pa.RecordBatch
    """The live adds of the commits after the checkpoint (FILE_SCHEMA), in order."""
    unmentioned: Unmentioned
    parts: Sequence[Part]
    wanted: FileFilter | None
    batch_rows: int
    cache: RowGroupCache
    table: str
    """Names the table in the cache."""

    def run(self, start: Position) -> Generator[FileBatch]:
        """Yield the live files from `start` on that the filter keeps; no batch is empty or longer than asked."""
        if start.part == 0:
            yield from self._in_memory(self.later, None, start)
            start = Position(start.base, 1, 0, 0)
        bounded = bounded_groups(self.parts, self.wanted)
        for number in range(start.part, len(self.parts) + 1):
            part = self.parts[number - 1]
            if isinstance(part, LinesPart):
                yield from self._in_memory(part.files, self.unmentioned, start)
            else:
                groups = bounded[number - 1]
                named = part.groups_of_adds() if groups is None else groups
                if left := [group for group in named if group >= start.row_group]:
                    yield from self._in_parquet(part, left, start, few=groups is not None)
            start = Position(start.base, number + 1, 0, 0)

    def _in_memory(
        self, files: pa.RecordBatch, unmentioned: Unmentioned | None, start: Position
    ) -> Iterator[FileBatch]:
        for at in range(start.row, files.num_rows, self.batch_rows):
            batch = files.slice(at, self.batch_rows)
            mask = None if unmentioned is None else unmentioned(batch["path"], batch["deletionVector"])
            if self.wanted is not None:
                mask = both(mask, self.wanted.by_partition(batch["partitionValues"]))
            yield from self._finish(batch, mask, None, start._replace(row=at), is_final=False)

    def _in_parquet(
        self, part: ParquetPart, groups: Sequence[int], start: Position, *, few: bool
    ) -> Iterator[FileBatch]:
        """Read from these row groups; `few` says that bounds have chosen them, so that most hold what is wanted."""
        cache = self.cache.of(self.table, part.identity)
        batch_rows = min(self.batch_rows, _FIRST_ROWS) if few else self.batch_rows
        scan = ParquetScan(part, self.wanted, batch_rows, cache, at_once=few)
        if self.wanted is None or not cache.has_room:
            yield from self._read(scan, groups, start, self.unmentioned)
            return
        filter_cache = FilterCache(cache, self.wanted.identity)
        known = filter_cache.all_of(groups)
        if known is None:
            for batch in filter_cache.keeping(self._read(scan, groups, start, None), groups, start.row):
                yield from self._live(batch)
        else:
            for batch in known:
                here = batch.start.row_group == start.row_group
                yield from self._live(from_row(batch, start.row) if here else batch)

    def _read(
        self, scan: ParquetScan, groups: Sequence[int], start: Position, unmentioned: Unmentioned | None
    ) -> Iterator[FileBatch]:
        """Read the rows that the filter keeps; with `unmentioned`, those of them that it tells."""
        for whole in scan.rows(groups, start.row_group, start.row):
            rows = whole.after(start.row) if whole.row_group == start.row_group else whole
            for at in range(0, rows.files.num_rows, self.batch_rows):
                files = rows.files.slice(at, self.batch_rows)
                mask = None if rows.wanted is None else rows.wanted.slice(at, self.batch_rows)
                parsed = None if rows.parsed is None else rows.parsed.slice(at, self.batch_rows)
                if unmentioned is not None:
                    mask = both(mask, unmentioned(files["path"], files["deletionVector"]))
                here = start._replace(row_group=rows.row_group, row=rows.start + at)
                yield from self._finish(files, mask, parsed, here, is_final=rows.is_final)

    def _live(self, batch: FileBatch) -> Iterator[FileBatch]:
        """Drop what later commits mention from what the filter has kept; no batch longer than asked."""
        mask = self.unmentioned(batch.files["path"], batch.files["deletionVector"])
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
        """Drop what a mask leaves out, ask about JSON unless the mask is the last word, and place the rest."""
        looked_at = files.num_rows
        rows: pa.UInt64Array | None = None
        if mask is not None and mask.true_count < looked_at:
            rows = pc.indices_nonzero(mask)
            files = pc.filter(files, mask)
            parsed = None if parsed is None else pc.filter(parsed, mask)
        if parsed is not None:
            files = _with_statistics(files, parsed)
        if self.wanted is not None and self.wanted.needs_statistics and not is_final and files.num_rows:
            verdict = self.wanted.by_json_statistics(files["partitionValues"], files["stats"])
            if verdict.true_count < files.num_rows:
                rows = pc.indices_nonzero(verdict) if rows is None else pc.filter(rows, verdict)
                files = pc.filter(files, verdict)
        if files.num_rows:
            yield FileBatch(files, start, looked_at, rows)


def _with_statistics(files: pa.RecordBatch, parsed: pa.StructArray) -> pa.RecordBatch:
    """Fill in JSON statistics, from the struct, for the files that have none."""
    missing = pc.is_null(files["stats"])
    if not missing.true_count:
        return files
    rebuilt = json_statistics(pc.filter(parsed, missing))
    return replace_column(files, "stats", pc.replace_with_mask(files["stats"], missing, rebuilt))
