"""A proxy between the connector and the server that records requests, for messages of failed tests."""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import urlsplit

from served import served

TIMEOUT_SECONDS: Final = 120
HOP_BY_HOP_HEADERS: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "keep-alive", "transfer-encoding"}
)


@dataclass(frozen=True)
class Exchange:
    """A request of the connector, with its response."""

    method: str
    target: str
    """Path with query parameters."""
    headers: Mapping[str, str]
    """Headers of the request, by lower-case name."""
    body: Mapping[str, Any]
    status: int
    content: bytes

    @property
    def call(self) -> str:
        """The last part of the path: `query`, `metadata`, `changes`, `version`, or the id of a polled query."""
        return urlsplit(self.target).path.rpartition("/")[2]

    @property
    def files(self) -> int:
        """Number of files in the response."""
        return sum(
            line.startswith((b'{"file"', b'{"add"', b'{"cdf"', b'{"remove"')) for line in self.content.split(b"\n")
        )


@dataclass
class Wire:
    """A running proxy."""

    endpoint: str
    """Endpoint in profiles for requests through this proxy."""
    exchanges: list[Exchange] = field(default_factory=list)
    on_exchange: Callable[[Exchange], None] = lambda _: None
    """Called with each exchange before its response is sent to the connector."""

    def take(self) -> list[Exchange]:
        """Return the recorded exchanges, and clear the record."""
        exchanges, self.exchanges = self.exchanges, []
        return exchanges


@contextmanager
def start_wire(endpoint: str) -> Iterator[Wire]:
    """Forward requests to an endpoint while the block runs."""
    upstream = urlsplit(endpoint)

    class Tap(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            """Forward the request and its response."""
            request_body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP_HEADERS}
            server = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=TIMEOUT_SECONDS)
            try:
                server.request(self.command, self.path, request_body or None, headers)
                reply = server.getresponse()
                content = reply.read()
            finally:
                server.close()
            request_headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(request_body) if request_body else {}
            # The recorded response is plain text, because the proxy does not forward the connector's offer of gzip.
            exchange = Exchange(self.command, self.path, request_headers, body, reply.status, content)
            wire.exchanges.append(exchange)
            wire.on_exchange(exchange)
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in HOP_BY_HOP_HEADERS:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_HEAD = pass_on  # noqa: N815 -- http.server finds them by these names

    with served(Tap) as address:
        wire = Wire(f"{address}{upstream.path}")
        yield wire
