"""Protect the embedded AWS: ASGI middleware that rejects unsigned requests and requests from web pages.

MiniStack also accepts unsigned requests to its own paths (`/_ministack/reset` deletes everything) and lets any web page
send requests and read responses. A page of another site is recognized by its origin, or, if its host name resolves to
this machine, by the Host header.
"""

from collections.abc import Mapping
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from deltaic.http.asgi import App, Receive, Scope, Send
from deltaic.storage.aws_credentials import Credentials

HEALTH: Final = "/_ministack/health"
_ADMINISTRATION: Final = ("/_ministack", "/_localstack")
_SIGNED: Final = {"X-Amz-Credential", "X-Amz-Signature"}
_OPEN_SERVICES: Final = (".execute-api.", ".lambda-url.")
"""Parts of host names of services that accept unsigned requests, because they have their own authorizers."""
_OURS: Final = ("127.0.0.1", "localhost")


class RequestGuard:
    """ASGI middleware that rejects requests with 403, or passes them to MiniStack."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request with 403, or pass it to MiniStack."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif (reason := refusal(scope["path"], _headers(scope)) or _unsigned(scope)) is not None:
            date_header = (b"date", formatdate(usegmt=True).encode())  # `deltaic doctor` compares clocks with it
            headers = [(b"content-type", b"text/plain"), date_header]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": reason.encode()})
        else:
            await self._app(scope, receive, _remove_allowances(send))


def refusal(path: str, headers: Mapping[str, str]) -> str | None:
    """Return the reason to reject a request, or None. Header names are in lower case."""
    if path.startswith(_ADMINISTRATION) and path != HEALTH:
        return "The embedded AWS cannot be administered over HTTP.\n"
    if not is_ours(f"//{headers.get('host', '')}"):
        return "The embedded AWS accepts only requests to 127.0.0.1 and localhost.\n"
    origin = headers.get("origin")
    if (origin is not None and not is_ours(origin)) or headers.get("sec-fetch-site") == "cross-site":
        return "The embedded AWS does not accept requests from web pages of other sites.\n"
    return None


def _unsigned(scope: Scope) -> str | None:
    """Return the reason to reject an unsigned request to a service or bucket, or None.

    Without a signature, MiniStack lists and creates buckets. For objects, it applies bucket policies.
    """
    headers, query = _headers(scope), parse_qs(scope.get("query_string", b"").decode("latin-1"))
    signed = headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 ") or query.keys() >= _SIGNED
    above_objects = "/" not in scope["path"].strip("/") and scope["method"] != "POST"
    if signed or not above_objects or any(service in headers.get("host", "") for service in _OPEN_SERVICES):
        return None
    return "The embedded AWS accepts only signed requests.\n"


def is_ours(url: str) -> bool:
    """Return whether the host name of a URL is 127.0.0.1 or localhost, or ends with .localhost."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in _OURS or host.endswith(".localhost")


def is_signed(key: Credentials, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> bool:  # noqa: PLR0913, PLR0917 -- what a signature covers
    """Return whether a request is signed in its headers with these credentials (Signature Version 4), and current."""
    # Imported here, because the rest of this module must work without MiniStack.
    from ministack.core.sigv4 import header_signature_failure, parse_header_signature, request_time_failure

    signature = parse_header_signature(headers)
    if isinstance(signature, tuple) or signature.access_key_id != key.access_key_id or request_time_failure(signature):
        return False
    parameters = parse_qs(query, keep_blank_values=True)
    return header_signature_failure(signature, key.secret_access_key, method, path, parameters, headers, body) is None


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _remove_allowances(send: Send) -> Send:
    """Remove CORS headers with `*`, which MiniStack adds for all pages, but keep those of buckets' CORS rules."""

    async def send_filtered(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (name, value)
                for name, value in message.get("headers", ())
                if not (name.lower().startswith(b"access-control-") and value == b"*")
            ]
            message = {**message, "headers": headers}
        await send(message)

    return send_filtered
