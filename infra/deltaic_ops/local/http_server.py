"""HTTP servers on loopback ports: uvicorn with its own limits, and a thread for each of the gateway's requests."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import uvicorn
from deltaic.http.asgi import Message, Receive, Scope, Send

from deltaic_ops.local.authorizer import Refused
from deltaic_ops.local.embedded import bound
from deltaic_ops.local.exchange import BODY_LIMIT, ClientLeft, Exchange

BACKLOG = 64
STOP_SECONDS = 5
HEAD_LIMIT = 64 * 1024
KEEP_ALIVE_SECONDS = 60
CONNECTIONS = 100
"""A request beyond so many is 503: each one may open eight files, and a process usually 1,024."""


@contextmanager
def serving(app: Any, listener: socket.socket) -> Iterator[None]:
    """Open a port that is bound and serve an ASGI app in a thread until the block ends; raises OSError."""
    config = uvicorn.Config(
        app,
        http="h11",  # httptools takes a head of any size
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEAD_LIMIT,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    server = uvicorn.Server(config)
    listener.listen(BACKLOG)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


class HttpServer:
    """A server on a loopback port, which opens as the block of this context manager begins."""

    def __init__(self, handle: Callable[[Exchange], None], listener: socket.socket | None = None) -> None:
        """Serve what comes to `listener`, a socket that is bound; a free port if there is none."""
        self._handle = handle
        self._listener = listener or bound()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._pool = ThreadPoolExecutor(CONNECTIONS, "gateway")
        self._running = serving(self, self._listener)

    def __enter__(self) -> Self:
        """Open the port; raises OSError if another server has opened it since it was bound."""
        self._running.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Take no more connections, let answers under way end (for STOP_SECONDS), then close."""
        self._running.__exit__(None, None, None)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI app."""
        try:
            body = await _body(receive)
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
