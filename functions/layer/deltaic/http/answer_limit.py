"""Limit the size of a streamed response to what the platform can send (Lambda: 200 MB).

Lambda truncates the stream at its limit. If that is at the end of a line, the client cannot detect that the response
is incomplete. So a larger response ends shortly before the limit, with an error as its last line (decision 48).
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from deltaic.errors import UnsupportedOperation
from deltaic.sharing.page_budget import PageBudget

_MAX_PIECE_BYTES: Final = 1 << 20
_RESERVE_BYTES: Final = 2 << 20
"""Bytes reserved below the limit for the chunk that is being sent, the compressor's buffer, and the error line."""


class AnswerLimit:
    """Size limit of one response while it is sent, in bytes; `most_bytes` 0 means no limit."""

    def __init__(self, most_bytes: int, page_budget: PageBudget, *, gzip: bool) -> None:
        self.gzip = gzip
        self._most_bytes = most_bytes
        self._page_budget = page_budget
        self._allowed_bytes = most_bytes - _RESERVE_BYTES if most_bytes else sys.maxsize

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks, splitting large ones at line ends; raises UnsupportedOperation above the limit."""
        for piece in _split_at_lines(chunks) if self._most_bytes else chunks:
            if self._page_budget.sent > self._allowed_bytes:
                raise self._too_large_error()
            yield piece

    def _too_large_error(self) -> UnsupportedOperation:
        compress_first = "" if self.gzip else "Accept compression (Accept-Encoding: gzip). "
        return UnsupportedOperation(
            f"The response is larger than the {self._most_bytes // 1_000_000} MB that this server can send. "
            f"{compress_first}Request it in pages (maxFiles, then pageToken), use a client that follows pages (Spark's "
            "connector with delta-sharing-client 1.1.0 or later), request fewer files (predicateHints, limitHint) or "
            "versions, or ask the provider for directory access."
        )


def _split_at_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        start = 0
        while len(chunk) - start > _MAX_PIECE_BYTES:
            end = chunk.rfind(b"\n", start, start + _MAX_PIECE_BYTES) + 1 or chunk.find(b"\n", start) + 1 or len(chunk)
            yield chunk[start:end]
            start = end
        yield chunk[start:]
