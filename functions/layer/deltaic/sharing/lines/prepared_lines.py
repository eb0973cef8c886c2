"""PreparedLines file lines: everything except the signatures, for any recipient."""

from array import array
from collections.abc import Sequence
from typing import Final

import msgspec

PER_OBJECT: Final = 49
"""Overhead of each bytes object in CPython, including its pointer in a list."""


class VectorUrl(msgspec.Struct, frozen=True):
    """Suffix of a line with the URL of a deletion vector, which is signed like the URL of the file."""

    row: int
    """Index of the prepared line."""
    before: bytes
    path: str
    """Path in the log."""
    after: bytes


class PreparedLines(msgspec.Struct, frozen=True):
    """Lines of consecutive rows, without signatures."""

    paths: list[bytes]
    """Relative to the table's root, as S3 signs them."""
    suffixes: list[bytes]
    """Text after the URL; empty for lines in `vector_urls`."""
    sizes: "array[int]"
    """File sizes in bytes, type `q`."""
    vector_urls: tuple[VectorUrl, ...] = ()

    def select(self, rows: Sequence[int]) -> "PreparedLines":
        """Return the lines of these rows, in their order."""
        indices = {row: index for index, row in enumerate(rows)}
        replace, urls = msgspec.structs.replace, self.vector_urls
        vector_urls = tuple(replace(url, row=indices[url.row]) for url in urls if url.row in indices)
        return PreparedLines(
            [self.paths[row] for row in rows],
            [self.suffixes[row] for row in rows],
            array("q", [self.sizes[row] for row in rows]),
            vector_urls,
        )

    @property
    def nbytes(self) -> int:
        """Estimated size in memory."""
        vectors = sum(len(url.before) + len(url.path) + len(url.after) + 4 * PER_OBJECT for url in self.vector_urls)
        objects = (2 * PER_OBJECT + self.sizes.itemsize) * len(self.paths)
        return sum(map(len, self.paths)) + sum(map(len, self.suffixes)) + objects + vectors
