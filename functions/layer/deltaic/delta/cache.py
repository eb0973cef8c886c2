"""Decides which snapshots a process keeps, and how a kept one becomes the next: by the new commits alone.

Every request still lists the log, so no answer is older than the request. What is kept is what the listing proves to
be unchanged: same names, sizes and times of the files that made it.
"""

from collections import OrderedDict
from threading import Lock
from typing import Final

from deltaic.delta.scan.row_group_cache import Kept
from deltaic.delta.segment import Segment, find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore

_FOR_SNAPSHOTS: Final = 4
"""One part in this many of the room is for the commits after checkpoints, the rest for decoded row groups."""


_COMMITS_IN_A_LISTING: Final = 300
"""A listing has a thousand names, and a commit has up to three files."""


class SnapshotCache:
    """Snapshots by table and version within a number of bytes; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes // _FOR_SNAPSHOTS
        self._kept = Kept(max_bytes - self._max_bytes)
        self._snapshots: OrderedDict[tuple[str, int], Snapshot] = OrderedDict()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Bytes held now, estimated."""
        with self._lock:
            return self._kept.nbytes + sum(snapshot.nbytes for snapshot in self._snapshots.values())

    def snapshot(
        self, table: str, store: TableStore, version: int | None = None, *, base: str | None = None
    ) -> Snapshot:
        """Return a version of a table, as DeltaLog.snapshot does.

        `table` names the table in this process, for good: location and storage, not the name of a share. A kept
        snapshot goes on reading through the store that it was made with, so stores must renew their own credentials.
        """
        segment = find_segment(store, version, base=base, hint=self.hint(table))
        found = self._find(table, segment)
        if found is None or not found.is_made_of(segment):
            found = Snapshot(store, segment, self._kept.of(table), before=found)
        self._keep(table, found)
        return found

    def hint(self, table: str) -> int | None:
        """Return the version of a checkpoint that one listing reaches the latest version from, None if none is known.

        It only saves asking for `_last_checkpoint`: what is listed decides.
        """
        with self._lock:
            kept = [snapshot for (name, _), snapshot in self._snapshots.items() if name == table]
        newest = max(kept, key=lambda snapshot: snapshot.version, default=None)
        if newest is None:
            return None
        checkpoint = int(newest.base.partition("-")[0] or 0)
        return checkpoint if newest.version - checkpoint <= _COMMITS_IN_A_LISTING else None

    def _find(self, table: str, segment: Segment) -> Snapshot | None:
        """Return the nearest kept snapshot that the segment is, or continues."""
        with self._lock:
            versions = [version for name, version in self._snapshots if name == table and version <= segment.version]
            for version in sorted(versions, reverse=True):
                snapshot = self._snapshots[(table, version)]
                if snapshot.is_continued_by(segment):
                    return snapshot
        return None

    def _keep(self, table: str, snapshot: Snapshot) -> None:
        with self._lock:
            self._snapshots[(table, snapshot.version)] = snapshot
            self._snapshots.move_to_end((table, snapshot.version))
            held = sum(one.nbytes for one in self._snapshots.values())
            while held > self._max_bytes and self._snapshots:
                _, gone = self._snapshots.popitem(last=False)
                held -= gone.nbytes
