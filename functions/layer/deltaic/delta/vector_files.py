"""Reads deletion vectors from their files: of each file what is asked for by one call."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deltaic.delta.deletion_vectors import DeletionVector, file_path, framed_range
from deltaic.delta.store import TableStore
from deltaic.delta.unreadable import reading

_AT_ONCE: Final = 16
"""Files of vectors that are read at the same time."""


def read_framed(store: TableStore, vectors: Sequence[DeletionVector | None]) -> list[bytes | None]:
    """Return the bytes of `framed_range` for each vector that has a file; None for an inline one and for None.

    Raises TableUnreadable for a file that is gone.
    """
    framed: list[bytes | None] = [None] * len(vectors)
    places: dict[str, list[tuple[int, tuple[int, int]]]] = {}
    for at, vector in enumerate(vectors):
        path = None if vector is None else file_path(vector.storage_type, vector.path_or_inline_dv)
        if vector is not None and path is not None:
            # A vector without an offset is the only one of its file, behind the byte that names the format.
            start = 1 if vector.offset is None else vector.offset
            places.setdefault(path, []).append((at, framed_range(start, vector.size_in_bytes)))

    def read(path: str) -> None:
        with reading(path):
            pieces = store.get_ranges(path, [range_ for _, range_ in places[path]])
        for (at, _), piece in zip(places[path], pieces, strict=True):
            framed[at] = bytes(piece)

    with ThreadPoolExecutor(min(len(places), _AT_ONCE) or 1, "vectors") as readers:
        for _ in readers.map(read, places):
            pass
    return framed
