"""Stream an answer to Lambda: one chunked POST to the Runtime API, independent of AWS's client.

AWS's Python client (awslambdaric) posts a handler's result at its end. `find_runtime` wraps three of its methods in
this process, so that it does not answer an invocation again that a stream has answered. It supports only the known
interface of the client. With any other interface it logs a warning and returns None, and the unmodified client sends
buffered answers.

Protocol (Lambda, "Building a custom runtime", response streaming): `POST .../invocation/<id>/response`, chunked,
`Lambda-Runtime-Function-Response-Mode: streaming`, JSON prelude, eight NUL bytes, body. The trailers
`Lambda-Runtime-Function-Error-Type` and `-Error-Body` report an error. Lambda answers 202 when it has received all.
"""

import asyncio
import base64
import functools
import inspect
import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol

logger = logging.getLogger(__name__)

ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
ERROR_BODY = "Lambda-Runtime-Function-Error-Body"
STREAM_TYPE = "application/vnd.awslambda.http-integration-response"

STALL_SECONDS = 30.0
"""Time without progress after which a client counts as stopped. Buffers drain many times a second at Lambda's 2 MB/s,
and every few seconds for a client that reads 64 KB/s (decision 49)."""

_BUFFER_BYTES = 10 << 20
"""Maximum of bytes written but not yet read: Linux's largest socket buffers at both ends of the connection."""

_MIN_SPEED = 64 << 10
"""Speed of the slowest client for whose last bytes the stream waits."""

_POSTS = ("post_invocation_result", "post_invocation_error")
_WAIT = "wait_next_invocation"


class ResponseStream(Protocol):
    """Stream of one invocation's answer. Every method raises OSError after the connection is lost."""

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes and wait for a slow client; `last` ends the stream as complete.

        A client that has stopped reading counts as lost.
        """

    async def fail(self, error_type: str) -> None:
        """End the stream as failed, after the bytes already sent."""

    async def accepted(self) -> None:
        """Wait until the other side has received everything or has stopped."""


class RuntimeApiStream:
    """A ResponseStream that is one chunked POST to the Lambda Runtime API."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stall_seconds: float = STALL_SECONDS
    ) -> None:
        """Use a connection; `stall_seconds` is the maximum time without progress."""
        self._reader = reader
        self._writer = writer
        self._stall_seconds = stall_seconds
        self._written = 0

    @classmethod
    async def open(
        cls, address: str, invoke_id: str, invocation_id: str | None, stall_seconds: float = STALL_SECONDS
    ) -> "RuntimeApiStream":
        """Connect to the Runtime API at host:port and send the request's head; raises OSError."""
        host, _, port = address.rpartition(":")
        # asyncio sets TCP_NODELAY. Without it, a small chunk would wait 40 ms for the previous acknowledgement.
        reader, writer = await asyncio.open_connection(host, int(port))
        head = [
            f"POST /2018-06-01/runtime/invocation/{invoke_id}/response HTTP/1.1",
            f"Host: {address}",
            "Lambda-Runtime-Function-Response-Mode: streaming",
            "Transfer-Encoding: chunked",
            f"Content-Type: {STREAM_TYPE}",
            f"Trailer: {ERROR_TYPE}, {ERROR_BODY}",
        ]
        if invocation_id:
            head.append(f"Lambda-Runtime-Invocation-Id: {invocation_id}")
        writer.write(("\r\n".join(head) + "\r\n\r\n").encode("ascii"))
        return cls(reader, writer, stall_seconds)

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send one chunk, or none if `data` is empty; `last` adds the terminator."""
        if self._reader.at_eof():
            self._writer.close()
            raise ConnectionResetError("the Runtime API has closed the connection")
        parts = [b"%x\r\n" % len(data), data, b"\r\n"] if data else []
        if last:
            parts.append(b"0\r\n\r\n")
        # Not loop.sock_sendall: if cancelled, it could send half a chunk. A cancelled drain keeps chunks complete.
        # Not writelines: from Python 3.12.0 to 3.13.1, drain does not wait after it (gh-127655).
        self._writer.write(b"".join(parts))
        self._written += len(data)
        await self._drain()

    async def _drain(self) -> None:
        """Wait while a slow client makes progress; otherwise abort the connection."""
        transport = self._writer.transport
        while True:
            unsent = transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(self._stall_seconds):
                    await self._writer.drain()
            except TimeoutError:
                if transport.get_write_buffer_size() < unsent:
                    continue
                # Abort instead of closing, so that the answer does not look complete.
                transport.abort()
                raise ConnectionAbortedError("the client has stopped reading") from None
            return

    async def fail(self, error_type: str) -> None:
        """End the stream with the error trailers: only the error's type, because its message can contain secrets."""
        body = {"errorMessage": "the answer ended early", "errorType": error_type, "stackTrace": []}
        encoded = base64.b64encode(json.dumps(body).encode()).decode()
        self._writer.write(f"0\r\n{ERROR_TYPE}: {error_type}\r\n{ERROR_BODY}: {encoded}\r\n\r\n".encode("ascii"))

    async def accepted(self) -> None:
        """Wait for Lambda's 202, because requesting the next invocation earlier causes a 403 and ends the runtime.

        At most the buffers are unread at this point, so a client that needs longer has stopped. The runtime may have to
        restart after that, which is better than to wait for the function's time limit.
        """
        try:
            async with asyncio.timeout(self._stall_seconds + min(self._written, _BUFFER_BYTES) / _MIN_SPEED):
                status = await self._reader.readline()
                if b" 202 " not in status:
                    logger.warning("the Runtime API answered %r instead of 202", status.decode("latin-1").strip())
                while await self._reader.readline() not in {b"\r\n", b""}:
                    pass
        except TimeoutError:
            self._writer.transport.abort()
            raise ConnectionAbortedError("the client has stopped reading") from None
        finally:
            self._writer.close()


