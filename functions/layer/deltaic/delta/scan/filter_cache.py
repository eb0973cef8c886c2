"""Cache of filter results: the few rows of a checkpoint's row group that a filter keeps.

Results are cached before newer commits are applied, so they are valid for every version with the same checkpoint. A
filter that keeps many rows of a row group is not cached.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from deltaic import compute as pc
from deltaic.delta.scan.file_batches import FileBatch
from deltaic.delta.scan.row_group_cache import PartCache

_MOST_ROWS: Final = 4096
_LEAST_BYTES: Final = 512
"""Estimated bytes in memory of an empty result."""


class FilterCache(msgspec.Struct, frozen=True):
    """Cached results of one filter for one part of a checkpoint."""

    cache: PartCache
    filter: Hashable

    def find(self, groups: Sequence[int]) -> list[FileBatch] | None:
        """Return the cached results of these row groups; None if any result is not cached."""
        batches: list[FileBatch] = []
        for group in groups:
            chosen = self.cache.chosen.get((self.filter, group))
            if chosen is None:
                return None
            batches += chosen
        return batches

    def cache_batches(self, batches: Iterator[FileBatch], groups: Sequence[int], first_row: int) -> Iterator[FileBatch]:
        """Yield a scan's batches, and cache each row group that is completely scanned.

        `first_row` is the row in the first row group at which the scan starts.
        """
        unread = list(groups[1:] if first_row else groups)
        collected: list[FileBatch] = []
        count = 0
        for batch in batches:
            group = batch.start.row_group
            while unread and unread[0] < group:
                self._keep(unread.pop(0), collected, count)
                collected, count = [], 0
            if unread and unread[0] == group:
                count += batch.files.num_rows
                collected = [*collected, batch] if count <= _MOST_ROWS else []
            yield batch
        for group in unread:
            self._keep(group, collected, count)
            collected, count = [], 0

    def _keep(self, group: int, batches: Sequence[FileBatch], count: int) -> None:
        """Cache the batches of one row group as a single batch."""
        if count <= _MOST_ROWS:
            chosen = (_concat(batches),) if batches else ()
            self.cache.chosen.put((self.filter, group), chosen, _LEAST_BYTES + sum(batch.nbytes for batch in chosen))


def from_row(batch: FileBatch, row: int) -> FileBatch:
    """Return the files of a cached batch that are at or after a row of its row group."""
    if row == 0 or batch.rows is None:
        return batch
    first = pc.sum(pc.less(batch.rows, row)).as_py() or 0
    return replace(batch, files=batch.files.slice(first), rows=batch.rows.slice(first))


def _concat(batches: Sequence[FileBatch]) -> FileBatch:
    last = batches[-1]
    return FileBatch(
        files=pa.concat_batches([batch.files for batch in batches]),
        start=last.start._replace(row=0),
        num_scanned=last.start.row + last.num_scanned,
        rows=pa.concat_arrays([_row_numbers(batch) for batch in batches]),
    )


def _row_numbers(batch: FileBatch) -> pa.UInt64Array:
    rows = pa.array(range(batch.files.num_rows), pa.uint64()) if batch.rows is None else batch.rows
    return pc.add(pc.cast(rows, pa.uint64()), pa.scalar(batch.start.row, pa.uint64()))
