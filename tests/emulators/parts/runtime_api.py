"""Lambda's Runtime API on this machine: the same contract and states, for one function at a time.

A runtime (`python -m awslambdaric app.handler`) requests `/next`, and responds with `/response`, buffered or as a
chunked stream, or with `/error`. As on Lambda, a response to another invocation is refused (400), and so are a second
response and a `/next` before the response (403). A stream is passed on chunk by chunk. The 202 follows after the last
one, so a slow client slows the runtime down, and a client that disconnects resets the runtime's connection.
"""

import base64
import json
import logging
import queue
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from deltaic_ops.deploy.emulated_account import ACCOUNT, REGION

logger = logging.getLogger(__name__)

ROOT = "/2018-06-01/runtime/"
ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"

Sink = Callable[[bytes], None]
"""Receives the bytes of a stream; may block for a slow client and raises OSError if it has disconnected."""


@dataclass(slots=True)
class Outcome:
    """Result of an invocation."""

    mode: str = ""
    """`stream`, `whole` or `error`."""
    body: bytes = b""
    """The complete response or the error document; empty for a stream, which the sink receives."""
    content_type: str = ""
    error_type: str = ""
    """Why the function or its stream failed (the trailer); empty if neither failed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Exception | None = None
    """What ended the stream early: the sink's exception, or a runtime that stopped sending."""


@dataclass(slots=True, eq=False)
class Invocation:
    """An event that a runtime processes."""

    payload: bytes
    sink: Sink
    seconds: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    invocation_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    answering: bool = False
    outcome: Outcome = field(default_factory=Outcome)
    done: threading.Event = field(default_factory=threading.Event)

    def end(self, outcome: Outcome) -> None:
        """Set the result, unless it is set."""
        if not self.done.is_set():
            self.outcome = outcome
            self.done.set()