class Runtime:
    """The wrapped AWS client of this process, which does not answer invocations that a stream has answered."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._invocation_ids: dict[str, str | None] = {}
        self._answered: set[str] = set()

    async def open(self, invoke_id: str) -> RuntimeApiStream:
        """Open the stream of an invocation, after which AWS's client posts nothing for it; raises OSError."""
        stream = await RuntimeApiStream.open(self.address, invoke_id, self._invocation_ids.get(invoke_id))
        self._answered.add(invoke_id)
        return stream

    def hook(self, client: type) -> None:
        """Wrap methods of the client's class; arguments that AWS may add are passed on."""
        for name in _POSTS:
            setattr(client, name, self._skip_if_answered(client.__dict__[name]))
        if _WAIT in client.__dict__:
            setattr(client, _WAIT, self._record_invocation(client.__dict__[_WAIT]))

    def _skip_if_answered(self, post: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(post)
        def unless_answered(self_: Any, invoke_id: str, *args: Any, **kwargs: Any) -> Any:
            if invoke_id in self._answered:
                self._answered.discard(invoke_id)
                return None
            return post(self_, invoke_id, *args, **kwargs)

        return unless_answered

    def _record_invocation(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(wait)
        def remember(self_: Any, *args: Any, **kwargs: Any) -> Any:
            request = wait(self_, *args, **kwargs)
            self._invocation_ids = {request.invoke_id: getattr(request, "invocation_id", None)}
            return request

        return remember


@functools.cache
def find_runtime() -> Runtime | None:
    """Wrap AWS's client, once for the process; returns None without a client of the known interface."""
    address = os.environ.get("AWS_LAMBDA_RUNTIME_API")
    # AWS's bootstrap imports its client before the handler; in other processes it is not imported.
    client, bootstrap = sys.modules.get("awslambdaric.lambda_runtime_client"), sys.modules.get("awslambdaric.bootstrap")
    if not address or client is None or bootstrap is None:
        return None
    classes = [value for value in vars(client).values() if isinstance(value, type) and _defines_posts(value)]
    caller = getattr(getattr(bootstrap, "handle_event_request", None), "__code__", None)
    if not classes or caller is None or not set(_POSTS) <= set(caller.co_names):
        logger.warning("awslambdaric has an unknown interface: answers are sent buffered, not as streams")
        return None
    runtime = Runtime(address)
    for client_class in classes:
        runtime.hook(client_class)
    return runtime


def _defines_posts(client: type) -> bool:
    """Return whether this class itself defines both posts, with the invocation's id as first argument."""
    for name in _POSTS:
        post = client.__dict__.get(name)
        if not inspect.isfunction(post) or list(inspect.signature(post).parameters)[1:2] != ["invoke_id"]:
            return False
    return True
