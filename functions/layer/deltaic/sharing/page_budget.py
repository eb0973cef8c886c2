"""Budget of bytes for a page, and the bytes of the answer that were sent."""

from typing import Final

import msgspec

_RESERVE_BYTES: Final = 4096
"""Reserved for the response headers, the last line with its tokens, and the overhead of gzip."""


class PageBudget(msgspec.Struct):
    """Budget of one answer: the use case counts the lines that it creates, and http the bytes that it sends."""

    page_bytes: int = 0
    """Most bytes, as sent, of a page that the server ends by itself; 0 if it never does."""
    sent: int = 0
    """Bytes sent, after compression."""
    created: int = 0
    """Bytes of the lines so far, before compression."""
    settled: int = 0
    """How many of `created` were sent completely: the compressor buffers none of them."""

    @property
    def room(self) -> int:
        """Bytes of lines that certainly fit the page, counting the buffered ones as not compressed."""
        return self.page_bytes - _RESERVE_BYTES - self.sent - (self.created - self.settled)

    def fitting(self, lines: bytes) -> int:
        """Return how many bytes of the lines fit the page, up to the end of a line; possibly 0."""
        return len(lines) if len(lines) <= self.room else lines.rfind(b"\n", 0, max(self.room, 0)) + 1
