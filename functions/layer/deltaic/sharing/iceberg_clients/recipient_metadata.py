"""Makes a table's Iceberg metadata for what one recipient sees of it, of which most has been made before."""

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
from deltaic.sharing.iceberg_clients.native_metadata import MOST_BYTES
from deltaic.sharing.rights.table_rights import Rights
from deltaic.sharing.rights.table_visibility import check_hidden, visibility_of
from deltaic.sharing.snapshots import open_log
from deltaic.storage.server_bucket import ServerBucket

_NOT_LISTED: Final = (MalformedRequest, TableUnreadable, UnsupportedOperation)
"""What a version is left out for: its log is gone, or it cannot be read so."""

_PUTS_AT_ONCE: Final = 16
_INCOMPLETE_SECONDS: Final = 60.0
"""How long metadata is kept in memory that lacks versions, which are made meanwhile."""


class Bounds(NamedTuple):
    """How much is made at once."""

    files: int
    """That many are listed anew at most."""
    earlier_seconds: float
    """How long is spent in all while versions before the latest are missing."""


class GeneratedMetadata(msgspec.Struct, frozen=True):
    """The metadata of one version as one recipient sees it."""

    version: int
    folder: str
    """Key of the folder of all that was made for these rights, without a slash at its end."""
    index_key: str
    document_key: str
    document: bytes
    """The table's metadata, in JSON."""
    files: int
    """How many the version has."""
    listed: int
    """How many versions are."""
    holds_until: float
    """In seconds since the epoch: then versions may be listed that are missing now."""


def generate_metadata(
    sharing: Sharing, table: SharedTable, bounds: Bounds, beyond: Callable[[str, int], DeltaicError] | None = None
) -> GeneratedMetadata:
    """Return the metadata of the latest version, made as far as it is not there, with earlier ones as time allows.

    `beyond` has made by another what is beyond the bounds, by the folder of what is made and the version, and returns
    what is told of it. That, or TooManyFiles, is raised for a table of too many files. Raises UnsupportedOperation,
    naming the reason, for a table that Iceberg clients would misread, and what the log raises.
    """
    log = open_log(sharing, table)
    since = since_of(table)
    of_rights = folder_of(table, f"{datetime.fromtimestamp(sharing.clock(), UTC):%G-W%V}")
    key = of_rights, log.latest_identity(), since
    known: GeneratedMetadata | None = sharing.memory.iceberg.get(key)
    if known is not None and beyond is not None and sharing.clock() < known.holds_until:
        table.gate.check_version(known.version)
        return known
    snapshot = log.snapshot().load_commits()
    table.gate.check_version(snapshot.version)
    # A table that is made anew at the same place has another id, and the same versions.
    folder = f"{of_rights}/{hashlib.sha256(snapshot.metadata.id.encode()).hexdigest()[:16]}"
    bucket = sharing.iceberg_bucket()
    before = _nearest(bucket, version_key := index_key(folder, snapshot.version, snapshot.commit_id))
    with _means(sharing, table, bucket, folder, bounds.files) as means:
        making = _Making(table.rights, log, means, bounds.earlier_seconds)
        try:
            index = making.latest(snapshot, before, since)
        except TooManyFiles:
            if beyond is None:
                raise
            raise beyond(folder, snapshot.version) from None
        index, complete = making.with_history(index, since)
    if index is not before:
        bucket.put(version_key, index.encode())  # last: what it names is there
    document = _document(means, table.entry.id, index, since)
    # ClickHouse reads no file that is not named like this.
    name = uuid.UUID(bytes=hashlib.sha256(document).digest()[:16])
    document_key = f"{folder}/d/{index.version:05d}-{name}.metadata.json"
    bucket.put(document_key, document)
    if beyond is not None and not complete:
        with suppress(DeltaicError):  # what can be read is there
            beyond(folder, snapshot.version)
    until = math.inf if complete else sharing.clock() + _INCOMPLETE_SECONDS
    files, listed = index.snapshots[-1].files, len(index.snapshots)
    made = GeneratedMetadata(snapshot.version, folder, version_key, document_key, document, files, listed, until)
    if (of_rights, snapshot.identity, since) == key:
        sharing.memory.iceberg.put(key, made, len(document))
    return made


