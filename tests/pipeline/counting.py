"""Proxy between a client and the store that counts the transferred bytes, independently of any log."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from served import served


@dataclass
class CountedRequests:
    """Forwarded requests: the key, the status and the size of the response body."""

    url: str
    requests: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(size for _, _, size in self.requests)


@contextmanager
def counting(upstream: str, bucket: str) -> Iterator[CountedRequests]:
    """Forward GET and HEAD to the store, with the signed Host header."""
    counter = CountedRequests("")
    store = urlsplit(upstream)

    class ForwardingHandler(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

        def do_GET(self) -> None:
            connection = http.client.HTTPConnection(store.hostname or "", store.port)
            connection.request(self.command, self.path, headers=dict(self.headers.items()))
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            key = unquote(urlsplit(self.path).path).removeprefix(f"/{bucket}/")
            counter.requests.append((key, answer.status, len(body)))
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"connection", "transfer-encoding", "date", "server"}:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 -- http.server requires this name

    with served(ForwardingHandler) as counter.url:
        yield counter
