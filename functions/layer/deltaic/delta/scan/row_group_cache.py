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
from typing import Final

from deltaic.delta.scan.file_batches import FileBatch
from deltaic.delta.scan.partition_codes import PartitionCodes
from deltaic.delta.scan.row_groups import RowGroupCursor, Rows
from deltaic.lru import Lru, Room

_DECODED: Final = 3
"""Bytes in memory for one byte of a checkpoint, about."""


class RowGroupCache:
    """What a process keeps of the row groups of all tables, within a number of bytes; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._room = Room(max_bytes)
        self._readings = Room(max_bytes)
        """Row groups that were read once, by what their rows would take."""

    def of(self, table: str, part: str) -> "PartCache":
        """Return what is kept of one part of a table's checkpoint; parts of other tables may have the same identity."""
        return PartCache(self._room, self._readings, (table, part))


class PartCache:
    """What is kept of one part, by the number of the row group."""

    def __init__(self, room: Room, readings: Room, part: tuple[str, str]) -> None:
        self.has_room = room.max_bytes > 0
        """Whether anything is kept at all: what is made only to be kept need not be made without."""
        self.rows: Lru[int, tuple[Rows, ...]] = Lru(room, ("rows", part))
        """All rows of a row group, in their order."""
        self.partition_codes: Lru[int, Sequence[PartitionCodes]] = Lru(room, ("partition codes", part))
        """The partition values of all rows, in runs of rows."""
        self.chosen: Lru[tuple[Hashable, int], tuple[FileBatch, ...]] = Lru(room, ("chosen", part))
        """All that a filter, by its identity, chose from a row group, which may be nothing."""
        self._cursors: Lru[int, RowGroupCursor] = Lru(room, ("cursors", part))
        self._read_once: Lru[int, bool] = Lru(readings, part)

    def admits(self, number: int, fetched_bytes: int) -> bool:
        """Tell, once before a row group is read, whether its rows shall be kept; the asking is remembered."""
        if self._read_once.take(number):
            return True
        self._read_once.put(number, True, fetched_bytes * _DECODED)  # noqa: FBT003 -- a value, not a switch
        return False

    def take_cursor(self, number: int, row: int) -> RowGroupCursor | None:
        """Return a reading that can go on from a row, if one was broken off there or before it; it is the caller's."""
        cursor = self._cursors.take(number)
        if cursor is not None and not cursor.stands_before(row):
            self._cursors.put(number, cursor, cursor.nbytes)
            return None
        return cursor

    @contextmanager
    def lending(self, number: int, cursor: RowGroupCursor) -> Iterator[None]:
        """Let a reading go on with a cursor; where it is left inside the row group, the next one gets it."""
        try:
            yield
        finally:
            if cursor.held and not cursor.ended:
                self._cursors.put(number, cursor, cursor.nbytes)
