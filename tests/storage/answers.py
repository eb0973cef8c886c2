"""Server that returns one answer to every request, to test clients of AWS."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from served import served

INCOMPLETE_ANSWERS = (
    b"",
    b'{"ARN":"arn:aws:secretsmanager","SecretStr',
    b"<html><body>Please sign in</body></html>",
    b"<Assume",
)
"""Invalid answers with status 200."""


@contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[str]:
    """Yield the endpoint of a server that answers every request with this body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with served(Handler) as endpoint:
        yield endpoint
