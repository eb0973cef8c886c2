"""Decides what a version of a table is: its protocol, its metadata, its totals and its live files.

A Snapshot reads as little as the question needs: metadata by the version checksum where there is one, files by the
commits after the checkpoint and then the checkpoint, streamed. It is immutable to its users and may be shared between
threads; what it has read once it keeps.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import pyarrow as pa

from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.checkpoint import CheckpointReader, Part
from deltaic.delta.checksum import Checksum, Totals, read_checksum
from deltaic.delta.commits import in_commit_timestamp
from deltaic.delta.features import check_readable
from deltaic.delta.files import FileFilter
from deltaic.delta.kept import Kept
from deltaic.delta.paths import LOG
from deltaic.delta.replay import Tail, replay
from deltaic.delta.scan import FileBatch, Position, Scan
from deltaic.delta.segment import Segment
from deltaic.delta.store import TableStore
from deltaic.delta.totals import checkpoint_totals
from deltaic.delta.unreadable import reading
from deltaic.errors import MalformedRequest, TableUnreadable

BATCH_ROWS: Final = 4096


def records_in_commit_timestamps(metadata: Metadata) -> bool:
    """Tell whether commits carry their own time (Delta protocol, "In-Commit Timestamps")."""
    return metadata.configuration.get("delta.enableInCommitTimestamps", "false").lower() == "true"


class Snapshot:
    """One version of a table."""

    def __init__(self, store: TableStore, segment: Segment, kept: Kept | None = None) -> None:
        self._store = store
        self._segment = segment
        self._kept = kept
        self._checkpoint = CheckpointReader(store, segment.checkpoint) if segment.checkpoint else None
        check_readable(self.protocol)

    @property
    def version(self) -> int:
        """The version."""
        return self._segment.version

    @property
    def base(self) -> str:
        """Identity of the checkpoint that the order of files rests on; empty for none."""
        return self._segment.identity

    @property
    def protocol(self) -> Protocol:
        """The protocol of this version."""
        return self._head[0]

    @property
    def metadata(self) -> Metadata:
        """The metadata of this version."""
        return self._head[1]

    @cached_property
    def timestamp(self) -> int:
        """When this version was committed, in ms since the epoch: in-commit timestamp if enabled, else file time."""
        own = self._segment.own
        if self._checksum is not None and self._checksum.in_commit_timestamp is not None:
            return self._checksum.in_commit_timestamp
        if own is not None and records_in_commit_timestamps(self.metadata):
            path = LOG + own.name
            with reading(path):
                return in_commit_timestamp(self._store.get(path), path)
        if own is not None:
            return own.modified
        # The commit itself is cleaned up: its checkpoint is the nearest witness.
        checkpoint = self._segment.checkpoint
        return max(file.modified for file in checkpoint.files) if checkpoint else 0

    @cached_property
    def _totals(self) -> Totals:
        if self._checksum is not None:
            return self._checksum.totals
        return checkpoint_totals(self._tail, self._parts)

    def totals(self) -> Totals:
        """Return how many files are live and their bytes; exact. Costs much only with a checkpoint and no checksum."""
        return self._totals

    def files(
        self, wanted: FileFilter | None = None, batch_rows: int = BATCH_ROWS, start: Position | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return the live files as batches of FILE_SCHEMA, in the order that deltaic.delta.scan describes."""
        return (batch.files for batch in self.scan(wanted, batch_rows, start))

    def scan(
        self, wanted: FileFilter | None = None, batch_rows: int = BATCH_ROWS, start: Position | None = None
    ) -> Iterator[FileBatch]:
        """Return the live files in order, from `start` on, with their positions.

        Commits and the head of the checkpoint are read before this returns, so most of what can be wrong with a log
        is raised here and not in the middle of the answer. Raises MalformedRequest for a position in another order.
        """
        if start is None:
            start = Position(self.base, 0, 0, 0)
        if start.base != self.base:
            raise MalformedRequest(
                "The table's checkpoint has been replaced since the first page of this query. Please restart the query."
            )
        return Scan(self._tail, self._parts, wanted, batch_rows, self._kept).run(start)

    @cached_property
    def _checksum(self) -> Checksum | None:
        return read_checksum(self._store, self._segment.checksum)

    @cached_property
    def _head(self) -> tuple[Protocol, Metadata]:
        if self._checksum is not None:
            return self._checksum.protocol, self._checksum.metadata
        protocol, metadata = self._tail.protocol, self._tail.metadata
        if (protocol is None or metadata is None) and self._checkpoint is not None:
            old_protocol, old_metadata = self._checkpoint.head
            protocol, metadata = protocol or old_protocol, metadata or old_metadata
        for name, action in (("protocol", protocol), ("metaData", metadata)):
            if action is None:
                raise TableUnreadable(f"the table's log has no {name} action up to version {self.version}")
        assert protocol is not None  # noqa: S101 -- refused above
        assert metadata is not None  # noqa: S101 -- refused above
        return protocol, metadata

    @cached_property
    def _tail(self) -> Tail:
        newest_first = [commit.path for commit in reversed(self._segment.commits)]
        with reading(", ".join(newest_first[:1])):
            contents = self._store.get_many(newest_first) if newest_first else []
        return replay(zip(newest_first, contents, strict=True))

    @property
    def _parts(self) -> tuple[Part, ...]:
        return self._checkpoint.parts if self._checkpoint else ()
