"""Measure the time of an HTTP response over a new connection, without parsing its body."""

import http.client
import time
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlsplit

_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Timing:
    """Times and size of a response. Seconds count from just before the connection is opened."""

    first: float
    """Seconds until the first byte of the body."""
    last: float
    lines: int
    """Number of lines in the body; 0 if it is compressed."""
    nbytes: int
    body: bytes
    """The body as received; empty unless the request was sent with `keep`."""


@dataclass(frozen=True, slots=True)
class Client:
    """HTTP client for the measured server, with a recipient's token."""

    endpoint: str
    token: str
    gzip: bool = False

    def query(self, table: str, body: bytes = b"{}", *, keep: bool = False) -> Timing:
        """Send a query of a table in the measured share and return its timing."""
        return self._send("POST", f"/shares/bench/schemas/logs/tables/{table}/query", body, keep=keep)

    def get(self, target: str) -> Timing:
        """Send a GET request for a path below the endpoint and return its timing."""
        return self._send("GET", target, b"", keep=False)

    def _send(self, method: str, target: str, body: bytes, *, keep: bool) -> Timing:
        """Send a request and read the complete response; raises RuntimeError for a status other than 200."""
        url = urlsplit(self.endpoint)
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept-Encoding": "gzip" if self.gzip else "identity",
        }
        began = time.perf_counter()
        with closing(http.client.HTTPConnection(url.hostname or "", url.port)) as connection:
            connection.request(method, f"{url.path}{target}", body, headers)
            response = connection.getresponse()
            data = response.read1(_READ)
            first = time.perf_counter() - began
            parts, lines, nbytes = [], 0, 0
            while data:
                lines, nbytes = lines + data.count(b"\n"), nbytes + len(data)
                if keep:
                    parts.append(data)
                data = response.read1(_READ)
            last = time.perf_counter() - began
        if response.status != http.client.OK:
            raise RuntimeError(f"{method} {target} returned status {response.status}")
        return Timing(first, last, 0 if self.gzip else lines, nbytes, b"".join(parts))
