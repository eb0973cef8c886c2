"""AWS's limits of one answer (deltaic.platform_limits), played here: a free burst, then a pace, and an end."""

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from deltaic.platform_limits import BYTES_PER_SECOND, FREE_BURST_BYTES, STREAMED_BYTES

from deltaic_ops.local.exchange import ClientLeft

Limits: TypeAlias = Literal["none", "aws"]

_PIECE_BYTES = BYTES_PER_SECOND // 16
_SLACK_SECONDS = 0.25
"""What a wait that lasted too long is made up for; what was not used of the pace before that is lost."""


class PacedAnswer:
    """The bytes of one streamed answer on their way through Lambda; whoever makes them waits, as there."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        *,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`send` passes bytes on."""
        self._send = send
        self._now = now
        self._wait = wait
        self._sent = 0
        self._due = 0.0

    def send(self, data: bytes) -> None:
        """Pass bytes on at Lambda's pace; where it ends an answer, raise ClientLeft."""
        fits = data[: STREAMED_BYTES - self._sent]
        free = max(FREE_BURST_BYTES - self._sent, 0)
        self._pass_on(fits[:free])
        for start in range(free, len(fits), _PIECE_BYTES):
            piece = fits[start : start + _PIECE_BYTES]
            self._due = max(self._due, self._now() - _SLACK_SECONDS) + len(piece) / BYTES_PER_SECOND
            self._wait(max(self._due - self._now(), 0.0))
            self._pass_on(piece)
        if len(fits) < len(data):
            raise ClientLeft("Lambda has ended the answer")

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._sent += len(data)
            self._send(data)
