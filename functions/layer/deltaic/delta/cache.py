"""Decides which snapshots a process keeps, and how a kept one becomes the next: by the new commits alone.

Every request still lists the log, so no answer is older than the request. What is kept is what the listing proves to
be unchanged: same names, sizes and times of the files that made it.
"""

from typing import Final

from deltaic.delta.commit_cache import CommitCache
from deltaic.delta.scan.row_group_cache import RowGroupCache
from deltaic.delta.segment import Segment, find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore
from deltaic.lru import Lru, Room

_FOR_SNAPSHOTS: Final = 4
_FOR_COMMITS: Final = 16
"""One part in this many of the room is for the commits after checkpoints, or for commits as they were read; the rest
is for row groups of checkpoints."""

_COMMITS_IN_A_LISTING: Final = 300
"""A listing has a thousand names, and a commit has up to three files."""


class SnapshotCache:
    """Snapshots by table and version within a number of bytes; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        for_snapshots, for_commits = max_bytes // _FOR_SNAPSHOTS, max_bytes // _FOR_COMMITS
        self._snapshots: Lru[tuple[str, int], Snapshot] = Lru(Room(for_snapshots))
        self._row_groups = RowGroupCache(max_bytes - for_snapshots - for_commits)
        self.commits = CommitCache(for_commits)

    def snapshot(
        self, table: str, store: TableStore, version: int | None = None, *, base: str | None = None
    ) -> Snapshot:
        """Return a version of a table, as DeltaLog.snapshot does.

        `table` names the table in this process, for good: location and storage, not the name of a share. A kept
        snapshot goes on reading through the store that it was made with, so stores must renew their own credentials.
        """
        segment = find_segment(store, version, base=base, hint=self.hint(table))
        snapshot = self._nearest(table, segment)
        if snapshot is None or not snapshot.is_made_of(segment):
            snapshot = Snapshot.open(store, segment, self._row_groups, table, snapshot)
        snapshot = snapshot.confirmed()
        self._snapshots.put((table, snapshot.version), snapshot, snapshot.nbytes)
        # All of them: a snapshot grows while it is kept, by what it is asked.
        self._snapshots.weigh(lambda held: held.nbytes)
        return snapshot

    def hint(self, table: str) -> int | None:
        """Return the version of a checkpoint that one listing reaches the latest version from, None if none is known.

        It only saves asking for `_last_checkpoint`: what is listed decides.
        """
        newest = max(self._of(table), key=lambda snapshot: snapshot.version, default=None)
        if newest is None:
            return None
        checkpoint = int(newest.base.partition("-")[0] or 0)
        return checkpoint if newest.version - checkpoint <= _COMMITS_IN_A_LISTING else None

    def _nearest(self, table: str, segment: Segment) -> Snapshot | None:
        older = [snapshot for snapshot in self._of(table) if snapshot.version <= segment.version]
        newest_first = sorted(older, key=lambda snapshot: snapshot.version, reverse=True)
        return next((snapshot for snapshot in newest_first if snapshot.is_continued_by(segment)), None)

    def _of(self, table: str) -> list[Snapshot]:
        return [snapshot for (name, _), snapshot in self._snapshots.items() if name == table]
