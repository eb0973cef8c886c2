"""A chunked answer on its way to Lambda: one POST to the Runtime API, beside AWS's own client.

AWS's Python client (awslambdaric) posts a handler's result whole. `find_runtime` looks for it in this process and, if
its seam is the one known here, wraps three of its methods so that an invocation which was answered by a stream is not
answered a second time. Nothing of it is copied and nothing is replaced: with any other seam `find_runtime` returns
None, a warning says so, and answers leave whole through the unmodified client.

The contract (Lambda, "Building a custom runtime", response streaming): `POST .../invocation/<id>/response`, chunked,
`Lambda-Runtime-Function-Response-Mode: streaming`, JSON prelude, eight NUL bytes, body; an error in the middle is told
by the trailers `Lambda-Runtime-Function-Error-Type` and `-Error-Body`; 202 when Lambda has taken all of it.
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
"""How long a reader may take no byte. The buffers in between move many times a second at Lambda's own pace of 2 MB/s,
and every few seconds for a reader of 64 KB/s (decision 49)."""

_BUFFERS = 10 << 20
"""Bytes that have been written and may not have been read: Linux's largest buffers of both ends of the connection."""

_SLOWEST = 64 << 10
"""Bytes a second of the slowest reader whose last bytes are waited for."""

_POSTS = ("post_invocation_result", "post_invocation_error")
_WAIT = "wait_next_invocation"


class ResponseStream(Protocol):
    """One invocation's answer on its way out. A lost connection is an OSError, at once and ever after."""

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes and wait until the reader keeps up; `last` ends the stream in order.

        A reader that has stopped counts as lost.
        """

    async def fail(self, error_type: str) -> None:
        """End the stream as failed; the bytes sent so far stay as they are."""

    async def accepted(self) -> None:
        """Return when the other side has taken everything, or has stopped."""


class RuntimeApiStream:
    """A ResponseStream as one chunked POST to the Lambda Runtime API."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stall_seconds: float = STALL_SECONDS
    ) -> None:
        """Answer on a connection; `stall_seconds` is how long it may take no byte."""
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
        # asyncio sets TCP_NODELAY. Without it a small piece waits 40 ms for the acknowledgement of the one before.
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
        """Send one chunk (none for no bytes); `last` adds the terminator."""
        if self._reader.at_eof():
            self._writer.close()
            raise ConnectionResetError("the Runtime API has closed the connection")
        parts = [b"%x\r\n" % len(data), data, b"\r\n"] if data else []
        if last:
            parts.append(b"0\r\n\r\n")
        # Streams, not loop.sock_sendall: a cancelled drain leaves the framing whole, a cancelled sendall half a chunk.
        # Not writelines: from Python 3.12.0 to 3.13.1 drain does not wait after it (gh-127655).
        self._writer.write(b"".join(parts))
        self._written += len(data)
        await self._drain()

    async def _drain(self) -> None:
        """Wait until the reader keeps up, for as long as it takes bytes at all; else break the connection off."""
        transport = self._writer.transport
        while True:
            waiting = transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(self._stall_seconds):
                    await self._writer.drain()
            except TimeoutError:
                if transport.get_write_buffer_size() < waiting:
                    continue
                # Not in order, so that what has left cannot pass for the whole.
                transport.abort()
                raise ConnectionAbortedError("the reader has stopped") from None
            return

    async def fail(self, error_type: str) -> None:
        """End the stream with the error trailers; only the error's type is told, for its message may hold secrets."""
        body = {"errorMessage": "the answer broke off", "errorType": error_type, "stackTrace": []}
        encoded = base64.b64encode(json.dumps(body).encode()).decode()
        self._writer.write(f"0\r\n{ERROR_TYPE}: {error_type}\r\n{ERROR_BODY}: {encoded}\r\n\r\n".encode("ascii"))

    async def accepted(self) -> None:
        """Wait for Lambda's 202: asking for the next invocation before it is 403 and ends the runtime.

        What is still to be read then is what the buffers hold, so a reader who needs longer has stopped. The runtime
        may have to start anew after that, which is better than to wait out the function's time.
        """
        try:
            async with asyncio.timeout(self._stall_seconds + min(self._written, _BUFFERS) / _SLOWEST):
                status = await self._reader.readline()
                if b" 202 " not in status:
                    logger.warning("the Runtime API answered the stream with %r", status.decode("latin-1").strip())
                while await self._reader.readline() not in {b"\r\n", b""}:
                    pass
        except TimeoutError:
            self._writer.transport.abort()
            raise ConnectionAbortedError("the reader has stopped") from None
        finally:
            self._writer.close()


class Runtime:
    """AWS's client in this process, hooked: it knows the invocation and keeps quiet where a stream has answered."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._invocation_ids: dict[str, str | None] = {}
        self._answered: set[str] = set()

    async def open(self, invoke_id: str) -> RuntimeApiStream:
        """Open the answer of an invocation; from here on AWS's client posts nothing for it. Raises OSError."""
        stream = await RuntimeApiStream.open(self.address, invoke_id, self._invocation_ids.get(invoke_id))
        self._answered.add(invoke_id)
        return stream

    def hook(self, client: type) -> None:
        """Wrap the class's own methods; arguments that AWS may add are passed on."""
        for name in _POSTS:
            setattr(client, name, self._silenced(client.__dict__[name]))
        if _WAIT in client.__dict__:
            setattr(client, _WAIT, self._remembered(client.__dict__[_WAIT]))

    def _silenced(self, post: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(post)
        def unless_answered(self_: Any, invoke_id: str, *args: Any, **kwargs: Any) -> Any:
            if invoke_id in self._answered:
                self._answered.discard(invoke_id)
                return None
            return post(self_, invoke_id, *args, **kwargs)

        return unless_answered

    def _remembered(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(wait)
        def remember(self_: Any, *args: Any, **kwargs: Any) -> Any:
            request = wait(self_, *args, **kwargs)
            self._invocation_ids = {request.invoke_id: getattr(request, "invocation_id", None)}
            return request

        return remember


@functools.cache
def find_runtime() -> Runtime | None:
    """Return AWS's client, hooked once for the process, or None where there is none or its seam is another one."""
    address = os.environ.get("AWS_LAMBDA_RUNTIME_API")
    # AWS's bootstrap has imported its client before the handler; whoever has not is not run by it.
    client, bootstrap = sys.modules.get("awslambdaric.lambda_runtime_client"), sys.modules.get("awslambdaric.bootstrap")
    if not address or client is None or bootstrap is None:
        return None
    classes = [value for value in vars(client).values() if isinstance(value, type) and _defines_posts(value)]
    caller = getattr(getattr(bootstrap, "handle_event_request", None), "__code__", None)
    if not classes or caller is None or not set(_POSTS) <= set(caller.co_names):
        logger.warning("awslambdaric is not as it was known: answers leave whole, not as streams")
        return None
    runtime = Runtime(address)
    for each in classes:
        runtime.hook(each)
    return runtime


def _defines_posts(client: type) -> bool:
    """Tell whether both posts are this class's own and take the invocation's id first."""
    for name in _POSTS:
        post = client.__dict__.get(name)
        if not inspect.isfunction(post) or list(inspect.signature(post).parameters)[1:2] != ["invoke_id"]:
            return False
    return True
