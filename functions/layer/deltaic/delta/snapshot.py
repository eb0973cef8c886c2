"""A version of a table: its protocol, its metadata, its totals and its live files.

A Snapshot reads as little as the question needs: metadata by the version checksum where there is one, files by the
commits after the checkpoint and then the checkpoint, streamed. It is immutable to its users and may be shared between
threads; what it has read once it keeps.
"""

from collections.abc import Generator, Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from msgspec.structs import replace

from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.checkpoint import CheckpointReader
from deltaic.delta.checksum import Checksum, Totals, read_checksum
from deltaic.delta.commits import in_commit_timestamp, windows
from deltaic.delta.features import DELETION_VECTORS, check_metadata, check_readable, live_features, supported_features
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log_files import read_all_listed, read_listed, reading
from deltaic.delta.paths import LOG, Commit, fingerprint
from deltaic.delta.replay import Tail, replay
from deltaic.delta.scan.checkpoint_parts import ParquetPart, Part
from deltaic.delta.scan.file_batches import FileBatch, Position
from deltaic.delta.scan.file_order import Scan
from deltaic.delta.scan.row_group_cache import RowGroupCache
from deltaic.delta.segment import Segment, checkpoint_replaced, earlier_segment
from deltaic.delta.store import TableStore
from deltaic.delta.times import file_time
from deltaic.delta.totals import checkpoint_totals, filtered_totals
from deltaic.errors import DeltaicError, TableUnreadable

BATCH_ROWS: Final = 4096
_READ_AT_ONCE: Final = 3
_FEW_PARTS: Final = 8
"""Parts of a checkpoint up to which all footers are read before an answer begins."""
_LEAST_BYTES: Final = 16 << 10
"""What any snapshot costs: metadata, protocol, footers."""
_MOST_TOTALS: Final = 64
"""Filters whose totals are kept."""


def records_in_commit_timestamps(metadata: Metadata) -> bool:
    """Tell whether commits carry their own time (Delta protocol, "In-Commit Timestamps")."""
    return metadata.configuration.get("delta.enableInCommitTimestamps", "false").lower() == "true"


