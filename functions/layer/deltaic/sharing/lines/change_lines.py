"""Render the lines of changes: an add, remove or cdc action with signed URLs, version and timestamp."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from deltaic.delta import deletion_vectors
from deltaic.delta.actions import Add, AddCdcFile, Remove, text, to_text_map
from deltaic.delta.commit_changes import Change, CommitChanges, FileChange
from deltaic.delta.deletion_vectors import DeletionVector
from deltaic.delta.log import DeltaLog
from deltaic.delta.logical_files import canonical_path
from deltaic.errors import TableUnreadable
from deltaic.protocol import lines
from deltaic.protocol.capabilities import FileIdHash, ResponseFormat
from deltaic.protocol.wire_actions import ActionKind, FileAction, WireDeletionVector, file_id
from deltaic.sharing.lines.shown_columns import shown_statistics
from deltaic.sharing.rights.table_visibility import TableVisibility
from deltaic.storage.locations import TableLocations
from deltaic.storage.table_urls import TableUrls

RemovedFile: TypeAlias = tuple[dict[str, str | None], int]
"""Partition values and size (in bytes) of a removed file."""


class ChangeLines(msgspec.Struct, frozen=True):
    """Renderer for the changes of one response."""

    urls: TableUrls
    response_format: ResponseFormat
    scheme: FileIdHash
    partition_columns: Sequence[str]
    """Partition columns in the metaData line of the response."""

    def line(
        self,
        commit: CommitChanges,
        action: FileChange,
        removed: Mapping[str, RemovedFile],
        visibility: TableVisibility,
    ) -> bytes:
        """Return the NDJSON line of one change, with version and timestamp, which streaming clients need.

        `removed` is the result of `find_removed`. `visibility` is that of the version whose file is added or removed.
        """
        kind: ActionKind = "cdf"
        stats, vector, partition_values, size = None, None, action.partition_values, action.size
        if isinstance(action, Add):
            kind, stats, vector = "add", action.stats, action.deletion_vector
        elif isinstance(action, Remove):
            kind, vector = "remove", action.deletion_vector
            if (removed_file := removed.get(action.path)) is not None:
                partition_values, size = removed_file
        tracked = None if isinstance(action, AddCdcFile) or visibility.is_filtered else action
        return lines.file(
            self.response_format,
            FileAction(
                kind=kind,
                url=self.urls.url(action.path),
                id=file_id(action.path, self.scheme),
                partition_values=self._shown_values(to_text_map(partition_values), visibility.shown_columns),
                size=size or 0,
                stats=None if stats is None else shown_statistics(text(stats), visibility.shown_columns),
                version=commit.version,
                timestamp=commit.timestamp,
                expiration=self.urls.expires_at_ms,
                modification_time=_time(action, commit),
                deletion_vector=None if vector is None else self._vector(vector),
                base_row_id=tracked.base_row_id if tracked else None,
                default_row_commit_version=tracked.default_row_commit_version if tracked else None,
            ),
        )

    def _shown_values(self, values: dict[str, str | None], columns: Collection[str] | None) -> dict[str, str | None]:
        """Keep only shown columns; in parquet format, add null for partition columns that the log omits."""
        values = {name: value for name, value in values.items() if columns is None or name in columns}
        if self.response_format == "delta":
            return values
        return values | {name: None for name in self.partition_columns if name not in values}

    def _vector(self, vector: DeletionVector) -> WireDeletionVector:
        path = deletion_vectors.file_path(vector.storage_type, vector.path_or_inline_dv)
        return WireDeletionVector(
            storage_type="i" if path is None else "p",
            path_or_inline=vector.path_or_inline_dv if path is None else self.urls.url(path),
            size_in_bytes=vector.size_in_bytes,
            cardinality=vector.cardinality,
            offset=vector.offset,
            file_id=None if path is None else file_id(path, self.scheme),
        )


def check_locations(action: FileChange, locations: TableLocations) -> None:
    """Raise an error for a change whose files are outside the table's locations or have invalid paths."""
    locations.resolve(action.path)
    if (vector := action.deletion_vector) is not None:
        path = deletion_vectors.file_path(vector.storage_type, vector.path_or_inline_dv)
        if path is not None:
            locations.resolve(path)


def find_removed(log: DeltaLog, version: int, changes: Iterable[Change]) -> dict[str, RemovedFile]:
    """Return partition values and size, by path, of removed files for which the commit does not record both.

    Old writers omit both in `remove` actions without `extendedFileMetadata` (Delta protocol, "Add File and Remove
    File"), so the previous version is read. Raises TableUnreadable if the previous version does not have the file.
    """
    incomplete = {
        canonical_path(change.path): change.path
        for change in changes
        if isinstance(change, Remove) and (change.size is None or change.partition_values is None)
    }
    removed: dict[str, RemovedFile] = {}
    if not incomplete:
        return removed
    for files in log.snapshot(version - 1).files():
        for row, path in enumerate(files.column("path").to_pylist()):
            if (raw_path := incomplete.get(canonical_path(path))) is not None:
                values = files.column("partitionValues")[row].as_py() or []
                removed[raw_path] = dict(values), files.column("size")[row].as_py() or 0
    if len(removed) < len(incomplete):
        raise TableUnreadable(
            f"the table's log is inconsistent: version {version} removes a file that version {version - 1} does "
            "not have"
        )
    return removed


def _time(action: FileChange, commit: CommitChanges) -> int:
    if isinstance(action, Add):
        return action.modification_time or commit.timestamp
    if isinstance(action, Remove):
        return action.deletion_timestamp or commit.timestamp
    return commit.timestamp
