"""An AWS that gives one answer to everything, for what its clients make of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from served import served

HALVES = (b"", b'{"ARN":"arn:aws:secretsmanager","SecretStr', b"<html><body>Please sign in</body></html>", b"<Assume")
"""Answers with status 200 that are none."""


@contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[str]:
    """Give the endpoint of a server that answers every request so."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with served(Handler) as where:
        yield where
