"""Decides which live files an answer holds: rows for a limit, files for a page, what comes next."""

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


_WHOLE_TABLE: Final = None
"""The partition that rows are counted for where partitions do not matter."""


class Page:
    """The files of one page, in batches; iterate once, then `next` says where the following page starts.

    `limit` is the row limit of the query, `max_files` the page size, each None for none; whoever reads the page may
    end it earlier. A file is taken while fewer than `limit` live rows have been seen before it (PROTOCOL.md,
    "limitHint"); one without statistics counts for no row, so that too many files leave rather than too few. With
    `by_partition` the rows are counted for each partition by itself, and anew on each page: Spark sends its limit, in
    delta format, although it drops the files of some partitions afterwards, by a filter that it did not send or that
    was cut (decision 20).
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
        """`rows_before` is what earlier pages counted, from the position that they ended with."""
        self._batches = batches
        self._limit = limit
        self._max_files = max_files
        self._by_partition = by_partition
        self._rows: dict[Hashable, int] = {} if by_partition else {_WHOLE_TABLE: rows_before}
        self._last: _Last | None = None
        self.files = 0
        """How many files have been taken."""
        self.next: ResumePoint | None = None
        """Where the next page starts; None while iterating and when there is none."""

    def __iter__(self) -> Iterator[FileBatch]:
        # Closed at once, so that the next page can go on where this reading stands.
        with closing(self._batches):
            yield from self._taken()

    def _taken(self) -> Iterator[FileBatch]:
        for whole in self._batches:
            batch, before = (whole, []) if self._limit is None else self._within(self._limit, whole)
            count = batch.files.num_rows
            self._last = _Last(self.files, batch, [] if self._by_partition else before)
            if self._max_files is not None and self.files + count > self._max_files:
                count = self._max_files - self.files
                self.next = self._last.point(count)
            if count:
                self.files += count
                yield _some(batch, range(count))
            if self.next is not None or self._is_reached:
                return

    def end_after(self, files: int) -> None:
        """End the page early: after so many files, of which the batch that was yielded last has the next one."""
        assert self._last is not None  # noqa: S101 -- a batch was yielded
        self.next = self._last.point(files - self._last.files_before)
        self.files = files

    @property
    def _is_reached(self) -> bool:
        if self._limit is None or self._by_partition:
            return self._limit == 0
        return self._rows[_WHOLE_TABLE] >= self._limit

    def _within(self, limit: int, batch: FileBatch) -> tuple[FileBatch, list[int]]:
        """Return the files of a batch that the limit takes, and the rows that were seen before each."""
        partitions = _partitions(batch.files) if self._by_partition else repeat(_WHOLE_TABLE, batch.files.num_rows)
        places: list[int] = []
        before: list[int] = []
        for place, partition in enumerate(partitions):
            rows = self._rows.get(partition, 0)
            if rows < limit:
                places.append(place)
                before.append(rows)
                self._rows[partition] = rows + live_rows(batch.files, place)
            elif not self._by_partition:
                break
        return _some(batch, places), before


class _Last(NamedTuple):
    files_before: int
    batch: FileBatch
    rows_before: Sequence[int]
    """For each of its files; empty where rows are not counted over all files."""

    def point(self, count: int) -> ResumePoint:
        """Return where a page starts behind so many of its files."""
        return (*self.batch.position(count), self.rows_before[count] if self.rows_before else 0)


def _partitions(files: pa.RecordBatch) -> Iterator[Hashable]:
    """Yield the partition of each file: its values, whatever their order."""
    column = files.column("partitionValues")
    found = partition_codes(column, pc.is_valid(column)) if not column.null_count else None
    if found is None:
        return (frozenset(pairs or ()) for pairs in column.to_pylist())
    distinct = [frozenset(pairs) for pairs in found.distinct.to_pylist()]
    return (distinct[code] for code in found.codes.to_pylist())


def _some(batch: FileBatch, places: Sequence[int]) -> FileBatch:
    count = len(places)
    if count == batch.files.num_rows:
        return batch
    if count == 0 or places[count - 1] == count - 1:  # the first ones
        rows = None if batch.rows is None else batch.rows.slice(0, count)
        return replace(batch, files=batch.files.slice(0, count), rows=rows)
    chosen = pa.array(places, pa.uint64())
    return replace(
        batch, files=pc.take(batch.files, chosen), rows=chosen if batch.rows is None else pc.take(batch.rows, chosen)
    )


def start_of(position: ResumePoint | None) -> tuple[Position | None, int]:
    """Return what a position means: where to scan from, and the rows that earlier pages counted."""
    if not position:
        return None, 0
    base, part, row_group, row, rows = position
    return Position(str(base), int(part), int(row_group), int(row)), int(rows)


def live_rows(files: pa.RecordBatch, place: int) -> int:
    """Return the rows of a file that its deletion vector leaves, 0 where the statistics do not tell."""
    vector = files.column("deletionVector")[place].as_py()
    deleted = vector["cardinality"] or 0 if vector else 0
    return max(_num_records(files.column("stats")[place].as_py()) - deleted, 0)


def _num_records(text: str | None) -> int:
    if text is None:
        return 0
    try:
        return _decoder.decode(text).num_records
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return 0
