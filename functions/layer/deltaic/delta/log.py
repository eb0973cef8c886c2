"""A table's log: one object, from which versions, times and changes are asked."""

from collections.abc import Hashable
from functools import cached_property

from deltaic.delta.cache import SnapshotCache
from deltaic.delta.commit_changes import CommitRange, list_changes
from deltaic.delta.history import History
from deltaic.delta.scan.file_batches import Position
from deltaic.delta.segment import Segment, find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore


class DeltaLog:
    """The log of one table, for one request; every call sees the log as it is then, but times stay (`history`).

    With a cache, what earlier calls in this process have read and the listing proves unchanged is not read again;
    `table` names the table there (see SnapshotCache).
    """

    def __init__(self, store: TableStore, cache: SnapshotCache | None = None, table: str = "") -> None:
        self._store = store
        self._cache = cache or SnapshotCache(0)
        self._table = table

    def latest_version(self) -> int:
        """Return the newest version, by the hint and one listing; raises TableUnreadable for a broken log."""
        return self._latest().version

    def latest_identity(self) -> Hashable:
        """Return what names the very files of the log that make the newest version; see `Snapshot.identity`."""
        segment = self._latest()
        return segment.base, segment.commits

    def _latest(self) -> Segment:
        return find_segment(self._store, hint=self._cache.hint(self._table))

    def snapshot(self, version: int | None = None, *, at: Position | None = None) -> Snapshot:
        """Return a version, the newest one by default.

        `at` is a position of an earlier page of the same version: then the snapshot has the same order of files, or
        MalformedRequest is raised because that order is gone. Raises MalformedRequest also for a version that does
        not exist, TableUnreadable for a broken log, UnsupportedOperation for features that cannot be read.
        """
        base = at.base if at is not None and version is not None else None
        return self._cache.snapshot(self._table, self._store, version, base=base)

    @cached_property
    def history(self) -> History:
        """The times of all versions, as they were when they were first asked for."""
        return History(self._store, self.snapshot().metadata)

    def commits(self, start: int, end: int) -> CommitRange:
        """Return the commits `start` to `end`, both included, in order; see list_changes."""
        return list_changes(self._store, start, end, self._cache.commits, self._table)