class Snapshot:
    """One version of a table."""

    def __init__(
        self,
        store: TableStore,
        segment: Segment,
        cache: RowGroupCache | None = None,
        table: str = "",
        before: "Snapshot | None" = None,
    ) -> None:
        """Make the version of a segment; `before` is an earlier version that the segment continues, to start from.

        `table` names the table in the cache.
        """
        self._store = store
        self._segment = segment
        self._cache = cache or RowGroupCache(0)
        self._table = table
        self._checkpoint = CheckpointReader(store, segment.checkpoint) if segment.checkpoint else None
        self._filtered_totals: dict[Hashable, Totals] = {}
        self._replayed: Tail | None = None
        self._earlier: tuple[Tail, int] | None = None
        """The tail of an earlier version, and of how many commits it is made; until this version's is there."""
        if before is not None and before.is_continued_by(segment):
            self._checkpoint = before._checkpoint  # noqa: SLF001 -- another Snapshot, but no stranger
            self._earlier = before._tail_so_far  # noqa: SLF001 -- as above
        check_readable(self.protocol)
        check_metadata(self.metadata)

    @classmethod
    def open(cls, store: TableStore, segment: Segment, *others: Any) -> "Snapshot":
        """Make the version of a segment, from an earlier checkpoint where the segment's own cannot be read."""
        try:
            return cls(store, segment, *others)
        except DeltaicError as failure:
            return cls.open(store, earlier_segment(store, segment, failure), *others)

    def is_made_of(self, segment: Segment) -> bool:
        """Tell whether this is exactly the version of a segment, by the same files."""
        return segment.version == self.version and self.is_continued_by(segment)

    def is_continued_by(self, segment: Segment) -> bool:
        """Tell whether a segment is this version's, or this version's with more commits after it."""
        commits = self._segment.commits
        return segment.base == self.base and segment.commits[: len(commits)] == commits

    def with_commits(self) -> "Snapshot":
        """Read what files are listed by, and return the version that it makes; itself, if the log is in order.

        A checksum that the commits contradict is left out, and a checkpoint that cannot be opened.
        """
        try:
            _, parts = self._tail_and_parts
            for part in parts if len(parts) <= _FEW_PARTS else parts[:1]:
                if isinstance(part, ParquetPart) and part.summary is None:
                    _ = part.file
        except DeltaicError as failure:
            segment = earlier_segment(self._store, self._segment, failure)
            return Snapshot.open(self._store, segment, self._cache, self._table).with_commits()
        return self.confirmed()

    def confirmed(self) -> "Snapshot":
        """Return this version without its checksum if commits that are read already contradict it; else itself."""
        tail, checksum = self._replayed, self._checksum
        if tail is None or checksum is None or checksum.agrees_with(tail, is_whole=self._checkpoint is None):
            return self
        return Snapshot(self._store, replace(self._segment, checksum=None), self._cache, self._table, self)

    @property
    def nbytes(self) -> int:
        """Bytes that this snapshot keeps in memory, estimated."""
        known = self._tail_so_far
        held = self._checkpoint.held_bytes if self._checkpoint else 0
        return _LEAST_BYTES + held + (known[0].nbytes if known else 0)

    @property
    def version(self) -> int:
        """The version."""
        return self._segment.version

    @property
    def base(self) -> str:
        """Identity of the checkpoint that the order of files rests on; empty for none."""
        return self._segment.base

    @property
    def checkpoint_version(self) -> int | None:
        """The version of the checkpoint that reading begins with; None where every commit is read."""
        checkpoint = self._segment.checkpoint
        return None if checkpoint is None else checkpoint.version

    @property
    def identity(self) -> Hashable:
        """Name the very files of the log that make this version."""
        return self._segment.base, self._segment.commits

    @property
    def log_id(self) -> str:
        """Name this table and this version of it; both a table made anew and a replaced commit have another name."""
        return f"{self.metadata.id} {self.commit_id}"

    @property
    def commit_id(self) -> str:
        """Name the very commit file of this version; empty where only its checkpoint is left."""
        return fingerprint(self._segment.own) if self._segment.own else ""

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
        """When this version was committed, in ms since the epoch: in-commit timestamp if enabled, else file time."""
        own = self._segment.own
        if own is not None and records_in_commit_timestamps(self.metadata):
            path = LOG + own.name
            with reading(path):
                return in_commit_timestamp(read_listed(self._store, own), path)
        if (written := file_time(self._store, self.version)) is not None:
            return written
        # The commit itself is cleaned up: its checkpoint is the nearest witness.
        checkpoint = self._segment.checkpoint
        return max(file.modified for file in checkpoint.files) if checkpoint else 0

    @cached_property
    def _totals(self) -> Totals:
        if self._checksum is not None:
            return self._checksum.totals
        return checkpoint_totals(self._tail, self._parts)

    def totals(self, wanted: FileFilter | None = None, *, files_follow: bool = False) -> Totals:
        """Return how many files are live, and their bytes; how sure that is, deltaic.delta.totals tells.

        With a filter, which partition values alone must decide, those that it keeps: counted, and known when it asks
        again. `files_follow` says that a scan of them comes next.
        """
        if wanted is None:
            return self._totals
        totals = self._filtered_totals.get(wanted.identity)
        if totals is None:
            totals = filtered_totals(*self._tail_and_parts, wanted, self._cache, self._table, files_follow=files_follow)
            if len(self._filtered_totals) >= _MOST_TOTALS:
                self._filtered_totals.clear()
            self._filtered_totals[wanted.identity] = totals
        return totals

    @cached_property
    def has_deletion_vectors(self) -> bool:
        """Tell whether some live file has a deletion vector; may say yes for a vector that was removed lately."""
        if DELETION_VECTORS not in supported_features(self.protocol):
            return False
        vectors = self._tail.files["deletionVector"]
        return vectors.null_count < len(vectors) or any(part.has_deletion_vectors for part in self._parts)

    @cached_property
    def live_features(self) -> frozenset[str]:
        """The reader features that a client has to know to read this version right; see deltaic.delta.features."""
        live = live_features(self.protocol, self.metadata)
        if DELETION_VECTORS in live or not self.has_deletion_vectors:
            return live
        return live | {DELETION_VECTORS}

    def files(self, wanted: FileFilter | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Return the live files as batches of FILE_SCHEMA, in the order that deltaic.delta.scan describes."""
        return (batch.files for batch in self.scan(wanted, batch_rows))

    def scan(
        self, wanted: FileFilter | None = None, batch_rows: int = BATCH_ROWS, start: Position | None = None
    ) -> Generator[FileBatch]:
        """Return the live files in order, from `start` on, with their positions.

        Commits and the head of the checkpoint are read before this returns, so most of what can be wrong with a log
        is raised here and not in the middle of the answer. Raises MalformedRequest for a position in another order.
        """
        if start is None:
            start = Position(self.base, 0, 0, 0)
        if start.base != self.base:
            raise checkpoint_replaced()
        tail, parts = self._tail_and_parts
        return Scan(tail.files, tail.unmentioned, parts, wanted, batch_rows, self._cache, self._table).run(start)

    @cached_property
    def _checksum(self) -> Checksum | None:
        # A checksum is somebody's word for what the log says: it is taken where it saves requests.
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
        """What a reading of the files needs: neither needs the other, so they are fetched together."""
        return self._replay(self._checkpoint), self._parts

    def _replay(self, beside: CheckpointReader | None) -> Tail:
        """Return the tail; where commits are read for it, a checkpoint's manifest is read beside them."""
        if self._replayed is None:
            # Read once: another thread may be past the end of this already.
            earlier, commits = self._earlier or (None, 0)
            fresh = self._segment.commits[commits:]
            if earlier is None or fresh:
                tail = replay(self._newest_first(fresh, beside))
                self._replayed = earlier.advance(tail) if earlier else tail
            else:
                self._replayed = earlier
            self._earlier = None
        return self._replayed

    @property
    def _tail_so_far(self) -> tuple[Tail, int] | None:
        """The tail of this version, or of the earlier one that it starts from, and of how many commits it is made."""
        earlier = self._earlier
        return earlier if self._replayed is None else (self._replayed, len(self._segment.commits))

    def _newest_first(self, commits: Sequence[Commit], beside: CheckpointReader | None) -> Iterator[tuple[str, bytes]]:
        """Yield commits as replay wants them; in memory are never more than a window's bytes, or one commit."""
        for window in windows(reversed(commits)):
            paths = [commit.path for commit in window]
            manifest = None if beside is None else beside.unread_manifest
            files = [commit.file for commit in window]
            with reading("a commit of the log"):
                contents = read_all_listed(self._store, files if manifest is None else [*files, manifest])
            if beside is not None and manifest is not None:
                beside.lend(contents.pop())
            yield from zip(paths, contents, strict=True)
            del contents

    @property
    def _parts(self) -> tuple[Part, ...]:
        return self._checkpoint.parts if self._checkpoint else ()