class RuntimeApi:
    """The Runtime API of one function's environment, on a free loopback port; use it as a context manager."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Invocation | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self.current: Invocation | None = None
        self.init_error: Outcome | None = None
        self.refused: list[str] = []
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def address(self) -> str:
        """Value of AWS_LAMBDA_RUNTIME_API."""
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._events.put(None)
        self._server.shutdown()
        self._server.server_close()

    def invoke(self, event: Any, *, sink: Sink, seconds: float = 30.0) -> Outcome:
        """Send an event to the runtime and return its result; the next call waits for it."""
        with self._lock:
            if self.init_error is not None:
                return self.init_error
            invocation = Invocation(json.dumps(event).encode(), sink, seconds)
            self._events.put(invocation)
            if not invocation.done.wait(seconds):
                message = {"errorMessage": f"Task timed out after {seconds:.2f} seconds"}
                invocation.end(Outcome("error", json.dumps(message).encode(), error_type="Sandbox.Timedout"))
            return invocation.outcome

    def next(self) -> Invocation | None:
        """Return the next invocation, or None at shutdown or if the current response is still missing."""
        if self.current is not None and not self.current.done.is_set():
            return None
        self.current = self._events.get()
        return self.current

    def failed(self, outcome: Outcome) -> None:
        """Record that the runtime has ended or could not start, and report it to waiting callers."""
        self.init_error = self.init_error or outcome
        if self.current is not None:
            self.current.end(outcome)
        while not self._events.empty():
            if (event := self._events.get()) is not None:
                event.end(outcome)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], api: RuntimeApi) -> None:
        self.api = api
        super().__init__(address, _Exchange)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 -- socketserver's signature
        logger.debug("a runtime's connection from %s ended: %s", client_address, sys.exc_info()[1])


class _Exchange(BaseHTTPRequestHandler):
    """A connection of a runtime."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536
    server: _Server

    def do_GET(self) -> None:
        if self.path != ROOT + "invocation/next":
            self._answer(HTTPStatus.OK if self.path == ROOT + "restore/next" else HTTPStatus.NOT_FOUND)
            return
        owed = self.server.api.current
        invocation = self.server.api.next()
        if invocation is None:
            self._refuse(HTTPStatus.FORBIDDEN, f"InvalidStateTransition: {owed.id if owed else 'shutdown'}")
            return
        self._answer(
            HTTPStatus.OK,
            invocation.payload,
            {
                "Lambda-Runtime-Aws-Request-Id": invocation.id,
                "Lambda-Runtime-Invocation-Id": invocation.invocation_id,
                "Lambda-Runtime-Deadline-Ms": str(int((time.time() + invocation.seconds) * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:local",
                "Lambda-Runtime-Trace-Id": f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};Sampled=0",
            },
        )

    def do_POST(self) -> None:
        if self.path == ROOT + "init/error":
            document = self._whole_body()
            self.server.api.failed(Outcome("error", document, error_type=self.headers.get(ERROR_TYPE, "")))
            self._answer(HTTPStatus.ACCEPTED)
            return
        _, _, rest = self.path.partition(ROOT + "invocation/")
        invoke_id, _, kind = rest.partition("/")
        invocation = self.server.api.current
        if kind not in {"response", "error"}:
            self._refuse(HTTPStatus.NOT_FOUND, "UnknownPath")
        elif invocation is None or invocation.id != invoke_id:
            self._refuse(HTTPStatus.BAD_REQUEST, "InvalidRequestID")
        elif invocation.answering or invocation.done.is_set():
            self._refuse(HTTPStatus.FORBIDDEN, "InvalidStateTransition")
        else:
            invocation.answering = True
            self._take(invocation, kind)

    def _take(self, invocation: Invocation, kind: str) -> None:
        outcome = Outcome(content_type=self.headers.get("Content-Type", ""), headers=dict(self.headers.items()))
        if kind == "error":
            outcome.mode, outcome.body = "error", self._whole_body()
            outcome.error_type = self.headers.get(ERROR_TYPE) or json.loads(outcome.body).get("errorType", "")
        elif self.headers.get("Lambda-Runtime-Function-Response-Mode") != "streaming":
            outcome.mode, outcome.body = "whole", self._whole_body()
        else:
            outcome.mode = "stream"
            try:
                for chunk in self._chunks(outcome):
                    invocation.sink(chunk)
            except Exception as error:  # noqa: BLE001 -- any failure must reach the caller of the function
                outcome.error_type, outcome.fault = f"Lost.{type(error).__name__}", error
                self._reset()
                invocation.end(outcome)
                return
        # Set before the 202, because the runtime requests the next invocation as soon as it receives it.
        invocation.end(outcome)
        self._answer(HTTPStatus.ACCEPTED, b'{"status":"OK"}\n')

    def _whole_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks(Outcome()))
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _chunks(self, outcome: Outcome) -> Iterator[bytes]:
        """Yield the chunks as they arrive, then read the trailers; raises ValueError if the runtime stops sending."""
        while size := int(self.rfile.readline() or b"broken off", 16):
            data = self.rfile.read(size)
            if len(data) < size or self.rfile.readline() != b"\r\n":
                raise ValueError("the runtime broke its stream off")
            yield data
        while (line := self.rfile.readline()) not in {b"\r\n", b""}:
            name, _, value = line.decode("ascii").partition(":")
            if name == ERROR_TYPE:
                outcome.error_type = value.strip()
            else:
                outcome.body = base64.b64decode(value.strip())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Ignore bytes that are not HTTP, such as those after the end of a stream."""
        self.server.api.refused.append(f"{code} {message} {explain or ''}")
        self.close_connection = True

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self.server.api.refused.append(f"{self.command} {reason}")
        self.close_connection = True
        self._answer(status, json.dumps({"errorType": reason}).encode())

    def _answer(self, status: HTTPStatus, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response_only(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _reset(self) -> None:
        """Close the connection with a reset, whatever is still being sent."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
