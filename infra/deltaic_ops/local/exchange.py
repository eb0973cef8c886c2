"""One HTTP request to the gateway and the answer to it, as the thread sees them that runs the function."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from deltaic_ops.local.authorizer import Refused

if TYPE_CHECKING:  # LocalStack's environment, in which the parts run, has no layer
    from deltaic.http.asgi import Message, Scope

BODY_LIMIT = 10 * 1024 * 1024
"""API Gateway's limit of a request."""

Header = tuple[str, str]


class ClientLeft(ConnectionResetError):
    """The client is gone, or has kept us waiting for too long: nobody waits for an answer."""


class Exchange:
    """One request of a client and the answer to it, sent at its pace. What is begun and not ended is broken off."""

    def __init__(self, scope: "Scope", body: bytes | Refused, send: "Callable[[Message], None]") -> None:
        query = scope["query_string"].decode("ascii")
        self.method: str = scope["method"]
        self.target: str = scope["raw_path"].decode("ascii") + (f"?{query}" if query else "")
        """Path and query exactly as they were sent."""
        self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        """Names in lower case, as clients send them that speak HTTP/2 to AWS."""
        self.client: tuple[str, int] = scope["client"]
        self.server: tuple[str, int] = scope["server"]
        self.begun = False
        self._body = body
        self._send = send

    def header(self, name: str) -> str | None:
        """Return a request header's value, the last one if it is repeated."""
        return dict(self.headers).get(name.lower())

    def body(self) -> bytes:
        """Return the request's body; raises Refused."""
        if isinstance(self._body, Refused):
            raise self._body
        return self._body

    def respond(self, status: int, headers: Iterable[Header], body: bytes) -> None:
        """Send a whole answer; raises ClientLeft."""
        kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
        if isinstance(self._body, Refused):  # the client may still be sending it
            kept.append(("Connection", "close"))
        self.start(status, [*kept, ("Content-Length", str(len(body)))])
        self.send(body, last=True)

    def start(self, status: int, headers: Iterable[Header]) -> None:
        """Begin an answer whose length is not known (or is told by its own Content-Length); raises ClientLeft."""
        self.begun = True
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        self._send({"type": "http.response.start", "status": status, "headers": encoded})

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes of the body; raises ClientLeft."""
        self._send({"type": "http.response.body", "body": data, "more_body": not last})
