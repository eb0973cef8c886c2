"""What stands between a reader and the store, and counts the bytes that pass: a witness that writes no log."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from served import served


@dataclass
class Counted:
    """Every request that passed: the key, the status and the bytes of the answer's body."""

    url: str
    passed: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(size for _, _, size in self.passed)


@contextmanager
def counting(upstream: str, bucket: str) -> Iterator[Counted]:
    """Pass GET and HEAD on to the store; the Host that was signed stays."""
    counted = Counted("")
    place = urlsplit(upstream)

    class Passing(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

        def do_GET(self) -> None:
            there = http.client.HTTPConnection(place.hostname or "", place.port)
            there.request(self.command, self.path, headers=dict(self.headers.items()))
            answer = there.getresponse()
            body = answer.read()
            there.close()
            key = unquote(urlsplit(self.path).path).removeprefix(f"/{bucket}/")
            counted.passed.append((key, answer.status, len(body)))
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"connection", "transfer-encoding", "date", "server"}:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 -- its name is http.server's

    with served(Passing) as counted.url:
        yield counted
