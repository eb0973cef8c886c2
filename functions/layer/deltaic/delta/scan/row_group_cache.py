"""Cache of checkpoint row groups between requests.

    rows             decoded rows, cached from the second scan on
    cursors          unfinished scans, which the next page continues
    partition codes  dictionary-encoded partition values, which filters read first, small
    chosen rows      the few rows that a filter keeps, small

All share one memory limit, and the least recently used are evicted first. Rows are by far the largest. A row group's
rows are cached only at its second scan. To detect it, the cache remembers first scans, but only of as many row groups
as it could hold the rows of. So a single scan evicts nothing. A table that does not fit is not cached in part: a full
scan would evict its own beginning.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from deltaic.delta.scan.file_batches import FileBatch
from deltaic.delta.scan.partition_codes import PartitionCodes
from deltaic.delta.scan.row_groups import RowBatch, RowGroupCursor
from deltaic.lru import Lru, MemoryBudget

_DECODED: Final = 3
"""Estimated bytes in memory per byte of a checkpoint."""


class RowGroupCache:
    """Cache of row groups of all tables, with a limit in bytes; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._budget = MemoryBudget(max_bytes)
        self._readings = MemoryBudget(max_bytes)
        """Row groups that were scanned once, with the estimated bytes of their decoded rows."""

    def part(self, table: str, part: str) -> "PartCache":
        """Return the cache for one part of a table's checkpoint; part identities are unique within a table only."""
        return PartCache(self._budget, self._readings, (table, part))


class PartCache:
    """Cache for one part of a checkpoint, by row group number."""

    def __init__(self, budget: MemoryBudget, readings: MemoryBudget, part: tuple[str, str]) -> None:
        self.is_enabled = budget.max_bytes > 0
        """Whether values are cached at all; if not, callers need not prepare values for the cache."""
        self.rows: Lru[int, tuple[RowBatch, ...]] = Lru(budget, ("rows", part))
        """All rows of a row group, in order."""
        self.partition_codes: Lru[int, Sequence[PartitionCodes]] = Lru(budget, ("partition codes", part))
        """Partition values of all rows of a row group, in runs of consecutive rows."""
        self.chosen: Lru[tuple[Hashable, int], tuple[FileBatch, ...]] = Lru(budget, ("chosen", part))
        """(filter identity, row group) -> all rows that the filter keeps, possibly none."""
        self._cursors: Lru[int, RowGroupCursor] = Lru(budget, ("cursors", part))
        self._read_once: Lru[int, bool] = Lru(readings, part)

    def admits(self, number: int, fetched_bytes: int) -> bool:
        """Return whether to cache a row group's rows, because it was scanned before; else remember this scan."""
        if self._read_once.pop(number):
            return True
        self._read_once.put(number, True, fetched_bytes * _DECODED)  # noqa: FBT003 -- a cached value, not a flag
        return False

    def pop_cursor(self, number: int, row: int) -> RowGroupCursor | None:
        """Take a row group's unfinished scan out of the cache if it can continue at `row`; else return None."""
        cursor = self._cursors.pop(number)
        if cursor is not None and not cursor.can_resume_at(row):
            self._cursors.put(number, cursor, cursor.nbytes)
            return None
        return cursor

    @contextmanager
    def keep_unfinished(self, number: int, cursor: RowGroupCursor) -> Iterator[None]:
        """Cache `cursor` (scan of a row group) when the `with` block ends, unless the row group is finished."""
        try:
            yield
        finally:
            if cursor.rows and not cursor.ended:
                self._cursors.put(number, cursor, cursor.nbytes)
