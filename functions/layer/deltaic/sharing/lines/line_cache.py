"""Cache the lines of a table's files without their signatures, between requests.

A block has the lines of consecutive files in the log, without removed files. Its key contains the checkpoint, or for
later commits the version, so that lines of a checkpoint stay valid after a new commit. If a version has only some of
a block's files, it selects their lines; if it has others, the block is rendered again. After a response with all files
of a version, the cache also stores the list of its blocks, so that the next such response does not read the log.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple
from weakref import ref

import msgspec
import pyarrow as pa

from deltaic.delta.scan.file_batches import FileBatch
from deltaic.delta.snapshot import Snapshot
from deltaic.lru import Lru, MemoryBudget
from deltaic.sharing.lines.cells import integers
from deltaic.sharing.lines.prepared_lines import PER_OBJECT, PreparedLines

BLOCK_ROWS: Final = 512
"""Number of log rows that a block covers; each row is one file."""

_SPARSE: Final = 8
_BYTES_PER_LINE: Final = 1000
"""Approximate memory of a line, to estimate whether all lines of a table fit into the cache."""
_BYTES_PER_REFERENCE: Final = 300


class _BlockKey(NamedTuple):
    scope: Hashable
    source: Hashable
    """Identity of the checkpoint that has the files, or of the version for files in later commits."""
    part: int
    row_group: int
    number: int


class _CachedBlock(msgspec.Struct, frozen=True, weakref=True):
    rows: Sequence[int]
    """Row numbers within the row group of the log file, ascending."""
    lines: PreparedLines


class _BlockReference(NamedTuple):
    key: _BlockKey
    block: "ref[_CachedBlock]"
    """Weak reference, so that the cache can evict the block."""
    lines: Sequence[int] | None
    """Indices of the version's lines within the block; None for all lines of the block."""


class Block(msgspec.Struct, frozen=True):
    """Consecutive files of a batch, and their lines if they are cached."""

    files: pa.RecordBatch
    """Record batch with FILE_SCHEMA."""
    lines: PreparedLines | None
    key: _BlockKey | None = None
    """Cache key; None for a block that should not be cached."""
    rows: Sequence[int] = ()


class LineCache:
    """Cache of the file lines of all tables, up to a maximum size; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._room = MemoryBudget(max_bytes)
        self.blocks: Lru[_BlockKey, _CachedBlock] = Lru(self._room)
        self.versions: Lru[tuple[Hashable, Hashable], Sequence[_BlockReference]] = Lru(self._room)
        """Blocks of each version for which one response had all files, by scope and version."""

    def for_snapshot(self, scope: Hashable, snapshot: Snapshot) -> "VersionLines | None":
        """Return the cached lines of a snapshot; None for a table that does not fit into the cache completely."""
        fits = snapshot.totals().num_files * _BYTES_PER_LINE <= self._room.max_bytes
        return VersionLines(self, scope, snapshot.identity) if fits else None


class VersionLines(msgspec.Struct):
    """Cached lines of one version in one format, for one response."""

    cache: LineCache
    scope: Hashable
    """Cache key of lines in this format: table, response format, file id hash and partition columns."""
    version: Hashable
    """Identity of the log files of the version, for rows that are not in a checkpoint."""
    _used: list[_BlockReference] | None = msgspec.field(default_factory=list)
    """All blocks of this response so far; None after a block that was not cached."""

    def all_lines(self) -> list[PreparedLines] | None:
        """Return all lines of the version in order if all its blocks are cached, else None."""
        lines: list[PreparedLines] = []
        for reference in self.cache.versions.get((self.scope, self.version)) or ():
            block = self.cache.blocks.get(reference.key)
            if block is None or block is not reference.block():
                return None
            lines.append(block.lines if reference.lines is None else block.lines.select(reference.lines))
        return lines or None

    def mark_complete(self) -> None:
        """Store the list of the version's blocks, after `blocks` was called for all its batches."""
        if self._used:
            selected = sum(len(reference.lines) for reference in self._used if reference.lines is not None)
            nbytes = _BYTES_PER_REFERENCE * len(self._used) + 8 * selected
            self.cache.versions.put((self.scope, self.version), self._used, nbytes)

    def blocks(self, batch: FileBatch) -> Iterator[Block]:
        """Split a batch into blocks; the caller must `store` lines that are not cached before the next block."""
        files, first = batch.files, batch.start.row
        if files.num_rows * _SPARSE < batch.num_scanned:
            # A filter selected few rows of many, so that each block would have only one or two of them.
            for at in range(0, files.num_rows, BLOCK_ROWS):
                yield Block(files.slice(at, BLOCK_ROWS), None)
            return
        rows: Sequence[int] = range(first, first + files.num_rows)
        if batch.rows is not None:
            rows = [first + row for row in integers(batch.rows)]
        at = 0
        while at < len(rows):
            number = rows[at] // BLOCK_ROWS
            end = bisect_left(rows, (number + 1) * BLOCK_ROWS, at)
            key = self._block_key(batch, number)
            lines = self._cached_lines(key, rows[at:end])
            yield Block(files.slice(at, end - at), lines, key, rows[at:end])
            at = end

    def store(self, block: Block, lines: PreparedLines | None) -> None:
        """Cache the lines of a block; `lines` is None if the block cannot be cached."""
        if lines is None or block.key is None:
            self._used = None
            return
        cached = _CachedBlock(block.rows, lines)
        self.cache.blocks.put(block.key, cached, lines.nbytes + PER_OBJECT * len(block.rows))
        self._add_reference(_BlockReference(block.key, ref(cached), None))

    def _cached_lines(self, key: _BlockKey, rows: Sequence[int]) -> PreparedLines | None:
        block = self.cache.blocks.get(key)
        if block is None:
            return None
        if block.rows == rows:
            self._add_reference(_BlockReference(key, ref(block), None))
            return block.lines
        indices = {row: index for index, row in enumerate(block.rows)}
        selected = [indices[row] for row in rows if row in indices]
        if len(selected) < len(rows):
            return None
        if len(selected) == len(block.rows):  # the same rows, but one is a list and the other a range
            self._add_reference(_BlockReference(key, ref(block), None))
            return block.lines
        self._add_reference(_BlockReference(key, ref(block), selected))
        return block.lines.select(selected)

    def _add_reference(self, reference: _BlockReference) -> None:
        if self._used is not None:
            self._used.append(reference)

    def _block_key(self, batch: FileBatch, number: int) -> _BlockKey:
        # Every commit changes the order of the rows after the checkpoint, but never that of the checkpoint's rows.
        source = batch.start.base if batch.start.part else self.version
        return _BlockKey(self.scope, source, batch.start.part, batch.start.row_group, number)
