"""Decides how HTTP/1.1 is spoken on one connection: h11 for the rules, the socket for the bytes, a limit for each wait.

A function's answer is written by the thread that runs the function, straight into the client's socket: no event loop
lies between, so eight answers at once do not wait for each other's turns, and a reader that leaves, or that stops
reading, is an OSError where the bytes are made (decision 37).
"""

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import h11

logger = logging.getLogger(__name__)

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 10 * 1024 * 1024
"""API Gateway's limit of a request."""

UNREAD_LIMIT = 256 * 1024
"""How much of a body that nobody wants is read, so that the connection can be used again."""

_SEND_PARTS = 512  # below IOV_MAX

Header = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client is waited for, in seconds."""

    idle: float = 75.0
    """For the first byte of a request."""
    head: float = 10.0
    """From there, for the rest of its head."""
    body: float = 29.0
    """For the body: as long as API Gateway waits for anything."""
    stalled: float = 30.0
    """For a reader that takes not one byte."""
    farewell: float = 2.0
    """For a client that still sends when it has been answered."""


class ClientLeft(ConnectionResetError):
    """The client is gone, or has kept us waiting for too long: nobody waits for an answer."""


class BodyTooLarge(Exception):
    """The request's body exceeds BODY_LIMIT."""


class BodyMalformed(Exception):
    """The request's body is not HTTP."""


class Exchange:
    """One request of a client and the answer to it. Reading and writing raise ClientLeft once the client has."""

    def __init__(self, connection: "Connection", request: h11.Request) -> None:
        self._connection = connection
        self.method = request.method.decode("ascii")
        self.target = request.target.decode("ascii")
        """Path and query exactly as they were sent."""
        self.headers: Sequence[Header] = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw_items()
        ]
        self.client = connection.client
        self.server = connection.server
        self.begun = False

    def header(self, name: str) -> str | None:
        """Return a request header's value, the last one if it is repeated."""
        found = [value for known, value in self.headers if known.lower() == name.lower()]
        return found[-1] if found else None

    def body(self) -> bytes:
        """Read the request's body; raises BodyTooLarge, BodyMalformed."""
        return self._connection.read_body()

    def respond(self, status: int, headers: Iterable[Header], body: bytes) -> None:
        """Send a whole answer."""
        kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
        head = h11.Response(status_code=status, headers=[*kept, ("Content-Length", str(len(body)))])
        self.begun = True
        events: list[h11.Event] = [head, h11.EndOfMessage()]
        if body and self.method != "HEAD":
            events.insert(1, h11.Data(data=body))
        self._connection.send(*events)

    def start(self, status: int, headers: Iterable[Header]) -> None:
        """Begin an answer whose length is not known (or is told by its own Content-Length)."""
        self.begun = True
        self._connection.send(h11.Response(status_code=status, headers=list(headers)))

    def send(self, data: bytes) -> None:
        """Send bytes of the body, at the reader's pace."""
        if data:
            self._connection.send(h11.Data(data=data))

    def end(self) -> None:
        """End the answer in order."""
        self._connection.send(h11.EndOfMessage())

    def abort(self) -> None:
        """Break the answer off: the client sees that it is not whole."""
        self._connection.reset()


