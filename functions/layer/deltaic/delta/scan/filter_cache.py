"""Keeps what filtered readings found: the few rows of a checkpoint's row group that a filter chose.

They are kept as the checkpoint has them, before newer commits are looked at, so that what they answer stays right in
every version that stands on that checkpoint. A filter that keeps many rows of a row group is not worth the room.
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
"""Of a row group: a batch."""
_LEAST_BYTES: Final = 512
"""What an answer of no rows takes."""


class FilterCache(msgspec.Struct, frozen=True):
    """What one filter chose from one part."""

    cache: PartCache
    filter: Hashable

    def all_of(self, groups: Sequence[int]) -> list[FileBatch] | None:
        """Return what was chosen from these row groups, a batch for each that has any; None if one is not known."""
        batches: list[FileBatch] = []
        for group in groups:
            chosen = self.cache.chosen.get((self.filter, group))
            if chosen is None:
                return None
            batches += chosen
        return batches

    def keeping(self, batches: Iterator[FileBatch], groups: Sequence[int], first_row: int) -> Iterator[FileBatch]:
        """Pass on what was chosen from these row groups, in order, and keep each row group that was read to its end.

        `first_row` is the row of the first row group that the reading starts from.
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
        """Keep what was chosen from one row group as one batch that begins with the row group."""
        if count <= _MOST_ROWS:
            chosen = (_joined(batches),) if batches else ()
            self.cache.chosen.put((self.filter, group), chosen, _LEAST_BYTES + sum(batch.nbytes for batch in chosen))


def from_row(batch: FileBatch, row: int) -> FileBatch:
    """Return the files of a kept batch from a row of its row group on."""
    if row == 0 or batch.rows is None:
        return batch
    first = pc.sum(pc.less(batch.rows, row)).as_py() or 0
    return replace(batch, files=batch.files.slice(first), rows=batch.rows.slice(first))


def _joined(batches: Sequence[FileBatch]) -> FileBatch:
    last = batches[-1]
    return FileBatch(
        files=pa.concat_batches([batch.files for batch in batches]),
        start=last.start._replace(row=0),
        looked_at=last.start.row + last.looked_at,
        rows=pa.concat_arrays([_rows_in_group(batch) for batch in batches]),
    )


def _rows_in_group(batch: FileBatch) -> pa.UInt64Array:
    rows = pa.array(range(batch.files.num_rows), pa.uint64()) if batch.rows is None else batch.rows
    return pc.add(pc.cast(rows, pa.uint64()), pa.scalar(batch.start.row, pa.uint64()))
