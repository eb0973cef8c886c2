"""Decides which requests read the ranges asked of one object: a request costs more than some bytes too many."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from deltaic.errors import Unavailable

NEAR = 1 << 20
"""Ranges with a gap of at most this many bytes become one request: S3 sends that much while it answers another."""
LARGEST = 16 << 20
"""Ranges are not merged into requests of more bytes than this, so that large reads run in parallel."""


def coalesce(ranges: Sequence[tuple[int, int]], near: int = NEAR, largest: int = LARGEST) -> list[tuple[int, int]]:
    """Return the requests that cover `ranges`: sorted, near ones merged up to `largest` bytes, empty ones dropped."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if end <= start:
            continue
        if merged:
            first, last = merged[-1]
            if start < last or (start - last <= near and end - first <= largest):
                merged[-1] = (first, max(last, end))
                continue
        merged.append((start, end))
    return merged


def cut(
    ranges: Sequence[tuple[int, int]], merged: Sequence[tuple[int, int]], parts: Sequence[Any], path: str
) -> list[bytes]:
    """Return the bytes of each range out of the requests that cover them; raises Unavailable for a short one.

    Those who ask know how long the object is, so it was cut or replaced since.
    """
    starts = [start for start, _ in merged]
    views = [memoryview(part) for part in parts]
    answer: list[bytes] = []
    for start, end in ranges:
        if end <= start:
            answer.append(b"")
            continue
        index = bisect_right(starts, start) - 1
        piece = bytes(views[index][start - starts[index] : end - starts[index]])
        if len(piece) != end - start:
            raise Unavailable("the storage of this table gave less of a file than the log says it has; try again", path)
        answer.append(piece)
    return answer
