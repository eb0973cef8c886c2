"""Read Parquet files of the Delta log with few range requests.

Uses pyarrow's reader class instead of `pyarrow.parquet`, whose import of `pyarrow.fs` takes 50 ms. `pre_buffer` is off,
because it keeps all ranges in memory.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyarrow._parquet import FileMetaData, ParquetReader

from deltaic.delta.log_files import check_length, public_path
from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable

FOOTER: Final = 64 << 10
"""Bytes to read from the end of a Parquet file for its footer."""
FOOTER_AND_ACTIONS: Final = 512 << 10
"""Bytes to read from a checkpoint for its footer and usually also `metaData` and `protocol`."""
_WHOLE: Final = 2 << 20
"""A file up to this size is fetched with one request."""
LARGE: Final = 64 << 20
"""In a row group above this size, large column chunks are read in pieces."""
_PIECE: Final = 4 << 20
_NARROW_ROWS: Final = 65536

Blocks = list[tuple[int, memoryview]]
"""Fetched parts of a file: offset and bytes."""
NOTHING: Final[Blocks] = []


class RangeFile:
    """File object that reads from fetched blocks, and requests all other ranges from the store."""

    def __init__(self, store: TableStore, path: str, size: int, blocks: Blocks) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._blocks = blocks
        self._at = 0
        self.closed = False

    def read(self, length: int = -1) -> memoryview | bytes:
        """Return up to `length` bytes from the position; all remaining bytes for a negative length."""
        end = self._size if length < 0 else min(self._at + length, self._size)
        start, self._at = self._at, max(end, self._at)
        if start >= end:
            return b""
        block_bytes = find(self._blocks, start, end)
        return self._store.get_ranges(self._path, [(start, end)])[0] if block_bytes is None else block_bytes

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position, as in `io.RawIOBase.seek`."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._at

    def close(self) -> None:
        """Release the blocks."""
        self.closed = True
        self._blocks = []


def find(blocks: Blocks, start: int, end: int) -> memoryview | None:
    """Return the bytes `[start, end)` of the file if one block contains them all, else None."""
    for at, data in blocks:
        if at <= start and end <= at + len(data):
            return data[start - at : end - at]
    return None


class ParquetFile:
    """A Parquet file with its parsed footer; thread-safe, because each reader has its own Cursor."""

    def __init__(self, store: TableStore, path: str, size: int | None, tail: int) -> None:
        self._store = store
        self._path = path
        if size is not None and size <= _WHOLE:
            data = store.get(path)
            self.size = len(data)
        else:
            data, self.size = store.get_tail(path, tail)
            check_length(path, len(data), min(tail, self.size))
        if size is not None:
            check_length(path, self.size, size)
        self._blocks: Blocks = [(self.size - len(data), memoryview(data))]
        self._prefetched: Blocks = []
        reader = self._new_reader(self._blocks, None)
        self.footer: FileMetaData = reader.metadata
        self.schema: pa.Schema = reader.schema_arrow
        self._paths = [self.footer.schema.column(at).path for at in range(self.footer.num_columns)]
        self.columns: dict[str, int] = {path: at for at, path in enumerate(self._paths)}

    @cached_property
    def zoned(self) -> frozenset[str]:
        """Dotted paths of INT96 columns, which are UTC instants although Arrow reads them without a time zone.

        Spark writes timestamps as INT96 by default, but never timestamps without a time zone.
        """
        schema = self.footer.schema
        return frozenset(path for path, at in self.columns.items() if schema.column(at).physical_type == "INT96")

    @property
    def cached_bytes(self) -> int:
        """Number of bytes of the file that this object keeps in memory."""
        return sum(len(data) for _, data in self._blocks)

    def forget(self) -> None:
        """Release the fetched bytes, unless they are a complete small file."""
        if self._blocks and self._blocks[0][0] > 0:
            self._blocks = []

    def keep_prefetched(self, blocks: Blocks) -> None:
        """Keep fetched blocks for the next call of `fetch`."""
        self._prefetched = blocks

    def open_reader(self, blocks: Blocks, *, buffered: bool = False, coded: Sequence[int] = ()) -> ParquetReader:
        """Return a pyarrow reader of fetched blocks; string columns in `coded` become dictionary arrays."""
        return self._new_reader(blocks, self.footer, buffered=buffered, coded=coded)

    def _new_reader(
        self, blocks: Blocks, footer: FileMetaData | None, *, buffered: bool = False, coded: Sequence[int] = ()
    ) -> ParquetReader:
        reader = ParquetReader()
        reader.open(
            RangeFile(self._store, self._path, self.size, blocks),
            metadata=footer,
            read_dictionary=coded or None,
            buffer_size=_PIECE if buffered else 0,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
        )
        return reader

    def leaves(self, *prefixes: str) -> list[int]:
        """Return the indexes of leaf columns whose dotted path is one of `prefixes`, or is nested in one."""
        below = tuple(prefix + "." for prefix in prefixes)
        # Two leaves have the same path if there is a field `a.b` and a field b of a.
        return [at for at, path in enumerate(self._paths) if path in prefixes or path.startswith(below)]

    def ranges(self, groups: Sequence[int], leaves: Sequence[int], *, with_large: bool = True) -> list[tuple[int, int]]:
        """Return the byte ranges of the column chunks of these leaf columns, optionally without large chunks."""
        ranges = []
        for group in groups:
            row_group = self.footer.row_group(group)
            for leaf in leaves:
                chunk = row_group.column(leaf)
                first = chunk.data_page_offset
                if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < first:
                    first = chunk.dictionary_page_offset
                if with_large or chunk.total_compressed_size <= _PIECE:
                    ranges.append((first, first + chunk.total_compressed_size))
        return ranges

    def spans(self, groups: Sequence[int], leaves: Sequence[int]) -> list[tuple[int, int]]:
        """Return for each row group one byte range that includes all its column chunks of these leaf columns."""
        group_ranges = [self.ranges([group], leaves) for group in groups]
        return [(min(ranges)[0], max(end for _, end in ranges)) for ranges in group_ranges]

    def fetch(self, ranges: Sequence[tuple[int, int]], blocks: Blocks = NOTHING) -> Blocks:
        """Return blocks that contain these ranges, with at most one call to the store for ranges not in memory."""
        buffers, self._prefetched = self._blocks + self._prefetched + blocks, []
        missing = [span for span in ranges if find(buffers, *span) is None]
        if not all(0 <= start <= end <= self.size for start, end in missing):
            cause = f"{public_path(self._path)} is corrupt: its footer refers to bytes past its end"
            raise TableUnreadable(f"the table's log cannot be read: {cause}", self._path)
        fetched = self._store.get_ranges(self._path, missing) if missing else []
        return buffers + [(start, memoryview(data)) for (start, _), data in zip(missing, fetched, strict=True)]

    def counts(self, path: str) -> list[int | None]:
        """Return a leaf column's number of non-null values in each row group; empty if the file lacks the column."""
        leaf = self.columns.get(path)
        return [] if leaf is None else [self.values(group, leaf) for group in range(self.footer.num_row_groups)]

    def values(self, group: int, leaf: int) -> int | None:
        """Return a column chunk's number of non-null values; None if the footer omits it."""
        chunk = self.footer.row_group(group).column(leaf)
        if chunk.num_values == 0:
            return 0  # without rows, writers may omit statistics
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        return int(chunk.num_values - statistics.null_count)


class Cursor:
    """Sequential reader of row groups from fetched blocks of a Parquet file; not thread-safe."""

    def __init__(
        self, parquet: ParquetFile, blocks: Blocks, *, buffered: bool = False, coded: Sequence[int] = ()
    ) -> None:
        """Create a reader; string columns in `coded` are returned as dictionary arrays, which is faster."""
        self._reader = parquet.open_reader(blocks, buffered=buffered, coded=coded)

    def batches(self, group: int, leaves: Sequence[int], rows: int = _NARROW_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in order, `rows` at a time."""
        yield from self._reader.iter_batches(rows, [group], leaves, use_threads=False)
