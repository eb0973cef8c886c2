"""Replace the deletion vectors of files by inline vectors, for recipients of filtered tables and for Iceberg tables.

Writers put the vectors of many partitions into one file. A URL of that file would reveal which rows of other files
were deleted. Clients refuse the vector files of Iceberg tables, which are Puffin files. So the server reads the
vectors of the files in the response, and inserts them into the response.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from msgspec.structs import replace

from deltaic.delta.actions import Add, Remove
from deltaic.delta.deletion_vectors import DeletionVector, inline, read_framed
from deltaic.delta.scan.add_rows import replace_column
from deltaic.delta.scan.file_batches import DELETION_VECTOR, FileBatch
from deltaic.delta.store import TableStore
from deltaic.sharing.context import SharedTable, Sharing

AT_ONCE_BYTES: Final = 1 << 20
"""Maximum size of the vectors in memory at the same time; encoded in lines, they need about four times as much."""


def with_inline_vectors(sharing: Sharing, table: SharedTable, batches: Iterable[FileBatch]) -> Iterator[FileBatch]:
    """Yield file batches with inline deletion vectors; batches with large vectors are split."""
    files = sharing.files(table)
    for batch in batches:
        column = batch.files.column("deletionVector")
        if column.null_count == len(column):
            yield batch
            continue
        rows: list[dict[str, Any] | None] = column.to_pylist()
        vectors = [None if row is None else DeletionVector.of_row(row) for row in rows]
        for first, end in _pieces(vectors):
            rows_inline = [vector and vector.row for vector in _inline(files, vectors[first:end])]
            piece = batch.files.slice(first, end - first)
            is_complete = len(rows_inline) == len(vectors)
            yield replace(
                batch,
                files=replace_column(piece, "deletionVector", pa.array(rows_inline, DELETION_VECTOR)),
                rows=batch.rows if is_complete else _row_numbers(batch, first, end),
            )


def _pieces(vectors: Sequence[DeletionVector | None]) -> Iterator[tuple[int, int]]:
    """Split vectors into index ranges `[first, end)` of at most AT_ONCE_BYTES, or of one larger vector."""
    first = total = 0
    for at, vector in enumerate(vectors):
        size = 0 if vector is None else vector.size_in_bytes
        if total + size > AT_ONCE_BYTES and at > first:
            yield first, at
            first, total = at, 0
        total += size
    yield first, len(vectors)


def _row_numbers(batch: FileBatch, first: int, end: int) -> pa.UInt64Array:
    return pa.array(range(first, end), pa.uint64()) if batch.rows is None else batch.rows.slice(first, end - first)


def actions_with_inline_vectors(
    sharing: Sharing, table: SharedTable, actions: Sequence[Add | Remove]
) -> list[Add | Remove]:
    """Return `add` and `remove` actions of a commit with inline deletion vectors, in the same order."""
    if not any(action.deletion_vector for action in actions):
        return list(actions)
    vectors = _inline(sharing.files(table), [action.deletion_vector for action in actions])
    return [replace(action, deletion_vector=vector) for action, vector in zip(actions, vectors, strict=True)]


def _inline(files: TableStore, vectors: Sequence[DeletionVector | None]) -> list[DeletionVector | None]:
    return [
        vector
        if vector is None or framed is None
        else replace(vector, storage_type="i", path_or_inline_dv=inline(framed, vector.size_in_bytes), offset=None)
        for vector, framed in zip(vectors, read_framed(files, vectors), strict=True)
    ]
