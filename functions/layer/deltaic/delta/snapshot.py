"""A version of a table: its protocol, metadata, totals and live files.

A Snapshot reads only what a caller asks for: metadata from the version checksum if there is one, and files from the
commits after the checkpoint and then from the checkpoint, as a stream. Its content never changes, it caches what it has
read, and threads can share it.
"""

from collections.abc import Generator, Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from msgspec.structs import replace

from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.checkpoint import CheckpointReader
from deltaic.delta.checksum import Checksum, Totals, read_checksum
from deltaic.delta.commits import in_commit_timestamp, to_windows
from deltaic.delta.features import DELETION_VECTORS, check_metadata, check_readable, live_features, supported_features
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log_files import read_all_listed, read_listed, reading
from deltaic.delta.paths import LOG, CommitFile, fingerprint
from deltaic.delta.replay import Tail, replay
from deltaic.delta.scan.checkpoint_parts import ParquetPart, Part
from deltaic.delta.scan.file_batches import FileBatch, Position
from deltaic.delta.scan.file_order import Scan
from deltaic.delta.scan.row_group_cache import RowGroupCache
from deltaic.delta.segment import Segment, checkpoint_replaced_error, find_earlier_segment
from deltaic.delta.store import TableStore
from deltaic.delta.times import file_time
from deltaic.delta.totals import checkpoint_totals, filtered_totals
from deltaic.errors import DeltaicError, TableUnreadable

BATCH_ROWS: Final = 4096
_READ_AT_ONCE: Final = 3
_FEW_PARTS: Final = 8
"""Up to this number of checkpoint parts, all footers are read before a response begins."""
_LEAST_BYTES: Final = 16 << 10
"""Minimum estimate of a snapshot's bytes in memory: metadata, protocol, footers."""
_MOST_TOTALS: Final = 64
"""Maximum number of filters whose totals a snapshot caches."""


def records_in_commit_timestamps(metadata: Metadata) -> bool:
    """Return whether commits have in-commit timestamps (Delta protocol, "In-Commit Timestamps")."""
    return metadata.configuration.get("delta.enableInCommitTimestamps", "false").lower() == "true"


