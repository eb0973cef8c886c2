"""Select the files of a page by row limit and page size, and determine where the next page starts."""

from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import closing
from itertools import repeat
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from deltaic import compute as pc
from deltaic.delta.scan.file_batches import FileBatch, Position
from deltaic.delta.scan.partition_codes import partition_codes
from deltaic.protocol.continuations import ResumePoint


class _NumRecords(msgspec.Struct, rename="camel"):
    num_records: int = 0


_decoder: Final = msgspec.json.Decoder(_NumRecords)


_ALL_PARTITIONS: Final = None
"""Key of the single row count if rows are not counted by partition."""


class Page:
    """Iterator over the files of one page, in batches; afterwards, `next` is the start of the next page.

    `limit` is the row limit of the query, `max_files` the page size; None for no limit. `end_after` ends the page
    earlier. A file is included if all earlier files have fewer than `limit` undeleted rows (PROTOCOL.md, "limitHint").
    A file without statistics counts as 0 rows, so that a page has too many files rather than too few. With
    `by_partition`, each page counts the rows of each partition separately: in delta format, Spark sends its limit but
    then drops files of some partitions, by a filter that it did not send or that was truncated (decision 20).
    """

    def __init__(
        self,
        batches: Generator[FileBatch],
        *,
        limit: int | None,
        max_files: int | None,
        rows_before: int = 0,
        by_partition: bool = False,
    ) -> None:
        """Create a page; `rows_before` is the number of rows on earlier pages, from the page token."""
        self._batches = batches
        self._limit = limit
        self._max_files = max_files
        self._by_partition = by_partition
        self._rows: dict[Hashable, int] = {} if by_partition else {_ALL_PARTITIONS: rows_before}
        self._last: _LastBatch | None = None
        self.files = 0
        """Number of files on this page so far."""
        self.next: ResumePoint | None = None
        """Start of the next page; None during the iteration, and if this page is the last one."""

    def __iter__(self) -> Iterator[FileBatch]:
        # Closed immediately, so that the next page can continue from this position.
        with closing(self._batches):
            yield from self._select_batches()

    def _select_batches(self) -> Iterator[FileBatch]:
        for all_files in self._batches:
            batch, before = (all_files, []) if self._limit is None else self._apply_limit(self._limit, all_files)
            count = batch.files.num_rows
            self._last = _LastBatch(self.files, batch, [] if self._by_partition else before)
            if self._max_files is not None and self.files + count > self._max_files:
                count = self._max_files - self.files
                self.next = self._last.point(count)
            if count:
                self.files += count
                yield _select_rows(batch, range(count))
            if self.next is not None or self._is_reached:
                return

    def end_after(self, files: int) -> None:
        """End the page early, after this many files; the next file must be in the batch that was yielded last."""
        assert self._last is not None  # noqa: S101 -- a batch was yielded
        self.next = self._last.point(files - self._last.files_before)
        self.files = files

    @property
    def _is_reached(self) -> bool:
        if self._limit is None or self._by_partition:
            return self._limit == 0
        return self._rows[_ALL_PARTITIONS] >= self._limit

    def _apply_limit(self, limit: int, batch: FileBatch) -> tuple[FileBatch, list[int]]:
        """Return the files of a batch within the row limit, and the number of rows before each file."""
        partitions = _partitions(batch.files) if self._by_partition else repeat(_ALL_PARTITIONS, batch.files.num_rows)
        indices: list[int] = []
        before: list[int] = []
        for index, partition in enumerate(partitions):
            rows = self._rows.get(partition, 0)
            if rows < limit:
                indices.append(index)
                before.append(rows)
                self._rows[partition] = rows + live_rows(batch.files, index)
            elif not self._by_partition:
                break
        return _select_rows(batch, indices), before


class _LastBatch(NamedTuple):
    files_before: int
    batch: FileBatch
    rows_before: Sequence[int]
    """Number of rows before each file; empty if rows are counted by partition or not at all."""

    def point(self, count: int) -> ResumePoint:
        """Return the start of the next page if this page ends after `count` files of the batch."""
        return (*self.batch.position(count), self.rows_before[count] if self.rows_before else 0)


def _partitions(files: pa.RecordBatch) -> Iterator[Hashable]:
    """Yield the partition values of each file as a hashable value, independent of their order."""
    column = files.column("partitionValues")
    encoded = partition_codes(column, pc.is_valid(column)) if not column.null_count else None
    if encoded is None:
        return (frozenset(pairs or ()) for pairs in column.to_pylist())
    distinct = [frozenset(pairs) for pairs in encoded.distinct.to_pylist()]
    return (distinct[code] for code in encoded.codes.to_pylist())


def _select_rows(batch: FileBatch, indices: Sequence[int]) -> FileBatch:
    count = len(indices)
    if count == batch.files.num_rows:
        return batch
    if count == 0 or indices[count - 1] == count - 1:  # a prefix of the batch
        rows = None if batch.rows is None else batch.rows.slice(0, count)
        return replace(batch, files=batch.files.slice(0, count), rows=rows)
    chosen = pa.array(indices, pa.uint64())
    return replace(
        batch, files=pc.take(batch.files, chosen), rows=chosen if batch.rows is None else pc.take(batch.rows, chosen)
    )


def start_of(position: ResumePoint | None) -> tuple[Position | None, int]:
    """Return the start of the scan and the row count of earlier pages from the position in a page token."""
    if not position:
        return None, 0
    base, part, row_group, row, rows = position
    return Position(str(base), int(part), int(row_group), int(row)), int(rows)


def live_rows(files: pa.RecordBatch, row: int) -> int:
    """Return how many rows of the file at index `row` are not deleted; 0 without statistics."""
    vector = files.column("deletionVector")[row].as_py()
    deleted = vector["cardinality"] or 0 if vector else 0
    return max(_num_records(files.column("stats")[row].as_py()) - deleted, 0)


def _num_records(text: str | None) -> int:
    if text is None:
        return 0
    try:
        return _decoder.decode(text).num_records
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return 0
