"""The keys of issuers as this process keeps them: fetched when a token needs them, again when one names a key anew.

An issuer is asked at most once a minute, whatever comes: what it could not answer stays unanswered for that long, and
costs nobody a wait. Only tokens of the same issuer wait for it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from deltaic.identity.jose import Jwk, Jwt, JwtRejected, key_for
from deltaic.identity.key_download import Unreachable

AGAIN_SECONDS: Final = 60.0
FRESH_SECONDS: Final = 3600.0
"""After this they are fetched again, so that a key that its issuer took back ends."""
LONGEST_SECONDS: Final = 86_400.0
"""How long keys hold whose issuer does not answer any more."""


@dataclass
class _Kept:
    lock: threading.Lock = field(default_factory=threading.Lock)
    keys: tuple[Jwk, ...] = ()
    fetched_at: float = 0.0
    tried_at: float = 0.0
    failure: str = "it has no such key"


class IssuerKeys:
    """The keys by issuer; safe to share between threads. `fetch` raises Unreachable."""

    def __init__(self, fetch: Callable[[str], tuple[Jwk, ...]], clock: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._clock = clock
        self._issuers: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def key(self, issuer: str, jwt: Jwt) -> Jwk:
        """Return the key of the issuer that a token names; raises JwtRejected. Ask of known issuers alone."""
        with self._lock:
            kept = self._issuers.setdefault(issuer, _Kept())
        with kept.lock:
            now = self._clock()
            found = key_for(jwt, kept.keys)
            wanted = found is None or now - kept.fetched_at >= FRESH_SECONDS
            if wanted and now - kept.tried_at >= AGAIN_SECONDS:
                kept.tried_at = now
                try:
                    kept.keys, kept.fetched_at, kept.failure = self._fetch(issuer), now, "it has no such key"
                except Unreachable as failure:
                    kept.failure = str(failure)
                found = key_for(jwt, kept.keys)
            if found is None or now - kept.fetched_at >= LONGEST_SECONDS:
                raise JwtRejected(f"of its issuer: {kept.failure}")
            return found
