"""Decides what is read of one Parquet part: partition values first, then typed statistics, then the rest.

Without a filter every row group streams by. With one, the cheap columns tell which rows can matter; row groups without
such rows are neither fetched nor decoded, and statistics as JSON are decoded only in row groups that survive. Column
chunks come in windows of a few megabytes, the next one being fetched while this one is decoded. A reading that stops in
a row group, as a page does, is kept where it stands: rows of a row group can be skipped by decoding them only.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.delta.file_filter import FileFilter
from deltaic.delta.scan.add_rows import (
    OUTPUT_LEAVES,
    add_paths,
    deletion_vectors,
    file_batch,
    parsed_statistics,
)
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.scan.parquet_file import Blocks, Cursor
from deltaic.delta.scan.row_group_cache import KeptOfTable
from deltaic.delta.scan.row_selection import Selection
from deltaic.delta.unreadable import reading

_ROWS: Final = "rows"
_BEGUN: Final = "begun"
_WINDOW: Final = 16 << 20
"""Bytes fetched at a time where row groups are small."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of a row group; what is not an add is among them and means nothing."""

    row_group: int
    start: int
    files: pa.RecordBatch
    """FILE_SCHEMA, one row for every row of the row group."""
    wanted: pa.BooleanArray | None
    """Which rows are adds that partition values and typed statistics keep; None for all."""
    parsed: pa.StructArray | None
    """`stats_parsed`, where some adds have no statistics as JSON."""


@dataclass(slots=True)
class _Begun:
    """A row group in the middle of being decoded; only one reading can go on with it."""

    batches: Iterator[pa.RecordBatch]
    nbytes: int
    """Of the fetched blocks."""
    rows: Rows | None = None
    """The last batch."""
    end: int = 0
    """The row after it."""


@dataclass(frozen=True, slots=True)
class _Group:
    number: int
    leaves: tuple[int, ...]
    rebuild: bool
    chosen: pa.BooleanArray | None
    kept: tuple[Rows, ...] | None
    begun: _Begun | None
    fetch_bytes: int


