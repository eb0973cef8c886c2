"""HTTP request to the gateway and its response, for use in the thread that runs the function."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from deltaic_ops.local.authorizer import GatewayRefusal

if TYPE_CHECKING:  # tests/emulators/parts run in LocalStack's environment, which has no layer
    from deltaic.http.asgi import Message, Scope

BODY_LIMIT = 10 * 1024 * 1024
"""Maximum size of a request body at API Gateway, in bytes."""

Header = tuple[str, str]


class ClientDisconnected(ConnectionResetError):
    """The client has disconnected or is too slow, so the response cannot be sent."""


class HttpExchange:
    """A request and its response, which is sent as fast as the client reads."""

    def __init__(self, scope: "Scope", body: bytes | GatewayRefusal, send: "Callable[[Message], None]") -> None:
        query = scope["query_string"].decode("ascii")
        self.method: str = scope["method"]
        self.target: str = scope["raw_path"].decode("ascii") + (f"?{query}" if query else "")
        """Path and query, still percent-encoded."""
        self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        """Request headers; names are in lower case, as in HTTP/2, which clients use with AWS."""
        self.client: tuple[str, int] = scope["client"]
        self.server: tuple[str, int] = scope["server"]
        self.has_started = False
        self._body = body
        self._send = send

    def header(self, name: str) -> str | None:
        """Return the value of a request header, or the last value if the header is repeated."""
        return dict(self.headers).get(name.lower())

    def body(self) -> bytes:
        """Return the request's body; raises GatewayRefusal if it is too large."""
        if isinstance(self._body, GatewayRefusal):
            raise self._body
        return self._body

    def respond(self, status: int, headers: Iterable[Header], body: bytes) -> None:
        """Send a complete response; raises ClientDisconnected."""
        head = [(name, value) for name, value in headers if name.lower() != "content-length"]
        if isinstance(self._body, GatewayRefusal):  # the client may still be sending it
            head.append(("Connection", "close"))
        self.start(status, [*head, ("Content-Length", str(len(body)))])
        self.send(body, last=True)

    def start(self, status: int, headers: Iterable[Header]) -> None:
        """Send status and headers; raises ClientDisconnected."""
        self.has_started = True
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        self._send({"type": "http.response.start", "status": status, "headers": encoded})

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes of the body; raises ClientDisconnected."""
        self._send({"type": "http.response.body", "body": data, "more_body": not last})
