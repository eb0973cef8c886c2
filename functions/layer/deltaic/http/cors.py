"""Cross-origin requests (CORS; Fetch standard, section 3.3): web pages of other origins that ask the endpoint.

A page cannot send a bearer token to another origin before the browser has asked for leave by OPTIONS, so `preflight`
alone decides who is let in. Answers themselves may be read by any page: whoever got one had a token or needs none.
"""

from http import HTTPStatus
from typing import Final

from deltaic.errors import PermissionDenied
from deltaic.http.asgi import App, Message, Receive, Scope, Send
from deltaic.http.request import PublicRequest
from deltaic.http.response import Response
from deltaic.protocol.capabilities import FILE_ID_HASH_HEADER, HEADER
from deltaic.settings import settings

_READABLE: Final = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", f"delta-table-version, retry-after, {HEADER}, {FILE_ID_HASH_HEADER}".encode()),
]
_LET_IN: Final = {
    "access-control-allow-methods": "GET, HEAD, POST",
    "access-control-allow-headers": f"authorization, content-type, {HEADER}, {FILE_ID_HASH_HEADER}",
    "access-control-max-age": "7200",  # seconds; browsers keep no longer
    "vary": "origin",
}


def preflight(request: PublicRequest) -> Response:
    """Let a page ask whose origin is one of `CorsOrigins`; raises PermissionDenied for others."""
    origin, let_in = request.headers.get("origin"), settings().cors_origins
    if not origin or (let_in != "*" and origin not in let_in.split(",")):
        raise PermissionDenied("Pages of this origin may not ask; the provider lets pages in (CorsOrigins).")
    return Response(HTTPStatus.NO_CONTENT, {**_LET_IN, "access-control-allow-origin": origin})


def readable_by_pages(app: App) -> App:
    """Return the app with answers that a page of another origin may read; others are answered as before."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_READABLE]}
            await send(message)

        asks = any(name == b"origin" for name, _ in scope["headers"])
        await app(scope, receive, send_readable if asks else send)

    return answering
