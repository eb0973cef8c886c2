"""Who is let in: whoever has the key that the terminal showed, which opens once; then a cookie, until it ends."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from hmac import compare_digest
from threading import Lock
from typing import Final

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
