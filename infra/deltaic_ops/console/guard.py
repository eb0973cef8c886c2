"""Check the host, origin and session of each request to the console; set security headers.

Other programs on this machine, and pages of any web site, can send requests to a loopback port. The guard rejects
requests with another `Host`, requests from other sites (`Origin`, which each form needs, and `Sec-Fetch-Site`), and
requests without a session cookie.
"""

import secrets
from collections.abc import Callable, Mapping
from hmac import compare_digest
from threading import Lock
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deltaic_ops.console.uploads import read_form

_SECRET_BYTES: Final = 32


class Login:
    """Thread-safe store of the current one-time sign-in key, and of the open sessions."""

    def __init__(self, show_key: Callable[[str], None]) -> None:
        """Create the first sign-in key; calls `show_key` with this and each later key."""
        self._show_key = show_key
        self._lock = Lock()
        self._sessions: set[str] = set()
        self._key = self._new_key()

    def sign_in(self, key: str) -> str | None:
        """Open a session, replace the sign-in key, and return the session's id; return None for a wrong key."""
        with self._lock:
            if not compare_digest(key.strip().encode("utf-8", "replace"), self._key.encode()):
                return None
            self._key = self._new_key()
            session = secrets.token_urlsafe(_SECRET_BYTES)
            self._sessions.add(session)
            return session

    def is_signed_in(self, session: str) -> bool:
        """Return whether a cookie's value is the id of an open session."""
        return session in self._sessions

    def sign_out(self, session: str) -> None:
        """End a session."""
        self._sessions.discard(session)

    def _new_key(self) -> str:
        key = secrets.token_urlsafe(_SECRET_BYTES)
        self._show_key(key)
        return key


PUBLIC_PATHS: Final = frozenset({"/", "/enter", "/static/console.css", "/static/enter.js"})
"""Paths that need no session: the sign-in form with its script and styles."""

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    # Not `no-referrer`, with which browsers send forms with the Origin `null`.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class ConsoleGuard:
    """ASGI middleware that rejects forbidden requests, and adds the session and form fields to permitted ones."""

    def __init__(self, app: ASGIApp, login: Login, port: int, uploads: str) -> None:
        """Create the middleware; `uploads` is the folder in which it saves the files of permitted forms."""
        self._uploads = uploads
        self._app = app
        self._login = login
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self.cookie = cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, and reject it or call the application."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state["session"] = session = self._session(headers)
        refusal = self._check(scope, headers, session)
        if refusal is None and scope["method"] == "POST":
            state["form"] = form = await read_form(Request(scope, receive), self._uploads if session else "")
            if form is None:
                refusal = _refuse("the form is incomplete: reload its page, and send it again", 400)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _session(self, headers: Headers) -> str | None:
        # Browsers send the cookies of all local servers; `http.cookies` stops at the first one that it cannot parse.
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return cookie if self._login.is_signed_in(cookie) else None

    def _check(self, scope: Scope, headers: Headers, session: str | None) -> Response | None:
        host, origin, method = headers.get("host", ""), headers.get("origin"), scope["method"]
        if host not in self._hosts:
            return _refuse(f"'{host}' is not an address of the console: use the address that the terminal shows", 421)
        if method not in {"GET", "HEAD", "POST"}:
            return _refuse(f"method {method} is not supported: use GET, HEAD or POST", 405)
        # Pages of other ports of this host count as the same site, and browsers send no Origin with their GET requests.
        # The link may be opened from any site.
        site = headers.get("sec-fetch-site", "none")
        is_foreign = site not in {"none", "same-origin"} and not (
            site == "cross-site" and scope["path"] in PUBLIC_PATHS
        )
        if is_foreign or ((origin is not None or method == "POST") and origin != f"http://{host}"):
            return _refuse("requests from other sites are not allowed: open the link that the terminal shows", 403)
        if session is None and scope["path"] not in PUBLIC_PATHS:
            if method == "POST":
                return _refuse("your session has ended: open the latest link that the terminal shows", 401)
            return Response(status_code=303, headers={"location": "/"})
        return None


def cookie_name(port: int) -> str:
    """Return the session cookie's name, which includes the port, because ports of a host share cookies."""
    return f"deltaic-console-{port}"


def _refuse(reason: str, status: int) -> Response:
    return PlainTextResponse(f"{reason}\n", status)
