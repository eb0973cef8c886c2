"""Cache of snapshots that updates an older snapshot by reading only new commits.

Every request still lists the log, so no response is older than its request. A cached value is used only if the listing
shows its files with the same names, sizes and times.
"""

from typing import Final

from deltaic.delta.commit_cache import CommitCache
from deltaic.delta.scan.row_group_cache import RowGroupCache
from deltaic.delta.segment import Segment, find_segment
from deltaic.delta.snapshot import Snapshot
from deltaic.delta.store import TableStore
from deltaic.lru import Lru, MemoryBudget

_FOR_SNAPSHOTS: Final = 4
_FOR_COMMITS: Final = 16
"""Divisor: commits get a sixteenth of the memory limit, snapshots a quarter, row groups of checkpoints the rest."""

_COMMITS_IN_A_LISTING: Final = 300
"""Commits in one page of an S3 listing: a page has 1000 names, and a commit has up to three files."""


class SnapshotCache:
    """Cache of snapshots by table and version, with a limit in bytes; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        for_snapshots, for_commits = max_bytes // _FOR_SNAPSHOTS, max_bytes // _FOR_COMMITS
        self._snapshots: Lru[tuple[str, int], Snapshot] = Lru(MemoryBudget(for_snapshots))
        self._row_groups = RowGroupCache(max_bytes - for_snapshots - for_commits)
        self.commits = CommitCache(for_commits)

    def snapshot(
        self, table: str, store: TableStore, version: int | None = None, *, base: str | None = None
    ) -> Snapshot:
        """Return a table version; `version` and `base` are as in `find_segment`, errors as in `DeltaLog.snapshot`.

        `table` identifies the table in this process by location and storage, not by its name in a share. A cached
        snapshot keeps using the store that it was created with, so stores must renew their credentials.
        """
        segment = find_segment(store, version, base=base, hint=self.hint(table))
        snapshot = self._nearest(table, segment)
        if snapshot is None or not snapshot.is_made_of(segment):
            snapshot = Snapshot.open(store, segment, self._row_groups, table, snapshot)
        snapshot = snapshot.with_checked_checksum()
        self._snapshots.put((table, snapshot.version), snapshot, snapshot.nbytes)
        # Cached snapshots grow, because they cache what they read.
        self._snapshots.remeasure(lambda cached: cached.nbytes)
        return snapshot

    def hint(self, table: str) -> int | None:
        """Return a checkpoint version from which one listing page reaches the latest version; None if unknown.

        The hint replaces a read of `_last_checkpoint`. A wrong hint does not change the result.
        """
        newest = max(self._snapshots_of(table), key=lambda snapshot: snapshot.version, default=None)
        if newest is None:
            return None
        checkpoint = int(newest.base.partition("-")[0] or 0)
        return checkpoint if newest.version - checkpoint <= _COMMITS_IN_A_LISTING else None

    def _nearest(self, table: str, segment: Segment) -> Snapshot | None:
        candidates = [snapshot for snapshot in self._snapshots_of(table) if snapshot.version <= segment.version]
        newest_first = sorted(candidates, key=lambda snapshot: snapshot.version, reverse=True)
        return next((snapshot for snapshot in newest_first if snapshot.is_continued_by(segment)), None)

    def _snapshots_of(self, table: str) -> list[Snapshot]:
        return [snapshot for (name, _), snapshot in self._snapshots.items() if name == table]
