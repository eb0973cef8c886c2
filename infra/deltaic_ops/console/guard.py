"""Check the host, origin, session and form token of each request to the console; set security headers.

Other programs on this machine, and pages of any web site, can send requests to a loopback port. The guard rejects
requests with another `Host`, requests from other sites (`Origin`, `Sec-Fetch-Site`), requests without a session
cookie, and forms without the session's form token.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from threading import Lock
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deltaic_ops.console.uploads import read_upload

_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Session:
    """Session of a browser that has signed in."""

    id: str = field(repr=False)
    form_token: str = field(repr=False)
    """Secret field of each form (CSRF token), which pages of other sites cannot know."""


class Login:
    """Thread-safe store of the current one-time sign-in key, and of the open sessions."""

    def __init__(self, show_key: Callable[[str], None]) -> None:
        """Create the first sign-in key; calls `show_key` with this and each later key."""
        self._show_key = show_key
        self._lock = Lock()
        self._sessions: dict[str, Session] = {}
        self._key = self._new_key()

    def sign_in(self, key: str) -> Session | None:
        """Open a session and replace the sign-in key; return None for a wrong key."""
        with self._lock:
            if not compare_digest(key.strip().encode("utf-8", "replace"), self._key.encode()):
                return None
            self._key = self._new_key()
            session = Session(secrets.token_urlsafe(_SECRET_BYTES), secrets.token_urlsafe(_SECRET_BYTES))
            self._sessions[session.id] = session
            return session

    def session(self, identifier: str) -> Session | None:
        """Return the session whose id is in the cookie; None for an unknown id."""
        return self._sessions.get(identifier)

    def sign_out(self, session: Session) -> None:
        """End a session."""
        self._sessions.pop(session.id, None)

    def _new_key(self) -> str:
        key = secrets.token_urlsafe(_SECRET_BYTES)
        self._show_key(key)
        return key


PUBLIC_PATHS: Final = frozenset({"/", "/enter", "/static/console.css", "/static/enter.js"})
"""Paths that need no session: the sign-in form with its script and styles."""

MAX_FORM_BYTES: Final = 256 << 10

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
            content_type = headers.get("content-type", "")
            if session is not None and scope["path"] == "/load" and content_type.startswith("multipart/form-data"):
                form = await read_upload(Request(scope, receive), session.form_token, self._uploads)
            else:
                form = await _form(receive)
            state["form"] = form
            if form is None:
                reason = f"the form is incomplete, or larger than {MAX_FORM_BYTES >> 10} KiB without its file"
                refusal = _refuse(f"{reason}: shorten its fields", 413)
            elif session is not None and scope["path"] != "/enter" and form.get("token") != session.form_token:
                refusal = _refuse("the form is from an earlier session or another site: reload its page", 403)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _session(self, headers: Headers) -> Session | None:
        # Browsers send the cookies of all local servers; `http.cookies` stops at the first one that it cannot parse.
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie)
        return None if cookie is None else self._login.session(cookie)

    def _check(self, scope: Scope, headers: Headers, session: Session | None) -> Response | None:
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


async def _form(receive: Receive) -> dict[str, str] | None:
    """Read the form fields in a request body; None if the body is too large or incomplete."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_FORM_BYTES or message["type"] == "http.disconnect":
            return None
        if not message.get("more_body"):
            return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _refuse(reason: str, status: int) -> Response:
    return PlainTextResponse(f"{reason}\n", status)
