"""Keeps checkpoints in memory between requests, row group by row group.

    rows             decoded, admitted at the second reading
    cursors          readings that were broken off, as a page does: the next page goes on there
    partition codes  what filters ask first, small
    chosen rows      the few rows that one filter kept, small

All share one room, the least recently used go first. Rows are by far the largest, so a row group's are admitted only
when it is read again while its first reading is remembered. As many readings are remembered as their rows would fit:
a table read once pushes nothing out, and one that does not fit is not kept in part, where a reading from end to end
would push out its own beginning before it came round.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from deltaic.delta.scan.file_batches import FileBatch
from deltaic.delta.scan.partition_codes import PartitionCodes
from deltaic.delta.scan.row_groups import RowGroupCursor, Rows
from deltaic.lru import Lru, Room

_DECODED: Final = 3
"""Bytes in memory for one byte of a checkpoint, about."""
_LEAST_BYTES: Final = 512
"""What an answer of no rows takes."""


class _RowGroup(NamedTuple):
    table: str
    """Parts of other tables may have the same identity."""
    part: str
    number: int


class RowGroupCache:
    """What a process keeps of the row groups of all tables, within a number of bytes; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._room = Room(max_bytes)
        self.rows: Lru[_RowGroup, tuple[Rows, ...]] = Lru(self._room)
        self.cursors: Lru[_RowGroup, RowGroupCursor] = Lru(self._room)
        self.partition_codes: Lru[_RowGroup, Sequence[PartitionCodes]] = Lru(self._room)
        self.chosen: Lru[tuple[Hashable, _RowGroup], tuple[FileBatch, ...]] = Lru(self._room)
        self._read_once: Lru[_RowGroup, bool] = Lru(Room(max_bytes))
        """Row groups that were read once, by what their rows would take."""

    def of(self, table: str, part: str) -> "PartCache":
        """Return what is kept of one part of a table's checkpoint."""
        return PartCache(self, table, part)

    def admits(self, row_group: _RowGroup, fetched_bytes: int) -> bool:
        """Tell whether the rows of a row group that is about to be read shall be kept; the asking is remembered."""
        if self._read_once.take(row_group):
            return True
        self._read_once.put(row_group, True, fetched_bytes * _DECODED)  # noqa: FBT003 -- a value, not a switch
        return False


class PartCache(msgspec.Struct, frozen=True):
    """What is kept of one part, by the number of the row group."""

    _cache: RowGroupCache
    _table: str
    _part: str

    @property
    def has_room(self) -> bool:
        """Whether anything is kept at all: what is made only to be kept need not be made without."""
        return self._cache.max_bytes > 0

    def rows(self, number: int) -> tuple[Rows, ...] | None:
        """Return all rows of a row group; None where they are not kept."""
        return self._cache.rows.get(self._key(number))

    def admits(self, number: int, fetched_bytes: int) -> bool:
        """Tell, once at the beginning of a reading, whether the rows shall be kept; of the bytes that are fetched."""
        return self._cache.admits(self._key(number), fetched_bytes)

    def keep_rows(self, number: int, rows: Sequence[Rows]) -> None:
        """Keep all rows of a row group, in their order."""
        self._cache.rows.put(self._key(number), tuple(rows), sum(one.nbytes for one in rows))

    def take_cursor(self, number: int, row: int) -> RowGroupCursor | None:
        """Return a reading that can go on from a row, if one was broken off there or before it; it is the caller's."""
        cursor = self._cache.cursors.take(self._key(number))
        if cursor is not None and not cursor.stands_before(row):
            self._keep_cursor(number, cursor)
            return None
        return cursor

    @contextmanager
    def lending(self, number: int, cursor: RowGroupCursor) -> Iterator[None]:
        """Let a reading go on with a cursor; where it is left inside the row group, the next one gets it."""
        try:
            yield
        finally:
            if cursor.held and not cursor.ended:
                self._keep_cursor(number, cursor)

    def partition_codes(self, number: int) -> Sequence[PartitionCodes] | None:
        """Return the partition values of a row group, in runs of rows; None where they are not kept."""
        return self._cache.partition_codes.get(self._key(number))

    def keep_partition_codes(self, number: int, codes: Sequence[PartitionCodes]) -> None:
        """Keep the partition values of all rows of a row group."""
        self._cache.partition_codes.put(self._key(number), codes, sum(one.nbytes for one in codes))

    def chosen(self, filter_identity: Hashable, number: int) -> tuple[FileBatch, ...] | None:
        """Return what a filter chose from a row group, which may be nothing; None where it is not kept."""
        return self._cache.chosen.get((filter_identity, self._key(number)))

    def keep_chosen(self, filter_identity: Hashable, number: int, batches: Sequence[FileBatch]) -> None:
        """Keep all that a filter chose from a row group."""
        nbytes = _LEAST_BYTES + sum(batch.nbytes for batch in batches)
        self._cache.chosen.put((filter_identity, self._key(number)), tuple(batches), nbytes)

    def _keep_cursor(self, number: int, cursor: RowGroupCursor) -> None:
        self._cache.cursors.put(self._key(number), cursor, cursor.nbytes)

    def _key(self, number: int) -> _RowGroup:
        return _RowGroup(self._table, self._part, number)
