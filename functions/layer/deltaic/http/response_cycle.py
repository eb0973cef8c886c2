"""Run an ASGI app for one request, and end its response after errors and deadlines.

ASGI HTTP, version 2.4: `send` raises OSError if the client has disconnected. Streamed responses end in these ways:

    the app raises before the first byte      the exception reaches the caller, which can still send an error response
    the app raises during the response        the stream ends as failed; the bytes already sent stay sent
    the app raises after the response         the exception is logged; the response was complete
    the client disconnects or stops reading   `send` raises OSError, now and in later calls
    the function's time limit is near         `send` raises DeadlineReached once, or the waiting app is cancelled;
                                              it can still send a last line, then the stream ends as failed

Buffered responses are never truncated: the exception reaches the caller, which sends an error response.
"""

import asyncio
import enum
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from deltaic.http.asgi import App, Message, Scope
from deltaic.http.runtime_stream import ResponseStream

logger = logging.getLogger(__name__)

PRELUDE_END = b"\0" * 8
PRELUDE_LIMIT = 16 * 1024
"""API Gateway returns 500 if the first 16 KB of a streamed response do not contain the delimiter."""

LAST_LINE_SECONDS = 1.0
"""Time limit in seconds for each `send` after the deadline, in which the app can send a last line."""

Opener = Callable[[], Awaitable[ResponseStream]]
Headers = list[list[bytes]]


class DeadlineReached(TimeoutError):
    """The function's time limit is nearly reached: the app must send a last line and re-raise this error."""


class TooLarge(Exception):
    """A buffered response exceeds its size limit."""


class Streamed:
    """Output of a streamed response, opened at the first body byte, so that earlier errors get error responses."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._prelude = b""
        self._stream: ResponseStream | None = None
        self.lost = False

    @property
    def begun(self) -> bool:
        """Return whether bytes of the response may have been sent."""
        return self._stream is not None

    def start(self, status: int, headers: Headers) -> None:
        """Store status and headers; raises ValueError if they are too large for API Gateway."""
        self._prelude = prelude(status, headers)

    async def write(self, data: bytes, *, last: bool) -> None:
        """Send bytes of the body; raises OSError if the client has disconnected."""
        if self.lost:
            raise ConnectionResetError("the client has disconnected")
        if self._stream is None:
            self._stream, data = await self._opener(), self._prelude + data
        try:
            await self._stream.write(data, last=last)
        except OSError:
            self.lost = True
            raise

    async def fail(self, error: Exception) -> None:
        """Mark a started stream as failed because of this error, and end it."""
        if self._stream is not None and not self.lost:
            logger.error("the response ended before it was complete: %s", type(error).__name__)
            try:
                await self._stream.fail(type(error).__name__)
            except OSError:
                self.lost = True

    async def accepted(self) -> None:
        """Wait until the receiver has the complete response or has disconnected."""
        if self._stream is not None:
            try:
                await self._stream.accepted()
            except OSError:
                self.lost = True
        if self.lost:
            logger.warning("the client disconnected before the end of the response")


class Buffered:
    """Output of a buffered response; raises TooLarge as soon as its body exceeds `limit` bytes."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.status = 500
        self.headers: Headers = []
        self.body = bytearray()

    def start(self, status: int, headers: Headers) -> None:
        """Store status and headers."""
        self.status, self.headers = status, headers

    async def write(self, data: bytes, *, last: bool) -> None:  # noqa: ARG002 -- same interface as Streamed
        """Append bytes to the body; raises TooLarge."""
        self.body += data
        if self._limit is not None and len(self.body) > self._limit:
            raise TooLarge


class CycleState(enum.Enum):
    """The message that the app must send next: status and headers, body, or none."""

    REQUEST = enum.auto()
    RESPONSE = enum.auto()
    COMPLETE = enum.auto()


