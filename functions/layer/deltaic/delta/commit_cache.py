"""Cache of commit files, so that later pages of a range of changes do not fetch them again.

Each page of a range lists the log again. The key of a commit is its listed file (name, size, time, ETag), so a replaced
commit has another key.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from deltaic.delta.log_files import read_all_listed
from deltaic.delta.store import LogFile, TableStore
from deltaic.lru import Lru, MemoryBudget

_PER_COMMIT: Final = 400
"""Estimated bytes in memory of a commit's key."""
_SHARE: Final = 2
"""A range larger than the memory limit divided by this number is not cached: it would evict its own beginning."""

ReadFiles = Callable[[Sequence[LogFile]], list[bytes]]
"""Returns the contents of log files in the given order; raises the same errors as `read_all_listed`."""


class CommitCache:
    """Cache of commits of all tables, with a limit in bytes; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._budget = MemoryBudget(max_bytes)
        self._contents: Lru[tuple[str, LogFile], bytes] = Lru(self._budget)

    def reader(self, table: str, store: TableStore, commits: Sequence[LogFile]) -> ReadFiles:
        """Return a function that reads these commits, from the cache if possible; `table` is part of the cache key."""
        if sum(file.size + _PER_COMMIT for file in commits) * _SHARE > self._budget.max_bytes:
            return partial(read_all_listed, store)
        return partial(self._read, table, store)

    def _read(self, table: str, store: TableStore, files: Sequence[LogFile]) -> list[bytes]:
        contents = {file: content for file in files if (content := self._contents.get((table, file))) is not None}
        missing = [file for file in files if file not in contents]
        for file, content in zip(missing, read_all_listed(store, missing), strict=True):
            contents[file] = content
            self._contents.put((table, file), content, len(content) + _PER_COMMIT)
        return [contents[file] for file in files]
