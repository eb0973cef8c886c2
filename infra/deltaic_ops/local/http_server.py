"""The HTTP server of the gateway: uvicorn on a loopback port, with a thread for each request and an end for each wait.

uvicorn waits for ever for a client that never speaks, and for one that has stopped reading (decision 135). Here each
wait has an end, and where there are more connections than places, those that have waited for their clients the longest
give way: whoever only holds connections open keeps nobody else out (decision 45).
"""

import asyncio
import math
import resource
import socket
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self, cast

import uvicorn
from deltaic.http.asgi import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from deltaic_ops.local.authorizer import Refused
from deltaic_ops.local.embedded import bound
from deltaic_ops.local.exchange import BODY_LIMIT, ClientLeft, Exchange

BACKLOG = 64
STOP_SECONDS = 5
HEAD_LIMIT = 64 * 1024
CONNECTIONS = 1000
"""The most places, where the process may open files enough."""

_RESERVED_FILES = 64 + BACKLOG
_FILES_EACH = 8
"""A connection's own, the three of the event loop that its thread's function runs in, some to AWS."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client is waited for, in seconds."""

    request: float = 75.0
    """For the whole head of a request."""
    body: float = 29.0
    """For its body: as long as API Gateway waits for anything."""
    reader: float = 30.0
    """For a reader that takes nothing."""
    crowded: float = 1.0
    idle: float = 0.25
    """In the middle of a request and between requests, where others wait for the place."""


class _Connection(H11Protocol):
    """uvicorn's connection, which knows since when it waits for its client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self.since = self.loop.time()
        cast("HttpServer", self.app).make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and self.cycle.more_body:  # a head is waited for as a whole
            self.since = self.loop.time()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.since = self.loop.time()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    def patience(self, limits: Patience, excess: int) -> float:
        """Return how long its client is waited for where there are so many more connections than places."""
        if self.flow.write_paused:
            return limits.crowded if excess > 0 else limits.reader
        if self.cycle is None or self.cycle.response_complete:
            return limits.request if excess <= 0 else limits.idle if excess <= BACKLOG else 0.0
        return limits.crowded if excess > 0 and self.cycle.more_body else math.inf


class HttpServer:
    """A server on a loopback port, which opens as the block of this context manager begins."""

    def __init__(
        self,
        handle: Callable[[Exchange], None],
        listener: socket.socket | None = None,
        *,
        connections: int | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Serve what comes to `listener`, a socket that is bound; a free port if there is none."""
        self._handle = handle
        self._listener = listener or bound()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._places = connections or max(min((files - _RESERVED_FILES) // _FILES_EACH, CONNECTIONS), 8)
        self._patience = patience or Patience()
        self._pool = ThreadPoolExecutor(self._places, "gateway")
        config = uvicorn.Config(
            self,
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=HEAD_LIMIT,
            timeout_keep_alive=math.ceil(self._patience.request),
            timeout_graceful_shutdown=STOP_SECONDS,
            callback_notify=self._look,
            timeout_notify=0,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), name="gateway", daemon=True)

    def __enter__(self) -> Self:
        """Open the port; raises OSError if another server has opened it since it was bound."""
        self._listener.listen(BACKLOG)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more connections, let answers under way end (for STOP_SECONDS), then close."""
        self._server.should_exit = True
        self._thread.join()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI app."""
        try:
            async with asyncio.timeout(self._patience.body):
                body = await _body(receive)
        except TimeoutError:
            body = Refused("BAD_REQUEST_BODY")
        except ClientLeft:
            return
        left = asyncio.ensure_future(_left(receive))
        loop = asyncio.get_running_loop()

        async def send_one(message: Message) -> None:
            await send(message)
            if left.done():
                raise ClientLeft("the client has left")

        def send_from_thread(message: Message) -> None:
            try:
                asyncio.run_coroutine_threadsafe(send_one(message), loop).result()
            except CancelledError:
                raise ClientLeft("the server ends") from None

        try:
            await loop.run_in_executor(self._pool, self._handle, Exchange(scope, body, send_from_thread))
        except ClientLeft:
            pass
        finally:
            left.cancel()

    def make_room(self) -> None:
        """Break off the connections that have waited for their clients for too long, the longest first."""
        known = sorted(cast("set[_Connection]", self._server.server_state.connections), key=lambda each: each.since)
        excess, now = len(known) - self._places, asyncio.get_running_loop().time()
        for each in known:
            if now - each.since >= each.patience(self._patience, excess):
                each.transport.abort()
                excess -= 1

    async def _look(self) -> None:
        self.make_room()


async def _left(receive: Receive) -> None:
    """Return when the client has left; what it still sends is passed over."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive) -> bytes | Refused:
    """Return a request's body, or why it is refused; raises ClientLeft."""
    body, passed, more = bytearray(), 0, True
    # Whoever sends a bit too much is answered when it is sent; the one who goes on and on, in the middle of it.
    while more and passed <= 2 * BODY_LIMIT:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft("the client has left")
        passed += len(message["body"])
        if passed <= BODY_LIMIT:
            body += message["body"]
        more = message["more_body"]
    return bytes(body) if passed <= BODY_LIMIT else Refused("REQUEST_TOO_LARGE")
