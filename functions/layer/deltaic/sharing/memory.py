"""Cache snapshots, prepared lines and Iceberg metadata between the requests of a process."""

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltaic.lru import Lru, MemoryBudget

if TYPE_CHECKING:
    from deltaic.delta.cache import SnapshotCache
    from deltaic.sharing.lines.line_cache import LineCache

_SHARE = 8
"""Each cache gets 1/8 of the process's memory: answers need the rest. A table that does not fit is not cached."""


class Memory:
    """Caches of one process, created at first use, because listings need neither them nor their imports."""

    def __init__(self, process_bytes: int) -> None:
        """`process_bytes` is the memory of the process."""
        self._room = process_bytes // _SHARE

    @cached_property
    def snapshots(self) -> "SnapshotCache":
        """Snapshots, with the parts of their checkpoints that were read."""
        from deltaic.delta.cache import SnapshotCache

        return SnapshotCache(self._room)

    @cached_property
    def iceberg(self) -> Lru[Hashable, Any]:
        """Generated Iceberg metadata, and the indexes of its files."""
        return Lru(MemoryBudget(self._room))

    @cached_property
    def lines(self) -> "LineCache":
        """File lines without signatures."""
        from deltaic.sharing.lines.line_cache import LineCache

        return LineCache(self._room)
