"""A proxy between the functions and AWS that plays faults: on chosen requests, a number of times, and counts them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

STALLED_SECONDS: Final = 60.0
"""Longer than any patience of the functions'."""


@dataclass(frozen=True)
class Request:
    """What a function sent."""

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
        """Which of AWS's services is meant: `list` and `get` of S3, `dynamodb`, `secretsmanager`, `sts`."""
        named = self.headers.get("x-amz-target", "")
        if named:
            return "dynamodb" if named.startswith("DynamoDB_") else named.partition(".")[0]
        if self.head.startswith(b"POST / "):
            return "sts"
        return "list" if "list-type=2" in self.target else "get"

    def names(self, text: str) -> bool:
        return text in self.target or text.encode() in self.body


@dataclass(frozen=True)
class Answer:
    """What goes back: bytes that may be other than their length says, or that do not come to an end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    length: int | None = None
    """The length that is told; None: the body's own."""
    ends: str = "close"
    """What follows the body: `close`, `reset` (the connection breaks), `stall` (nothing, for ever)."""
    pause_seconds: float = 0.0
    """Between one byte of the body and the next."""


Real = Callable[[], Awaitable[Answer]]
Play = Callable[[Real], Awaitable[Answer | None]]
"""Gives the answer to a request, with or without the real one; None: the connection breaks without a word."""


@dataclass
class Plan:
    """One fault that is being played: on requests to a service that name one of these texts."""

    service: str
    names: tuple[str, ...]
    play: Play
    times: int | None = None
    spared: int = 0
    """How many such requests are answered before it begins."""
    played: int = 0

    def takes(self, request: Request) -> bool:
        """Tell whether this request meets the fault, and count it."""
        if request.service != self.service or not any(request.names(name) for name in self.names):
            return False
        if self.spared:
            self.spared -= 1
            return False
        if self.times is not None and self.played >= self.times:
            return False
        self.played += 1
        return True


@dataclass
class Proxy:
    """A port on loopback behind which AWS lies."""

    upstream: str
    port: int = 0
    _plans: list[Plan] = field(default_factory=list)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    """Held here, for the loop holds a task weakly: one whose client has gone would be collected while it waits."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def playing(self, plan: Plan) -> Iterator[Plan]:
        """Play a fault until the block ends."""
        self._plans.append(plan)
        try:
            yield plan
        finally:
            self._plans.remove(plan)

    @contextmanager
    def open(self) -> Iterator["Proxy"]:
        """Listen until the block ends."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            serving = asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 20)
            server = asyncio.run_coroutine_threadsafe(serving, loop).result()
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self._end(server), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        # What was accepted last becomes a connection a turn of the loop later; each closes its sockets as it ends.
        await asyncio.sleep(0)
        while self._connections:
            ending = list(self._connections)
            for connection in ending:
                connection.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            request = Request(head[:-4], b"")
            if "expect" in request.headers:
                # S3A asks whether it may send a body, and waits three seconds where nobody answers.
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await reader.readexactly(int(request.headers.get("content-length", 0)))
            request = Request(request.head, body)
            plan = next((plan for plan in list(self._plans) if plan.takes(request)), None)
            if plan is None:
                answer: Answer | None = await self._forward(request)
            else:
                answer = await plan.play(lambda: self._forward(request))
            if answer is not None:
                await _send(writer, answer)
            if answer is None or answer.ends == "reset":
                writer.transport.abort()
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _forward(self, request: Request) -> Answer:
        place = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            # Signatures cover the host that the function named, so the head stays as it is.
            lines = [line for line in request.head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            writer.write(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + request.body)
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        told = Request(head, b"").headers
        if told.get("transfer-encoding") == "chunked":
            rest = _unchunked(rest)
        kept = {name: value for name, value in told.items() if name not in _FRAMING}
        # An answer to HEAD tells the length of a body that does not follow.
        length = int(told.get("content-length", 0)) if request.method == "HEAD" else None
        return Answer(int(head.split(b" ", 2)[1]), kept, rest, length)


_FRAMING = {"connection", "content-length", "transfer-encoding", "keep-alive"}


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    length = len(answer.body) if answer.length is None else answer.length
    headers = {**answer.headers, "content-length": str(length), "connection": "close"}
    lines = [f"HTTP/1.1 {answer.status} Answer", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
    pieces = [answer.body[at : at + 1] for at in range(len(answer.body))] if answer.pause_seconds else [answer.body]
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(answer.pause_seconds)
    if answer.ends == "stall":
        await asyncio.sleep(STALLED_SECONDS)


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        whole += body[:length]
        body = body[length + 2 :]
    return whole
