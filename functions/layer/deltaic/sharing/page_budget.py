"""Maximum size of a page, compared with the bytes that were sent after compression."""

from typing import Final

import msgspec

_RESERVE_BYTES: Final = 4096
"""Bytes reserved for the response headers, the last line with its tokens, and the overhead of gzip."""


class PageBudget(msgspec.Struct):
    """Byte counts of one response, updated when lines are created (`sharing`) and when bytes are sent (`http`)."""

    page_bytes: int = 0
    """Maximum size of the page in bytes after compression; 0 for no maximum."""
    sent: int = 0
    """Number of bytes sent, after compression."""
    created: int = 0
    """Number of bytes of the lines so far, before compression."""
    settled: int = 0
    """How many of the `created` bytes were sent, so that the compressor no longer buffers them."""

    @property
    def room(self) -> int:
        """Number of bytes that certainly fit the page, even if compression does not reduce the buffered bytes."""
        return self.page_bytes - _RESERVE_BYTES - self.sent - (self.created - self.settled)

    def fitting(self, lines: bytes) -> int:
        """Return the length in bytes of the first complete lines that fit the page; 0 if no line fits."""
        return len(lines) if len(lines) <= self.room else lines.rfind(b"\n", 0, max(self.room, 0)) + 1
