"""File lines without what a signature touches, ready to be signed for whoever asks."""

from array import array
from collections.abc import Sequence
from typing import Final

import msgspec

PER_OBJECT: Final = 49
"""What CPython adds to each bytes object, with its place in a list."""


class LateUrl(msgspec.Struct, frozen=True):
    """A line whose end holds a URL of its own (a deletion vector's): it is signed late, like the file's."""

    row: int
    """Which of the prepared lines."""
    before: bytes
    path: str
    """As it stands in the log."""
    after: bytes


class Prepared(msgspec.Struct, frozen=True):
    """Lines of consecutive rows without what a signature touches."""

    paths: list[bytes]
    """Below the table's root, as S3 signs them."""
    suffixes: list[bytes]
    """What follows the URL; empty where it is late."""
    sizes: "array[int]"
    """Bytes of the files, `q`."""
    late: tuple[LateUrl, ...] = ()

    def pick(self, rows: Sequence[int]) -> "Prepared":
        """Return some of the lines, in their order."""
        places = {row: place for place, row in enumerate(rows)}
        late = tuple(
            LateUrl(places[one.row], one.before, one.path, one.after) for one in self.late if one.row in places
        )
        return Prepared(
            [self.paths[row] for row in rows],
            [self.suffixes[row] for row in rows],
            array("q", [self.sizes[row] for row in rows]),
            late,
        )

    @property
    def nbytes(self) -> int:
        """Bytes in memory, estimated."""
        late = sum(len(one.before) + len(one.path) + len(one.after) + 4 * PER_OBJECT for one in self.late)
        objects = (2 * PER_OBJECT + self.sizes.itemsize) * len(self.paths)
        return sum(map(len, self.paths)) + sum(map(len, self.suffixes)) + objects + late
