"""ASGI middleware before the embedded AWS: it passes what AWS knows, from programs on this machine.

MiniStack also answers unsigned requests of its own (`/_ministack/reset` erases everything) and allows any web page to
send and read. A page in a browser on this machine is a stranger: it is recognised by its origin, or, if its name was
pointed at this machine, by the host that it asks for.
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
"""Hosts whose own authorizers decide."""
_OURS: Final = ("127.0.0.1", "localhost")


class Guard:
    """MiniStack's app, behind the refusals."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with 403, or hand the request on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif (reason := refusal(scope["path"], _headers(scope)) or _unsigned(scope)) is not None:
            dated = (b"date", formatdate(usegmt=True).encode())  # as AWS's refusals are: clocks are compared by it
            headers = [(b"content-type", b"text/plain"), dated]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": reason.encode()})
        else:
            await self._app(scope, receive, _without_allowances(send))


def refusal(path: str, headers: Mapping[str, str]) -> str | None:
    """Return why a request is refused; None if it is not. Names of headers are in lower case."""
    if path.startswith(_ADMINISTRATION) and path != HEALTH:
        return "The embedded AWS cannot be administered over HTTP.\n"
    if not is_ours(f"//{headers.get('host', '')}"):
        return "The embedded AWS answers to 127.0.0.1 and localhost only.\n"
    origin = headers.get("origin")
    if (origin is not None and not is_ours(origin)) or headers.get("sec-fetch-site") == "cross-site":
        return "The embedded AWS does not answer web pages of other sites.\n"
    return None


def _unsigned(scope: Scope) -> str | None:
    """Return why a request for a whole service or bucket is refused that nobody signed; None if it is not.

    MiniStack lists and makes buckets for whoever asks. It judges objects itself, by policies that may name everybody.
    """
    headers, query = _headers(scope), parse_qs(scope.get("query_string", b"").decode("latin-1"))
    signed = headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 ") or query.keys() >= _SIGNED
    above_objects = "/" not in scope["path"].strip("/") and scope["method"] != "POST"
    if signed or not above_objects or any(service in headers.get("host", "") for service in _OPEN_SERVICES):
        return None
    return "The embedded AWS answers what is signed.\n"


def is_ours(url: str) -> bool:
    """Return whether the host of a URL is this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in _OURS or host.endswith(".localhost")


def is_signed(by: Credentials, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> bool:  # noqa: PLR0913, PLR0917 -- what a signature covers
    """Return whether a request carries a current Signature Version 4 of these credentials in its headers."""
    # The rest of this module is for whoever has no MiniStack.
    from ministack.core.sigv4 import header_signature_failure, parse_header_signature, request_time_failure

    signature = parse_header_signature(headers)
    if isinstance(signature, tuple) or signature.access_key_id != by.access_key_id or request_time_failure(signature):
        return False
    sent = parse_qs(query, keep_blank_values=True)
    return header_signature_failure(signature, by.secret_access_key, method, path, sent, headers, body) is None


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _without_allowances(send: Send) -> Send:
    """Leave out what MiniStack allows every page; a bucket's own CORS rules name their origins."""

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            kept = [
                (name, value)
                for name, value in message.get("headers", ())
                if not (name.lower().startswith(b"access-control-") and value == b"*")
            ]
            message = {**message, "headers": kept}
        await send(message)

    return sent
