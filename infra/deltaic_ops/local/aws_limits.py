"""Apply Lambda's limits to a streamed response: an unlimited burst, then a fixed rate, and a maximum size."""

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from deltaic.platform_limits import BYTES_PER_SECOND, FREE_BURST_BYTES, STREAMED_BYTES

from deltaic_ops.local.exchange import ClientDisconnected

Limits: TypeAlias = Literal["none", "aws"]

_PIECE_BYTES = BYTES_PER_SECOND // 16
_SLACK_SECONDS = 0.25
"""Maximum delay that later sends may make up by exceeding the rate, so that no burst follows a long pause."""


class PacedResponse:
    """A streamed response that is sent at Lambda's rate: `send` blocks the function, as on Lambda."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        *,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the response; the argument `send` sends bytes to the client without a rate limit."""
        self._send = send
        self._now = now
        self._wait = wait
        self._sent = 0
        self._due = 0.0

    def send(self, data: bytes) -> None:
        """Send bytes at Lambda's rate; raises ClientDisconnected beyond Lambda's maximum size."""
        fits = data[: STREAMED_BYTES - self._sent]
        free = max(FREE_BURST_BYTES - self._sent, 0)
        self._pass_on(fits[:free])
        for start in range(free, len(fits), _PIECE_BYTES):
            piece = fits[start : start + _PIECE_BYTES]
            self._due = max(self._due, self._now() - _SLACK_SECONDS) + len(piece) / BYTES_PER_SECOND
            self._wait(max(self._due - self._now(), 0.0))
            self._pass_on(piece)
        if len(fits) < len(data):
            raise ClientDisconnected("the response exceeds Lambda's maximum response size")

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._sent += len(data)
            self._send(data)
