"""Seal page, list and refresh tokens, so that the server accepts only unaltered tokens that it issued.

A token is base64url without padding over `HMAC-SHA256 | length | MessagePack([expiry, claims]) | zeros`. The MAC covers
the kind of token, so that one kind cannot replace another. Padding hides the size of numbers. The contents are
encrypted, because a start position reveals how many files are hidden from the recipient. The key stream
depends on the MAC, so equal streams mean equal contents (the construction of RFC 5297, with HMAC and SHAKE-256 from the
standard library instead of AES). Tokens need no escaping in a query string, as Spark appends them unescaped.
"""

import base64
import hashlib
import hmac
import json
import math
from binascii import Error as BadBase64
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

MIN_KEY_BYTES: Final = 32
_MAC_BYTES: Final = 32
_MAX_TOKEN: Final = 16_384
_LENGTH_BYTES: Final = 2
_BLOCK: Final = 256
_FORMAT: Final = b"deltaic-token-2\0"
_STREAM: Final = b"deltaic-token-2 stream\0"


class TokenContents(msgspec.Struct, frozen=True):
    """Contents of a token that this server issued; the caller checks its expiry."""

    claims: dict[str, Any]
    """The sealed claims as JSON values; tuples become lists."""
    expires_at: int
    """Seconds since the epoch; the token is valid before this time."""

    def expired(self, now: float) -> bool:
        """Return whether the token has expired at `now`, in seconds since the epoch."""
        return now >= self.expires_at


class TokenSigner:
    """Seal and open tokens with one secret key."""

    __slots__ = ("_key", "_stream_key")

    def __init__(self, key: bytes) -> None:
        """Create a signer with a key of at least 32 random bytes; raises `ValueError` for a shorter key."""
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"the token key has {len(key)} bytes; at least {MIN_KEY_BYTES} are needed")
        self._key = key
        self._stream_key = hmac.digest(key, _STREAM, hashlib.sha256)

    def seal(self, kind: str, claims: Mapping[str, Any], *, ttl: timedelta, now: float) -> str:
        """Return a token of `kind` with these claims that expires `ttl` after `now`."""
        expires_at = math.floor(now + ttl.total_seconds())
        packed = msgspec.msgpack.encode([expires_at, dict(claims)])
        blob = len(packed).to_bytes(_LENGTH_BYTES, "big") + packed
        blob += bytes(-len(blob) % _BLOCK)
        mac = self._mac(kind, blob)
        return _encode(mac + self._apply_cipher(mac, blob))

    def open(self, kind: str, token: str) -> TokenContents | None:
        """Return a token's contents; None unless it was sealed with this key as a token of `kind`.

        The caller checks the expiry, because the protocol may define the error for expired tokens.
        """
        content = _decode(token)
        if content is None:
            return None
        mac = content[:_MAC_BYTES]
        blob = self._apply_cipher(mac, content[_MAC_BYTES:])
        if not hmac.compare_digest(mac, self._mac(kind, blob)):
            return None
        end = _LENGTH_BYTES + int.from_bytes(blob[:_LENGTH_BYTES], "big")
        expires_at, claims = msgspec.msgpack.decode(blob[_LENGTH_BYTES:end], type=tuple[int, dict[str, Any]])
        return TokenContents(claims, expires_at)

    def _apply_cipher(self, mac: bytes, blob: bytes) -> bytes:
        """Encrypt or decrypt bytes, which is the same operation."""
        stream = hashlib.shake_256(self._stream_key + mac).digest(len(blob))
        return (int.from_bytes(blob, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(blob), "big")

    def _mac(self, kind: str, blob: bytes) -> bytes:
        return hmac.digest(self._key, _FORMAT + kind.encode() + b"\0" + blob, hashlib.sha256)


def checksum(parameters: Mapping[str, object]) -> str:
    """Return a short digest of request parameters, independent of their order."""
    canonical = json.dumps(parameters, sort_keys=True)  # ASCII, because a client may send half a UTF-16 pair
    return _encode(hashlib.sha256(canonical.encode()).digest()[:16])


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def _decode(token: str) -> bytes | None:
    """Decode a token from base64url; None if it is not the canonical encoding of some bytes."""
    if len(token) > _MAX_TOKEN or not token.isascii():
        return None
    try:
        content = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (BadBase64, ValueError):
        return None
    if len(content) < _MAC_BYTES + _BLOCK or _encode(content) != token:
        return None
    return content
