"""Stream a response to Lambda in one chunked POST to the Runtime API, independent of AWS's client.

AWS's Python client (awslambdaric) posts a handler's result when the handler returns. `find_runtime` wraps three of the
client's methods in this process, so that it posts no second response after a stream. This works only with the known
interface of the client. With any other interface, `find_runtime` logs a warning and returns None, and the unmodified
client sends buffered responses.

Protocol (Lambda, "Building a custom runtime", response streaming): `POST .../invocation/<id>/response`, chunked,
`Lambda-Runtime-Function-Response-Mode: streaming`, JSON prelude, eight NUL bytes, body. The trailers
`Lambda-Runtime-Function-Error-Type` and `-Error-Body` report an error. Lambda returns 202 when it has received all.
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
"""Seconds without progress after which a client is considered disconnected. At Lambda's 2 MB/s, buffers drain many
times a second; for a client that reads 64 KB/s, every few seconds (decision 49)."""

_BUFFER_BYTES = 10 << 20
"""Maximum number of bytes written but not yet read: Linux's largest socket buffers at both ends of a connection."""

_MIN_SPEED = 64 << 10
"""Minimum speed of clients for whose last bytes the stream waits, in bytes a second."""

_POSTS = ("post_invocation_result", "post_invocation_error")
_WAIT = "wait_next_invocation"


class ResponseStream(Protocol):
    """Stream of one invocation's response. Every method raises OSError after the connection is lost."""

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes and wait for a slow client; `last` ends the stream as complete.

        If the client has stopped reading, the connection is considered lost.
        """

    async def fail(self, error_type: str) -> None:
        """Mark the stream as failed and end it, after the bytes that were already sent."""

    async def accepted(self) -> None:
        """Wait until the receiver has the complete response or has stopped reading."""


class RuntimeApiStream:
    """A ResponseStream that is one chunked POST to the Lambda Runtime API."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stall_seconds: float = STALL_SECONDS
    ) -> None:
        """Use an open connection; `stall_seconds` is the maximum time without progress."""
        self._reader = reader
        self._writer = writer
        self._stall_seconds = stall_seconds
        self._written = 0

    @classmethod
    async def open(
        cls, address: str, invoke_id: str, invocation_id: str | None, stall_seconds: float = STALL_SECONDS
    ) -> "RuntimeApiStream":
        """Connect to the Runtime API at host:port and send the request's headers; raises OSError."""
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
        """Send one HTTP chunk, or none if `data` is empty; `last` adds the terminating chunk."""
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
        """Wait until the client has read enough; abort the connection if it makes no progress."""
        transport = self._writer.transport
        while True:
            unsent = transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(self._stall_seconds):
                    await self._writer.drain()
            except TimeoutError:
                if transport.get_write_buffer_size() < unsent:
                    continue
                # Abort instead of closing, so that the response does not look complete.
                transport.abort()
                raise ConnectionAbortedError("the client has stopped reading") from None
            return

    async def fail(self, error_type: str) -> None:
        """End the stream with error trailers: only the error's type, because its message can contain secrets."""
        body = {"errorMessage": "the response ended before it was complete", "errorType": error_type, "stackTrace": []}
        encoded = base64.b64encode(json.dumps(body).encode()).decode()
        self._writer.write(f"0\r\n{ERROR_TYPE}: {error_type}\r\n{ERROR_BODY}: {encoded}\r\n\r\n".encode("ascii"))

    async def accepted(self) -> None:
        """Wait for Lambda's 202 response: requesting the next invocation earlier causes a 403 and ends the runtime.

        Only the content of socket buffers is unread now. A client that reads the rest more slowly than `_MIN_SPEED` is
        considered disconnected: the runtime may then restart, instead of waiting for the function's time limit.
        """
        try:
            async with asyncio.timeout(self._stall_seconds + min(self._written, _BUFFER_BYTES) / _MIN_SPEED):
                status = await self._reader.readline()
                if b" 202 " not in status:
                    logger.warning("the Runtime API returned %r instead of 202", status.decode("latin-1").strip())
                while await self._reader.readline() not in {b"\r\n", b""}:
                    pass
        except TimeoutError:
            self._writer.transport.abort()
            raise ConnectionAbortedError("the client has stopped reading") from None
        finally:
            self._writer.close()


class Runtime:
    """The wrapped AWS client of this process, which posts nothing for invocations with a streamed response."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._invocation_ids: dict[str, str | None] = {}
        self._answered: set[str] = set()

    async def open(self, invoke_id: str) -> RuntimeApiStream:
        """Open the response stream of an invocation, for which AWS's client then posts nothing; raises OSError."""
        stream = await RuntimeApiStream.open(self.address, invoke_id, self._invocation_ids.get(invoke_id))
        self._answered.add(invoke_id)
        return stream

    def hook(self, client: type) -> None:
        """Wrap the methods of a class of AWS's client that post responses; pass on arguments of later versions."""
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
    """Wrap AWS's client once for the process, as a Runtime; None if the client is absent or of unknown interface."""
    address = os.environ.get("AWS_LAMBDA_RUNTIME_API")
    # AWS's bootstrap imports its client before the handler; in other processes it is not imported.
    client, bootstrap = sys.modules.get("awslambdaric.lambda_runtime_client"), sys.modules.get("awslambdaric.bootstrap")
    if not address or client is None or bootstrap is None:
        return None
    classes = [value for value in vars(client).values() if isinstance(value, type) and _defines_posts(value)]
    caller = getattr(getattr(bootstrap, "handle_event_request", None), "__code__", None)
    if not classes or caller is None or not set(_POSTS) <= set(caller.co_names):
        logger.warning("awslambdaric has an unknown interface: responses are buffered instead of streamed")
        return None
    runtime = Runtime(address)
    for client_class in classes:
        runtime.hook(client_class)
    return runtime


def _defines_posts(client: type) -> bool:
    """Return whether a class itself defines both methods that post a result or an error, first argument `invoke_id`."""
    for name in _POSTS:
        post = client.__dict__.get(name)
        if not inspect.isfunction(post) or list(inspect.signature(post).parameters)[1:2] != ["invoke_id"]:
            return False
    return True
