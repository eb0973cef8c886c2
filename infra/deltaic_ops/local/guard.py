"""Decides which requests reach the embedded AWS: those that AWS knows, from programs on this machine.

MiniStack also answers unsigned requests of its own (`/_ministack/reset` erases everything) and allows any web page to
send and read. A page in a browser on this machine is a stranger: it is recognised by its origin, or, if its name was
pointed at this machine, by the host that it asks for.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from deltaic.http.asgi import App, Receive, Scope, Send

HEALTH: Final = "/_ministack/health"
_ADMINISTRATION: Final = ("/_ministack", "/_localstack")
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
        elif (reason := refusal(scope["path"], _headers(scope))) is not None:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": reason.encode()})
        else:
            await self._app(scope, receive, _without_allowances(send))


def refusal(path: str, headers: Mapping[str, str]) -> str | None:
    """Return why a request is refused; None if it is not. Names of headers are in lower case."""
    if path.startswith(_ADMINISTRATION) and path != HEALTH:
        return "The embedded AWS cannot be administered over HTTP.\n"
    if not _is_ours(f"//{headers.get('host', '')}"):
        return "The embedded AWS answers to 127.0.0.1 and localhost only.\n"
    origin = headers.get("origin")
    if (origin is not None and not _is_ours(origin)) or headers.get("sec-fetch-site") == "cross-site":
        return "The embedded AWS does not answer web pages of other sites.\n"
    return None


def _is_ours(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in _OURS or host.endswith(".localhost")


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
