"""Cache of issuers' keys, downloaded when a token needs them or names an unknown key.

It sends at most one request per issuer and minute, which only tokens of this issuer wait for. After a failure, they are
refused without waiting until the minute ends.
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
"""Age at which keys are downloaded again, so that a key that its issuer has removed is refused."""
LONGEST_SECONDS: Final = 86_400.0
"""How long keys are accepted if their issuer does not respond any more."""
_UNKNOWN_KEY: Final = "it has no such key"


@dataclass
class _CachedKeys:
    lock: threading.Lock = field(default_factory=threading.Lock)
    keys: tuple[Jwk, ...] = ()
    downloaded_at: float = 0.0
    tried_at: float = 0.0
    failure: str = _UNKNOWN_KEY


class IssuerKeys:
    """Cache of issuers' keys, safe to share between threads; `download` raises Unreachable."""

    def __init__(self, download: Callable[[str], tuple[Jwk, ...]], clock: Callable[[], float] = time.time) -> None:
        self._download = download
        self._clock = clock
        self._issuers: dict[str, _CachedKeys] = {}
        self._lock = threading.Lock()

    def key(self, issuer: str, jwt: Jwt) -> Jwk:
        """Return the key that a token names; raises JwtRejected. Only for issuers of policies."""
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
                raise JwtRejected(f"the key of its issuer is not available: {cached.failure}")
            return key
