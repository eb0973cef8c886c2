"""An AWS that gives one answer to everything, for what its clients make of it."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HALVES = (b"", b'{"ARN":"arn:aws:secretsmanager","SecretStr', b"<html><body>Please sign in</body></html>", b"<Assume")
"""Answers with status 200 that are none."""


@contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[str]:
    """Give the endpoint of a server that answers every request so."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the test's output quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
