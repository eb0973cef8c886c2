"""Lines of files without signatures, which can be cached and used for every recipient."""

from array import array
from collections.abc import Sequence
from typing import Final

import msgspec

PER_OBJECT: Final = 49
"""Overhead in bytes of each bytes object in CPython, including its pointer in a list."""


class VectorUrl(msgspec.Struct, frozen=True):
    """Suffix of a line that contains a second URL to sign, that of a deletion vector."""

    row: int
    """Index of the line in `PreparedLines`."""
    before: bytes
    path: str
    """Path of the deletion vector file as in the log."""
    after: bytes


class PreparedLines(msgspec.Struct, frozen=True):
    """Lines of consecutive rows, without signatures."""

    paths: list[bytes]
    """Percent-encoded file paths relative to the table's root."""
    suffixes: list[bytes]
    """Rest of each line after the URL; empty for lines in `vector_urls`."""
    sizes: "array[int]"
    """File sizes in bytes, as an array of type code `q`."""
    vector_urls: tuple[VectorUrl, ...] = ()

    def select(self, rows: Sequence[int]) -> "PreparedLines":
        """Return only the lines with these indices, in this order."""
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
        """Estimated size in memory in bytes."""
        vectors = sum(len(url.before) + len(url.path) + len(url.after) + 4 * PER_OBJECT for url in self.vector_urls)
        objects = (2 * PER_OBJECT + self.sizes.itemsize) * len(self.paths)
        return sum(map(len, self.paths)) + sum(map(len, self.suffixes)) + objects + vectors