class Connection:
    """One client's connection, served until it closes, or its client is waited for in vain."""

    def __init__(
        self,
        sock: socket.socket,
        client: tuple[str, int],
        server: tuple[str, int],
        handle: Callable[[Exchange], None],
        patience: Patience,
    ) -> None:
        self.client = client
        self.server = server
        self.idle = True
        """Whether it is between requests."""
        self.waiting_since: float | None = None
        """Since when it waits for its client to send a request, a head or a body, or to take a byte of the answer
        (time.monotonic); None while it does not wait."""
        self._handle = handle
        self._patience = patience
        self._sock = sock
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self._since = self._deadline = 0.0

    def serve(self) -> None:
        """Serve request after request, then close."""
        sock = self._sock
        with contextlib.suppress(ClientLeft), contextlib.closing(sock):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while self._serve_one():
                    self._http.start_next_cycle()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint)
            except h11.LocalProtocolError:
                # An answer that breaks HTTP's rules (more bytes than its Content-Length, say) must not end in order.
                logger.exception("the answer is not HTTP")
                self.reset()

    def _serve_one(self) -> bool:
        """Serve one request; tells whether the connection can take another."""
        self.idle = True
        self._wait_at_most(self._patience.idle)
        request = self._next_event()
        if not isinstance(request, h11.Request):
            return False
        self.idle = False
        self._handle(Exchange(self, request))
        if self._http.our_state is h11.SEND_BODY:
            self.reset()
        if self._http.their_state is h11.SEND_BODY:
            self._pass_over_the_body()
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def _pass_over_the_body(self) -> None:
        """Read what nobody has read; of a client that goes on and on, only until it has had time to see the answer."""
        self._wait_at_most(self._patience.farewell)
        passed = 0
        with contextlib.suppress(h11.RemoteProtocolError):
            while isinstance(event := self._next_event(), h11.Data):
                passed += len(event.data)
                if passed > UNREAD_LIMIT:
                    self._say_farewell()
                    raise ClientLeft("the client sends what nobody wants")

    def _say_farewell(self) -> None:
        """End our side first: a connection closed over unread bytes is reset, and the answer may be lost with it."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
        passed = 0
        while passed < BODY_LIMIT and (data := self._receive()):
            passed += len(data)

    def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                self.send(h11.InformationalResponse(status_code=100, headers=[]))
            data = self._receive()
            if self.idle and data:
                self.idle = False
                self._wait_at_most(self._patience.head)
            self._http.receive_data(data)
        return event

    def _wait_at_most(self, seconds: float) -> None:
        self._since = time.monotonic()
        self._deadline = self._since + seconds

    def _receive(self) -> bytes:
        """Return the client's next bytes, none at their end."""
        self.waiting_since = self._since
        try:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise ClientLeft("the client takes too long")
            self._sock.settimeout(left)
            return self._sock.recv(65_536)
        except OSError as error:
            raise ClientLeft("the client has left") from error
        finally:
            self.waiting_since = None

    def read_body(self) -> bytes:
        """Return the request's body; raises BodyTooLarge, BodyMalformed, ClientLeft."""
        self._wait_at_most(self._patience.body)
        body = bytearray()
        try:
            while isinstance(event := self._next_event(), h11.Data):
                body += event.data
                if len(body) > BODY_LIMIT:
                    raise BodyTooLarge
        except h11.RemoteProtocolError as error:
            raise BodyMalformed from error
        return bytes(body)

    def send(self, *events: h11.Event) -> None:
        """Send parts of an answer; raises ClientLeft."""
        parts: list[bytes] = []
        for event in events:
            parts += self._http.send_with_data_passthrough(event) or ()
        if not parts:
            return
        try:
            self._sock.settimeout(self._patience.stalled)
            self._send_all(parts)
        except OSError as error:
            raise ClientLeft("the client has left") from error
        finally:
            self.waiting_since = None

    def _send_all(self, parts: list[bytes]) -> None:
        """Send without joining: a chunk's bytes are handed to the kernel as they are."""
        self.waiting_since = time.monotonic()
        sent = self._sock.sendmsg(parts[:_SEND_PARTS])
        if sent == sum(map(len, parts)):
            return
        left = memoryview(b"".join(parts))[sent:]
        while left:
            self.waiting_since = time.monotonic()
            left = left[self._sock.send(left) :]

    def _refuse(self, status: int) -> None:
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self.send(h11.Response(status_code=status, headers=[("Content-Length", "0"), ("Connection", "close")]))

    def reset(self) -> None:
        """Break the connection off, from whatever thread."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
