"""Merge byte ranges of an object that are close together, because a request takes longer than some extra bytes."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from deltaic.errors import Unavailable

NEAR = 1 << 20
"""Largest gap in bytes between merged ranges: S3 sends the gap in about the time of a separate request."""
LARGEST = 16 << 20
"""Largest merged request in bytes, so that large reads run in parallel."""


def coalesce(ranges: Sequence[tuple[int, int]], near: int = NEAR, largest: int = LARGEST) -> list[tuple[int, int]]:
    """Return sorted ranges that cover `ranges`, closing gaps of up to `near` bytes within `largest` bytes."""
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
    """Extract the bytes of each range from the downloaded merged ranges; raises Unavailable for missing bytes.

    Callers know the length of the object, so missing bytes mean that it was truncated or replaced.
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
            raise Unavailable("the storage of this table returned less of a file than its log says; try again", path)
        answer.append(piece)
    return answer
