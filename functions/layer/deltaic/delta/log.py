"""Delta log of one table: versions, times and changes."""

from collections.abc import Hashable
from functools import cached_property

from deltaic.delta.cache import SnapshotCache
from deltaic.delta.commit_changes import CommitRange, list_changes
from deltaic.delta.history import History, read_history
from deltaic.delta.scan.file_batches import Position
from deltaic.delta.segment import Segment, find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore


class DeltaLog:
    """Delta log of one table, for one request; only `history` is cached.

    With a cache, files that the listing shows as unchanged are not read again; `table` identifies the table in the
    cache (see SnapshotCache).
    """

    def __init__(self, store: TableStore, cache: SnapshotCache | None = None, table: str = "") -> None:
        self._store = store
        self._cache = cache or SnapshotCache(0)
        self._table = table

    def latest_version(self) -> int:
        """Return the latest version with one listing; raises TableUnreadable for a broken log."""
        return self._latest().version

    def latest_identity(self) -> Hashable:
        """Return a key of the log files of the latest version; see `Snapshot.identity`."""
        segment = self._latest()
        return segment.base, segment.commits

    def _latest(self) -> Segment:
        return find_segment(self._store, hint=self._cache.hint(self._table))

    def snapshot(self, version: int | None = None, *, at: Position | None = None) -> Snapshot:
        """Return a version of the table, by default the latest.

        `at` is the position at which an earlier page of the same version ended. The snapshot then has the same order of
        files, or raises MalformedRequest if that order no longer exists. Also raises MalformedRequest if the version
        does not exist, TableUnreadable for a broken log, and UnsupportedOperation for unsupported features.
        """
        base = at.base if at is not None and version is not None else None
        return self._cache.snapshot(self._table, self._store, version, base=base)

    @cached_property
    def history(self) -> History:
        """Commit times of all versions, read at the first access."""
        return read_history(self._store, self.snapshot().metadata)

    def commits(self, start: int, end: int) -> CommitRange:
        """Return the commits `start` to `end`, both included, in order; see list_changes."""
        return list_changes(self._store, start, end, self._cache.commits, self._table)
