"""Decides what of a table's file lines stays in memory between requests: all that no recipient's signature touches.

Lines are kept in blocks of consecutive rows of the log, by the very checkpoint (or, for the commits after it, the very
version) that they stand in, so that a new commit leaves the lines of the checkpoint where they are. Within a block the
rows that were live are kept; a version with fewer of them picks, one with others prepares anew. Once a version has
been answered in whole, it is known which lines of which blocks it has, and nothing of the log is read for the next.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from weakref import ref

from deltaic.delta.scan.file_batches import FileBatch
from deltaic.delta.scan.row_group_cache import Kept
from deltaic.delta.snapshot import Snapshot
from deltaic.sharing.cells import integers

BLOCK_ROWS: Final = 512
"""Rows of the log in a block, and so the most lines of a chunk: more costs more in memory than it saves in calls."""

_SPARSE: Final = 8
_BYTES_PER_LINE: Final = 1000
"""What a line takes in memory, about: to tell whether a table fits before its first line is made."""
_PER_OBJECT: Final = 49
"""What CPython adds to each bytes object, with its place in a list."""
_PER_PASSED: Final = 300


@dataclass(frozen=True, slots=True)
class LateUrl:
    """A line whose tail holds a URL of its own (a deletion vector's): it is signed late, like the file's."""

    row: int
    """Which of the prepared lines."""
    before: bytes
    path: str
    """As it stands in the log."""
    after: bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """Lines of consecutive rows without what a signature touches."""

    paths: list[bytes]
    """Below the table's root, as S3 signs them."""
    tails: list[bytes]
    """What follows the URL; empty where it is late."""
    late: tuple[LateUrl, ...] = ()

    def pick(self, rows: Sequence[int]) -> "Prepared":
        """Return some of the lines, in their order."""
        places = {row: place for place, row in enumerate(rows)}
        late = tuple(
            LateUrl(places[one.row], one.before, one.path, one.after) for one in self.late if one.row in places
        )
        return Prepared([self.paths[row] for row in rows], [self.tails[row] for row in rows], late)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, estimated."""
        late = sum(len(one.before) + len(one.path) + len(one.after) + 4 * _PER_OBJECT for one in self.late)
        objects = 2 * _PER_OBJECT * len(self.paths)
        return sum(map(len, self.paths)) + sum(map(len, self.tails)) + objects + late


Prepare = Callable[[Any], Prepared | None]
"""Prepares a batch of FILE_SCHEMA; None where a file lies outside the table's root."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Block:
    rows: Sequence[int]
    """Rows of the row group, ascending."""
    lines: Prepared


class _Passed(NamedTuple):
    """What a version has of a block."""

    key: Hashable
    block: "ref[_Block]"
    """Weak, so that what is let go is let go."""
    lines: Sequence[int] | None
    """Which of its lines; None for all."""


@dataclass(slots=True)
class KeptLines:
    """The kept lines of one snapshot in one style, for one answer; `kept` may be shared by all tables and threads."""

    kept: Kept
    scope: Hashable
    """Table, format, file ids and partition columns."""
    version: Hashable
    """The very files of the log that make the version: of rows that a checkpoint does not hold."""
    _passed: list[_Passed] | None = field(default_factory=list)
    """All blocks so far; None once something was not kept."""

    @classmethod
    def of(cls, kept: Kept, scope: Hashable, snapshot: Snapshot) -> "KeptLines | None":
        """Return the lines of a snapshot; None for a table that does not fit: keeping parts of it would be in vain."""
        fits = snapshot.totals().num_files * _BYTES_PER_LINE <= kept.max_bytes
        return cls(kept, scope, snapshot.identity) if fits else None

    def whole(self) -> list[Prepared] | None:
        """Return all lines of the version in their order, where it was answered in whole and its blocks are there."""
        found: list[Prepared] = []
        for passed in self.kept.get((self.scope, self.version)) or ():
            block: _Block | None = self.kept.get(passed.key)
            if block is None or block is not passed.block():
                return None
            found.append(block.lines if passed.lines is None else block.lines.pick(passed.lines))
        return found or None

    def keep_whole(self) -> None:
        """Say that all batches of the version have passed through `blocks`, from the first to the last."""
        if self._passed:
            picked = sum(len(passed.lines) for passed in self._passed if passed.lines is not None)
            self.kept.put((self.scope, self.version), self._passed, _PER_PASSED * len(self._passed) + 8 * picked)

    def blocks(self, batch: FileBatch, prepare: Prepare) -> Iterator[Any]:
        """Yield the batch in blocks: their lines, or, where those cannot be prepared, the files."""
        files, first = batch.files, batch.start.row
        if files.num_rows * _SPARSE < batch.looked_at:
            # A filter's few rows out of many: blocks would hold one or two of them each.
            self._passed = None
            for at in range(0, files.num_rows, BLOCK_ROWS):
                part = files.slice(at, BLOCK_ROWS)
                yield prepare(part) or part
            return
        rows: Sequence[int] = range(first, first + files.num_rows)
        if batch.rows is not None:
            rows = [first + row for row in integers(batch.rows)]
        at = 0
        while at < len(rows):
            number = rows[at] // BLOCK_ROWS
            end = bisect_left(rows, (number + 1) * BLOCK_ROWS, at)
            lines = self._known(batch, number, rows[at:end])
            if lines is None:
                part = files.slice(at, end - at)
                lines = prepare(part)
                self._keep(batch, number, rows[at:end], lines)
                yield part if lines is None else lines
            else:
                yield lines
            at = end

    def _known(self, batch: FileBatch, number: int, rows: Sequence[int]) -> Prepared | None:
        key = self._key(batch, number)
        block: _Block | None = self.kept.get(key)
        if block is None:
            return None
        if block.rows == rows:
            self._pass(_Passed(key, ref(block), None))
            return block.lines
        places = {row: place for place, row in enumerate(block.rows)}
        wanted = [places[row] for row in rows if row in places]
        if len(wanted) < len(rows):
            return None
        if len(wanted) == len(block.rows):  # the same rows, as a list here and as a range there
            self._pass(_Passed(key, ref(block), None))
            return block.lines
        self._pass(_Passed(key, ref(block), wanted))
        return block.lines.pick(wanted)

    def _keep(self, batch: FileBatch, number: int, rows: Sequence[int], lines: Prepared | None) -> None:
        if lines is None:
            self._passed = None
            return
        block = _Block(rows, lines)
        self.kept.put(self._key(batch, number), block, lines.nbytes + _PER_OBJECT * len(rows))
        self._pass(_Passed(self._key(batch, number), ref(block), None))

    def _pass(self, passed: _Passed) -> None:
        if self._passed is not None:
            self._passed.append(passed)

    def _key(self, batch: FileBatch, number: int) -> Hashable:
        # The rows before the checkpoint are ordered anew by every commit; those of the checkpoint never are.
        where = batch.start.base if batch.start.part else self.version
        return self.scope, where, batch.start.part, batch.start.row_group, number
