"""Decides how many bytes an answer takes at the least, before its first line: what exceeds a limit can be refused then.

Never more than it will take, so that nothing is refused that fits. A line holds a signature and an id, and no coder
makes less than 48 bytes of those. What paths and statistics add is known by how they lie compressed in the checkpoint:
gzipped in lines they take 0.64 times as much and more, for what repeats in them lies far apart (decision 48).
"""

from typing import Final

from deltaic.delta.snapshot import Snapshot
from deltaic.sharing.answer import Weight
from deltaic.storage.urls import TableUrls

_LINE_GZIPPED: Final = 48
_PACKED_GZIPPED: Final = 0.5
_HEX_DIGITS: Final = 64
"""Of a signature."""
_FEW: Final = 100_000
"""Lines up to which nothing is asked of the log: only at 2 KB a line, gzipped, would they exceed 200 MB."""


def weight_of(lines: int, urls: TableUrls, packed_bytes: int = 0) -> Weight:
    """Return what so many lines weigh; `packed_bytes` is what their paths and statistics take compressed."""
    line = len(urls.signer.query) + _HEX_DIGITS
    return Weight(lines * line + packed_bytes, lines * _LINE_GZIPPED + int(packed_bytes * _PACKED_GZIPPED))


def weight_of_files(snapshot: Snapshot, urls: TableUrls, most: int | None) -> Weight:
    """Return what all files of a version weigh, or `most` of them."""
    files = snapshot.totals().num_files
    if most is not None and most < files:
        return weight_of(most, urls)
    return weight_of(files, urls, snapshot.packed_bytes() if files > _FEW else 0)
