"""Support cross-origin requests (CORS; Fetch standard, section 3.3) from web pages of other origins.

A browser asks for permission with OPTIONS before a page can send a bearer token to another origin. So only `preflight`
checks the origin. Any page may read responses, because each request had a valid token or needed none.
"""

from http import HTTPStatus
from typing import Final

from deltaic.errors import PermissionDenied
from deltaic.http.asgi import App, Message, Receive, Scope, Send
from deltaic.http.request import PublicRequest
from deltaic.http.response import Response
from deltaic.protocol.capabilities import FILE_ID_HASH_HEADER, HEADER
from deltaic.settings import settings

_READ_HEADERS: Final = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", f"delta-table-version, retry-after, {HEADER}, {FILE_ID_HASH_HEADER}".encode()),
]
_ALLOW_HEADERS: Final = {
    "access-control-allow-methods": "GET, HEAD, POST",
    "access-control-allow-headers": f"authorization, content-type, {HEADER}, {FILE_ID_HASH_HEADER}",
    "access-control-max-age": "7200",  # seconds; browsers keep no longer
    "vary": "origin",
}


def preflight(request: PublicRequest) -> Response:
    """Respond to a CORS preflight; raises PermissionDenied if the origin is not in the parameter `CorsOrigins`."""
    origin, allowed = request.headers.get("origin"), settings().cors_origins
    if not origin or (allowed != "*" and origin not in allowed.split(",")):
        raise PermissionDenied("Pages of this origin may not send requests: ask the provider to set CorsOrigins.")
    return Response(HTTPStatus.NO_CONTENT, {**_ALLOW_HEADERS, "access-control-allow-origin": origin})


def allow_pages(app: App) -> App:
    """Wrap an app so that pages of other origins can read its responses."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_READ_HEADERS]}
            await send(message)

        is_cross_origin = any(name == b"origin" for name, _ in scope["headers"])
        await app(scope, receive, send_readable if is_cross_origin else send)

    return wrapped
