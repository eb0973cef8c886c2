"""Limits a streamed answer to what the platform sends (Lambda: 200 MB).

Lambda cuts the stream there, in the middle of a line or at the end of one, where it could pass for a whole answer. So
an answer that exceeds the limit ends as failed while there is room for a last line (decision 48).
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from deltaic.errors import UnsupportedOperation
from deltaic.sharing.page_budget import PageBudget

_PIECE_BYTES: Final = 1 << 20
_RESERVE_BYTES: Final = 2 << 20
"""Room for the piece under way, what the compressor holds back, and the last line."""


class AnswerLimit:
    """The limit of one answer: what may still leave of it, as it leaves; `most_bytes` 0 for none."""

    def __init__(self, most_bytes: int, page_budget: PageBudget, *, gzip: bool) -> None:
        self.gzip = gzip
        self._most_bytes = most_bytes
        self._page_budget = page_budget
        self._room = most_bytes - _RESERVE_BYTES if most_bytes else sys.maxsize

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks, large ones cut at line ends; raises UnsupportedOperation instead of one too many."""
        for piece in _cut(chunks) if self._most_bytes else chunks:
            if self._page_budget.sent > self._room:
                raise self._too_long()
            yield piece

    def _too_long(self) -> UnsupportedOperation:
        smaller = "" if self.gzip else "Let it be compressed (Accept-Encoding: gzip). "
        return UnsupportedOperation(
            f"The answer is larger than the {self._most_bytes // 1_000_000} MB that this server can send. {smaller}Ask "
            "for it in pages (maxFiles, then pageToken) or with a client that follows them (Spark's connector does, by "
            "delta-sharing-client 1.1.0 or later), or for fewer files (predicateHints, limitHint, a shorter range of "
            "versions), or ask the provider for directory access."
        )


def _cut(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        start = 0
        while len(chunk) - start > _PIECE_BYTES:
            end = chunk.rfind(b"\n", start, start + _PIECE_BYTES) + 1 or chunk.find(b"\n", start) + 1 or len(chunk)
            yield chunk[start:end]
            start = end
        yield chunk[start:]
