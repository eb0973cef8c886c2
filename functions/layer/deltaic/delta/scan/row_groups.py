"""What is at hand of a row group of a checkpoint: consecutive rows, and a reading that stands in the middle of it."""

from collections.abc import Iterator

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from deltaic import compute as pc
from deltaic.delta.log_files import reading


class Rows(msgspec.Struct, frozen=True):
    """Consecutive rows of a row group; what is not an add is among them and means nothing."""

    row_group: int
    start: int
    files: pa.RecordBatch
    """FILE_SCHEMA, one row for every row of the row group."""
    wanted: pa.BooleanArray | None
    """Which rows are adds that partition values and typed statistics keep; None for all."""
    parsed: pa.StructArray | None
    """`stats_parsed`, where some adds have no statistics as JSON."""
    is_final: bool = False
    """Whether the filter has no more to say of those that are wanted."""

    @property
    def end(self) -> int:
        """The row after the last one."""
        return self.start + int(self.files.num_rows)

    @property
    def nbytes(self) -> int:
        """Bytes in memory: of buffers as allocated, not as used, which is what the process pays."""
        return int(self.files.get_total_buffer_size())

    def chosen(self, mask: pa.BooleanArray | None, *, is_final: bool) -> "Rows | None":
        """Return the rows with what a mask of the row group chooses of them; None when that is none of them."""
        if mask is None:
            return self
        mine = mask.slice(self.start, self.files.num_rows)
        if self.wanted is not None:
            mine = pc.and_(mine, self.wanted)
        return replace(self, wanted=mine, is_final=is_final) if mine.true_count else None

    def after(self, first: int) -> "Rows":
        """Return the rows from row `first` of the row group on."""
        skip = first - self.start
        if skip <= 0:
            return self
        wanted = None if self.wanted is None else self.wanted.slice(skip)
        parsed = None if self.parsed is None else self.parsed.slice(skip)
        return replace(self, start=first, files=self.files.slice(skip), wanted=wanted, parsed=parsed)


class RowGroupCursor(msgspec.Struct):
    """A row group in the middle of being decoded; only one reading at a time can go on with it."""

    path: str
    """Of the file, for what goes wrong."""
    batches: Iterator[pa.RecordBatch]
    fetched_bytes: int
    """Of the column chunks in memory."""
    collects: bool
    """Whether all rows are held, and not only the last batch."""
    held: list[Rows] = msgspec.field(default_factory=list)
    """Consecutive, up to `end`."""
    end: int = 0
    """The row after the last one that was decoded."""
    ended: bool = False
    """Nothing can be read any more: the row group has been decoded to its end, or cannot be."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.fetched_bytes + sum(rows.nbytes for rows in self.held)

    def stands_before(self, row: int) -> bool:
        """Tell whether a reading from a row on can go on here."""
        return bool(self.held) and self.held[0].start <= row

    def read(self) -> pa.RecordBatch | None:
        """Decode the next rows; None at the end, TableUnreadable for a corrupt file."""
        self.ended = True  # unless what follows goes well
        with reading(self.path):
            batch = next(self.batches, None)
        if batch is not None:
            self.end += batch.num_rows
            self.ended = False
        return batch

    def hold(self, rows: Rows) -> None:
        """Take rows that have just been read."""
        self.held = [*self.held, rows] if self.collects else [rows]
