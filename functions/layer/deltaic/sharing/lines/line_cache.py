"""Keeps a table's file lines in memory between requests: all that no recipient's signature touches.

Lines are kept in blocks of consecutive rows of the log, by the very checkpoint (or, for the commits after it, the very
version) that they stand in, so that a new commit leaves the lines of the checkpoint where they are. Within a block the
rows that were live are kept; a version with fewer of them picks, one with others prepares anew. Once a version has
been answered in whole, it is known which lines of which blocks it has, and nothing of the log is read for the next.
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
from deltaic.sharing.lines.prepared_lines import PER_OBJECT, Prepared

BLOCK_ROWS: Final = 512
"""Rows of the log in a block."""

_SPARSE: Final = 8
_BYTES_PER_LINE: Final = 1000
"""What a line takes in memory, about: to tell whether a table fits before its first line is made."""
_PER_PASSED: Final = 300


class _BlockKey(NamedTuple):
    scope: Hashable
    where: Hashable
    """The checkpoint, or the version."""
    part: int
    row_group: int
    number: int


class _KeptBlock(msgspec.Struct, frozen=True, weakref=True):
    rows: Sequence[int]
    """Rows of the row group, ascending."""
    lines: Prepared


class _Passed(NamedTuple):
    place: _BlockKey
    block: "ref[_KeptBlock]"
    """Weak, so that what is let go is let go."""
    lines: Sequence[int] | None
    """Which of its lines; None for all."""


class Block(msgspec.Struct, frozen=True):
    """Some consecutive files of a batch, and their lines where those are kept."""

    files: pa.RecordBatch
    """FILE_SCHEMA."""
    lines: Prepared | None
    place: _BlockKey | None = None
    """Where lines are kept; None for a block that is not worth it."""
    rows: Sequence[int] = ()


class LineCache:
    """The kept lines of all tables, within a number of bytes; safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._room = MemoryBudget(max_bytes)
        self.blocks: Lru[_BlockKey, _KeptBlock] = Lru(self._room)
        self.versions: Lru[tuple[Hashable, Hashable], Sequence[_Passed]] = Lru(self._room)
        """What was answered in whole, by scope and version."""

    def of(self, scope: Hashable, snapshot: Snapshot) -> "VersionLines | None":
        """Return the lines of a snapshot; None for a table that does not fit: keeping parts of it would be in vain."""
        fits = snapshot.totals().num_files * _BYTES_PER_LINE <= self._room.max_bytes
        return VersionLines(self, scope, snapshot.identity) if fits else None


class VersionLines(msgspec.Struct):
    """The kept lines of one version in one style, for one answer."""

    cache: LineCache
    scope: Hashable
    """Table, format, file ids and partition columns."""
    version: Hashable
    """The very files of the log that make the version: of rows that a checkpoint does not hold."""
    _passed: list[_Passed] | None = msgspec.field(default_factory=list)
    """All blocks so far; None once something was not kept."""

    def whole(self) -> list[Prepared] | None:
        """Return all lines of the version in their order, where it was answered in whole and its blocks are there."""
        lines: list[Prepared] = []
        for passed in self.cache.versions.get((self.scope, self.version)) or ():
            block = self.cache.blocks.get(passed.place)
            if block is None or block is not passed.block():
                return None
            lines.append(block.lines if passed.lines is None else block.lines.pick(passed.lines))
        return lines or None

    def keep_whole(self) -> None:
        """Say that all batches of the version have passed through `blocks`, from the first to the last."""
        if self._passed:
            picked = sum(len(passed.lines) for passed in self._passed if passed.lines is not None)
            nbytes = _PER_PASSED * len(self._passed) + 8 * picked
            self.cache.versions.put((self.scope, self.version), self._passed, nbytes)

    def blocks(self, batch: FileBatch) -> Iterator[Block]:
        """Cut a batch into blocks; what is made of one that has no lines goes to `keep`, before the next is taken."""
        files, first = batch.files, batch.start.row
        if files.num_rows * _SPARSE < batch.num_scanned:
            # A filter's few rows out of many: blocks would hold one or two of them each.
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
            place = self._place(batch, number)
            lines = self._prepared(place, rows[at:end])
            yield Block(files.slice(at, end - at), lines, place, rows[at:end])
            at = end

    def keep(self, block: Block, lines: Prepared | None) -> None:
        """Keep the lines that were made of a block; None where they cannot be prepared."""
        if lines is None or block.place is None:
            self._passed = None
            return
        kept = _KeptBlock(block.rows, lines)
        self.cache.blocks.put(block.place, kept, lines.nbytes + PER_OBJECT * len(block.rows))
        self._pass(_Passed(block.place, ref(kept), None))

    def _prepared(self, place: _BlockKey, rows: Sequence[int]) -> Prepared | None:
        block = self.cache.blocks.get(place)
        if block is None:
            return None
        if block.rows == rows:
            self._pass(_Passed(place, ref(block), None))
            return block.lines
        places = {row: at for at, row in enumerate(block.rows)}
        wanted = [places[row] for row in rows if row in places]
        if len(wanted) < len(rows):
            return None
        if len(wanted) == len(block.rows):  # the same rows, as a list here and as a range there
            self._pass(_Passed(place, ref(block), None))
            return block.lines
        self._pass(_Passed(place, ref(block), wanted))
        return block.lines.pick(wanted)

    def _pass(self, passed: _Passed) -> None:
        if self._passed is not None:
            self._passed.append(passed)

    def _place(self, batch: FileBatch, number: int) -> _BlockKey:
        # The rows before the checkpoint are ordered anew by every commit; those of the checkpoint never are.
        where = batch.start.base if batch.start.part else self.version
        return _BlockKey(self.scope, where, batch.start.part, batch.start.row_group, number)
