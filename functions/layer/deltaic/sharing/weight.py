"""Counts the bytes that an answer takes at the least, before its first line: what exceeds a limit can be refused then.

Never more than it will take, so that nothing is refused that fits. Of any line this is certain: it holds a signature
and an id, and no coder makes less than 48 bytes of those; and what paths and statistics take compressed in the
checkpoint they take in lines at least half of (decision 48).
"""

from typing import Final

from deltaic.delta.snapshot import Snapshot
from deltaic.sharing.answer import Weight
from deltaic.storage.table_urls import TableUrls

_LINE_GZIPPED: Final = 48
_PACKED_GZIPPED: Final = 0.5
_HEX_DIGITS: Final = 64
"""Of a signature."""
_FEW: Final = 100_000
"""Lines up to which nothing is asked of the log: only at 2 KB a line, gzipped, would they exceed 200 MB."""


def weight_of(lines: int, urls: TableUrls, packed_bytes: int = 0) -> Weight:
    """Return what lines weigh for certain; `packed_bytes` is what their paths and statistics take in the log."""
    signed = len(urls.signer.query) + _HEX_DIGITS
    return Weight(lines * signed + packed_bytes, lines * _LINE_GZIPPED + int(packed_bytes * _PACKED_GZIPPED))


def weight_of_files(snapshot: Snapshot, urls: TableUrls, most: int | None, *, statistics: bool) -> Weight:
    """Return what all files of a version weigh, or `most` of them.

    Without `statistics` in the lines, what they take in the checkpoint is no part of what is certain.
    """
    files = snapshot.totals().num_files
    if most is not None and most < files:
        return weight_of(most, urls)
    return weight_of(files, urls, snapshot.packed_bytes() if statistics and files > _FEW else 0)
