"""A proxy between the functions and AWS that plays faults on selected requests, and counts them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

STALLED_SECONDS: Final = 60.0
"""Longer than any timeout of the functions."""


@dataclass(frozen=True)
class Request:
    """A request of a function."""

    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode("latin-1")

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode("latin-1")

    @property
    def headers(self) -> Mapping[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def service(self) -> str:
        """The service of AWS: `list` or `get` of S3, `dynamodb`, `secretsmanager`, `sts`."""
        target = self.headers.get("x-amz-target", "")
        if target:
            return "dynamodb" if target.startswith("DynamoDB_") else target.partition(".")[0]
        if self.head.startswith(b"POST / "):
            return "sts"
        return "list" if "list-type=2" in self.target else "get"

    def names(self, text: str) -> bool:
        return text in self.target or text.encode() in self.body


@dataclass(frozen=True)
class Response:
    """A response, whose body can have a wrong length or no end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    length: int | None = None
    """Content-Length header; None for the length of the body."""
    ending: str = "close"
    """Event after the body: `close`, `reset` (of the connection), `stall` (the connection stays open)."""
    pause_seconds: float = 0.0
    """Pause between bytes of the body."""


Forward = Callable[[], Awaitable[Response]]
Play = Callable[[Forward], Awaitable[Response | None]]
"""Returns the response to a request, and can forward the request first; None resets the connection."""


@dataclass
class FaultPlan:
    """A fault that is played on requests to a service that contain one of the names."""

    service: str
    names: tuple[str, ...]
    play: Play
    times: int | None = None
    skipped: int = 0
    """Number of such requests that are forwarded before the fault starts."""
    played: int = 0

    def matches(self, request: Request) -> bool:
        """Return whether the fault applies to a request, and count it."""
        if request.service != self.service or not any(request.names(name) for name in self.names):
            return False
        if self.skipped:
            self.skipped -= 1
            return False
        if self.times is not None and self.played >= self.times:
            return False
        self.played += 1
        return True


@dataclass
class Proxy:
    """A port on loopback that forwards requests to AWS."""

    upstream: str
    port: int = 0
    _plans: list[FaultPlan] = field(default_factory=list)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    """Strong references, because the event loop has only weak ones and tasks could be collected while they wait."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def play_fault(self, plan: FaultPlan) -> Iterator[FaultPlan]:
        """Play a fault while the block runs."""
        self._plans.append(plan)
        try:
            yield plan
        finally:
            self._plans.remove(plan)

    @contextmanager
    def open(self) -> Iterator["Proxy"]:
        """Listen while the block runs."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            serving = asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 20)
            server = asyncio.run_coroutine_threadsafe(serving, loop).result()
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self._close(server), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _close(self, server: asyncio.Server) -> None:
        server.close()
        # The last accepted socket becomes a connection in the next iteration of the loop. Each task closes its sockets.
        await asyncio.sleep(0)
        while self._connections:
            connections = list(self._connections)
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            request = Request(head[:-4], b"")
            if "expect" in request.headers:
                # S3A asks before it sends a body, and waits three seconds for a response.
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await reader.readexactly(int(request.headers.get("content-length", 0)))
            request = Request(request.head, body)
            plan = next((plan for plan in list(self._plans) if plan.matches(request)), None)
            if plan is None:
                response: Response | None = await self._forward(request)
            else:
                response = await plan.play(lambda: self._forward(request))
            if response is not None:
                await _send(writer, response)
            if response is None or response.ending == "reset":
                writer.transport.abort()
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _forward(self, request: Request) -> Response:
        upstream = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(upstream.hostname, upstream.port)
        try:
            # Signatures cover the host header, so the head is not changed.
            lines = [line for line in request.head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            writer.write(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + request.body)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        headers = Request(head, b"").headers
        if headers.get("transfer-encoding") == "chunked":
            body = _decode_chunks(body)
        forwarded = {name: value for name, value in headers.items() if name not in _FRAMING}
        # A response to HEAD has the length of a body that is not sent.
        length = int(headers.get("content-length", 0)) if request.method == "HEAD" else None
        return Response(int(head.split(b" ", 2)[1]), forwarded, body, length)


_FRAMING = {"connection", "content-length", "transfer-encoding", "keep-alive"}


async def _send(writer: asyncio.StreamWriter, response: Response) -> None:
    length = len(response.body) if response.length is None else response.length
    headers = {**response.headers, "content-length": str(length), "connection": "close"}
    lines = [f"HTTP/1.1 {response.status} Answer", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
    step = 1 if response.pause_seconds else max(len(response.body), 1)
    for part in [response.body[start : start + step] for start in range(0, max(len(response.body), 1), step)]:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(response.pause_seconds)
    if response.ending == "stall":
        await asyncio.sleep(STALLED_SECONDS)


def _decode_chunks(body: bytes) -> bytes:
    decoded = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        decoded += body[:length]
        body = body[length + 2 :]
    return decoded
