"""The bytes that a page may hold, and how many of one answer have left."""

from typing import Final

import msgspec

_RESERVE_BYTES: Final = 4096
"""Room for the head of the response, the last line with its tokens, and what gzip adds to what it cannot pack."""


class PageBudget(msgspec.Struct):
    """The budget of one answer: who makes its lines counts them here, and http what has become of them."""

    page_bytes: int = 0
    """The most bytes, as they leave, of a page that the server ends by itself; 0 where it ends none."""
    sent: int = 0
    """Bytes that have left, compressed where the answer is."""
    made: int = 0
    """Bytes of lines so far."""
    settled: int = 0
    """Those of them that have left for good: no compressor holds any of them back."""

    @property
    def room(self) -> int:
        """How many bytes of lines are sure to fit the page: what is held back, as what is to come, counts unpacked."""
        return self.page_bytes - _RESERVE_BYTES - self.sent - (self.made - self.settled)

    def fitting(self, lines: bytes) -> int:
        """Return how many bytes of some lines fit the page, up to a line's end; none may."""
        return len(lines) if len(lines) <= self.room else lines.rfind(b"\n", 0, max(self.room, 0)) + 1
