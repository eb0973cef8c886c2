"""The versions of an Iceberg table as a Delta log: snapshots, times and changes.

The changes of a snapshot that rewrites rows are refused by version, because its files also contain unchanged rows.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Final

import msgspec

from deltaic.delta.commit_changes import CommitRange
from deltaic.delta.history import History, TimedVersions
from deltaic.delta.log import DeltaLog
from deltaic.delta.paths import CommitFile
from deltaic.delta.scan.file_batches import Position
from deltaic.delta.store import LogFile
from deltaic.errors import MalformedRequest, UnsupportedOperation
from deltaic.iceberg_source.manifest_files import ADDED, DELETED
from deltaic.iceberg_source.source_metadata import decoding
from deltaic.iceberg_source.source_snapshot import IcebergSnapshot, IcebergSource

_BYTES_PER_FILE: Final = 1000
"""Estimated size of a file in a commit, which limits the commits in memory."""


class IcebergLog(DeltaLog):
    """Versions of one Iceberg table, at one state of its metadata."""

    def __init__(self, table: IcebergSource) -> None:
        """Create a log; its snapshots and manifests are cached with the table."""
        super().__init__(table.store)
        self.table = table
        self.metadata = table.metadata

    def latest_version(self) -> int:
        """Return the version of the current snapshot."""
        return self.metadata.latest_version

    def snapshot(self, version: int | None = None, *, at: Position | None = None) -> IcebergSnapshot:  # noqa: ARG002
        """Return a version, by default the latest; the one before it if the snapshots of `main` skip its number.

        Raises MalformedRequest if it is not between the first and the latest version.
        """
        number = self.metadata.find(self.metadata.latest_version if version is None else version)
        key = ("snapshot", self.table.identity, number, id(self.metadata))
        snapshot: IcebergSnapshot | None = self.table.cache.get(key)
        if snapshot is None:
            with decoding("metadata"):
                snapshot = IcebergSnapshot(self.table, number, self.metadata.versions[number])
            self.table.cache.put(key, snapshot, snapshot.nbytes)
        return snapshot

    @cached_property
    def history(self) -> History:
        """Times of all versions, as in the snapshot log."""
        versions, times = self.metadata.timeline
        return History([TimedVersions(versions, times.__getitem__)])

    def previous(self, version: int) -> IcebergSnapshot | None:
        """Return the version before an existing one; None if it is the first, or the earlier ones expired."""
        earlier = [number for number in self.metadata.versions if number < version]
        return self.snapshot(max(earlier)) if earlier else None

    def commits(self, start: int, end: int) -> CommitRange:
        """Return the commits of all versions from `start` to `end`, both included; numbers can be missing.

        Raises MalformedRequest if the range has no version, or `start` is before the first one. Reading a commit raises
        UnsupportedOperation with its version if it rewrites rows or does not have the latest partition columns.
        """
        self.metadata.find(start)
        commits, times = [], {}
        for version, entry in sorted(self.metadata.versions.items()):
            if start <= version <= end:
                added = entry.summary.get("added-data-files", "") if entry else ""
                times[version] = entry.timestamp_ms if entry else self.metadata.last_updated_ms
                file = LogFile(str(version), int(added) * _BYTES_PER_FILE if added.isdecimal() else 0, times[version])
                commits.append(CommitFile(version, version, file))
        if not commits:
            raise MalformedRequest(f"The Iceberg table has no version from {start} to {end}. Request a longer range.")

        def read_commits(files: Sequence[LogFile]) -> list[bytes]:
            with ThreadPoolExecutor(len(files)) as threads:
                return list(threads.map(lambda file: self._commit(int(file.name)), files))

        return CommitRange(read_commits, commits, times)

    def _commit(self, version: int) -> bytes:
        """Return the content of a Delta commit with the changes of a version."""
        snapshot, before = self.snapshot(version), self.previous(version)
        if snapshot.metadata.partition_columns != self.snapshot().metadata.partition_columns:
            raise _unreadable(version, "has other partition columns than the latest version")
        lines = list[bytes]()
        if before is not None and before.metadata != snapshot.metadata:
            lines += b'{"protocol":%s}' % snapshot.protocol.raw, b'{"metaData":%s}' % snapshot.metadata.raw
        with decoding("a manifest"):
            lines += map(msgspec.json.encode, self._file_actions(snapshot, before))
        return b"\n".join(lines)

    def _file_actions(self, snapshot: IcebergSnapshot, before: IcebergSnapshot | None) -> Iterator[dict[str, Any]]:
        """Yield the files that a snapshot adds or drops; none for a compaction, which does not change rows."""
        entry = snapshot.entry
        if entry is None:
            return
        if before is not None and entry.parent_snapshot_id != (before.entry and before.entry.snapshot_id):
            raise _unreadable(snapshot.version, "follows a rollback or expired versions, or replaces the table")
        operation = entry.summary.get("operation")
        if operation == "replace":
            return
        own = [manifest for manifest in snapshot.manifests if manifest.snapshot_id == entry.snapshot_id]
        data = [manifest for manifest in own if not manifest.is_deletes]
        deletes = [manifest for manifest in own if manifest.is_deletes]
        drops = any(manifest.deleted for manifest in data)
        # A snapshot that drops files also drops their deletes.
        changes_deletes = any(manifest.added or (manifest.deleted and operation != "delete") for manifest in deletes)
        if changes_deletes or (drops and any(manifest.added for manifest in data)):
            raise _unreadable(snapshot.version, "rewrites rows, and its files also contain unchanged rows")
        if drops and before is None and any(manifest.is_deletes for manifest in snapshot.manifests):
            raise _unreadable(snapshot.version, "drops files whose deleted rows are unknown, as older versions expired")
        contents = self.table.store.get_many([manifest.path for manifest in data])
        for manifest, content in zip(data, contents, strict=True):
            for action, status in (("add", ADDED), ("remove", DELETED)):
                for piece in snapshot.reader.pieces(manifest, content, {status}):
                    rows = piece.files.to_pylist()
                    if status == DELETED and before is not None:
                        vectors = before.deletes.vectors([row["path"] for row in rows], piece.keys, manifest.spec_id)
                        rows = [row | {"deletionVector": vector} for row, vector in zip(rows, vectors, strict=True)]
                    for row in rows:
                        yield {action: row | {"partitionValues": dict(row["partitionValues"]), "dataChange": True}}


def _unreadable(version: int, reason: str) -> UnsupportedOperation:
    return UnsupportedOperation(
        f"The changes of version {version} of this Iceberg table cannot be read: it {reason}. Query version {version} "
        f"without a starting version, and read changes from version {version + 1}."
    )
