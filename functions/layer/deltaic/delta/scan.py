"""Decides which rows of a snapshot are read when: cheap columns first, the rest only of row groups that survive.

Order of files: first the live adds of the commits after the checkpoint, by (path, deletion vector id); then the rows
of the checkpoint as they stand, part by part. So the order depends on which checkpoint a version is read from and on
nothing else (not on compaction files, not on how commits were fetched), and a row needs no sorting of the table: the
first files of a million leave at once. A Position names that checkpoint, so that a later page is read from the same
one, or is refused when it is gone, and starts at its row group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.delta.checkpoint import LinesPart, ParquetPart, Part
from deltaic.delta.files import FILE_SCHEMA, FileFilter
from deltaic.delta.parquet import Cursor
from deltaic.delta.replay import Tail
from deltaic.delta.rows import (
    OUTPUT_LEAVES,
    add_paths,
    both,
    child,
    deletion_vectors,
    file_batch,
    partition_values,
    replace_column,
)
from deltaic.delta.statistics import json_statistics
from deltaic.delta.unreadable import reading

_SELECT_ROWS = 65536


class Position(NamedTuple):
    """Where a row stands in the order of files of one version."""

    base: str
    """Identity of the checkpoint that the order rests on; empty for none."""
    part: int
    """0 is the commits after the checkpoint, n the checkpoint's n-th part."""
    row_group: int
    row: int


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Some live files, and where they stand."""

    files: pa.RecordBatch
    """FILE_SCHEMA."""
    start: Position
    """Where the first row stood that was looked at for this batch."""
    looked_at: int
    rows: pa.Array | None
    """Which of the rows looked at are in `files`; None for all."""

    def position(self, row: int) -> Position:
        """Return where row `row` of `files` stands; `files.num_rows` gives where the next batch starts."""
        if row >= self.files.num_rows:
            return self.start._replace(row=self.start.row + self.looked_at)
        offset = row if self.rows is None else self.rows[row].as_py()
        return self.start._replace(row=self.start.row + offset)


def scan(
    tail: Tail, parts: Sequence[Part], wanted: FileFilter | None, batch_rows: int, start: Position
) -> Iterator[FileBatch]:
    """Yield the live files from `start` on, those only that `wanted` keeps; no batch is empty or longer than asked."""
    if start.part == 0:
        yield from _scan_batch(tail.files, None, wanted, batch_rows, start)
        start = Position(start.base, 1, 0, 0)
    for number in range(start.part, len(parts) + 1):
        part = parts[number - 1]
        if isinstance(part, LinesPart):
            yield from _scan_batch(part.files, tail, wanted, batch_rows, start)
        else:
            yield from _ParquetScan(part, tail, wanted, batch_rows).run(start)
        start = Position(start.base, number + 1, 0, 0)


def _scan_batch(
    files: pa.RecordBatch, tail: Tail | None, wanted: FileFilter | None, batch_rows: int, start: Position
) -> Iterator[FileBatch]:
    for at in range(start.row, files.num_rows, batch_rows):
        batch = files.slice(at, batch_rows)
        keep = tail.keep(batch["path"], batch["deletionVector"]) if tail else None
        if wanted is not None:
            keep = both(keep, wanted.by_partition(batch["partitionValues"]))
        found = _finish(batch, keep, wanted, start._replace(row=at))
        if found is not None:
            yield found


def _finish(
    batch: pa.RecordBatch, keep: pa.BooleanArray | None, wanted: FileFilter | None, start: Position
) -> FileBatch | None:
    """Drop the rows that are not kept, ask the filter about JSON statistics, and place the rest."""
    looked_at = batch.num_rows
    rows: Any = None
    if keep is not None and keep.true_count < looked_at:
        rows = pc.indices_nonzero(keep)
        batch = batch.filter(keep)
    if wanted is not None and wanted.needs_statistics and batch.num_rows:
        verdict = wanted.by_json_statistics(batch["partitionValues"], batch["stats"])
        if verdict.true_count < batch.num_rows:
            rows = pc.indices_nonzero(verdict) if rows is None else rows.filter(verdict)
            batch = batch.filter(verdict)
    return FileBatch(batch, start, looked_at, rows) if batch.num_rows else None


class _ParquetScan:
    """Reads one Parquet part."""

    def __init__(self, part: ParquetPart, tail: Tail, wanted: FileFilter | None, batch_rows: int) -> None:
        self._part = part
        self._file = part.file
        self._tail = tail
        self._wanted = wanted
        self._batch_rows = batch_rows
        self._rebuild = False

    def run(self, start: Position) -> Iterator[FileBatch]:
        groups = [group for group in range(start.row_group, self._file.footer.num_row_groups) if self._adds(group) != 0]
        if not groups:
            return
        cursor = Cursor(self._file)
        select = self._selection(groups) if self._wanted is not None else None
        for group in groups:
            first = start.row if group == start.row_group else 0
            chosen = None
            if select is not None:
                with reading(self._part.path):
                    chosen = select(group)
                if chosen.true_count == 0:
                    continue
            yield from self._stream(cursor, chosen, start._replace(row_group=group, row=first))

    def _adds(self, group: int) -> int | None:
        leaf = self._file.columns.get("add.path")
        return 0 if leaf is None else self._file.values(group, leaf)

    def _stream(self, cursor: Cursor, chosen: pa.BooleanArray | None, start: Position) -> Iterator[FileBatch]:
        group = start.row_group
        leaves = self._file.leaves(*OUTPUT_LEAVES)
        rebuild = self._lacks_json(group)
        if rebuild:
            leaves = sorted({*leaves, *self._file.leaves("add.stats_parsed")})
        last = None if chosen is None else pc.indices_nonzero(chosen)[-1].as_py()
        with reading(self._part.path):
            cursor.prefetch([group], leaves)
        batches = cursor.batches(group, leaves, self._batch_rows)
        end = 0
        while True:
            with reading(self._part.path):
                batch = next(batches, None)
            if batch is None:
                return
            begin, end = end, end + batch.num_rows
            if end <= start.row:
                continue
            skipped = max(start.row - begin, 0)
            picked = None if chosen is None else chosen.slice(begin + skipped, batch.num_rows - skipped)
            if picked is None or picked.true_count:
                with reading(self._part.path):
                    found = self._rows(batch.slice(skipped), picked, rebuild, start._replace(row=begin + skipped))
                if found is not None:
                    yield found
            if last is not None and end > last:
                return

    def _rows(
        self, batch: pa.RecordBatch, picked: pa.BooleanArray | None, rebuild: bool, start: Position
    ) -> FileBatch | None:
        add = batch.column("add")
        paths, adds = add_paths(add)
        vectors = deletion_vectors(add)
        keep = both(picked, adds)
        keep = both(keep, self._tail.keep(paths, vectors))
        files = file_batch(add, paths, vectors)
        if rebuild:
            files = _with_rebuilt_statistics(files, add, keep)
        return _finish(files, keep, self._wanted, start)

    def _lacks_json(self, group: int) -> bool:
        """Tell whether some adds of the row group have statistics only as a struct."""
        if not self._file.leaves("add.stats_parsed"):
            return False
        leaf = self._file.columns.get("add.stats")
        if leaf is None:
            return True
        with_json, adds = self._file.values(group, leaf), self._adds(group)
        return with_json is None or adds is None or with_json < adds

    def _selection(self, groups: Sequence[int]) -> Any:
        """Return a function that tells which rows of a row group partition values and typed statistics keep."""
        wanted = self._wanted
        assert wanted is not None  # noqa: S101 -- only called with a filter
        cheap = self._file.leaves("add.partitionValues")
        typed = self._typed_leaves(wanted)
        partitions = Cursor(self._file)
        statistics = Cursor(self._file) if typed else None
        fetched = {"partitions": False, "statistics": False}

        def select(group: int) -> pa.BooleanArray:
            if not fetched["partitions"]:
                partitions.prefetch(groups, cheap)
                fetched["partitions"] = True
            chunks = []
            values = []
            for batch in partitions.batches(group, cheap or self._file.leaves("add.path"), _SELECT_ROWS):
                add = batch.column("add")
                present = partition_values(add)
                alive = add.is_valid()
                chunks.append(_refine(alive, wanted.by_partition(present.filter(alive))))
                values.append(present)
            if statistics is not None and any(chunk.true_count for chunk in chunks):
                if not fetched["statistics"]:
                    statistics.prefetch([g for g in groups if g >= group], typed)
                    fetched["statistics"] = True
                for at, batch in enumerate(statistics.batches(group, typed, _SELECT_ROWS)):
                    alive = chunks[at]
                    if alive.true_count:
                        parsed = child(batch.column("add"), "stats_parsed")
                        verdict = wanted.by_typed_statistics(values[at].filter(alive), parsed.filter(alive))
                        chunks[at] = _refine(alive, verdict)
            return pa.concat_arrays(chunks)

        return select

    def _typed_leaves(self, wanted: FileFilter) -> list[int]:
        if not wanted.needs_statistics:
            return []
        add = self._file.schema.field("add").type
        at = add.get_field_index("stats_parsed")
        if at < 0 or not pa.types.is_struct(add.field(at).type):
            return []
        names = wanted.typed_leaves(add.field(at).type)
        return self._file.leaves(*(f"add.stats_parsed.{name}" for name in names))


def _refine(alive: pa.BooleanArray, verdict: pa.BooleanArray) -> pa.BooleanArray:
    """Spread a verdict over the rows that were alive back to all rows."""
    if verdict.true_count == len(verdict):
        return alive
    return pc.replace_with_mask(alive, alive, verdict)


def _with_rebuilt_statistics(
    files: pa.RecordBatch, add: pa.StructArray, keep: pa.BooleanArray | None
) -> pa.RecordBatch:
    """Fill in JSON statistics, from the struct, for the rows that are kept and have none."""
    parsed = child(add, "stats_parsed")
    wanted = both(keep, files["stats"].is_null())
    if parsed is None or wanted is None or not wanted.true_count:
        return files
    rebuilt = json_statistics(parsed.filter(wanted))
    return replace_column(files, "stats", pc.replace_with_mask(files["stats"], wanted, rebuilt))


def empty() -> pa.RecordBatch:
    """Return a batch of no files."""
    return pa.RecordBatch.from_pylist([], FILE_SCHEMA)
