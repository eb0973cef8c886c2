"""Fetches a commit once that one answer reads twice: for its head, and for its range.

Without a checkpoint near its end a log is replayed from its first commit to find the head of a change feed, and the
feed then reads the same commits. So much of them is held until the answer is planned, and nothing longer.
"""

from collections.abc import Iterator, Sequence
from threading import Lock
from types import TracebackType
from typing import Final, Self

from deltaic.delta.paths import LOG
from deltaic.delta.store import LogFile, TableStore

_HELD_BYTES: Final = 8 << 20


class CommitMemo:
    """A TableStore that holds commits, up to a number of bytes, while it is entered; else it is the store itself."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._lock = Lock()
        self._held: dict[str, bytes] = {}
        self._room = 0

    def __enter__(self) -> Self:
        """Begin to hold."""
        self._room = _HELD_BYTES
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of everything: snapshots that are kept between requests keep their store."""
        with self._lock:
            self._room = 0
            self._held.clear()

    def list_log(self, start_after: str = "") -> Iterator[LogFile]:
        """List the log, as it is now."""
        return self._store.list_log(start_after)

    def get(self, path: str) -> bytes:
        """Return the whole object."""
        return self.get_many([path])[0]

    def get_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return whole objects; those that are held are not fetched."""
        with self._lock:
            found = {path: self._held[path] for path in paths if path in self._held}
        missing = [path for path in paths if path not in found]
        if missing:
            found |= zip(missing, self._store.get_many(missing), strict=True)
            self._hold(missing, found)
        return [found[path] for path in paths]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return byte ranges of one object."""
        return self._store.get_ranges(path, ranges)

    def get_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """Return the end of an object, and its size."""
        return self._store.get_tail(path, length)

    def _hold(self, paths: Sequence[str], contents: dict[str, bytes]) -> None:
        with self._lock:
            for path in paths:
                is_commit = path.startswith(LOG) and path.endswith(".json")
                if is_commit and path not in self._held and 0 < len(contents[path]) <= self._room:
                    self._held[path] = contents[path]
                    self._room -= len(contents[path])
