"""Arrow batches of a version's live files, and positions in their order."""

from typing import NamedTuple, Self

import msgspec
import pyarrow as pa

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        # Physical column names, strings unchanged from the log; a null value is a null partition value.
        pa.field("partitionValues", pa.map_(pa.string(), pa.string())),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        # JSON of the log, or created from typed statistics; null without statistics.
        pa.field("stats", pa.string()),
        pa.field("deletionVector", DELETION_VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
    ]
)
"""Schema of live files, one `add` action per row (Delta protocol, "Add File and Remove File"); paths are unchanged.

`tags` and `clusteringProvider` are omitted: only writers need them, and some checkpoints contain many. `dataChange` is
omitted too: checkpoint writers overwrite it, and for a reader of a version every file is new data.
"""


class Position(NamedTuple):
    """Position of a row in the order of a version's files."""

    base: str
    """Identity of the checkpoint that determines the order; empty without a checkpoint."""
    part: int
    """0 for the commits after the checkpoint, n for the n-th part (file) of the checkpoint."""
    row_group: int
    row: int


class FileBatch(msgspec.Struct, frozen=True):
    """Some live files of a version and their positions in the order of files."""

    files: pa.RecordBatch
    start: Position
    """Position of the first row that was scanned for this batch."""
    num_scanned: int
    rows: pa.UInt64Array | None
    """Offsets of the rows of `files` within the scanned rows; None if all scanned rows are in `files`."""

    @property
    def nbytes(self) -> int:
        """Bytes of this batch in memory."""
        return int(self.files.get_total_buffer_size()) + (0 if self.rows is None else int(self.rows.nbytes))

    def slice(self, first: int, count: int) -> Self:
        """Return `count` files from index `first` on, as if the scan ended after them."""
        if first == 0 and count >= self.files.num_rows:
            return self
        end = self.position(first + count).row
        rows = pa.array(range(self.files.num_rows), pa.uint64()) if self.rows is None else self.rows
        return type(self)(self.files.slice(first, count), self.start, end - self.start.row, rows.slice(first, count))

    def position(self, row: int) -> Position:
        """Return the position of file `row` of this batch; for `files.num_rows`, where the next batch starts."""
        if row >= self.files.num_rows:
            return self.start._replace(row=self.start.row + self.num_scanned)
        offset = row if self.rows is None else self.rows[row].as_py()
        return self.start._replace(row=self.start.row + offset)
