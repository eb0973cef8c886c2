"""Forward a streamed response from the function's process to the gateway, in the emulator's process.

The emulator calls functions by an API that has only buffered responses. Both sides know the request's id: the gateway
opens a stream with it before the call, and the process of the function looks it up.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

CHUNKS = 32
"""Number of chunks that can wait for the client; then the function waits."""
WAIT_SECONDS = 60.0
"""Time to wait for a full stream before its client counts as disconnected."""


class Broken(Exception):
    """The function ended its stream as failed, or never started one."""


@dataclass(eq=False, slots=True)
class Stream:
    """A response: bytes in order, then its end."""

    _chunks: "queue.Queue[bytes | None]" = field(default_factory=lambda: queue.Queue(CHUNKS))
    _disconnected: threading.Event = field(default_factory=threading.Event)
    _failed: bool = False

    def take(self, chunk: bytes) -> None:
        """Add bytes when there is room; raises ConnectionError if the client has disconnected."""
        self._put(chunk)

    def end(self, *, failed: bool) -> None:
        """End the stream, as complete or failed."""
        self._failed = failed
        try:
            self._put(None)
        except ConnectionError:
            return

    def leave(self) -> None:
        """Record that the client has disconnected."""
        self._disconnected.set()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the bytes as they arrive; raises Broken at the end of a failed stream."""
        while (chunk := self._chunks.get()) is not None:
            yield chunk
        if self._failed:
            raise Broken

    def _put(self, chunk: bytes | None) -> None:
        waited = 0.0
        while not self._disconnected.is_set() and waited < WAIT_SECONDS:
            try:
                self._chunks.put(chunk, timeout=0.5)
            except queue.Full:
                waited += 0.5
            else:
                return
        raise ConnectionError("the reader has left")


class Streams:
    """Open streams by the id of their request."""

    def __init__(self) -> None:
        self._open: dict[str, Stream] = {}

    def open(self, request_id: str) -> Stream:
        """Open a stream for the function of this request."""
        return self._open.setdefault(request_id, Stream())

    def stream_of(self, event: object) -> Stream | None:
        """Return the stream for the response to an event; None if a buffered response is expected."""
        context = event.get("requestContext") if isinstance(event, dict) else None
        return self._open.get(str(context.get("requestId"))) if isinstance(context, dict) else None

    def close(self, request_id: str) -> None:
        """Remove a stream."""
        self._open.pop(request_id, None)