class Snapshot:
    """A version of a table, whose files are read when they are needed."""

    parquet_refusal = ""
    """Why clients of the parquet format would misread a column of an Iceberg table; empty if they would not."""
    inlines_vectors = False
    """Whether responses contain the deletion vectors: true for Iceberg tables, because clients refuse Puffin files."""

    def __init__(
        self,
        store: TableStore,
        segment: Segment,
        cache: RowGroupCache | None = None,
        table: str = "",
        previous: "Snapshot | None" = None,
    ) -> None:
        """Create the snapshot of a segment; reuse what `previous` has read if the segment only adds commits to it.

        `table` identifies the table in the cache.
        """
        self._store = store
        self._segment = segment
        self._cache = cache or RowGroupCache(0)
        self._table = table
        self._checkpoint = CheckpointReader(store, segment.checkpoint) if segment.checkpoint else None
        self._filtered_totals: dict[Hashable, Totals] = {}
        self._replayed: Tail | None = None
        self._earlier: tuple[Tail, int] | None = None
        """Tail (reconciled commits) of an earlier version, and their number, until this version's tail is read."""
        if previous is not None and previous.is_continued_by(segment):
            self._checkpoint = previous._checkpoint  # noqa: SLF001 -- of the same class
            self._earlier = previous._tail_so_far  # noqa: SLF001 -- of the same class
        check_readable(self.protocol)
        check_metadata(self.metadata)

    @classmethod
    def open(cls, store: TableStore, segment: Segment, *options: Any) -> "Snapshot":
        """Create the snapshot of a segment; if its checkpoint is unreadable, use an earlier checkpoint."""
        try:
            return cls(store, segment, *options)
        except DeltaicError as failure:
            return cls.open(store, find_earlier_segment(store, segment, failure), *options)

    def is_made_of(self, segment: Segment) -> bool:
        """Return whether this snapshot consists of exactly the log files of a segment."""
        return segment.version == self.version and self.is_continued_by(segment)

    def is_continued_by(self, segment: Segment) -> bool:
        """Return whether a segment has this snapshot's log files, and possibly more commits."""
        commits = self._segment.commits
        return segment.base == self.base and segment.commits[: len(commits)] == commits

    def load_commits(self) -> "Snapshot":
        """Read the commits and checkpoint footers, and return the snapshot to use, usually this one.

        The result is another Snapshot without the checksum if the commits contradict it, or from an earlier checkpoint
        if the checkpoint is unreadable.
        """
        try:
            _, parts = self._tail_and_parts
            for part in parts if len(parts) <= _FEW_PARTS else parts[:1]:
                if isinstance(part, ParquetPart) and part.summary is None:
                    _ = part.file
        except DeltaicError as failure:
            segment = find_earlier_segment(self._store, self._segment, failure)
            return Snapshot.open(self._store, segment, self._cache, self._table).load_commits()
        return self.with_checked_checksum()

    def with_checked_checksum(self) -> "Snapshot":
        """Return this snapshot, without its checksum if the commits read so far contradict it."""
        tail, checksum = self._replayed, self._checksum
        if tail is None or checksum is None or checksum.agrees_with(tail, is_complete=self._checkpoint is None):
            return self
        return Snapshot(self._store, replace(self._segment, checksum=None), self._cache, self._table, self)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of this snapshot in memory."""
        tail_and_count = self._tail_so_far
        checkpoint_bytes = self._checkpoint.cached_bytes if self._checkpoint else 0
        return _LEAST_BYTES + checkpoint_bytes + (tail_and_count[0].nbytes if tail_and_count else 0)

    @property
    def version(self) -> int:
        """Number of this version."""
        return self._segment.version

    @property
    def base(self) -> str:
        """Identity of the checkpoint that determines the order of files; empty without a checkpoint."""
        return self._segment.base

    @property
    def checkpoint_version(self) -> int | None:
        """Version of the checkpoint; None if this version is read from commits alone."""
        checkpoint = self._segment.checkpoint
        return None if checkpoint is None else checkpoint.version

    @property
    def identity(self) -> Hashable:
        """Key of the log files of this version, which changes if one of them is replaced."""
        return self._segment.base, self._segment.commits

    @property
    def log_id(self) -> str:
        """Key of table and version, which changes if the table or commit is replaced."""
        return f"{self.metadata.id} {self.commit_id}"

    @property
    def commit_id(self) -> str:
        """Key of the commit file of this version; empty if only its checkpoint remains."""
        return fingerprint(self._segment.commit_file) if self._segment.commit_file else ""

    @property
    def protocol(self) -> Protocol:
        """The protocol of this version."""
        return self._protocol_and_metadata[0]

    @property
    def metadata(self) -> Metadata:
        """The metadata of this version."""
        return self._protocol_and_metadata[1]

    @cached_property
    def timestamp(self) -> int:
        """Commit time in ms since the epoch: in-commit timestamp if enabled, else file time."""
        commit_file = self._segment.commit_file
        if commit_file is not None and records_in_commit_timestamps(self.metadata):
            path = LOG + commit_file.name
            with reading(path):
                return in_commit_timestamp(read_listed(self._store, commit_file), path)
        if (file_timestamp := file_time(self._store, self.version)) is not None:
            return file_timestamp
        # The commit file is deleted; its checkpoint has the closest time.
        checkpoint = self._segment.checkpoint
        return max(file.modified for file in checkpoint.files) if checkpoint else 0

    @cached_property
    def _totals(self) -> Totals:
        if self._checksum is not None:
            return self._checksum.totals
        return checkpoint_totals(self._tail, self._parts)

    def totals(self, file_filter: FileFilter | None = None, *, files_follow: bool = False) -> Totals:
        """Return the number and size of the live files; deltaic.delta.totals describes the accuracy.

        With a filter, which must need only partition values, count the files that it keeps. The result is cached. Set
        `files_follow` if a scan of these files follows.
        """
        if file_filter is None:
            return self._totals
        totals = self._filtered_totals.get(file_filter.identity)
        if totals is None:
            totals = self._count(file_filter, files_follow=files_follow)
            if len(self._filtered_totals) >= _MOST_TOTALS:
                self._filtered_totals.clear()
            self._filtered_totals[file_filter.identity] = totals
        return totals

    def _count(self, file_filter: FileFilter, *, files_follow: bool) -> Totals:
        tail, parts = self._tail_and_parts
        return filtered_totals(tail, parts, file_filter, self._cache, self._table, files_follow=files_follow)

    @cached_property
    def has_deletion_vectors(self) -> bool:
        """Return whether a live file has a deletion vector, or a file removed since the checkpoint had one."""
        if DELETION_VECTORS not in supported_features(self.protocol):
            return False
        vectors = self._tail.files["deletionVector"]
        return vectors.null_count < len(vectors) or any(part.has_deletion_vectors for part in self._parts)

    @cached_property
    def live_features(self) -> frozenset[str]:
        """Reader features that a client must support to read this version; see deltaic.delta.features."""
        live = live_features(self.protocol, self.metadata)
        if DELETION_VECTORS in live or not self.has_deletion_vectors:
            return live
        return live | {DELETION_VECTORS}

    def files(self, file_filter: FileFilter | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Return the live files as batches of FILE_SCHEMA, in the order of deltaic.delta.scan."""
        return (batch.files for batch in self.scan(file_filter, batch_rows))

    def scan(
        self, file_filter: FileFilter | None = None, batch_rows: int = BATCH_ROWS, start: Position | None = None
    ) -> Generator[FileBatch]:
        """Return the live files in order from `start` on, with their positions.

        Reads commits and the beginning of the checkpoint before it returns, so that most errors of the log are raised
        here and not in the middle of the response. Raises MalformedRequest if `start` belongs to another order.
        """
        if start is None:
            start = Position(self.base, 0, 0, 0)
        if start.base != self.base:
            raise checkpoint_replaced_error()
        tail, parts = self._tail_and_parts
        unmentioned = tail.select_unmentioned
        return Scan(tail.files, unmentioned, parts, file_filter, batch_rows, self._cache, self._table).run(start)

    @cached_property
    def _checksum(self) -> Checksum | None:
        # A checksum can be wrong, so it is used only if it saves requests.
        if self._segment.checkpoint is None and len(self._segment.commits) <= _READ_AT_ONCE:
            return None
        return read_checksum(self._store, self._segment.checksum)

    @cached_property
    def _protocol_and_metadata(self) -> tuple[Protocol, Metadata]:
        if self._checksum is not None:
            return self._checksum.protocol, self._checksum.metadata
        protocol, metadata = self._tail.protocol, self._tail.metadata
        if (protocol is None or metadata is None) and self._checkpoint is not None:
            old_protocol, old_metadata = self._checkpoint.protocol_and_metadata
            protocol, metadata = protocol or old_protocol, metadata or old_metadata
        if protocol is None or metadata is None:
            name = "protocol" if protocol is None else "metaData"
            raise TableUnreadable(f"the table's log has no {name} action up to version {self.version}")
        return protocol, metadata

    @property
    def _tail(self) -> Tail:
        return self._replay(None)

    @property
    def _tail_and_parts(self) -> tuple[Tail, tuple[Part, ...]]:
        """Fetch the checkpoint parts and the tail (the commits after the checkpoint) in parallel."""
        return self._replay(self._checkpoint), self._parts

    def _replay(self, checkpoint: CheckpointReader | None) -> Tail:
        """Return the tail; if commits must be read for it, also read the checkpoint's JSON manifest in parallel."""
        if self._replayed is None:
            # Read the attribute once, because another thread may reset it.
            earlier, commits = self._earlier or (None, 0)
            unread = self._segment.commits[commits:]
            if earlier is None or unread:
                tail = replay(self._newest_first(unread, checkpoint))
                self._replayed = earlier.advance(tail) if earlier else tail
            else:
                self._replayed = earlier
            self._earlier = None
        return self._replayed

    @property
    def _tail_so_far(self) -> tuple[Tail, int] | None:
        """Latest tail (reconciled commits) that is read, and the number of its commits."""
        earlier = self._earlier
        return earlier if self._replayed is None else (self._replayed, len(self._segment.commits))

    def _newest_first(
        self, commits: Sequence[CommitFile], checkpoint: CheckpointReader | None
    ) -> Iterator[tuple[str, bytes]]:
        """Yield commits newest first, with at most one group (WINDOW_BYTES) in memory."""
        for window in to_windows(reversed(commits)):
            paths = [commit.path for commit in window]
            manifest = None if checkpoint is None else checkpoint.unread_manifest
            files = [commit.file for commit in window]
            with reading("a commit of the log"):
                contents = read_all_listed(self._store, files if manifest is None else [*files, manifest])
            if checkpoint is not None and manifest is not None:
                checkpoint.supply_manifest(contents.pop())
            yield from zip(paths, contents, strict=True)
            del contents

    @property
    def _parts(self) -> tuple[Part, ...]:
        return self._checkpoint.parts if self._checkpoint else ()
