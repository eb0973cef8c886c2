"""Generate a table's Iceberg metadata for one recipient's rights, reusing earlier metadata."""

import hashlib
import math
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from deltaic.delta.log import DeltaLog
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import DeltaicError, MalformedRequest, TableUnreadable, UnsupportedOperation
from deltaic.iceberg.file_index import MOST_SNAPSHOTS, FileIndex
from deltaic.iceberg.generation import FILES_A_MANIFEST, first_index, live_digests, newer_index, with_earlier
from deltaic.iceberg.refusals import TooManyFiles
from deltaic.iceberg.table_document import table_document
from deltaic.iceberg.table_version import MetadataContext, TableVersion
from deltaic.protocol.json_bodies import encode
from deltaic.sharing.context import SharedTable, Sharing
from deltaic.sharing.iceberg_clients.metadata_folder import folder_of, index_key, read_index, since_of
from deltaic.sharing.native_metadata import MAX_BYTES
from deltaic.sharing.rights.table_rights import Rights
from deltaic.sharing.rights.table_visibility import check_hidden, visibility_of
from deltaic.sharing.snapshots import open_log
from deltaic.storage.server_bucket import ServerBucket

_NOT_LISTED: Final = (MalformedRequest, TableUnreadable, UnsupportedOperation)
"""Errors after which the metadata omits an earlier version: its log was deleted, or Iceberg cannot represent it."""

_PUTS_AT_ONCE: Final = 16
_INCOMPLETE_SECONDS: Final = 60.0
"""How long metadata without all versions is cached, while the Lambda function adds the missing versions."""


class Bounds(NamedTuple):
    """Limits of one generation of metadata."""

    files: int
    """Largest number of files of a version to list if no index of an earlier version exists."""
    earlier_seconds: float
    """Seconds after which no more earlier versions are added."""


class GeneratedMetadata(msgspec.Struct, frozen=True):
    """Iceberg metadata that was generated for one version and one recipient's rights."""

    version: int
    folder: str
    """Key of the metadata folder for these rights, without a final slash."""
    index_key: str
    document_key: str
    document: bytes
    """Iceberg table metadata, in JSON."""
    files: int
    """Number of the version's files that the recipient may see."""
    listed: int
    """Number of versions that the metadata includes."""
    holds_until: float
    """When the cached metadata expires, in seconds since the epoch; infinite if no version is missing."""


def generate_metadata(
    sharing: Sharing, table: SharedTable, bounds: Bounds, postpone: Callable[[str, int], DeltaicError] | None = None
) -> GeneratedMetadata:
    """Return Iceberg metadata of the latest version, and of earlier versions as time allows, reusing existing parts.

    If `bounds` are exceeded, `postpone(folder, version)` starts the Lambda function and returns an error for the
    client. Too many files raise this error, or TooManyFiles without `postpone`. Raises UnsupportedOperation with the
    reason for a table that Iceberg clients would misread, and the errors of reading the Delta log.
    """
    log = open_log(sharing, table)
    since = since_of(table)
    parent = folder_of(table, f"{datetime.fromtimestamp(sharing.clock(), UTC):%G-W%V}")
    key = parent, log.latest_identity(), since
    cached: GeneratedMetadata | None = sharing.memory.iceberg.get(key)
    if cached is not None and postpone is not None and sharing.clock() < cached.holds_until:
        table.gate.check_version(cached.version)
        return cached
    snapshot = log.snapshot().load_commits()
    table.gate.check_version(snapshot.version)
    # A table that was created again at the same location has another id, but the same versions.
    folder = f"{parent}/{hashlib.sha256(snapshot.metadata.id.encode()).hexdigest()[:16]}"
    bucket = sharing.iceberg_bucket()
    before = _nearest_index(bucket, version_key := index_key(folder, snapshot.version, snapshot.commit_id))
    with _context(sharing, table, bucket, folder, bounds.files) as context:
        generator = _IndexGenerator(table.rights, log, context, bounds.earlier_seconds)
        try:
            index = generator.latest(snapshot, before, since)
        except TooManyFiles:
            if postpone is None:
                raise
            raise postpone(folder, snapshot.version) from None
        index, complete = generator.with_history(index, since)
    if index is not before:
        bucket.put(version_key, index.encode())  # last: all files that it lists exist now
    document = _document(context, table.entry.id, index, since)
    # ClickHouse requires this form of the name.
    name = uuid.UUID(bytes=hashlib.sha256(document).digest()[:16])
    document_key = f"{folder}/d/{index.version:05d}-{name}.metadata.json"
    bucket.put(document_key, document)
    if postpone is not None and not complete:
        with suppress(DeltaicError):  # the client can already read the latest version
            postpone(folder, snapshot.version)
    until = math.inf if complete else sharing.clock() + _INCOMPLETE_SECONDS
    files, listed = index.snapshots[-1].files, len(index.snapshots)
    metadata = GeneratedMetadata(snapshot.version, folder, version_key, document_key, document, files, listed, until)
    if (parent, snapshot.identity, since) == key:
        sharing.memory.iceberg.put(key, metadata, len(document))
    return metadata


