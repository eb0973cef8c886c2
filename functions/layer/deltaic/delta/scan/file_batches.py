"""The shape in which live files travel from the log to the wire: Arrow batches of one schema, and where they stand."""

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
        # Physical column names, raw strings as they stand in the log; a null value is a null partition value.
        pa.field("partitionValues", pa.map_(pa.string(), pa.string())),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        # The JSON string of the log, or one rebuilt from typed statistics; null when there is none.
        pa.field("stats", pa.string()),
        pa.field("deletionVector", DELETION_VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
    ]
)
"""One live `add` per row (Delta protocol, "Add File and Remove File"); `path` is raw, as it stands in the log.

`tags` and `clusteringProvider` are not here: they concern writers, no line of an answer has them, and some checkpoints
hold a lot of them. Nor is `dataChange`: it says what a commit did, writers of checkpoints overwrite it (Spark with
false), and whoever reads a whole version sees every file as new data.
"""


class Position(NamedTuple):
    """Where a row stands in the order of files of one version."""

    base: str
    """Identity of the checkpoint that the order rests on; empty for none."""
    part: int
    """0 is the commits after the checkpoint, n the checkpoint's n-th part."""
    row_group: int
    row: int


class FileBatch(msgspec.Struct, frozen=True):
    """Some live files, and where they stand."""

    files: pa.RecordBatch
    """FILE_SCHEMA."""
    start: Position
    """Where the first row stood that was looked at for this batch."""
    looked_at: int
    rows: pa.UInt64Array | None
    """Which of the rows looked at are in `files`; None for all."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.files.get_total_buffer_size()) + (0 if self.rows is None else int(self.rows.nbytes))

    def slice(self, first: int, count: int) -> Self:
        """Return some of the files, as if no more had been looked at than up to the next of them."""
        if first == 0 and count >= self.files.num_rows:
            return self
        end = self.position(first + count).row
        rows = pa.array(range(self.files.num_rows), pa.uint64()) if self.rows is None else self.rows
        return type(self)(self.files.slice(first, count), self.start, end - self.start.row, rows.slice(first, count))

    def position(self, row: int) -> Position:
        """Return where row `row` of `files` stands; `files.num_rows` gives where the next batch starts."""
        if row >= self.files.num_rows:
            return self.start._replace(row=self.start.row + self.looked_at)
        offset = row if self.rows is None else self.rows[row].as_py()
        return self.start._replace(row=self.start.row + offset)
