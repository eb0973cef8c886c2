"""Reads one Parquet part: partition values first, then typed statistics, then the rest.

Without a filter every row group streams by. With one, the cheap columns tell which rows can matter; row groups without
such rows are neither fetched nor decoded, and statistics as JSON are decoded only in row groups that survive. Column
chunks come in windows of a few megabytes, the next one being fetched while this one is decoded. A reading that stops in
a row group, as a page does, is kept where it stands: rows of a row group can be skipped by decoding them only.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.log_files import reading
from deltaic.delta.scan.add_rows import OUTPUT_LEAVES, add_paths, deletion_vectors, file_batch, parsed_statistics
from deltaic.delta.scan.checkpoint_parts import ParquetPart
from deltaic.delta.scan.parquet_file import LARGE, Blocks, Cursor, ParquetFile
from deltaic.delta.scan.row_group_cache import PartCache
from deltaic.delta.scan.row_groups import RowGroupCursor, Rows
from deltaic.delta.scan.row_selection import Selection

_WINDOW: Final = 16 << 20
"""Bytes fetched at a time where row groups are small."""


class _ReadPlan(msgspec.Struct, frozen=True):
    number: int
    leaves: tuple[int, ...]
    rebuilds: bool
    """Whether JSON statistics are made of typed ones."""
    chosen: pa.BooleanArray | None
    """Which rows the filter chose; None for all."""
    is_final: bool
    """Whether it has no more to say of them."""
    kept: tuple[Rows, ...] | None
    cursor: RowGroupCursor | None
    """Where an earlier reading was broken off."""
    fetch_bytes: int


class ParquetScan:
    """One pass over a part's adds, from a row on."""

    def __init__(
        self, part: ParquetPart, wanted: FileFilter | None, batch_rows: int, cache: PartCache, *, at_once: bool = False
    ) -> None:
        """Make the pass; `at_once`: what the filter looks at and what it may keep are fetched together."""
        self._part = part
        self._wanted = wanted
        self._batch_rows = batch_rows
        self._cache = cache
        self._at_once = at_once
        self._ahead: Blocks = []
        """What was fetched at once."""

    @property
    def _file(self) -> ParquetFile:
        return self._part.file

    def rows(self, groups: Sequence[int], first_group: int, first_row: int) -> Iterator[Rows]:
        """Yield the rows of these row groups from row `first_row` of row group `first_group` on.

        A batch may begin before that row.
        """
        selection = None if self._wanted is None else Selection(self._part, self._wanted, groups, self._cache)
        if selection is not None and self._at_once and any(self._cache.rows.get(group) is None for group in groups):
            self._fetch_ahead(groups, selection)
        plans = self._plans(groups, first_group, first_row, selection)
        windows = self._windows(plans)
        with ThreadPoolExecutor(1, "read-ahead") as reader:
            window: Sequence[_ReadPlan] | None = next(windows, None)
            fetched: Future[Blocks] | None = None
            while window is not None:
                with reading(self._part.path):
                    blocks = self._fetch(window) if fetched is None else fetched.result()
                fetched = None
                following: Sequence[_ReadPlan] | None = None
                half = sum(self._file.footer.row_group(plan.number).num_rows for plan in window) // 2
                for plan in window:
                    skip = first_row if plan.number == first_group else 0
                    for rows in self._stream(plan, blocks, skip):
                        half -= rows.files.num_rows
                        yield rows
                        if half <= 0 and fetched is None:
                            # Not before half of this window is used: a page that ends here would fetch for nothing.
                            following = next(windows, None)
                            fetched = reader.submit(self._fetch, following or ())
                window = following if fetched is not None else next(windows, None)

    def _fetch_ahead(self, groups: Sequence[int], selection: Selection) -> None:
        """Fetch what a filter looks at with what is read for it and what lies between, unless that is much."""
        with reading(self._part.path):
            spans = self._file.spans(groups, [*selection.leaves, *self._file.leaves(*OUTPUT_LEAVES)])
            if sum(end - start for start, end in spans) <= _WINDOW:
                self._ahead = self._file.fetch(spans)
                selection.lend(self._ahead)

    def _adds(self, group: int) -> int | None:
        leaf = self._file.columns.get("add.path")
        return 0 if leaf is None else self._file.values(group, leaf)

    def _plans(
        self, groups: Sequence[int], first_group: int, first_row: int, selection: Selection | None
    ) -> Iterator[_ReadPlan]:
        for number in groups:
            chosen, is_final = (None, True) if selection is None else selection.of(number)[:2]
            if chosen is not None and chosen.true_count == 0:
                continue
            cached_rows = self._cache.rows.get(number)
            cursor = None
            if cached_rows is None and chosen is None and number == first_group:
                cursor = self._cache.take_cursor(number, first_row)
            rebuilds = self._lacks_json(number)
            leaves = self._file.leaves(*OUTPUT_LEAVES, *(("add.stats_parsed",) if rebuilds else ()))
            ranges = self._file.ranges([number], leaves) if cached_rows is None and cursor is None else []
            fetch_bytes = sum(end - start for start, end in ranges)
            yield _ReadPlan(number, tuple(leaves), rebuilds, chosen, is_final, cached_rows, cursor, fetch_bytes)

    def _windows(self, plans: Iterator[_ReadPlan]) -> Iterator[list[_ReadPlan]]:
        """Group row groups into windows; the first is hardly more than one, so that the first file leaves soon."""
        window: list[_ReadPlan] = []
        window_bytes = limit = 0
        for plan in plans:
            if window and window_bytes + plan.fetch_bytes > limit:
                yield window
                window, window_bytes, limit = [], 0, _WINDOW
            window.append(plan)
            window_bytes += plan.fetch_bytes
            # What a checkpoint of just over one row group has left is worth no request of its own.
            limit = limit or window_bytes * 5 // 4
        if window:
            yield window

    def _fetch(self, window: Sequence[_ReadPlan]) -> Blocks:
        spans: list[tuple[int, int]] = []
        for plan in window:
            if plan.fetch_bytes:
                spans += self._file.ranges([plan.number], plan.leaves, whole=plan.fetch_bytes <= LARGE)
        return self._file.fetch(spans, self._ahead)

    def _stream(self, plan: _ReadPlan, blocks: Blocks, first_row: int) -> Iterator[Rows]:
        """Yield the rows of a row group; a batch may begin before `first_row`."""
        if plan.kept is not None:
            return self._from_cache(plan, plan.kept, first_row)
        if plan.cursor is not None:
            return self._resumed(plan, plan.cursor, first_row)
        return self._fresh(plan, blocks, first_row)

    def _from_cache(self, plan: _ReadPlan, kept: Sequence[Rows], first_row: int) -> Iterator[Rows]:
        for rows in kept:
            if rows.end > first_row and (chosen := rows.chosen(plan.chosen, is_final=plan.is_final)) is not None:
                yield chosen

    def _resumed(self, plan: _ReadPlan, cursor: RowGroupCursor, first_row: int) -> Iterator[Rows]:
        """Go on with a reading of all rows; where this one is broken off too, the next goes on from there."""
        with self._cache.lending(plan.number, cursor):
            yield from [rows for rows in cursor.held if rows.end > first_row]
            while (batch := cursor.read()) is not None:
                if cursor.collects or cursor.end > first_row:
                    cursor.hold(self._rows(plan, batch, cursor.end - batch.num_rows))
                    if cursor.end > first_row:
                        yield cursor.held[-1]
        if cursor.collects:
            self._cache.rows.put(plan.number, tuple(cursor.held), sum(rows.nbytes for rows in cursor.held))

    def _fresh(self, plan: _ReadPlan, blocks: Blocks, first_row: int) -> Iterator[Rows]:
        """Read from the first row on: rows can be skipped by decoding them only."""
        cursor = self._open(plan, blocks)
        if plan.chosen is None or cursor.collects:
            for rows in self._resumed(plan, cursor, first_row):
                if (chosen := rows.chosen(plan.chosen, is_final=plan.is_final)) is not None:
                    yield chosen
            return
        last = pc.indices_nonzero(plan.chosen)[-1].as_py()
        while cursor.end <= last and (batch := cursor.read()) is not None:
            begin = cursor.end - batch.num_rows
            if cursor.end > first_row and plan.chosen.slice(begin, batch.num_rows).true_count:
                chosen = self._rows(plan, batch, begin).chosen(plan.chosen, is_final=plan.is_final)
                if chosen is not None:
                    yield chosen

    def _open(self, plan: _ReadPlan, blocks: Blocks) -> RowGroupCursor:
        with reading(self._part.path):
            pass_ = Cursor(self._file, blocks, buffered=plan.fetch_bytes > LARGE)
        return RowGroupCursor(
            self._part.path,
            pass_.batches(plan.number, plan.leaves, self._batch_rows),
            fetched_bytes=sum(len(data) for _, data in blocks),
            collects=not plan.rebuilds and self._cache.admits(plan.number, plan.fetch_bytes),
        )

    def _rows(self, plan: _ReadPlan, batch: pa.RecordBatch, start: int) -> Rows:
        with reading(self._part.path):
            add: pa.StructArray = batch.column("add")
            paths, adds = add_paths(add)
            parsed = parsed_statistics(add, self._file.zoned) if plan.rebuilds else None
            return Rows(plan.number, start, file_batch(add, paths, deletion_vectors(add)), adds, parsed)

    def _lacks_json(self, group: int) -> bool:
        """Tell whether some adds of the row group may have statistics only as a struct."""
        if not self._file.leaves("add.stats_parsed"):
            return False
        leaf = self._file.columns.get("add.stats")
        if leaf is None:
            return True
        with_json, adds = self._file.values(group, leaf), self._adds(group)
        return with_json is None or adds is None or with_json < adds
