"""Decides how one change of a commit reads on the wire: an add, remove or cdc action, signed, with version and time."""

from dataclasses import dataclass

from deltaic.delta import deletion_vectors
from deltaic.delta.actions import Add, AddCdcFile, Remove, text, text_map
from deltaic.delta.changes import CommitChanges, FileChange
from deltaic.delta.deletion_vectors import DeletionVector
from deltaic.delta.log import DeltaLog
from deltaic.delta.replay import canonical_path
from deltaic.errors import TableUnreadable
from deltaic.protocol import lines
from deltaic.protocol.actions import ActionKind
from deltaic.protocol.capabilities import FileIdHash, ResponseFormat
from deltaic.storage.urls import TableUrls


@dataclass(frozen=True, slots=True)
class ChangeLines:
    """Renders the changes of one answer."""

    log: DeltaLog
    urls: TableUrls
    response_format: ResponseFormat
    scheme: FileIdHash

    def line(self, commit: CommitChanges, change: FileChange) -> bytes:
        """Return the line of one change; every change carries version and timestamp, which streams are built on."""
        action = change.action
        kind: ActionKind = "cdf"
        stats, vector, partition_values, size = None, None, action.partition_values, action.size
        if isinstance(action, Add):
            kind, stats, vector = "add", action.stats, action.deletion_vector
        elif isinstance(action, Remove):
            kind, vector = "remove", action.deletion_vector
            if size is None or partition_values is None:
                # Old writers leave them out of a remove (Delta protocol, "extendedFileMetadata").
                partition_values, size = self._what_was_removed(commit, action)
        tracked = None if isinstance(action, AddCdcFile) else action
        return lines.file(
            self.response_format,
            lines.FileAction(
                kind=kind,
                url=self.urls.url(action.path),
                id=lines.file_id(action.path, self.scheme),
                partition_values=text_map(partition_values),
                size=size or 0,
                stats=None if stats is None else text(stats),
                version=commit.version,
                timestamp=commit.timestamp,
                expiration=self.urls.expires_at_ms,
                modification_time=_time(action, commit),
                deletion_vector=None if vector is None else self._vector(vector),
                base_row_id=tracked.base_row_id if tracked else None,
                default_row_commit_version=tracked.default_row_commit_version if tracked else None,
            ),
        )

    def _vector(self, vector: DeletionVector) -> lines.WireDeletionVector:
        path = deletion_vectors.file_path(vector.storage_type, vector.path_or_inline_dv)
        return lines.WireDeletionVector(
            storage_type="i" if path is None else "p",
            path_or_inline=vector.path_or_inline_dv if path is None else self.urls.url(path),
            size_in_bytes=vector.size_in_bytes,
            cardinality=vector.cardinality,
            offset=vector.offset,
            file_id=None if path is None else lines.file_id(path, self.scheme),
        )

    def _what_was_removed(self, commit: CommitChanges, action: Remove) -> tuple[dict[str, str | None], int]:
        """Find partition values and size of a removed file in the version before."""
        wanted = canonical_path(action.path)
        for files in self.log.snapshot(commit.version - 1).files():
            for row, path in enumerate(files.column("path").to_pylist()):
                if canonical_path(path) == wanted:
                    values = files.column("partitionValues")[row].as_py() or []
                    return dict(values), files.column("size")[row].as_py() or 0
        raise TableUnreadable(
            f"the table's log contradicts itself: version {commit.version} removes a file that version "
            f"{commit.version - 1} does not have"
        )


def _time(action: Add | Remove | AddCdcFile, commit: CommitChanges) -> int:
    if isinstance(action, Add):
        return action.modification_time or commit.timestamp
    if isinstance(action, Remove):
        return action.deletion_timestamp or commit.timestamp
    return commit.timestamp
