"""Stands between the connector and the server, and remembers what was asked: a failing case can then show it."""

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
PER_CONNECTION: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "keep-alive", "transfer-encoding"}
)


@dataclass(frozen=True)
class Exchange:
    """One request of the connector and what became of it."""

    method: str
    target: str
    """Path and parameters."""
    asked: Mapping[str, str]
    """The request's headers; lower-cased names."""
    body: Mapping[str, Any]
    status: int
    answer: bytes

    @property
    def call(self) -> str:
        """The last part of the path: `query`, `metadata`, `changes`, `version`; of a poll, the query's id."""
        return urlsplit(self.target).path.rpartition("/")[2]

    @property
    def files(self) -> int:
        """How many files were answered."""
        return sum(
            line.startswith((b'{"file"', b'{"add"', b'{"cdf"', b'{"remove"')) for line in self.answer.split(b"\n")
        )


@dataclass
class Wire:
    """A running proxy."""

    endpoint: str
    """What a profile has to name so that requests come by here."""
    seen: list[Exchange] = field(default_factory=list)
    between: Callable[[Exchange], None] = lambda _: None
    """Runs when an exchange is over at the server's end, and before its answer goes on."""

    def take(self) -> list[Exchange]:
        """Return what was asked since the last time."""
        taken, self.seen = self.seen, []
        return taken


@contextmanager
def tapped(endpoint: str) -> Iterator[Wire]:
    """Pass requests on to an endpoint, until the block ends."""
    target = urlsplit(endpoint)

    class Tap(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            """Ask the server the same, and answer the same."""
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept = {name: value for name, value in self.headers.items() if name.lower() not in PER_CONNECTION}
            server = http.client.HTTPConnection(target.hostname or "", target.port, timeout=TIMEOUT_SECONDS)
            try:
                server.request(self.command, self.path, content or None, kept)
                reply = server.getresponse()
                answer = reply.read()
            finally:
                server.close()
            asked = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(content) if content else {}
            # The answer's text is remembered as it was: the connector offers gzip, and this passes no offer on.
            exchange = Exchange(self.command, self.path, asked, body, reply.status, answer)
            wire.seen.append(exchange)
            wire.between(exchange)
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in PER_CONNECTION:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_HEAD = pass_on  # noqa: N815 -- http.server finds them by these names

    with served(Tap) as where:
        wire = Wire(f"{where}{target.path}")
        yield wire
