"""Decides how HTTP/1.1 is spoken to clients: a thread for each connection, h11 for the rules, the socket for the bytes.

A function's answer is written by the thread that runs the function, straight into the client's socket: no event loop
lies between, so eight answers at once do not wait for each other's turns, and a reader that leaves is an OSError where
the bytes are made (decision 37).
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Self

import h11

logger = logging.getLogger(__name__)

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 10 * 1024 * 1024
"""API Gateway's limit of a request."""

BACKLOG = 128
IDLE_SECONDS = 75.0
STOP_SECONDS = 5.0
_SEND_PARTS = 512  # below IOV_MAX

Header = tuple[str, str]


class ClientLeft(ConnectionResetError):
    """The client is gone, or has idled for too long: nobody waits for an answer."""


class BodyTooLarge(Exception):
    """The request's body exceeds BODY_LIMIT."""


class Exchange:
    """One request of a client and the answer to it. Reading and writing raise ClientLeft once the client has."""

    def __init__(self, connection: "_Connection", request: h11.Request) -> None:
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
        """Read the request's body; raises BodyTooLarge."""
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


class _Connection:
    """One client's connection, served until it closes or idles."""

    def __init__(self, server: "HttpServer", sock: socket.socket, client: tuple[str, int]) -> None:
        self.client = client
        self.server = server.address
        self._handle = server.handle
        self._sock = sock
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self.idle = True

    def serve(self) -> None:
        sock = self._sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ClientLeft), contextlib.closing(sock):
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
        self._sock.settimeout(IDLE_SECONDS)
        request = self._next_event()
        if not isinstance(request, h11.Request):
            return False
        self.idle = False
        exchange = Exchange(self, request)
        self._handle(exchange)
        if self._http.our_state is h11.SEND_BODY:
            self.reset()
        while self._http.their_state is h11.SEND_BODY:  # what nobody has read
            self._next_event()
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def _next_event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                self.send(h11.InformationalResponse(status_code=100, headers=[]))
                self._sock.settimeout(IDLE_SECONDS)
            try:
                self._http.receive_data(self._sock.recv(65_536))
            except OSError as error:
                raise ClientLeft("the client has left") from error

    def read_body(self) -> bytes:
        body = bytearray()
        while isinstance(event := self._next_event(), h11.Data):
            body += event.data
            if len(body) > BODY_LIMIT:
                raise BodyTooLarge
        return bytes(body)

    def send(self, *events: h11.Event) -> None:
        parts: list[bytes] = []
        for event in events:
            parts += self._http.send_with_data_passthrough(event) or ()
        try:
            self._sock.settimeout(None)
            _send_all(self._sock, parts)
        except OSError as error:
            raise ClientLeft("the client has left") from error

    def _refuse(self, status: int) -> None:
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self.send(h11.Response(status_code=status, headers=[("Content-Length", "0"), ("Connection", "close")]))

    def reset(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


def _send_all(sock: socket.socket, parts: list[bytes]) -> None:
    """Send without joining: a chunk's bytes are handed to the kernel as they are."""
    left = sum(map(len, parts))
    if not left:
        return
    sent = sock.sendmsg(parts[:_SEND_PARTS])
    if sent < left:
        sock.sendall(b"".join(parts)[sent:])


def bound(port: int = 0) -> socket.socket:
    """Take a loopback port (0: a free one); it refuses connections until the socket listens. Raises OSError."""
    taken = socket.socket()
    try:
        # The connections that an earlier server has closed must not keep the port. Two sockets may then take it before
        # one of them listens; for the other, listening is an OSError.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
    except OSError:
        taken.close()
        raise
    return taken


class HttpServer:
    """A server on a loopback port, which opens as the block of this context manager begins."""

    def __init__(self, handle: Callable[[Exchange], None], listener: socket.socket | None = None) -> None:
        """Serve what comes to `listener`, a socket that is bound; a free port if there is none."""
        self.handle = handle
        self._listener = listener or bound()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._sockets: dict[_Connection, socket.socket] = {}
        self._lock = threading.Lock()
        self._stopping = False

    def __enter__(self) -> Self:
        """Open the port; raises OSError if another server has opened it since it was bound."""
        self._listener.listen(BACKLOG)
        threading.Thread(target=self._accept, name="gateway", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more connections, let answers under way end (for STOP_SECONDS), then close."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                waiting = [connection for connection in self._sockets if not connection.idle]
            if not waiting:
                break
            time.sleep(0.02)
        with self._lock:
            for sock in self._sockets.values():
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._stopping:
            try:
                sock, client = self._listener.accept()
            except OSError:
                return
            connection = _Connection(self, sock, client[:2])
            threading.Thread(target=self._serve, args=(connection, sock), daemon=True).start()

    def _serve(self, connection: _Connection, sock: socket.socket) -> None:
        with self._lock:
            self._sockets[connection] = sock
        try:
            connection.serve()
        except Exception:
            logger.exception("a connection failed")
        finally:
            with self._lock:
                self._sockets.pop(connection, None)
