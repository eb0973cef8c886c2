"""Download commits only once while a response is planned.

Without a checkpoint near its end, a log is replayed from its first commit to find the metadata of a change feed, and
the feed then reads the same commits again. The memo keeps them in memory until the response is planned, up to 8 MiB.
"""

from collections.abc import Iterator, Sequence
from threading import Lock
from types import TracebackType
from typing import Final, Self

from deltaic.delta.paths import LOG
from deltaic.delta.store import LogFile, TableStore

_MAX_BYTES: Final = 8 << 20


class CommitMemo:
    """TableStore that caches the commits that it reads inside a `with` block, up to a maximum size."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._lock = Lock()
        self._commits: dict[str, bytes] = {}
        self._free_bytes = 0

    def __enter__(self) -> Self:
        """Start to cache commits."""
        self._free_bytes = _MAX_BYTES
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove all cached commits, because snapshots in the cache of the process keep a reference to this store."""
        with self._lock:
            self._free_bytes = 0
            self._commits.clear()

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """List the files of the Delta log."""
        return self._store.list_log(start_after)

    def get(self, path: str) -> bytes:
        """Return the whole object."""
        return self.get_many([path])[0]

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return whole objects; cached commits are not downloaded again."""
        with self._lock:
            contents = {path: self._commits[path] for path in paths if path in self._commits}
        missing = [path for path in paths if path not in contents]
        if missing:
            contents |= zip(missing, self._store.get_many(missing), strict=True)
            self._keep_commits(missing, contents)
        return [contents[path] for path in paths]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return byte ranges of one object, without caching them."""
        return self._store.get_ranges(path, ranges)

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes of an object, and the object's size."""
        return self._store.get_tail(path, length)

    def _keep_commits(self, paths: Sequence[str], contents: dict[str, bytes]) -> None:
        with self._lock:
            for path in paths:
                is_commit = path.startswith(LOG) and path.endswith(".json")
                if is_commit and path not in self._commits and 0 < len(contents[path]) <= self._free_bytes:
                    self._commits[path] = contents[path]
                    self._free_bytes -= len(contents[path])
