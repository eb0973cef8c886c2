"""Decoded rows of a checkpoint's row group, and unfinished scans of a row group."""

from collections.abc import Iterator

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from deltaic import compute as pc
from deltaic.delta.log_files import reading


class RowBatch(msgspec.Struct, frozen=True):
    """Consecutive rows of a row group, including rows that are not `add` actions."""

    row_group: int
    start: int
    files: pa.RecordBatch
    """One row in FILE_SCHEMA for each row of the row group."""
    mask: pa.BooleanArray | None
    """Mask of `add` rows that the filter keeps by partition values and typed statistics; None for all rows."""
    parsed: pa.StructArray | None
    """Typed statistics (`stats_parsed`), if some `add` actions have no JSON statistics."""
    is_final: bool = False
    """Whether JSON statistics cannot drop more of the masked rows."""

    @property
    def end(self) -> int:
        """Index in the row group after the last row of this batch."""
        return self.start + int(self.files.num_rows)

    @property
    def nbytes(self) -> int:
        """Bytes in memory of this batch's Arrow buffers."""
        return int(self.files.get_total_buffer_size())

    def select_rows(self, mask: pa.BooleanArray | None, *, is_final: bool) -> "RowBatch | None":
        """Return the rows with a further mask applied; None if no row remains."""
        if mask is None:
            return self
        selected = mask.slice(self.start, self.files.num_rows)
        if self.mask is not None:
            selected = pc.and_(selected, self.mask)
        return replace(self, mask=selected, is_final=is_final) if selected.true_count else None

    def from_row(self, first: int) -> "RowBatch":
        """Return the rows of this batch that are at or after row `first` of the row group."""
        skip = first - self.start
        if skip <= 0:
            return self
        mask = None if self.mask is None else self.mask.slice(skip)
        parsed = None if self.parsed is None else self.parsed.slice(skip)
        return replace(self, start=first, files=self.files.slice(skip), mask=mask, parsed=parsed)


class RowGroupCursor(msgspec.Struct):
    """Scan of a row group that can be continued, by one reader at a time."""

    path: str
    batches: Iterator[pa.RecordBatch]
    fetched_bytes: int
    """Number of bytes of column chunks in memory."""
    collects: bool
    """Whether `rows` contains all decoded rows, and not only the last batch."""
    rows: list[RowBatch] = msgspec.field(default_factory=list)
    """Consecutive batches, up to `end`."""
    end: int = 0
    """Index in the row group after the last decoded row."""
    ended: bool = False
    """Whether no more rows can be read: the row group is finished, or decoding failed."""

    @property
    def nbytes(self) -> int:
        """Bytes of this scan in memory."""
        return self.fetched_bytes + sum(rows.nbytes for rows in self.rows)

    def can_resume_at(self, row: int) -> bool:
        """Return whether a scan from `row` on can use this cursor, because it has not passed `row`."""
        return bool(self.rows) and self.rows[0].start <= row

    def read(self) -> pa.RecordBatch | None:
        """Decode the next rows; None at the end. Raises TableUnreadable for a corrupt file."""
        self.ended = True  # until a batch is decoded
        with reading(self.path):
            batch = next(self.batches, None)
        if batch is not None:
            self.end += batch.num_rows
            self.ended = False
        return batch

    def add_rows(self, rows: RowBatch) -> None:
        """Append the rows that were just decoded."""
        self.rows = [*self.rows, rows] if self.collects else [rows]
