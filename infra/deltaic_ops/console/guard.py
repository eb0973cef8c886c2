"""What stands before every page: who asks, from where, with which key, and what a browser may do with the answer.

Other programs of this machine, and the pages of any web site, can send requests to a loopback port. A name that leads
there is refused by its Host, a page of another origin by its Origin or Sec-Fetch-Site, whoever has no session by the
missing cookie, and a form that this console has not written by its token.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from threading import Lock
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that was let in."""

    id: str = field(repr=False)
    form_token: str = field(repr=False)
    """What each of its forms has, and no other page's."""


class Entrance:
    """Keys that open once, and the sessions that they have opened. May be asked from several threads."""

    def __init__(self, told: Callable[[str], None]) -> None:
        """`told` is called with each new key: at once, and whenever one was used."""
        self._told = told
        self._lock = Lock()
        self._sessions: dict[str, Session] = {}
        self._key = self._next()

    def enter(self, key: str) -> Session | None:
        """Return a new session for the key, which is then another; None for any other text."""
        with self._lock:
            if not compare_digest(key.strip().encode("utf-8", "replace"), self._key.encode()):
                return None
            self._key = self._next()
            made = Session(secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES))
            self._sessions[made.id] = made
            return made

    def session(self, identifier: str) -> Session | None:
        """Return the session of a cookie; None for one that is not known."""
        return self._sessions.get(identifier)

    def leave(self, session: Session) -> None:
        """End a session."""
        self._sessions.pop(session.id, None)

    def _next(self) -> str:
        key = secrets.token_urlsafe(_BYTES)
        self._told(key)
        return key


OPEN: Final = frozenset({"/", "/enter", "/static/console.css", "/static/enter.js"})
"""What is answered to whoever has no session: a form for the key, and its looks."""

MOST_BYTES: Final = 256 << 10
"""Of a form."""

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    # Not `no-referrer`: under that a browser sends forms with the Origin `null`.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Lets a request through to the pages, its session and its form beside it in `scope["state"]`, or refuses it."""

    def __init__(self, app: ASGIApp, entrance: Entrance, port: int) -> None:
        self._app = app
        self._entrance = entrance
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self.cookie = cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state["session"] = session = self._session(headers)
        refusal = self._refused(scope, headers, session)
        if refusal is None and scope["method"] == "POST":
            state["form"] = form = await _form(receive)
            if form is None:
                refusal = _no("the form is too long", 413)
            elif session is not None and scope["path"] != "/enter" and form.get("token") != session.form_token:
                refusal = _no("the form is not one of this console's, or of an earlier run: load its page again", 403)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _session(self, headers: Headers) -> Session | None:
        # Cookies of all programs of this machine come along, in whatever form: http.cookies stops at an odd one.
        found = cookie_parser(headers.get("cookie", "")).get(self.cookie)
        return None if found is None else self._entrance.session(found)

    def _refused(self, scope: Scope, headers: Headers, session: Session | None) -> Response | None:
        host, origin, method = headers.get("host", ""), headers.get("origin"), scope["method"]
        if host not in self._hosts:
            return _no("this console is asked by its own address alone, as the terminal shows it", 421)
        if method not in {"GET", "HEAD", "POST"}:
            return _no("there are pages and forms here", 405)
        # Other ports of this host are the same site, and a browser sends them no Origin for a GET. The link itself may
        # be opened from anywhere.
        site = headers.get("sec-fetch-site", "none")
        foreign = site not in {"none", "same-origin"} and not (site == "cross-site" and scope["path"] in OPEN)
        if foreign or ((origin is not None or method == "POST") and origin != f"http://{host}"):
            return _no("another page may not ask this console for anything", 403)
        if session is None and scope["path"] not in OPEN:
            if method == "POST":
                return _no("you are not let in any more: open the link that the terminal shows", 401)
            return Response(status_code=303, headers={"location": "/"})
        return None


def cookie_name(port: int) -> str:
    """Return the name of the session's cookie: browsers keep cookies by hosts, and not by ports."""
    return f"deltaic-console-{port}"


async def _form(receive: Receive) -> dict[str, str] | None:
    """Return the fields of a form, each once; None where it is longer than any of ours, or breaks off."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MOST_BYTES or message["type"] == "http.disconnect":
            return None
        if not message.get("more_body"):
            return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _no(why: str, status: int) -> Response:
    return PlainTextResponse(f"{why}\n", status)
