"""Replaces the deletion vectors of files by inline ones, for recipients from whom something is kept back.

Writers put the vectors of many files into one, whatever their partitions: its URL would tell how many rows of other
files were deleted, and which. So the server reads the vectors of the files that leave, and only those.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from deltaic.delta.actions import Add, Remove
from deltaic.delta.deletion_vectors import DeletionVector, file_path, framed_range, inline
from deltaic.delta.scan.add_rows import replace_column
from deltaic.delta.scan.file_batches import DELETION_VECTOR, FileBatch
from deltaic.delta.store import TableStore
from deltaic.delta.unreadable import reading
from deltaic.sharing.context import SharedTable, Sharing

_AT_ONCE: Final = 16
"""Files of vectors that are read at the same time."""
AT_ONCE_BYTES: Final = 1 << 20
"""Of vectors in memory at the same time, about four times as much with what is made of them."""


def with_inline_vectors(sharing: Sharing, table: SharedTable, batches: Iterable[FileBatch]) -> Iterator[FileBatch]:
    """Yield the batches with every vector inline, in pieces where those are large."""
    files = sharing.files(table)
    for batch in batches:
        column = batch.files.column("deletionVector")
        if column.null_count == len(column):
            yield batch
            continue
        rows: list[dict[str, Any] | None] = column.to_pylist()
        vectors = [None if row is None else _vector(row) for row in rows]
        for first, end in _pieces(vectors):
            rows_inline = [None if one is None else one.row for one in _inline(files, vectors[first:end])]
            piece = batch.files.slice(first, end - first)
            whole = len(rows_inline) == len(vectors)
            yield replace(
                batch,
                files=replace_column(piece, "deletionVector", pa.array(rows_inline, DELETION_VECTOR)),
                rows=batch.rows if whole else _places(batch, first, end),
            )


def _pieces(vectors: Sequence[DeletionVector | None]) -> Iterator[tuple[int, int]]:
    """Cut vectors into stretches `[first, end)` of at most AT_ONCE_BYTES, or of one vector."""
    first = taken = 0
    for at, vector in enumerate(vectors):
        size = 0 if vector is None else vector.size_in_bytes
        if taken + size > AT_ONCE_BYTES and at > first:
            yield first, at
            first, taken = at, 0
        taken += size
    yield first, len(vectors)


def _places(batch: FileBatch, first: int, end: int) -> pa.UInt64Array:
    return pa.array(range(first, end), pa.uint64()) if batch.rows is None else batch.rows.slice(first, end - first)


def actions_with_inline_vectors(
    sharing: Sharing, table: SharedTable, actions: Sequence[Add | Remove]
) -> list[Add | Remove]:
    """Return actions of a commit with every vector inline."""
    if not any(action.deletion_vector for action in actions):
        return list(actions)
    vectors = _inline(sharing.files(table), [action.deletion_vector for action in actions])
    return [
        msgspec.structs.replace(action, deletion_vector=vector) for action, vector in zip(actions, vectors, strict=True)
    ]


def _inline(files: TableStore, vectors: Iterable[DeletionVector | None]) -> list[DeletionVector | None]:
    """Return vectors inline; of each file of theirs what they take is read by one call."""
    inlined = list(vectors)
    places: dict[str, list[int]] = {}
    for at, vector in enumerate(inlined):
        path = None if vector is None else file_path(vector.storage_type, vector.path_or_inline_dv)
        if path is not None:
            places.setdefault(path, []).append(at)

    def read(path: str) -> None:
        own = [cast("DeletionVector", inlined[at]) for at in places[path]]
        # A vector without an offset is the only one of its file, behind the byte that names the format.
        ranges = [framed_range(1 if one.offset is None else one.offset, one.size_in_bytes) for one in own]
        with reading(path):
            framed = files.get_ranges(path, ranges)
        for at, one, data in zip(places[path], own, framed, strict=True):
            text = inline(data, one.size_in_bytes)
            inlined[at] = msgspec.structs.replace(one, storage_type="i", path_or_inline_dv=text, offset=None)

    with ThreadPoolExecutor(min(len(places), _AT_ONCE) or 1, "vectors") as readers:
        for _ in readers.map(read, places):
            pass
    return inlined


def _vector(row: dict[str, Any]) -> DeletionVector:
    return DeletionVector(
        row["storageType"], row["pathOrInlineDv"], row["sizeInBytes"] or 0, row["cardinality"] or 0, row["offset"]
    )