def _document(context: MetadataContext, table_id: str, index: FileIndex, since: int | None) -> bytes:
    """Return the metadata of the versions from `since` on, without the oldest if the metadata exceeds MAX_BYTES."""
    while True:
        document = encode(table_document(context, table_id, index, since=since))
        if len(document) <= MAX_BYTES:
            return document
        listed = [version for version in index.versions if since is not None and version >= since]
        if len(listed) < 2:  # noqa: PLR2004 -- only the latest version remains
            raise UnsupportedOperation(
                "This table has too many columns: its Iceberg metadata exceeds the size of a response. Read it with a "
                "Delta Sharing client.",
                f"{len(document)} bytes",
            )
        since = listed[len(listed) // 2]


def _nearest_index(bucket: ServerBucket, key: str) -> FileIndex | None:
    """Return the file index at an object key, else the index of the latest earlier version that has an index."""
    index = read_index(bucket, key)
    if index is not None:
        return index
    version = key.rpartition("-")[0]
    earlier = [earlier_key for earlier_key in bucket.keys(key.rpartition("/")[0]) if earlier_key < version]
    return read_index(bucket, earlier[-1]) if earlier else None


@contextmanager
def _context(
    sharing: Sharing, table: SharedTable, bucket: ServerBucket, folder: str, max_files: int
) -> Iterator[MetadataContext]:
    """Yield the context for generating metadata; at the end of the block, wait for the writes of its objects."""
    puts: list[Future[None]] = []
    with ThreadPoolExecutor(_PUTS_AT_ONCE) as threads:
        yield MetadataContext(
            location=f"s3://{bucket.name}/{folder}",
            put=lambda key, body: puts.append(threads.submit(bucket.put, f"{folder}/{key}", body)),
            uris=table.locations.uris,
            store=sharing.files(table),
            most_files=max_files,
        )
    for put in puts:
        put.result()


class _IndexGenerator:
    def __init__(self, rights: Rights, log: DeltaLog, context: MetadataContext, earlier_seconds: float) -> None:
        self._rights = rights
        self._log = log
        self._context = context
        self._deadline = time.monotonic() + earlier_seconds

    def latest(self, snapshot: Snapshot, before: FileIndex | None, since: int | None) -> FileIndex:
        """Return a snapshot's file index: a new one, or `before` extended (with `since`, also by versions between)."""
        if before is None:
            files = self._checked_size(snapshot)
            if since is None or files <= FILES_A_MANIFEST:
                return first_index(self._context, self._version(snapshot))
            settled = self._oldest_files(range(_first_listed(snapshot.version, since), snapshot.version))
            return first_index(self._context, self._version(snapshot), settled)
        index = before
        for version in range(index.version + 1, snapshot.version) if since is not None else ():
            if version > snapshot.version - MOST_SNAPSHOTS and self._has_time:
                with suppress(*_NOT_LISTED):
                    index = newer_index(self._context, self._version(self._log.snapshot(version)), index)
        if index.version < snapshot.version:
            index = newer_index(self._context, self._version(snapshot), index)
        return index

    def with_history(self, index: FileIndex, since: int | None) -> tuple[FileIndex, bool]:
        """Add earlier versions from `since` on to a file index; also return whether time sufficed for all."""
        if since is None:
            return index, True
        for version in range(index.versions[0] - 1, _first_listed(index.version, since) - 1, -1):
            if not self._has_time:
                return index, False
            try:
                index = with_earlier(self._context, self._version(self._log.snapshot(version)), index)
            except _NOT_LISTED:
                break
        return index, True

    @property
    def _has_time(self) -> bool:
        return time.monotonic() < self._deadline

    def _version(self, snapshot: Snapshot) -> TableVersion:
        snapshot = snapshot.load_commits()
        check_hidden(self._rights, snapshot.protocol, snapshot.metadata)
        visibility = visibility_of(self._rights, snapshot.metadata)
        return TableVersion(
            snapshot.version,
            snapshot.timestamp,
            visibility.metadata,
            lambda: snapshot.files(visibility.row_filter(None)),
        )

    def _checked_size(self, snapshot: Snapshot) -> int:
        files = visibility_of(self._rights, snapshot.metadata).totals(snapshot, files_follow=True).num_files
        if files > self._context.most_files:
            raise TooManyFiles(files, self._context.most_files)
        return files

    def _oldest_files(self, earlier: range) -> frozenset[bytes] | None:
        """Return digests of the files of the earliest readable version in `earlier`; None if no version is readable."""
        first = bisect_left(earlier, 1, key=self._is_readable)
        with suppress(*_NOT_LISTED, IndexError):
            return live_digests(self._context, self._version(self._log.snapshot(earlier[first])))
        return None

    def _is_readable(self, version: int) -> int:
        with suppress(*_NOT_LISTED):
            return int(self._log.snapshot(version).version == version)
        return 0


def _first_listed(latest: int, since: int) -> int:
    return max(since, latest - MOST_SNAPSHOTS + 1)
