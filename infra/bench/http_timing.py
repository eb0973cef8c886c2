"""Measure the time of an HTTP response over a raw socket and a new connection, without parsing its body."""

import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Timing:
    """Status, times and size of a response. Seconds count from just before the connection is opened."""

    status: int
    first: float
    """Seconds until the first byte of the body."""
    last: float
    lines: int
    """Number of lines in the body; 0 if it is compressed."""
    nbytes: int
    body: bytes
    """The body in HTTP chunks, as received; empty unless the request was sent with `keep`."""


@dataclass(frozen=True, slots=True)
class Client:
    """HTTP client for the measured server, with a recipient's token."""

    endpoint: str
    token: str
    gzip: bool = False
    capabilities: str = ""
    """Value of the header `delta-sharing-capabilities`."""
    agent: str = ""
    """Value of the header `User-Agent`."""

    def query(self, table: str, body: bytes = b"{}", *, keep: bool = False, status: int = 200) -> Timing:
        """Send a query of a table in the measured share and return its timing."""
        return self.send("POST", f"/shares/bench/schemas/logs/tables/{table}/query", body, keep=keep, expected=status)

    def get(self, target: str, *, keep: bool = False) -> Timing:
        """Send a GET request for a path below the endpoint and return its timing."""
        return self.send("GET", target, b"", keep=keep)

    def send(self, method: str, target: str, body: bytes, *, keep: bool = False, expected: int = 200) -> Timing:
        """Send a request and read the complete response; raises RuntimeError for a status other than `expected`."""
        url = urlsplit(self.endpoint)
        head = [
            f"{method} {url.path}{target} HTTP/1.1",
            f"Host: {url.netloc}",
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
        with socket.create_connection((url.hostname or "", url.port or 80)) as sock:
            sock.sendall(request)
            received = b""
            while b"\r\n\r\n" not in received:
                received += _receive(sock)
            headers, _, data = received.partition(b"\r\n\r\n")
            data = data or sock.recv(_READ)
            first = time.perf_counter() - began
            chunks, lines, nbytes, before = [], 0, 0, b""
            while data:
                # A line ends with `}\n`. A chunk's frame does not, because it ends with a carriage return.
                lines += (before + data).count(b"}\n")
                before, nbytes = data[-1:], nbytes + len(data)
                if keep:
                    chunks.append(data)
                data = sock.recv(_READ)
            last = time.perf_counter() - began
        status = int(headers.split(b" ", 2)[1])
        if status != expected:
            raise RuntimeError(f"{method} {target} returned status {status} instead of {expected}")
        return Timing(status, first, last, 0 if self.gzip else lines, nbytes, b"".join(chunks))


def decode_chunks(body: bytes) -> bytes:
    """Return the content of a body with chunked transfer encoding."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        length = int(body[at:end], 16)
        if not length:
            return b"".join(parts)
        parts.append(body[end + 2 : end + 2 + length])
        at = end + 4 + length


def _receive(sock: socket.socket) -> bytes:
    data = sock.recv(_READ)
    if not data:
        raise RuntimeError("the server closed the connection before it sent a response")
    return data
