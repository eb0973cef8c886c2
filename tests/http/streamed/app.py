"""A Lambda function whose path selects the kind of answer, for the tests of streaming."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from deltaic.http.asgi import Receive, Scope, Send
from deltaic.http.response_cycle import DeadlineReached
from deltaic.http.streaming import StreamingMangum

NDJSON = (b"content-type", b"application/x-ndjson; charset=utf-8")
ERRORS: list[str] = []


async def start(send: Send, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [NDJSON, *headers]})


async def body(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def lines(_: Scope, __: Receive, send: Send) -> None:
    await start(send, (b"delta-table-version", b"3"))
    for number in range(5):
        await body(send, b'{"line":%d}\n' % number)
        await asyncio.sleep(0.05)
    await body(send, b"", more=False)


async def listener(scope: Scope, receive: Receive, send: Send) -> None:
    """Cancel the stream at a disconnect, as Starlette does below ASGI version 2.4."""
    await receive()
    stream = asyncio.create_task(lines(scope, receive, send))
    disconnect = asyncio.ensure_future(receive())
    await asyncio.wait([stream, disconnect], return_when=asyncio.FIRST_COMPLETED)
    stream.cancel()
    disconnect.cancel()
    await asyncio.gather(stream, disconnect, return_exceptions=True)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    request = await receive()
    await start(send, (b"x-path", scope["path"].encode().hex().encode()), (b"x-query", scope["query_string"]))
    await body(send, request["body"], more=False)


async def heads(_: Scope, __: Receive, send: Send) -> None:
    await start(send, (b"x-two", b"a"), (b"X-Two", b"b"), (b"set-cookie", b"k=1"), (b"set-cookie", b"l=2"))
    await body(send, b"{}\n", more=False)


async def empty(scope: Scope, _: Receive, send: Send) -> None:
    status = int(scope["path"].rpartition("/")[2] or 200) if scope["method"] != "HEAD" else 200
    await start(send, (b"content-length", b"7"), status=status)
    await body(send, b"ignored", more=False)


async def nothing(_: Scope, __: Receive, send: Send) -> None:
    await start(send)
    await body(send, b"", more=False)


async def huge_head(_: Scope, __: Receive, send: Send) -> None:
    await start(send, (b"x-large", b"x" * 17_000))
    await body(send, b"{}\n", more=False)


async def raises_before(_: Scope, __: Receive, send: Send) -> None:
    await start(send)
    raise LookupError("secret-of-the-app")


async def raises_amid(_: Scope, __: Receive, send: Send) -> None:
    await start(send)
    await body(send, b'{"line":0}\n')
    raise LookupError("secret-of-the-app")


async def raises_after(_: Scope, __: Receive, send: Send) -> None:
    await start(send)
    await body(send, b'{"line":0}\n', more=False)
    raise LookupError("secret-of-the-app")


async def stops_early(_: Scope, __: Receive, send: Send) -> None:
    await start(send)
    await body(send, b'{"line":0}\n')


async def large(scope: Scope, _: Receive, send: Send) -> None:
    """Send the number of MiB from the query in pieces of 64 KiB, without other waiting."""
    await start(send)
    piece = (b"x" * 1023 + b"\n") * 64
    for _number in range(int(scope["query_string"].rpartition(b"=")[2]) * 16):
        await body(send, piece)
    await body(send, b"", more=False)


async def endless(_: Scope, __: Receive, send: Send) -> None:
    """Send until the reader leaves, and record the error and the position in ERRORS."""
    await start(send)
    sent = 0
    try:
        while True:
            await body(send, b"x" * 65_536)
            sent += 65_536
    except OSError as error:
        ERRORS.append(f"{type(error).__name__} {sent}")
        raise


async def errors(_: Scope, __: Receive, send: Send) -> None:
    await start(send)
    await body(send, "\n".join(ERRORS).encode(), more=False)
    ERRORS.clear()


async def busy(_: Scope, __: Receive, send: Send) -> None:
    """Never wait, and send a last line at the deadline."""
    await start(send)
    try:
        while True:
            await body(send, b"{}\n")
            time.sleep(0.005)  # noqa: ASYNC251 -- the app must block the event loop
    except DeadlineReached:
        await body(send, b"!aborted\n")
        raise


async def waits(_: Scope, __: Receive, send: Send) -> None:
    """Wait forever, and send a last line when cancelled."""
    await start(send)
    await body(send, b"{}\n")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        await body(send, b"!aborted\n")
        raise


APPS: dict[str, Callable[[Scope, Receive, Send], Awaitable[None]]] = {
    "lines": lines,
    "listener": listener,
    "echo": echo,
    "heads": heads,
    "empty": empty,
    "nothing": nothing,
    "huge_head": huge_head,
    "raises_before": raises_before,
    "raises_amid": raises_amid,
    "raises_after": raises_after,
    "stops_early": stops_early,
    "large": large,
    "endless": endless,
    "errors": errors,
    "busy": busy,
    "waits": waits,
}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await APPS[scope["path"].split("/")[1]](scope, receive, send)


handler: Callable[[Any, Any], Any] = StreamingMangum(app, stream=True)
