"""A Parquet file of the log, as it is fetched: its footer by one request, its column chunks by few ranges.

Built on pyarrow's reader class and not on `pyarrow.parquet`, which imports `pyarrow.fs` and with it 50 ms and every
cloud's client. `pre_buffer` stays off: it keeps every range that was ever read.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyarrow._parquet import FileMetaData, ParquetReader

from deltaic.delta.log_files import check_length, shown
from deltaic.delta.store import TableStore
from deltaic.errors import TableUnreadable

FOOTER: Final = 64 << 10
"""Bytes asked for to get a footer."""
FOOTER_AND_ACTIONS: Final = 512 << 10
"""Bytes asked for to get, in a whole checkpoint, mostly the footer, `metaData` and `protocol` at once."""
_WHOLE: Final = 2 << 20
"""A file up to this size is fetched at once: one request is cheaper than two."""
LARGE: Final = 64 << 20
"""A row group above this size is not fetched whole: its large column chunks are read piece by piece."""
_PIECE: Final = 4 << 20
_NARROW_ROWS: Final = 65536

Blocks = list[tuple[int, memoryview]]
"""Parts of a file: where each starts, and its bytes."""
NOTHING: Final[Blocks] = []


class RangeFile:
    """A file object over ranges of one object: holds blocks that were fetched, asks the store for anything else."""

    def __init__(self, store: TableStore, path: str, size: int, blocks: Blocks) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._blocks = blocks
        self._at = 0
        self.closed = False

    def read(self, length: int = -1) -> memoryview | bytes:
        """Return up to `length` bytes from the current position, all of the rest for a negative length."""
        end = self._size if length < 0 else min(self._at + length, self._size)
        start, self._at = self._at, max(end, self._at)
        if start >= end:
            return b""
        held = find(self._blocks, start, end)
        return self._store.get_ranges(self._path, [(start, end)])[0] if held is None else held

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position, as files do."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def close(self) -> None:
        """Let go of the blocks."""
        self.closed = True
        self._blocks = []


def find(blocks: Blocks, start: int, end: int) -> memoryview | None:
    """Return the bytes `[start, end)` of the file if one block has them all."""
    for at, data in blocks:
        if at <= start and end <= at + len(data):
            return data[start - at : end - at]
    return None


class ParquetFile:
    """One Parquet file with its footer read; every reading pass opens its own Cursor, so threads may share it."""

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
        self._held: Blocks = [(self.size - len(data), memoryview(data))]
        self._lent: Blocks = []
        reader = self._opened(self._held, None)
        self.footer: FileMetaData = reader.metadata
        self.schema: pa.Schema = reader.schema_arrow
        self._paths = [self.footer.schema.column(at).path for at in range(self.footer.num_columns)]
        self.columns: dict[str, int] = {path: at for at, path in enumerate(self._paths)}

    @cached_property
    def zoned(self) -> frozenset[str]:
        """Dotted paths of the leaves stored as INT96, which are instants although Arrow calls them zoneless.

        Spark writes timestamps so by default; those without time zone it never does.
        """
        schema = self.footer.schema
        return frozenset(path for path, at in self.columns.items() if schema.column(at).physical_type == "INT96")

    @property
    def held_bytes(self) -> int:
        """Bytes of the file that stay in memory with this object."""
        return sum(len(data) for _, data in self._held)

    def forget(self) -> None:
        """Let go of fetched bytes, unless they are the whole of a small file."""
        if self._held and self._held[0][0] > 0:
            self._held = []

    def lend(self, blocks: Blocks) -> None:
        """Keep fetched blocks for the next call of `fetch`, which is about to ask for them."""
        self._lent = blocks

    def open_reader(self, blocks: Blocks, *, buffered: bool = False, coded: Sequence[int] = ()) -> ParquetReader:
        """Return pyarrow's reader over these blocks; the footer is parsed once only. For `coded` see Cursor."""
        return self._opened(blocks, self.footer, buffered=buffered, coded=coded)

    def _opened(
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
        """Return the leaf columns at or below these dotted paths."""
        below = tuple(prefix + "." for prefix in prefixes)
        # Two have one path where a field `a.b` is beside a field b of a.
        return [at for at, path in enumerate(self._paths) if path in prefixes or path.startswith(below)]

    def ranges(self, groups: Sequence[int], leaves: Sequence[int], *, whole: bool = True) -> list[tuple[int, int]]:
        """Return where the column chunks of these leaves lie; without large chunks unless `whole`."""
        ranges = []
        for group in groups:
            row_group = self.footer.row_group(group)
            for leaf in leaves:
                chunk = row_group.column(leaf)
                first = chunk.data_page_offset
                if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < first:
                    first = chunk.dictionary_page_offset
                if whole or chunk.total_compressed_size <= _PIECE:
                    ranges.append((first, first + chunk.total_compressed_size))
        return ranges

    def spans(self, groups: Sequence[int], leaves: Sequence[int]) -> list[tuple[int, int]]:
        """Return for each row group where these column chunks lie, with what lies between them."""
        found = [self.ranges([group], leaves) for group in groups]
        return [(min(ranges)[0], max(end for _, end in ranges)) for ranges in found]

    def fetch(self, ranges: Sequence[tuple[int, int]], known: Blocks = NOTHING) -> Blocks:
        """Return these ranges, by at most one call to the store, which is not asked for what is in memory or known."""
        buffers, self._lent = self._held + self._lent + known, []
        missing = [span for span in ranges if find(buffers, *span) is None]
        if not all(0 <= start <= end <= self.size for start, end in missing):
            raise TableUnreadable(
                f"the table's log cannot be read: {shown(self._path)} is corrupt: its footer names bytes past its end",
                self._path,
            )
        fetched = self._store.get_ranges(self._path, missing) if missing else []
        return buffers + [(start, memoryview(data)) for (start, _), data in zip(missing, fetched, strict=True)]

    def counts(self, path: str) -> list[int | None]:
        """Return how many non-null values a leaf has in each row group (see `values`); nothing where there is none."""
        leaf = self.columns.get(path)
        return [] if leaf is None else [self.values(group, leaf) for group in range(self.footer.num_row_groups)]

    def values(self, group: int, leaf: int) -> int | None:
        """Return how many non-null values a column chunk has, as the footer tells it; None when it does not."""
        chunk = self.footer.row_group(group).column(leaf)
        if chunk.num_values == 0:
            return 0  # writers may say nothing of no rows
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        return int(chunk.num_values - statistics.null_count)


class Cursor:
    """One reading pass over fetched blocks of a Parquet file; not for several threads."""

    def __init__(
        self, parquet: ParquetFile, blocks: Blocks, *, buffered: bool = False, coded: Sequence[int] = ()
    ) -> None:
        """Open the pass; leaves of text that are `coded` come as dictionary arrays, as they are mostly stored."""
        self._reader = parquet.open_reader(blocks, buffered=buffered, coded=coded)

    def batches(self, group: int, leaves: Sequence[int], rows: int = _NARROW_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in order, `rows` at a time; by default as many as suit narrow columns."""
        yield from self._reader.iter_batches(rows, [group], leaves, use_threads=False)