def _document(means: MetadataContext, table_id: str, index: FileIndex, since: int | None) -> bytes:
    """Return the metadata that lists versions from `since` on, or as many of the latest as one answer holds."""
    while True:
        document = encode(table_document(means, table_id, index, since=since))
        if len(document) <= MOST_BYTES:
            return document
        listed = [one for one in index.versions if since is not None and one >= since]
        if len(listed) < 2:  # noqa: PLR2004 -- with less than the latest there is no table
            raise UnsupportedOperation(
                "This table has more columns than this server can describe to Iceberg's clients in one answer: read it "
                "with a Delta Sharing client.",
                f"{len(document)} bytes",
            )
        since = listed[len(listed) // 2]


def _nearest(bucket: ServerBucket, key: str) -> FileIndex | None:
    """Return the index at the key of a version, else the newest one of an earlier version."""
    index = read_index(bucket, key)
    if index is not None:
        return index
    version = key.rpartition("-")[0]
    earlier = [other for other in bucket.keys(key.rpartition("/")[0]) if other < version]
    return read_index(bucket, earlier[-1]) if earlier else None


@contextmanager
def _means(
    sharing: Sharing, table: SharedTable, bucket: ServerBucket, folder: str, most_files: int
) -> Iterator[MetadataContext]:
    puts: list[Future[None]] = []
    with ThreadPoolExecutor(_PUTS_AT_ONCE) as threads:
        yield MetadataContext(
            location=f"s3://{bucket.name}/{folder}",
            put=lambda key, body: puts.append(threads.submit(bucket.put, f"{folder}/{key}", body)),
            uris=table.locations.uris,
            store=sharing.files(table),
            most_files=most_files,
        )
    for put in puts:
        put.result()


class _Making:
    def __init__(self, rights: Rights, log: DeltaLog, means: MetadataContext, earlier_seconds: float) -> None:
        self._rights = rights
        self._log = log
        self._means = means
        self._ends = time.monotonic() + earlier_seconds

    def latest(self, snapshot: Snapshot, before: FileIndex | None, since: int | None) -> FileIndex:
        """Return the index of a snapshot, which lists what `before` does; and versions in between, if it lists any."""
        if before is None:
            files = self._checked_size(snapshot)
            if since is None or files <= FILES_A_MANIFEST:
                return first_index(self._means, self._version(snapshot))
            settled = self._settled(range(_first_of(snapshot.version, since), snapshot.version))
            return first_index(self._means, self._version(snapshot), settled)
        index = before
        for version in range(index.version + 1, snapshot.version) if since is not None else ():
            if version > snapshot.version - MOST_SNAPSHOTS and self._has_time:
                with suppress(*_NOT_LISTED):
                    index = newer_index(self._means, self._version(self._log.snapshot(version)), index)
        if index.version < snapshot.version:
            index = newer_index(self._means, self._version(snapshot), index)
        return index

    def with_history(self, index: FileIndex, since: int | None) -> tuple[FileIndex, bool]:
        """Return an index that lists earlier versions too, from `since` on, and whether those are all that can be."""
        if since is None:
            return index, True
        for version in range(index.versions[0] - 1, _first_of(index.version, since) - 1, -1):
            if not self._has_time:
                return index, False
            try:
                index = with_earlier(self._means, self._version(self._log.snapshot(version)), index)
            except _NOT_LISTED:
                break
        return index, True

    @property
    def _has_time(self) -> bool:
        return time.monotonic() < self._ends

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
        if files > self._means.most_files:
            raise TooManyFiles(files, self._means.most_files)
        return files

    def _settled(self, earlier: range) -> frozenset[bytes] | None:
        """Return the files of the first of these versions that is still there; None if none is."""
        at = bisect_left(earlier, 1, key=self._is_there)
        with suppress(*_NOT_LISTED, IndexError):
            return live_digests(self._means, self._version(self._log.snapshot(earlier[at])))
        return None

    def _is_there(self, version: int) -> int:
        with suppress(*_NOT_LISTED):
            return int(self._log.snapshot(version).version == version)
        return 0


def _first_of(latest: int, since: int) -> int:
    return max(since, latest - MOST_SNAPSHOTS + 1)
