"""Decides what stays in memory between requests: decoded row groups, the least recently used let go first."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltaic.delta.parquet_scan import Rows

_DECODED: Final = 3
"""Bytes in memory for one byte of a checkpoint, about."""


class Kept:
    """Decoded row groups within a number of bytes; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._groups: OrderedDict[tuple[str, str, int], tuple[int, tuple[Rows, ...]]] = OrderedDict()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Bytes held now; never more than the room given."""
        return self._bytes

    def of(self, table: str) -> "KeptRowGroups":
        """Return the row groups of one table."""
        return KeptRowGroups(self, table)

    def admits(self, checkpoint_bytes: int) -> bool:
        """Tell whether a checkpoint of this size may be kept: in part would be in vain, it is read from end to end."""
        return checkpoint_bytes * _DECODED <= self._max_bytes

    def get(self, key: tuple[str, str, int]) -> "tuple[Rows, ...] | None":
        """Return what is kept under (table, part, row group), now the most recently used."""
        with self._lock:
            found = self._groups.get(key)
            if found is not None:
                self._groups.move_to_end(key)
            return None if found is None else found[1]

    def put(self, key: tuple[str, str, int], rows: "tuple[Rows, ...]") -> None:
        """Keep a row group, letting go of others for it."""
        # Buffers as allocated, not as used: that is what the process pays.
        nbytes = sum(int(one.files.get_total_buffer_size()) for one in rows)
        with self._lock:
            old = self._groups.pop(key, None)
            self._bytes += nbytes - (old[0] if old else 0)
            self._groups[key] = (nbytes, rows)
            while self._bytes > self._max_bytes:
                _, (freed, _) = self._groups.popitem(last=False)
                self._bytes -= freed


@dataclass(frozen=True, slots=True)
class KeptRowGroups:
    """What is kept of one table; parts of other tables may have the same identity."""

    kept: Kept
    table: str

    def admits(self, checkpoint_bytes: int) -> bool:
        """Tell whether a checkpoint of this size may be kept."""
        return self.kept.admits(checkpoint_bytes)

    def get(self, part: str, group: int) -> "tuple[Rows, ...] | None":
        """Return a row group of a part."""
        return self.kept.get((self.table, part, group))

    def put(self, part: str, group: int, rows: "tuple[Rows, ...]") -> None:
        """Keep a row group of a part."""
        self.kept.put((self.table, part, group), rows)
