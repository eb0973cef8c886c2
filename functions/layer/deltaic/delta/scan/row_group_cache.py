"""Decides what stays in memory between requests: pieces of checkpoints, and what was made of them.

What is kept is decoded row groups, the choices of filters and the lines of files; least recently used goes first.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

_DECODED: Final = 3
"""Bytes in memory for one byte of a checkpoint, about."""


class Kept:
    """Values within a number of bytes; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._values: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Bytes held now; never more than the room given."""
        return self._bytes

    def of(self, table: str) -> "KeptOfTable":
        """Return what is kept of one table."""
        return KeptOfTable(self, table)

    def admits(self, checkpoint_bytes: int) -> bool:
        """Tell whether a checkpoint of this size may be kept: in part would be in vain, it is read from end to end."""
        return checkpoint_bytes * _DECODED <= self.max_bytes

    def get(self, key: Hashable) -> Any:
        """Return what is kept under a key, now the most recently used; None for nothing."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return None if found is None else found[1]

    def take(self, key: Hashable) -> Any:
        """Return what is kept under a key, and keep it no longer: for what only one can go on with."""
        with self._lock:
            nbytes, value = self._values.pop(key, (0, None))
            self._bytes -= nbytes
            return value

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keep a value, letting go of others for it."""
        with self._lock:
            old = self._values.pop(key, None)
            self._bytes += nbytes - (old[0] if old else 0)
            self._values[key] = (nbytes, value)
            while self._bytes > self.max_bytes:
                _, (freed, _) = self._values.popitem(last=False)
                self._bytes -= freed


@dataclass(frozen=True, slots=True)
class KeptOfTable:
    """What is kept of one table; parts of other tables may have the same identity."""

    kept: Kept
    table: str
    whole: bool = False
    """Whether decoded row groups are kept, and not only what is small."""

    def get(self, kind: Hashable, part: str, group: int) -> Any:
        """Return what is kept of a row group of a part; None for nothing."""
        return self.kept.get((self.table, kind, part, group))

    def take(self, kind: Hashable, part: str, group: int) -> Any:
        """Return what is kept of a row group of a part, and keep it no longer."""
        return self.kept.take((self.table, kind, part, group))

    def put(self, kind: Hashable, part: str, group: int, value: Any, nbytes: int) -> None:
        """Keep something of a row group of a part."""
        self.kept.put((self.table, kind, part, group), value, nbytes)
