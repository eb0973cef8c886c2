"""Sends the bytes of an ASGI app, and ends the answer when app, reader or clock break in.

ASGI HTTP, version 2.4: a lost reader is an OSError in `send`. What can happen to a streamed answer:

    nothing was sent and the app raises       the exception goes on to the caller, who can still answer otherwise
    it raises amid the answer                 the stream is ended as failed; the bytes sent are untouched
    it raises after the answer                logged; the answer was good
    the reader leaves or stops reading        `send` raises OSError, at once and ever after
    the function's time is nearly up          `send` raises DeadlineReached once, or the app is cancelled where it
                                              waits; it may still send a last line, then the stream is ended as failed

An answer that is collected whole raises instead of being cut: the caller answers with a clean error.
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
"""API Gateway looks for the delimiter in the first 16 KB of a streamed answer and answers 500 if it is not there."""

LAST_LINE_SECONDS = 1.0
"""How long an app that was told of its deadline may take to get each of its last bytes out."""

Opener = Callable[[], Awaitable[ResponseStream]]
Headers = list[list[bytes]]


class DeadlineReached(TimeoutError):
    """The function's time is nearly up: send a last line that says so, and raise this again."""


class AnswerTooLarge(Exception):
    """An answer that must leave whole has outgrown what may leave so."""


class Streamed:
    """Where a streamed answer goes; opened by the first bytes of the body, so that a failure before is a clean one."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._prelude = b""
        self._stream: ResponseStream | None = None
        self.lost = False

    @property
    def begun(self) -> bool:
        """Whether bytes may have left."""
        return self._stream is not None

    def start(self, status: int, headers: Headers) -> None:
        """Take the head; raises ValueError if API Gateway could not read it."""
        self._prelude = prelude(status, headers)

    async def write(self, data: bytes, *, last: bool) -> None:
        """Send bytes of the body; raises OSError once the reader is lost."""
        if self.lost:
            raise ConnectionResetError("the reader has left")
        if self._stream is None:
            self._stream, data = await self._opener(), self._prelude + data
        try:
            await self._stream.write(data, last=last)
        except OSError:
            self.lost = True
            raise

    async def fail(self, error: Exception) -> None:
        """End what has begun as failed."""
        if self._stream is not None and not self.lost:
            logger.error("the answer broke off: %s", type(error).__name__)
            try:
                await self._stream.fail(type(error).__name__)
            except OSError:
                self.lost = True

    async def accepted(self) -> None:
        """Return when the other side has everything, or has gone."""
        if self._stream is not None:
            try:
                await self._stream.accepted()
            except OSError:
                self.lost = True
        if self.lost:
            logger.warning("the reader left before the answer had ended")


class Whole:
    """Where an answer goes that leaves in one piece; AnswerTooLarge as soon as it exceeds `limit` bytes."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.status = 500
        self.headers: Headers = []
        self.body = bytearray()

    def start(self, status: int, headers: Headers) -> None:
        """Take the head."""
        self.status, self.headers = status, headers

    async def write(self, data: bytes, *, last: bool) -> None:  # noqa: ARG002 -- the cycle knows the end
        """Take bytes of the body."""
        self.body += data
        if self._limit is not None and len(self.body) > self._limit:
            raise AnswerTooLarge


class State(enum.Enum):
    """What the app owes: the head, body, or nothing."""

    REQUEST = enum.auto()
    RESPONSE = enum.auto()
    COMPLETE = enum.auto()


class ResponseCycle:
    """One request through the app, within `seconds`."""

    def __init__(self, scope: Scope, body: bytes, out: Streamed | Whole, seconds: float) -> None:
        self._scope = {**scope, "asgi": {"version": "3.0", "spec_version": "2.4"}}
        self._body: bytes | None = body
        self._out = out
        self._bodiless = scope["method"] == "HEAD"
        self._seconds = seconds
        self._limit = asyncio.Timeout(None)
        self._deadline_told = False
        self._state = State.REQUEST

    async def __call__(self, app: App) -> None:
        """Return when the answer has been taken; raises what the app raised if no byte of an answer has left."""
        try:
            await self._run(app)
        except Exception as error:
            if self._state is State.COMPLETE:
                # Failing a stream that is whole would mark a good answer as broken.
                logger.exception("the app failed after its answer")
            elif isinstance(self._out, Streamed) and self._out.begun:
                await self._out.fail(error)
            else:
                raise
        if isinstance(self._out, Streamed):
            # Beyond the time limit, too: whoever asks for the next invocation before this one was taken is killed.
            await self._out.accepted()

    async def _run(self, app: App) -> None:
        self._limit = asyncio.timeout(self._seconds)
        try:
            async with self._limit:
                await app(self._scope, self._receive, self._send)
        except TimeoutError as error:
            if self._limit.expired() and not isinstance(error, DeadlineReached):
                raise DeadlineReached("the function's time is nearly up") from error
            raise
        if self._state is not State.COMPLETE:
            raise RuntimeError("the app returned before its answer had ended")

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            # There is no more to receive, and no disconnect to tell: an app that saw one would cancel its own stream.
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        self._look_at_the_clock()
        if self._state is State.REQUEST and message["type"] == "http.response.start":
            status = message["status"]
            self._bodiless = self._bodiless or status in {204, 304}
            self._out.start(status, [list(pair) for pair in message.get("headers", [])])
            self._state = State.RESPONSE
        elif self._state is State.RESPONSE and message["type"] == "http.response.body":
            last = not message.get("more_body", False)
            body = b"" if self._bodiless else message.get("body", b"")
            if body or last:
                async with asyncio.timeout(LAST_LINE_SECONDS if self._deadline_told else None):
                    await self._out.write(body, last=last)
            if last:
                self._state = State.COMPLETE
        else:
            raise RuntimeError(f"{message['type']} is out of order")

    def _look_at_the_clock(self) -> None:
        """Raise DeadlineReached once; an app that never waits keeps asyncio.timeout from firing."""
        if self._deadline_told:
            return
        if self._limit.expired():
            self._deadline_told = True  # by its cancellation
            return
        deadline = self._limit.when()
        if deadline is not None and asyncio.get_running_loop().time() >= deadline:
            self._deadline_told = True
            self._limit.reschedule(None)
            raise DeadlineReached("the function's time is nearly up")


def prelude(status: int, headers: Iterable[Iterable[bytes]]) -> bytes:
    """Return the head of a streamed answer with its delimiter.

    API Gateway reads `statusCode`, `headers` (one string each), `multiValueHeaders` and `cookies`; a list among
    `headers` is a 502, so a repeated header goes to `multiValueHeaders`. Raises ValueError above its 16 KB.
    """
    values: dict[str, list[str]] = {}
    for pair in headers:
        name, value = (part.decode("latin-1") for part in pair)
        values.setdefault(name.lower(), []).append(value)
    values.pop("transfer-encoding", None)  # the gateway's own affair
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
        raise ValueError(f"the answer's headers need {len(encoded)} bytes; API Gateway takes {PRELUDE_LIMIT}")
    return encoded
