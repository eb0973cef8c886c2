"""The way of a streamed answer from the process of its function to the gateway, in the emulator's process.

The emulator calls functions by an API of its own that knows whole answers only. Both ends know the request's id: the
gateway opens a stream under it before it calls, and whoever runs the function looks for it.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

CHUNKS = 32
"""How many may wait for the reader; then the function does."""
WAIT_SECONDS = 60.0
"""How long a full stream is waited for before its reader counts as gone."""


class Broken(Exception):
    """The function ended its stream as failed, or never began one."""


@dataclass(eq=False, slots=True)
class Stream:
    """A response: bytes in order, then its end."""

    _chunks: "queue.Queue[bytes | None]" = field(default_factory=lambda: queue.Queue(CHUNKS))
    _disconnected: threading.Event = field(default_factory=threading.Event)
    _failed: bool = False

    def take(self, chunk: bytes) -> None:
        """Hand on bytes, when there is room; raises ConnectionError where the reader has left."""
        self._put(chunk)

    def end(self, *, failed: bool) -> None:
        """Say that nothing follows, and whether something should have."""
        self._failed = failed
        try:
            self._put(None)
        except ConnectionError:
            return

    def leave(self) -> None:
        """Say that nobody reads any more."""
        self._disconnected.set()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the bytes as they come; raises Broken at the end of one that failed."""
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
    """The streams that are open, by the id of their request."""

    def __init__(self) -> None:
        self._open: dict[str, Stream] = {}

    def open(self, request_id: str) -> Stream:
        """Open one, for the function that will answer this request."""
        return self._open.setdefault(request_id, Stream())

    def stream_of(self, event: object) -> Stream | None:
        """Return the stream that waits for the answer to an event; None if a whole answer is expected."""
        context = event.get("requestContext") if isinstance(event, dict) else None
        return self._open.get(str(context.get("requestId"))) if isinstance(context, dict) else None

    def close(self, request_id: str) -> None:
        """Forget one."""
        self._open.pop(request_id, None)
