"""Decides how many bytes an answer takes at the least, before its first line: what exceeds a limit can be refused then.

Never more than it will take, so that nothing is refused that fits. Of any line this is certain: it holds a signature
and an id, and no coder makes less than 48 bytes of those; and what paths and statistics take compressed in the
checkpoint they take in lines at least half of. Where an answer may be near the limit, its first lines are compressed as
tightly as gzip can, and others weigh as much where their paths and statistics lie as large in the checkpoint as those
do, and less in proportion where they are smaller (decisions 48 and 93).
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa

from deltaic.delta.packed import PackedGroup
from deltaic.delta.snapshot import Snapshot
from deltaic.sharing.answer import Weight
from deltaic.storage.urls import TableUrls

_LINE_GZIPPED: Final = 48
_PACKED_GZIPPED: Final = 0.5
_HEX_DIGITS: Final = 64
"""Of a signature."""
_FEW: Final = 100_000
"""Lines up to which nothing is asked of the log: only at 2 KB a line, gzipped, would they exceed 200 MB."""
_SAMPLE: Final = 320
"""Lines that are compressed, of those that are made before the first byte leaves."""
_BEFORE: Final = 64
"""The first of them: they fill gzip's window of 32 KB and do not count."""
_LEAST_SAMPLE: Final = 128
"""Fewer say too little."""
_VECTOR: Final = b'"deletionVector":{'
"""Found in no text, where quotes are escaped."""
_STRATEGIES: Final = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED)
"""The second takes no short matches, which cost more than they save in digits without an order."""
_MOST_LATER: Final = 8192
"""Files of later commits that are passed over for a sample: they come first, and no footer tells of them."""
_CAUTION: Final = 0.95
"""What other lines may weigh less than the sample though they lie as large in the checkpoint."""


def weight_of(lines: int, urls: TableUrls, packed_bytes: int = 0) -> Weight:
    """Return what lines weigh for certain; `packed_bytes` is what their paths and statistics take in the log."""
    return Weight(lines * _signed(urls) + packed_bytes, lines * _LINE_GZIPPED + int(packed_bytes * _PACKED_GZIPPED))


def weight_of_files(
    snapshot: Snapshot, urls: TableUrls, most: int | None, sample: Callable[[int], Sequence[bytes]], *, statistics: bool
) -> Weight:
    """Return what all files of a version weigh, or `most` of them; `sample` gives so many of the first lines.

    Without `statistics` in the lines, what they take in the checkpoint is no part of what is certain.
    """
    files = snapshot.totals().num_files
    if most is not None and most < files:
        return weight_of(most, urls)
    if files <= _FEW:
        return weight_of(files, urls)
    floor = weight_of(files, urls, snapshot.packed_bytes() if statistics else 0)
    later = snapshot.later_files
    if later > _MOST_LATER:
        return floor
    lines = sample(later + _SAMPLE)[later : later + _SAMPLE]
    found = estimate(snapshot.packed_groups(), lines, urls, gone=snapshot.mentioned_files)
    return Weight(max(floor.plain, found.plain), max(floor.gzipped, found.gzipped))


def estimate(groups: Sequence[PackedGroup], sample: Sequence[bytes], urls: TableUrls, *, gone: int = 0) -> Weight:
    """Return what the lines of a checkpoint weigh, by lines of the first of its groups; `gone` of them may be gone."""
    # Deletion vectors stand in columns of the checkpoint that are not weighed here.
    before, counted = sample[:_BEFORE], [line for line in sample[_BEFORE:] if _VECTOR not in line]
    if len(counted) < _LEAST_SAMPLE or not groups or not groups[0].nbytes:
        return Weight()
    gzipped = min(_gzipped(before, counted, strategy) for strategy in _STRATEGIES) / len(counted)
    plain = sum(map(len, counted)) / len(counted)
    # The group may hold less a file than its first lines do.
    usual = max(groups[0].nbytes / groups[0].files, _stored(counted, groups[0].codec))
    # How many lines like those of the sample are in each group, of what differs from line to line.
    alike = sum(min(group.nbytes / usual, group.files) for group in groups)
    files = sum(group.files for group in groups)

    def of_all(line: float, least: int) -> int:
        return max(int(_CAUTION * (files * least + alike * max(line - least, 0)) - gone * line), 0)

    return Weight(of_all(plain, _signed(urls)), of_all(gzipped, _LINE_GZIPPED))


def _stored(lines: Sequence[bytes], codec: str) -> float:
    """Return what paths and statistics of lines take a file, compressed as they are in the checkpoint."""
    files = [msgspec.json.decode(line)["file"] for line in lines]
    adds = [file["deltaSingleAction"]["add"] if "deltaSingleAction" in file else file for file in files]
    columns = [
        [urlsplit(add.get("url") or add["path"]).path for add in adds],
        [add.get("stats") or "" for add in adds],
    ]
    return sum(len(pa.compress("".join(texts).encode(), codec.lower())) for texts in columns) / len(lines)


def _gzipped(before: Sequence[bytes], counted: Sequence[bytes], strategy: int) -> int:
    coder = zlib.compressobj(zlib.Z_BEST_COMPRESSION, strategy=strategy)
    coder.compress(b"".join(before))
    coder.flush(zlib.Z_SYNC_FLUSH)
    return len(coder.compress(b"".join(counted)) + coder.flush())


def _signed(urls: TableUrls) -> int:
    """Return what of a line is the same for all, and its signature."""
    return len(urls.signer.query) + _HEX_DIGITS
