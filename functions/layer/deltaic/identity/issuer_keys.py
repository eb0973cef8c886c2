"""Cache the public keys of issuers, which are downloaded when a token needs an uncached key.

There is at most one download per issuer and minute, and only tokens of this issuer wait for it. If it fails, tokens of
this issuer are rejected without waiting until the minute is over.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from deltaic.identity.jose import Jwk, Jwt, JwtRejected, key_for
from deltaic.identity.key_download import Unreachable

RETRY_SECONDS: Final = 60.0
REFRESH_SECONDS: Final = 3600.0
"""Age in seconds at which keys are downloaded again, so that keys that the issuer has removed are rejected."""
LONGEST_SECONDS: Final = 86_400.0
"""How many seconds keys are accepted after the last successful download."""
_UNKNOWN_KEY: Final = "the issuer has no such key"


@dataclass
class _CachedKeys:
    lock: threading.Lock = field(default_factory=threading.Lock)
    keys: tuple[Jwk, ...] = ()
    downloaded_at: float = 0.0
    tried_at: float = 0.0
    failure: str = _UNKNOWN_KEY


class IssuerKeys:
    """Cache of issuers' public keys, which threads can share; `download` returns the keys or raises Unreachable."""

    def __init__(self, download: Callable[[str], tuple[Jwk, ...]], clock: Callable[[], float] = time.time) -> None:
        self._download = download
        self._clock = clock
        self._issuers: dict[str, _CachedKeys] = {}
        self._lock = threading.Lock()

    def key(self, issuer: str, jwt: Jwt) -> Jwk:
        """Return the key with the token's key id; raises JwtRejected. Only call it for issuers that a policy names."""
        with self._lock:
            cached = self._issuers.setdefault(issuer, _CachedKeys())
        with cached.lock:
            now = self._clock()
            key = key_for(jwt, cached.keys)
            is_due = key is None or now - cached.downloaded_at >= REFRESH_SECONDS
            if is_due and now - cached.tried_at >= RETRY_SECONDS:
                cached.tried_at = now
                try:
                    cached.keys, cached.downloaded_at, cached.failure = self._download(issuer), now, _UNKNOWN_KEY
                except Unreachable as failure:
                    cached.failure = str(failure)
                key = key_for(jwt, cached.keys)
            if key is None or now - cached.downloaded_at >= LONGEST_SECONDS:
                raise JwtRejected(f"the issuer's key is not available: {cached.failure}")
            return key
