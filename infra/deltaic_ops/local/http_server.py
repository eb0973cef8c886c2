"""Run HTTP servers on loopback ports with uvicorn, and handle each gateway request in a thread."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import uvicorn
from deltaic.http.asgi import Message, Receive, Scope, Send

from deltaic_ops.local.authorizer import GatewayRefusal
from deltaic_ops.local.embedded import bind_port
from deltaic_ops.local.exchange import BODY_LIMIT, ClientDisconnected, HttpExchange

BACKLOG = 64
STOP_SECONDS = 5
HEAD_LIMIT = 64 * 1024
KEEP_ALIVE_SECONDS = 60
CONNECTIONS = 100
"""Maximum number of concurrent requests; further ones get 503. A request can open 8 files; the usual limit is 1,024."""


@contextmanager
def serving(app: Any, listener: socket.socket) -> Iterator[None]:
    """Listen on a bound socket and serve an ASGI app in a thread until the block ends; raises OSError."""
    config = uvicorn.Config(
        app,
        http="h11",  # httptools does not limit the size of headers
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
    """HTTP server on a loopback port, which is open while the context manager is active."""

    def __init__(self, handle: Callable[[HttpExchange], None], listener: socket.socket | None = None) -> None:
        """Create a server for the bound socket `listener`, or for a free port; `handle` handles requests."""
        self._handle = handle
        self._listener = listener or bind_port()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._pool = ThreadPoolExecutor(CONNECTIONS, "gateway")
        self._running = serving(self, self._listener)

    def __enter__(self) -> Self:
        """Open the port; raises OSError if another server has opened it in the meantime."""
        self._running.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Reject new connections, wait up to 5 seconds for current responses, then close the port."""
        self._running.__exit__(None, None, None)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, as an ASGI app."""
        try:
            body = await _body(receive)
        except ClientDisconnected:
            return
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        loop = asyncio.get_running_loop()

        async def send_message(message: Message) -> None:
            await send(message)
            if disconnected.done():
                raise ClientDisconnected("the client has disconnected")

        def send_from_thread(message: Message) -> None:
            try:
                asyncio.run_coroutine_threadsafe(send_message(message), loop).result()
            except CancelledError:
                raise ClientDisconnected("the server is stopping") from None

        try:
            await loop.run_in_executor(self._pool, self._handle, HttpExchange(scope, body, send_from_thread))
        except ClientDisconnected:
            pass
        finally:
            disconnected.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects, and ignore further bytes from it."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive) -> bytes | GatewayRefusal:
    """Return a request's body, or a GatewayRefusal if it is too large; raises ClientDisconnected."""
    body, received, more = bytearray(), 0, True
    # A body that is slightly too large is read to its end, so that the client reads the response. A longer one is not.
    while more and received <= 2 * BODY_LIMIT:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected("the client has disconnected")
        received += len(message["body"])
        if received <= BODY_LIMIT:
            body += message["body"]
        more = message["more_body"]
    return bytes(body) if received <= BODY_LIMIT else GatewayRefusal("REQUEST_TOO_LARGE")
