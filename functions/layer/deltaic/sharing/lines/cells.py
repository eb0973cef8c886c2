"""Arrow columns as Python lists on the way to lines: by their buffers, and not cell by cell.

`to_pylist` makes a scalar of every cell; for the columns of a file line that costs more than signing it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

import pyarrow as pa

from deltaic import compute as pc

_LETTERS: Final[dict[int, Literal["i", "q"]]] = {4: "i", 8: "q"}


def integers(column: pa.Array) -> list[int]:
    """Return an int32, int64 or uint64 column (below 2**63); 0 where it is null."""
    if column.null_count:
        column = pc.coalesce(column, pa.scalar(0, column.type))
    return _integers(column.buffers()[1], column.type.bit_width // 8, column.offset, len(column))


def octets(column: pa.StringArray) -> list[bytes]:
    """Return a string column as UTF-8; empty where it is null."""
    data, offsets = _content(column)
    return [data[start:end] for start, end in pairwise(offsets)]


def texts(column: pa.StringArray) -> list[str]:
    """Return a string column; empty where it is null."""
    data, offsets = _content(column)
    if data.isascii():
        # A byte is a character: cut the text instead of decoding piece by piece.
        whole = data.decode("ascii")
        return [whole[start:end] for start, end in pairwise(offsets)]
    return [data[start:end].decode() for start, end in pairwise(offsets)]


def _content(column: pa.StringArray) -> tuple[bytes, Sequence[int]]:
    """Return the bytes of the cells, joined, and where each begins and the last ends."""
    if not len(column):
        return b"", ()
    _, offsets, data = column.buffers()
    found = _integers(offsets, 4, column.offset, len(column) + 1)
    first = found[0]
    content = b"" if data is None else data.slice(first, found[-1] - first).to_pybytes()
    return content, [at - first for at in found] if first else found


def _integers(buffer: pa.Buffer | None, width: int, first: int, count: int) -> list[int]:
    if not count or buffer is None:
        return []
    return memoryview(buffer).cast("B").cast(_LETTERS[width])[first : first + count].tolist()
