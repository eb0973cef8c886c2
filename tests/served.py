"""Run a test's HTTP server on a free port of this machine while a block runs."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Iterator[str]:
    """Answer requests until the block ends, and print nothing of them; yields the URL, without a slash at its end.

    `host` is 127.0.0.1, or ::1 for IPv6.
    """
    quiet = type(handler.__name__, (handler,), {"log_message": lambda *_: None})
    family = {"address_family": socket.AF_INET6 if ":" in host else socket.AF_INET}
    with type("Server", (ThreadingHTTPServer,), family)((host, 0), quiet) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://[{host}]:{server.server_port}" if ":" in host else f"http://{host}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
