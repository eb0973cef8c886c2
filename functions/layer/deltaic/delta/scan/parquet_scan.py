"""Read one Parquet part of a checkpoint: partition values first, then typed statistics, then the other columns.

Without a filter all row groups are streamed. With a filter, cheap columns select rows first: row groups without such
rows are not fetched, and JSON statistics are decoded only for the other row groups. Column chunks are fetched in
windows of a few megabytes, and the next window is fetched while the current one is decoded. A scan that stops within a
row group, at the end of a page, is cached there, because rows can be skipped only by decoding them.
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
from deltaic.delta.scan.row_groups import RowBatch, RowGroupCursor
from deltaic.delta.scan.row_selection import Selection

_WINDOW: Final = 16 << 20
"""Bytes fetched at a time if row groups are small."""


class _ReadPlan(msgspec.Struct, frozen=True):
    number: int
    leaves: tuple[int, ...]
    rebuilds: bool
    """Whether the scan creates JSON statistics from typed ones."""
    selected: pa.BooleanArray | None
    """Rows that the filter selected; None for all."""
    is_final: bool
    """Whether JSON statistics cannot drop more of these rows."""
    cached: tuple[RowBatch, ...] | None
    cursor: RowGroupCursor | None
    """An earlier, unfinished scan of the row group."""
    fetch_bytes: int


class ParquetScan:
    """Scan of the `add` actions of a part, from a given row on."""

    def __init__(
        self, part: ParquetPart, file_filter: FileFilter | None, batch_rows: int, cache: PartCache, *, read_ahead: bool
    ) -> None:
        """Create a scan; with `read_ahead` it fetches filter columns and output columns together."""
        self._part = part
        self._file_filter = file_filter
        self._batch_rows = batch_rows
        self._cache = cache
        self._reads_ahead = read_ahead
        self._prefetched: Blocks = []
        """Blocks with filter columns and output columns that were fetched together."""

    @property
    def _file(self) -> ParquetFile:
        return self._part.file

    def rows(self, groups: Sequence[int], first_group: int, first_row: int) -> Iterator[RowBatch]:
        """Yield the rows of these row groups from row `first_row` of row group `first_group` on.

        The first batch can start before that row.
        """
        selection = None if self._file_filter is None else Selection(self._part, self._file_filter, groups, self._cache)
        if selection is not None and self._reads_ahead and any(self._cache.rows.get(group) is None for group in groups):
            self._prefetch(groups, selection)
        plans = self._plan_reads(groups, first_group, first_row, selection)
        windows = self._group_windows(plans)
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
                            # Fetch the next window only after half of this one, in case the page ends here.
                            following = next(windows, None)
                            fetched = reader.submit(self._fetch, following or ())
                window = following if fetched is not None else next(windows, None)

    def _prefetch(self, groups: Sequence[int], selection: Selection) -> None:
        """Fetch filter columns, output columns and the bytes between them, up to _WINDOW."""
        with reading(self._part.path):
            spans = self._file.spans(groups, [*selection.leaves, *self._file.leaves(*OUTPUT_LEAVES)])
            if sum(end - start for start, end in spans) <= _WINDOW:
                self._prefetched = self._file.fetch(spans)
                selection.use_prefetched(self._prefetched)

    def _adds(self, group: int) -> int | None:
        leaf = self._file.columns.get("add.path")
        return 0 if leaf is None else self._file.values(group, leaf)

    def _plan_reads(
        self, groups: Sequence[int], first_group: int, first_row: int, selection: Selection | None
    ) -> Iterator[_ReadPlan]:
        for number in groups:
            selected, is_final = (None, True) if selection is None else selection.select(number)[:2]
            if selected is not None and selected.true_count == 0:
                continue
            cached_rows = self._cache.rows.get(number)
            cursor = None
            if cached_rows is None and selected is None and number == first_group:
                cursor = self._cache.pop_cursor(number, first_row)
            rebuilds = self._lacks_json(number)
            leaves = self._file.leaves(*OUTPUT_LEAVES, *(("add.stats_parsed",) if rebuilds else ()))
            ranges = self._file.ranges([number], leaves) if cached_rows is None and cursor is None else []
            fetch_bytes = sum(end - start for start, end in ranges)
            yield _ReadPlan(number, tuple(leaves), rebuilds, selected, is_final, cached_rows, cursor, fetch_bytes)

    def _group_windows(self, plans: Iterator[_ReadPlan]) -> Iterator[list[_ReadPlan]]:
        """Divide row groups into windows that are fetched together; the first is small so that output starts early."""
        window: list[_ReadPlan] = []
        window_bytes = limit = 0
        for plan in plans:
            if window and window_bytes + plan.fetch_bytes > limit:
                yield window
                window, window_bytes, limit = [], 0, _WINDOW
            window.append(plan)
            window_bytes += plan.fetch_bytes
            # The first window may exceed one row group, to include a small second one.
            limit = limit or window_bytes * 5 // 4
        if window:
            yield window

    def _fetch(self, window: Sequence[_ReadPlan]) -> Blocks:
        spans: list[tuple[int, int]] = []
        for plan in window:
            if plan.fetch_bytes:
                spans += self._file.ranges([plan.number], plan.leaves, with_large=plan.fetch_bytes <= LARGE)
        return self._file.fetch(spans, self._prefetched)

    def _stream(self, plan: _ReadPlan, blocks: Blocks, first_row: int) -> Iterator[RowBatch]:
        """Yield the rows of a row group; the first batch can start before `first_row`."""
        if plan.cached is not None:
            return self._read_cached(plan, plan.cached, first_row)
        if plan.cursor is not None:
            return self._resume(plan, plan.cursor, first_row)
        return self._read_from_start(plan, blocks, first_row)

    def _read_cached(self, plan: _ReadPlan, cached: Sequence[RowBatch], first_row: int) -> Iterator[RowBatch]:
        for rows in cached:
            if rows.end > first_row and (chosen := rows.select_rows(plan.selected, is_final=plan.is_final)) is not None:
                yield chosen

    def _resume(self, plan: _ReadPlan, cursor: RowGroupCursor, first_row: int) -> Iterator[RowBatch]:
        """Continue the cached scan of a row group, and cache it again if it does not finish."""
        with self._cache.keep_unfinished(plan.number, cursor):
            yield from [rows for rows in cursor.rows if rows.end > first_row]
            while (batch := cursor.read()) is not None:
                if cursor.collects or cursor.end > first_row:
                    cursor.add_rows(self._decode_rows(plan, batch, cursor.end - batch.num_rows))
                    if cursor.end > first_row:
                        yield cursor.rows[-1]
        if cursor.collects:
            self._cache.rows.put(plan.number, tuple(cursor.rows), sum(rows.nbytes for rows in cursor.rows))

    def _read_from_start(self, plan: _ReadPlan, blocks: Blocks, first_row: int) -> Iterator[RowBatch]:
        """Read a row group from its first row, because rows can be skipped only by decoding them."""
        cursor = self._open(plan, blocks)
        if plan.selected is None or cursor.collects:
            for rows in self._resume(plan, cursor, first_row):
                if (selected := rows.select_rows(plan.selected, is_final=plan.is_final)) is not None:
                    yield selected
            return
        last = pc.indices_nonzero(plan.selected)[-1].as_py()
        while cursor.end <= last and (batch := cursor.read()) is not None:
            begin = cursor.end - batch.num_rows
            if cursor.end > first_row and plan.selected.slice(begin, batch.num_rows).true_count:
                selected = self._decode_rows(plan, batch, begin).select_rows(plan.selected, is_final=plan.is_final)
                if selected is not None:
                    yield selected

    def _open(self, plan: _ReadPlan, blocks: Blocks) -> RowGroupCursor:
        with reading(self._part.path):
            file_cursor = Cursor(self._file, blocks, buffered=plan.fetch_bytes > LARGE)
        return RowGroupCursor(
            self._part.path,
            file_cursor.batches(plan.number, plan.leaves, self._batch_rows),
            fetched_bytes=sum(len(data) for _, data in blocks),
            collects=not plan.rebuilds and self._cache.admits(plan.number, plan.fetch_bytes),
        )

    def _decode_rows(self, plan: _ReadPlan, batch: pa.RecordBatch, start: int) -> RowBatch:
        with reading(self._part.path):
            add: pa.StructArray = batch.column("add")
            paths, adds = add_paths(add)
            parsed = parsed_statistics(add, self._file.zoned) if plan.rebuilds else None
            return RowBatch(plan.number, start, file_batch(add, paths, deletion_vectors(add)), adds, parsed)

    def _lacks_json(self, group: int) -> bool:
        """Return whether `add` actions of the row group may have typed statistics but no JSON statistics."""
        if not self._file.leaves("add.stats_parsed"):
            return False
        leaf = self._file.columns.get("add.stats")
        if leaf is None:
            return True
        with_json, adds = self._file.values(group, leaf), self._adds(group)
        return with_json is None or adds is None or with_json < adds
