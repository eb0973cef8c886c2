"""Caches of a process: snapshots, unsigned file lines and Iceberg metadata."""

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltaic.lru import Lru, MemoryBudget

if TYPE_CHECKING:
    from deltaic.delta.cache import SnapshotCache
    from deltaic.sharing.lines.line_cache import LineCache

_SHARE = 8
"""Each cache may use 1/8 of the process's memory. Responses need the rest; larger tables are not cached."""


class Memory:
    """Caches of one process, created on first use, because listings need neither them nor their imports."""

    def __init__(self, process_bytes: int) -> None:
        """Create empty caches; `process_bytes` is the memory of the process in bytes."""
        self._room = process_bytes // _SHARE

    @cached_property
    def snapshots(self) -> "SnapshotCache":
        """Cache of snapshots, with the parts of their checkpoints that were read."""
        from deltaic.delta.cache import SnapshotCache

        return SnapshotCache(self._room)

    @cached_property
    def iceberg(self) -> Lru[Hashable, Any]:
        """Cache of generated Iceberg metadata and its file indexes."""
        return Lru(MemoryBudget(self._room))

    @cached_property
    def lines(self) -> "LineCache":
        """Cache of file lines without signatures."""
        from deltaic.sharing.lines.line_cache import LineCache

        return LineCache(self._room)
