"""The caches of a process between requests, and their sizes: logs as read, lines as prepared, metadata as made."""

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltaic.lru import Lru, MemoryBudget

if TYPE_CHECKING:
    from deltaic.delta.cache import SnapshotCache
    from deltaic.sharing.lines.line_cache import LineCache

_SHARE = 8
"""One part in this many of the process's memory is for logs, and the same again for lines: answers in the making need
the rest, and a table that does not fit is not kept in part."""


class Memory:
    """What one process remembers; made at first use, because listings need none of it (nor its imports)."""

    def __init__(self, process_bytes: int) -> None:
        """`process_bytes` is what the whole process may use."""
        self._room = process_bytes // _SHARE

    @cached_property
    def snapshots(self) -> "SnapshotCache":
        """Snapshots, with what has been read of their checkpoints."""
        from deltaic.delta.cache import SnapshotCache

        return SnapshotCache(self._room)

    @cached_property
    def iceberg(self) -> Lru[Hashable, Any]:
        """Metadata that was made for Iceberg's clients, and the indexes of its files."""
        return Lru(MemoryBudget(self._room))

    @cached_property
    def lines(self) -> "LineCache":
        """File lines without signatures."""
        from deltaic.sharing.lines.line_cache import LineCache

        return LineCache(self._room)
