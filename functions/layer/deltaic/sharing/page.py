"""Decides which live files an answer holds: rows for a limit, files for a page, what comes next."""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

import msgspec

from deltaic.delta.scan import FileBatch, Position
from deltaic.protocol import continuations


class _NumRecords(msgspec.Struct, rename="camel"):
    num_records: int = 0


_decoder: Final = msgspec.json.Decoder(_NumRecords)


class Page:
    """The files of one page, in batches; iterate once, then `next` says where the following page starts.

    `limit` is the row limit of the query, `max_files` the page size, each None for none. A file is taken while fewer
    than `limit` live rows have been seen before it (PROTOCOL.md, "limitHint"); one without statistics counts for no
    row, so that too many files leave rather than too few.
    """

    def __init__(
        self, batches: Generator[FileBatch], *, limit: int | None, max_files: int | None, rows_before: int = 0
    ) -> None:
        """`rows_before` is what earlier pages counted, from the position that they ended with."""
        self._batches = batches
        self._limit = limit
        self._max_files = max_files
        self._rows = rows_before
        self.files = 0
        """How many files have been taken."""
        self.next: continuations.Position | None = None
        """Where the next page starts; None while iterating and when there is none."""

    def __iter__(self) -> Iterator[FileBatch]:
        # Closed at once, so that the next page can go on where this reading stands.
        with closing(self._batches):
            yield from self._taken()

    def _taken(self) -> Iterator[FileBatch]:
        for batch in self._batches:
            before = self._rows_before_each(batch.files)
            count = batch.files.num_rows
            if self._limit is not None:
                count = sum(1 for rows in before[:-1] if rows < self._limit)
            if self._max_files is not None and self.files + count > self._max_files:
                count = self._max_files - self.files
                self.next = (*batch.position(count), before[count] if before else 0)
            if count:
                self.files += count
                yield _first(batch, count)
            if self.next is not None:
                return
            if self._limit is not None:
                self._rows = before[-1]
                if self._rows >= self._limit:
                    return

    def _rows_before_each(self, files: Any) -> list[int]:
        """Return the live rows before each file, and after the last; nothing where no limit asks for them."""
        if self._limit is None:
            return []
        return list(accumulate(live_rows(files), initial=self._rows))


def _first(batch: FileBatch, count: int) -> FileBatch:
    """Return the first files of a batch."""
    if count == batch.files.num_rows:
        return batch
    rows = None if batch.rows is None else batch.rows.slice(0, count)
    return replace(batch, files=batch.files.slice(0, count), rows=rows)


def start_of(position: continuations.Position | None) -> tuple[Position | None, int]:
    """Return what a position means: where to scan from, and the rows that earlier pages counted."""
    if not position:
        return None, 0
    base, part, row_group, row, rows = position
    return Position(str(base), int(part), int(row_group), int(row)), int(rows)


def live_rows(files: Any) -> list[int]:
    """Return the rows of each file that its deletion vector leaves, 0 where the statistics do not tell."""
    vectors = files.column("deletionVector")
    deleted = [0] * files.num_rows
    if vectors.null_count < files.num_rows:
        deleted = [vector["cardinality"] or 0 if vector else 0 for vector in vectors.to_pylist()]
    return [
        max(_num_records(text) - gone, 0) for text, gone in zip(files.column("stats").to_pylist(), deleted, strict=True)
    ]


def _num_records(text: str | None) -> int:
    if text is None:
        return 0
    try:
        return _decoder.decode(text).num_records
    except msgspec.MsgspecError:
        return 0
