"""Decides how a Parquet file of the log is fetched: its footer by one request, its column chunks by few ranges.

Built on pyarrow's reader class and not on `pyarrow.parquet`, which imports `pyarrow.fs` and with it 50 ms and every
cloud's client. `pre_buffer` stays off: it keeps every range that was ever read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow._parquet import ParquetReader

from deltaic.delta.store import TableStore

_TAIL: Final = 512 << 10
"""Bytes asked for to get the footer; in a checkpoint they mostly hold `metaData` and `protocol` as well."""
_WHOLE: Final = 2 << 20
"""A file up to this size is fetched at once: one request is cheaper than two."""
_GAP: Final = 1 << 20
"""Bytes that are read for nothing rather than asking twice."""


class RangeFile:
    """A file object over ranges of one object: holds the blocks that were prefetched, asks the store for any other."""

    def __init__(self, store: TableStore, path: str, size: int, blocks: Sequence[tuple[int, bytes]] = ()) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._blocks = [(start, memoryview(data)) for start, data in blocks]
        self._at = 0
        self.closed = False

    def prefetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch these ranges by one call and keep only them; those that are here already are not fetched again."""
        wanted = coalesce(ranges)
        missing = [(start, end) for start, end in wanted if self._find(start, end) is None]
        kept = [
            block for block in self._blocks if any(block[0] <= s and e <= block[0] + len(block[1]) for s, e in wanted)
        ]
        fetched = self._store.get_ranges(self._path, missing) if missing else []
        self._blocks = kept + [(start, memoryview(data)) for (start, _), data in zip(missing, fetched, strict=True)]

    def _find(self, start: int, end: int) -> memoryview | None:
        for offset, data in self._blocks:
            if offset <= start and end <= offset + len(data):
                return data[start - offset : end - offset]
        return None

    def read(self, length: int = -1) -> memoryview | bytes:
        """Return up to `length` bytes from the current position, all of the rest for a negative length."""
        end = self._size if length < 0 else min(self._at + length, self._size)
        start, self._at = self._at, max(end, self._at)
        if start >= end:
            return b""
        found = self._find(start, end)
        return self._store.get_ranges(self._path, [(start, end)])[0] if found is None else found

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

    def flush(self) -> None:
        """Do nothing: files that are read have nothing to flush."""

    def readable(self) -> bool:
        """Files of the log are read."""
        return True

    def seekable(self) -> bool:
        """Ranges can be read in any order."""
        return True

    def writable(self) -> bool:
        """Nothing here writes to a log."""
        return False


def coalesce(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that overlap or lie near each other."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1] + _GAP:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


class ParquetFile:
    """One Parquet file with its footer read; every reading pass opens its own cursor, so threads may share it."""

    def __init__(self, store: TableStore, path: str, size: int | None = None) -> None:
        self._store = store
        self._path = path
        if size is not None and size <= _WHOLE:
            data = store.get(path)
            self.size, self._kept = len(data), (0, data)
        else:
            data, self.size = store.get_tail(path, _TAIL)
            self._kept = (self.size - len(data), data)
        self.footer: Any = None
        reader = self.open_reader(self.open_file())
        self.footer = reader.metadata
        self.schema: pa.Schema = reader.schema_arrow
        self.columns: dict[str, int] = {self.footer.schema.column(at).path: at for at in range(self.footer.num_columns)}

    @property
    def kept_bytes(self) -> int:
        """Bytes of the file that stay in memory with this object."""
        return len(self._kept[1])

    def forget(self) -> None:
        """Let go of fetched bytes, unless they are the whole of a small file."""
        if self._kept[0] > 0:
            self._kept = (self.size, b"")

    def open_file(self) -> RangeFile:
        """Return a file object over this file, with what is in memory already."""
        return RangeFile(self._store, self._path, self.size, [self._kept])

    def open_reader(self, file: RangeFile) -> Any:
        """Return pyarrow's reader over such a file object; the footer is parsed once only."""
        reader = ParquetReader()
        reader.open(file, metadata=self.footer, pre_buffer=False, coerce_int96_timestamp_unit="us")
        return reader

    def leaves(self, *prefixes: str) -> list[int]:
        """Return the leaf columns at or below these dotted paths."""
        return [
            at
            for path, at in self.columns.items()
            if any(path == prefix or path.startswith(prefix + ".") for prefix in prefixes)
        ]

    def ranges(self, row_groups: Sequence[int], leaves: Sequence[int]) -> list[tuple[int, int]]:
        """Return where the column chunks of these leaves lie."""
        found = []
        for group in row_groups:
            row_group = self.footer.row_group(group)
            for leaf in leaves:
                chunk = row_group.column(leaf)
                first = chunk.data_page_offset
                if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < first:
                    first = chunk.dictionary_page_offset
                found.append((first, first + chunk.total_compressed_size))
        return found

    def values(self, row_group: int, leaf: int) -> int | None:
        """Return how many non-null values a column chunk has, as the footer tells it; None when it does not."""
        chunk = self.footer.row_group(row_group).column(leaf)
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        return int(chunk.num_values - statistics.null_count)


class Cursor:
    """One reading pass over a Parquet file; not for several threads."""

    def __init__(self, parquet: ParquetFile) -> None:
        self._parquet = parquet
        self._file = parquet.open_file()
        self._reader = parquet.open_reader(self._file)

    def prefetch(self, row_groups: Sequence[int], leaves: Sequence[int]) -> None:
        """Fetch these column chunks by one call to the store, letting go of all others."""
        self._file.prefetch(self._parquet.ranges(row_groups, leaves))

    def batches(self, row_group: int, leaves: Sequence[int], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in order, `rows` at a time."""
        yield from self._reader.iter_batches(rows, [row_group], leaves, use_threads=False)