class ResponseCycle:
    """Run of an ASGI app for one request, with a time limit of `seconds`."""

    def __init__(self, scope: Scope, body: bytes, output: Streamed | Buffered, seconds: float) -> None:
        self._scope = {**scope, "asgi": {"version": "3.0", "spec_version": "2.4"}}
        self._body: bytes | None = body
        self._output = output
        self._bodiless = scope["method"] == "HEAD"
        self._seconds = seconds
        self._limit = asyncio.Timeout(None)
        self._deadline_raised = False
        self._state = CycleState.REQUEST

    async def __call__(self, app: App) -> None:
        """Run the app until its response is received; raises the app's exception if no byte was sent."""
        try:
            await self._run(app)
        except Exception as error:
            if self._state is CycleState.COMPLETE:
                # Do not mark a complete response as failed.
                logger.exception("the app raised an exception after its response")
            elif isinstance(self._output, Streamed) and self._output.begun:
                await self._output.fail(error)
            else:
                raise
        if isinstance(self._output, Streamed):
            # Also after the time limit: Lambda kills runtimes that request the next invocation before they get the 202.
            await self._output.accepted()

    async def _run(self, app: App) -> None:
        self._limit = asyncio.timeout(self._seconds)
        try:
            async with self._limit:
                await app(self._scope, self._receive, self._send)
        except TimeoutError as error:
            if self._limit.expired() and not isinstance(error, DeadlineReached):
                raise DeadlineReached("the function's time limit is nearly reached") from error
            raise
        if self._state is not CycleState.COMPLETE:
            raise RuntimeError("the ASGI app returned before it had sent its complete response")

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            # Wait forever: a disconnect event would make the app cancel its stream.
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        self._check_deadline()
        if self._state is CycleState.REQUEST and message["type"] == "http.response.start":
            status = message["status"]
            self._bodiless = self._bodiless or status in {204, 304}
            self._output.start(status, [list(pair) for pair in message.get("headers", [])])
            self._state = CycleState.RESPONSE
        elif self._state is CycleState.RESPONSE and message["type"] == "http.response.body":
            last = not message.get("more_body", False)
            body = b"" if self._bodiless else message.get("body", b"")
            if body or last:
                async with asyncio.timeout(LAST_LINE_SECONDS if self._deadline_raised else None):
                    await self._output.write(body, last=last)
            if last:
                self._state = CycleState.COMPLETE
        else:
            raise RuntimeError(f"the ASGI app sent the message {message['type']} out of order")

    def _check_deadline(self) -> None:
        """Raise DeadlineReached once, because asyncio.timeout has no effect on an app that never waits."""
        if self._deadline_raised:
            return
        if self._limit.expired():
            self._deadline_raised = True  # asyncio.timeout has cancelled the app
            return
        deadline = self._limit.when()
        if deadline is not None and asyncio.get_running_loop().time() >= deadline:
            self._deadline_raised = True
            self._limit.reschedule(None)
            raise DeadlineReached("the function's time limit is nearly reached")


def prelude(status: int, headers: Iterable[Iterable[bytes]]) -> bytes:
    """Return the encoded status and headers of a streamed response; raises ValueError above API Gateway's 16 KB.

    The result ends with the delimiter. API Gateway reads `statusCode`, `headers` (one string each), `multiValueHeaders`
    and `cookies`. A list in `headers` causes a 502, so repeated headers are in `multiValueHeaders`.
    """
    values: dict[str, list[str]] = {}
    for pair in headers:
        name, value = (part.decode("latin-1") for part in pair)
        values.setdefault(name.lower(), []).append(value)
    values.pop("transfer-encoding", None)  # the gateway sets it
    cookies = values.pop("set-cookie", [])
    head: dict[str, Any] = {
        "statusCode": status,
        "headers": {name: texts[0] for name, texts in values.items() if len(texts) == 1},
    }
    if repeated := {name: texts for name, texts in values.items() if len(texts) > 1}:
        head["multiValueHeaders"] = repeated
    if cookies:
        head["cookies"] = cookies
    encoded = json.dumps(head, separators=(",", ":")).encode("ascii") + PRELUDE_END
    if len(encoded) > PRELUDE_LIMIT:
        raise ValueError(f"the response headers have {len(encoded)} bytes: API Gateway accepts at most {PRELUDE_LIMIT}")
    return encoded
