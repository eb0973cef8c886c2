"""Times an answer: a raw socket, a new connection, lines counted, nothing parsed."""

import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Timing:
    """What one request took, from the moment before connecting; seconds and bytes of the body as sent."""

    status: int
    first: float
    """Until the first byte of the body."""
    last: float
    lines: int
    """0 for compressed bodies."""
    nbytes: int
    body: bytes
    """The body as sent, chunk framing and all; empty unless it was asked for."""


@dataclass(frozen=True, slots=True)
class Client:
    """A recipient of one share."""

    endpoint: str
    token: str
    gzip: bool = False
    capabilities: str = ""
    """Sent as `delta-sharing-capabilities`."""
    agent: str = ""
    """Sent as `User-Agent`."""

    def query(self, table: str, body: bytes = b"{}", *, keep: bool = False, status: int = 200) -> Timing:
        """POST .../query of a table of the measured share."""
        return self.ask("POST", f"/shares/bench/schemas/logs/tables/{table}/query", body, keep=keep, expected=status)

    def get(self, target: str, *, keep: bool = False) -> Timing:
        """GET what follows the endpoint."""
        return self.ask("GET", target, b"", keep=keep)

    def ask(self, method: str, target: str, body: bytes, *, keep: bool = False, expected: int = 200) -> Timing:
        """Send one request and read the answer to its end; raises RuntimeError for any other status."""
        place = urlsplit(self.endpoint)
        head = [
            f"{method} {place.path}{target} HTTP/1.1",
            f"Host: {place.netloc}",
            f"Authorization: Bearer {self.token}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        head += ["Accept-Encoding: gzip"] if self.gzip else []
        head += [f"delta-sharing-capabilities: {self.capabilities}"] if self.capabilities else []
        head += [f"User-Agent: {self.agent}"] if self.agent else []
        request = ("\r\n".join(head) + "\r\n\r\n").encode() + body
        began = time.perf_counter()
        with socket.create_connection((place.hostname or "", place.port or 80)) as sock:
            sock.sendall(request)
            received = b""
            while b"\r\n\r\n" not in received:
                received += _more(sock)
            headers, _, data = received.partition(b"\r\n\r\n")
            data = data or sock.recv(_READ)
            first = time.perf_counter() - began
            chunks, lines, nbytes, before = [], 0, 0, b""
            while data:
                # A line ends `}\n`; a chunk of HTTP never does, for its frame ends in a carriage return.
                lines += (before + data).count(b"}\n")
                before, nbytes = data[-1:], nbytes + len(data)
                if keep:
                    chunks.append(data)
                data = sock.recv(_READ)
            last = time.perf_counter() - began
        status = int(headers.split(b" ", 2)[1])
        if status != expected:
            raise RuntimeError(f"{method} {target} was answered with {status}")
        return Timing(status, first, last, 0 if self.gzip else lines, nbytes, b"".join(chunks))


def unframed(body: bytes) -> bytes:
    """Return a chunked body without its frames."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        length = int(body[at:end], 16)
        if not length:
            return b"".join(parts)
        parts.append(body[end + 2 : end + 2 + length])
        at = end + 4 + length


def _more(sock: socket.socket) -> bytes:
    data = sock.recv(_READ)
    if not data:
        raise RuntimeError("the server closed the connection before it answered")
    return data
