"""Decides how a table's log is entered: one object per table, from which versions, times and changes are asked."""

from deltaic.delta.scan import Position
from deltaic.delta.segment import find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore


class DeltaLog:
    """The log of one table; holds no state, so every call sees the log as it is then."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    def latest_version(self) -> int:
        """Return the newest version, by one listing; raises TableUnreadable for an empty or broken log."""
        return find_segment(self._store).version

    def snapshot(self, version: int | None = None, *, at: Position | None = None) -> Snapshot:
        """Return a version, the newest one by default.

        `at` is a position of an earlier page of the same version: then the snapshot has the same order of files, or
        MalformedRequest is raised because that order is gone. Raises MalformedRequest also for a version that does
        not exist, TableUnreadable for a broken log, UnsupportedOperation for features that cannot be read.
        """
        base = at.base if at is not None and version is not None else None
        return Snapshot(self._store, find_segment(self._store, version, base=base))
