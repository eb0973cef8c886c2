"""Decides what of a table's file lines stays in memory between requests: all that no recipient's signature touches.

Lines are kept in blocks of consecutive rows of the log, by the very checkpoint (or, for the commits after it, the very
version) that they stand in, so that a new commit leaves the lines of the checkpoint where they are. Within a block the
rows that were live are kept; a version with fewer of them picks, one with others prepares anew.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from deltaic.delta.kept import Kept
from deltaic.delta.scan import FileBatch
from deltaic.delta.snapshot import Snapshot
from deltaic.sharing.cells import integers

BLOCK_ROWS: Final = 512
"""Rows of the log in a block, and so the most lines of a chunk: more costs more in memory than it saves in calls."""

_SPARSE: Final = 8
_BYTES_PER_LINE: Final = 1000
"""What a line takes in memory, about: to tell whether a table fits before its first line is made."""
_PER_OBJECT: Final = 49
"""What CPython adds to each bytes object, with its place in a list."""


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


@dataclass(frozen=True, slots=True)
class _Block:
    rows: Sequence[int]
    """Rows of the row group, ascending."""
    lines: Prepared


@dataclass(frozen=True, slots=True)
class KeptLines:
    """The kept lines of one snapshot in one style; `kept` may be shared by all tables and threads of the process."""

    kept: Kept
    scope: Hashable
    """Table, format and file ids."""
    version: Hashable
    """The very files of the log that make the version: of rows that a checkpoint does not hold."""

    @classmethod
    def of(cls, kept: Kept, scope: Hashable, snapshot: Snapshot) -> "KeptLines | None":
        """Return the lines of a snapshot; None for a table that does not fit: keeping parts of it would be in vain."""
        fits = snapshot.totals().num_files * _BYTES_PER_LINE <= kept.max_bytes
        return cls(kept, scope, snapshot.identity) if fits else None

    def blocks(self, batch: FileBatch, prepare: Prepare) -> Iterator[tuple[Any, Prepared | None]]:
        """Yield the batch in blocks: its files, and their lines, kept ones where there are."""
        files, first = batch.files, batch.start.row
        if files.num_rows * _SPARSE < batch.looked_at:
            # A filter's few rows out of many: blocks would hold one or two of them each.
            for at in range(0, files.num_rows, BLOCK_ROWS):
                part = files.slice(at, BLOCK_ROWS)
                yield part, prepare(part)
            return
        rows: Sequence[int] = range(first, first + files.num_rows)
        if batch.rows is not None:
            rows = [first + row for row in integers(batch.rows)]
        at = 0
        while at < len(rows):
            number = rows[at] // BLOCK_ROWS
            end = bisect_left(rows, (number + 1) * BLOCK_ROWS, at)
            part = files.slice(at, end - at)
            yield part, self._lines(batch, number, rows[at:end], partial(prepare, part))
            at = end

    def _lines(
        self, batch: FileBatch, number: int, rows: Sequence[int], make: Callable[[], Prepared | None]
    ) -> Prepared | None:
        # The rows before the checkpoint are ordered anew by every commit; those of the checkpoint never are.
        where = batch.start.base if batch.start.part else self.version
        key = (self.scope, where, batch.start.part, batch.start.row_group, number)
        block: _Block | None = self.kept.get(key)
        if block is not None:
            if block.rows == rows:
                return block.lines
            places = {row: place for place, row in enumerate(block.rows)}
            wanted = [places[row] for row in rows if row in places]
            if len(wanted) == len(rows):
                return block.lines.pick(wanted)
        lines = make()
        if lines is not None:
            self.kept.put(key, _Block(rows, lines), lines.nbytes + _PER_OBJECT * len(rows))
        return lines
