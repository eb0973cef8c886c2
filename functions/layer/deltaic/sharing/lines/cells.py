"""Convert Arrow columns to Python lists by decoding their buffers, instead of cell by cell.

`to_pylist` creates a scalar for every cell. For file lines, this would need more time than signing the URLs.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

import pyarrow as pa

from deltaic import compute as pc

_TYPE_CODES: Final[dict[int, Literal["i", "q"]]] = {4: "i", 8: "q"}


def integers(column: pa.Array) -> list[int]:
    """Convert an int32, int64 or uint64 column (below 2**63); null becomes 0."""
    if column.null_count:
        column = pc.coalesce(column, pa.scalar(0, column.type))
    return _integers(column.buffers()[1], column.type.bit_width // 8, column.offset, len(column))


def octets(column: pa.StringArray) -> list[bytes]:
    """Convert a string column to UTF-8 bytes; null becomes empty."""
    data, offsets = _content(column)
    return [data[start:end] for start, end in pairwise(offsets)]


def texts(column: pa.StringArray) -> list[str]:
    """Convert a string column to Python strings; null becomes empty."""
    data, offsets = _content(column)
    if data.isascii():
        # Each byte is one character: decode once, then slice.
        text = data.decode("ascii")
        return [text[start:end] for start, end in pairwise(offsets)]
    return [data[start:end].decode() for start, end in pairwise(offsets)]


def _content(column: pa.StringArray) -> tuple[bytes, Sequence[int]]:
    """Return the joined bytes of all cells, the offset of each cell, and the end of the last cell."""
    if not len(column):
        return b"", ()
    _, offsets, data = column.buffers()
    positions = _integers(offsets, 4, column.offset, len(column) + 1)
    first = positions[0]
    content = b"" if data is None else data.slice(first, positions[-1] - first).to_pybytes()
    return content, [position - first for position in positions] if first else positions


def _integers(buffer: pa.Buffer | None, width: int, first: int, count: int) -> list[int]:
    if not count or buffer is None:
        return []
    return memoryview(buffer).cast("B").cast(_TYPE_CODES[width])[first : first + count].tolist()
