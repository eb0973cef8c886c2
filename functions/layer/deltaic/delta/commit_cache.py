"""Decides which commits a process keeps as they were read: those of ranges that fit, for the pages that follow.

Each page of a range lists the log anew and reads what it needs; a commit is known by its very file (name, size, time,
ETag), as everything that is kept of a log, so that one of another table at the same place is another commit.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from deltaic.delta.log_files import read_all_listed
from deltaic.delta.store import LogFile, TableStore
from deltaic.lru import Lru, Room

_PER_COMMIT: Final = 400
"""Bytes of its key, about."""
_SHARE: Final = 2
"""One part in this many of the room may be one range's: one that does not fit would push out its own beginning."""

ReadFiles = Callable[[Sequence[LogFile]], list[bytes]]
"""Returns files of the log whole, in their order; raises what `read_all_listed` raises."""


class CommitCache:
    """Commits of all tables within a number of bytes; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._room = Room(max_bytes)
        self._contents: Lru[tuple[str, LogFile], bytes] = Lru(self._room)

    def reader(self, table: str, store: TableStore, commits: Sequence[LogFile]) -> ReadFiles:
        """Return what reads the commits of a range, given all of them; `table` names the table in this process."""
        if sum(file.size + _PER_COMMIT for file in commits) * _SHARE > self._room.max_bytes:
            return partial(read_all_listed, store)
        return partial(self._read, table, store)

    def _read(self, table: str, store: TableStore, files: Sequence[LogFile]) -> list[bytes]:
        held = {file: content for file in files if (content := self._contents.get((table, file))) is not None}
        missing = [file for file in files if file not in held]
        for file, content in zip(missing, read_all_listed(store, missing), strict=True):
            held[file] = content
            self._contents.put((table, file), content, len(content) + _PER_COMMIT)
        return [held[file] for file in files]