class ParquetScan:
    """One pass over a part's adds, from a row on."""

    def __init__(self, part: ParquetPart, wanted: FileFilter | None, batch_rows: int, kept: KeptOfTable | None) -> None:
        self._part = part
        self._file = part.file
        self._wanted = wanted
        self._batch_rows = batch_rows
        self._kept = kept

    def groups(self, first: int) -> list[int]:
        """Return the row groups from `first` on that may hold adds."""
        return [group for group in range(first, self._file.footer.num_row_groups) if self._adds(group) != 0]

    def rows(self, first_group: int, first_row: int) -> Iterator[Rows]:
        """Yield the rows from row `first_row` of row group `first_group` on; a batch may begin before that row."""
        plans = self._plans(self.groups(first_group), first_group, first_row)
        windows = self._windows(plans)
        with ThreadPoolExecutor(1, "read-ahead") as reader:
            window: Sequence[_Group] | None = next(windows, None)
            fetched: Future[Blocks] | None = None
            while window is not None:
                with reading(self._part.path):
                    blocks = self._fetch(window) if fetched is None else fetched.result()
                fetched = None
                following: Sequence[_Group] | None = None
                half = sum(self._file.footer.row_group(group.number).num_rows for group in window) // 2
                for group in window:
                    skip = first_row if group.number == first_group else 0
                    for rows in self._stream(group, blocks, skip):
                        half -= rows.files.num_rows
                        yield rows
                        if half <= 0 and fetched is None:
                            # Not before half of this window is used: a page that ends here would fetch for nothing.
                            following = next(windows, None)
                            fetched = reader.submit(self._fetch, following or ())
                window = following if fetched is not None else next(windows, None)

    def _adds(self, group: int) -> int | None:
        leaf = self._file.columns.get("add.path")
        return 0 if leaf is None else self._file.values(group, leaf)

    def _plans(self, groups: Sequence[int], first_group: int, first_row: int) -> Iterator[_Group]:
        selection = None if self._wanted is None else Selection(self._part, self._wanted, groups, self._kept)
        for number in groups:
            chosen = None if selection is None else selection.of(number)
            if chosen is not None and chosen.true_count == 0:
                continue
            kept = self._kept.get(_ROWS, self._part.identity, number) if self._kept else None
            rebuild = self._lacks_json(number)
            leaves = self._file.leaves(*OUTPUT_LEAVES, *(("add.stats_parsed",) if rebuild else ()))
            begun = self._begun(number, first_row) if number == first_group and kept is None else None
            ranges = [] if kept is not None or begun is not None else self._file.ranges([number], leaves)
            yield _Group(number, tuple(leaves), rebuild, chosen, kept, begun, sum(end - start for start, end in ranges))

    def _begun(self, group: int, row: int) -> _Begun | None:
        """Return the reading of a row group that stands before a row, if there is one.

        Not where rows are kept: then the row group must be read from its first row.
        """
        if self._kept is None or self._kept.whole or self._wanted is not None or not row:
            return None
        found: _Begun | None = self._kept.take(_BEGUN, self._part.identity, group)
        if found is not None and found.rows is not None and found.rows.start > row:
            self._keep_begun(group, found)
            return None
        return found

    def _keep_begun(self, group: int, begun: _Begun) -> None:
        if self._kept is not None and self._wanted is None and begun.rows is not None:
            nbytes = begun.nbytes + int(begun.rows.files.get_total_buffer_size())
            self._kept.put(_BEGUN, self._part.identity, group, begun, nbytes)

    def _windows(self, plans: Iterator[_Group]) -> Iterator[list[_Group]]:
        """Group row groups into windows; the first is hardly more than one, so that the first file leaves soon."""
        window: list[_Group] = []
        held = limit = 0
        for group in plans:
            if window and held + group.fetch_bytes > limit:
                yield window
                window, held, limit = [], 0, _WINDOW
            window.append(group)
            held += group.fetch_bytes
            # What a checkpoint of just over one row group has left is worth no request of its own.
            limit = limit or held * 5 // 4
        if window:
            yield window

    def _fetch(self, window: Sequence[_Group]) -> Blocks:
        wanted = [span for group in window if group.kept is None and group.begun is None for span in self._spans(group)]
        return self._file.fetch(wanted)

    def _spans(self, group: _Group) -> list[tuple[int, int]]:
        return self._file.ranges([group.number], group.leaves, whole=not self._file.is_large(group.fetch_bytes))

    def _stream(self, group: _Group, blocks: Blocks, skip: int) -> Iterator[Rows]:
        if group.kept is not None:
            for rows in group.kept:
                if rows.start + rows.files.num_rows > skip and (chosen := _pick(rows, group.chosen)) is not None:
                    yield chosen
            return
        keep = self._kept is not None and self._kept.whole and not group.rebuild
        last = None if group.chosen is None or keep else pc.indices_nonzero(group.chosen)[-1].as_py()
        at = group.begun or self._begin(group, blocks)
        collected: list[Rows] = []
        try:
            if at.rows is not None and at.end > skip:
                yield at.rows
            while last is None or at.end <= last:
                with reading(self._part.path):
                    batch = next(at.batches, None)
                if batch is None:
                    break
                begin, at.end = at.end, at.end + batch.num_rows
                picked = None if group.chosen is None else group.chosen.slice(begin, batch.num_rows)
                if not keep and (at.end <= skip or (picked is not None and picked.true_count == 0)):
                    continue
                with reading(self._part.path):
                    at.rows = _rows(group, batch, begin, self._file.zoned)
                collected += [at.rows] if keep else []
                if at.end > skip and (chosen := _pick(at.rows, group.chosen)) is not None:
                    yield chosen
        except GeneratorExit:
            if not keep:
                self._keep_begun(group.number, at)
            raise
        if keep and self._kept is not None:
            # Buffers as allocated, not as used: that is what the process pays.
            nbytes = sum(int(rows.files.get_total_buffer_size()) for rows in collected)
            self._kept.put(_ROWS, self._part.identity, group.number, tuple(collected), nbytes)

    def _begin(self, group: _Group, blocks: Blocks) -> _Begun:
        with reading(self._part.path):
            cursor = Cursor(self._file, blocks, buffered=self._file.is_large(group.fetch_bytes))
        nbytes = sum(len(data) for _, data in blocks)
        return _Begun(cursor.batches(group.number, group.leaves, self._batch_rows), nbytes)

    def _lacks_json(self, group: int) -> bool:
        """Tell whether some adds of the row group may have statistics only as a struct."""
        if not self._file.leaves("add.stats_parsed"):
            return False
        leaf = self._file.columns.get("add.stats")
        if leaf is None:
            return True
        with_json, adds = self._file.values(group, leaf), self._adds(group)
        return with_json is None or adds is None or with_json < adds


def _rows(group: _Group, batch: pa.RecordBatch, start: int, zoned: frozenset[str]) -> Rows:
    add: Any = batch.column("add")
    paths, adds = add_paths(add)
    parsed = parsed_statistics(add, zoned) if group.rebuild else None
    return Rows(group.number, start, file_batch(add, paths, deletion_vectors(add)), adds, parsed)


def _pick(rows: Rows, chosen: pa.BooleanArray | None) -> Rows | None:
    """Return the rows with what the filter chose; None when it chose none of them."""
    if chosen is None:
        return rows
    picked = chosen.slice(rows.start, rows.files.num_rows)
    if rows.wanted is not None:
        picked = pc.and_(picked, rows.wanted)
    return Rows(rows.row_group, rows.start, rows.files, picked, rows.parsed) if picked.true_count else None
