"""Reads a JWT, and checks its signature by a key of its issuer; nothing in the token itself chooses how it is checked.

Of the header `alg` and `kid` are read. A key or an address that a token brings along (`jwk`, `jku`, `x5u`) is never
looked at, and a key serves only the algorithms that its own type allows.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

LONGEST: Final = 8192
"""Characters of a token beyond which it is not read."""

_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_LONGEST_KID: Final = 256
_RSA_BYTES: Final = range(256, 1025)
"""Of a modulus: 2,048 to 8,192 bits. A smaller one is weak, a larger one costs what no issuer needs."""
_EXPONENT_BYTES: Final = 4
_PUBLIC: Final = ("kty", "crv", "n", "e", "x", "y")
_RSA: Final = ("RSA", None)
ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _RSA),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""The signatures that are taken, each with the type and the curve of its keys: no `none`, and no shared secrets."""

Jwk = Mapping[str, Any]
"""A key as an issuer publishes it (RFC 7517)."""


class JwtRejected(Exception):
    """The token is nobody's; the message is for the log, and holds nothing of the token."""


class Jwt(NamedTuple):
    """What a token says, whether or not that is true."""

    token: str
    algorithm: str
    kid: str
    claims: Mapping[str, Any]


def read(token: str) -> Jwt:
    """Return what a token says; nothing of it is proven yet. Raises JwtRejected."""
    if len(token) > LONGEST:
        raise JwtRejected("it is longer than 8 KB")
    if not _FORM.fullmatch(token):
        raise JwtRejected("it is not three parts of base64url")
    header, claims = (_part(part) for part in token.split(".")[:2])
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise JwtRejected("its algorithm is none of those that are taken")
    if not isinstance(kid, str) or not 0 < len(kid) <= _LONGEST_KID:
        raise JwtRejected("it names no key")
    if "crit" in header or "b64" in header:
        raise JwtRejected("its header asks for more than is known here")
    return Jwt(token, algorithm, kid, claims)


def key_for(jwt: Jwt, keys: tuple[Jwk, ...]) -> Jwk | None:
    """Return the key that the token names and that its algorithm may use, or None."""
    return next((key for key in keys if key.get("kid") == jwt.kid and _fits(key, jwt.algorithm)), None)


def check_signature(jwt: Jwt, key: Jwk) -> None:
    """Raise JwtRejected unless the token is signed by this key."""
    from jwt import PyJWK, PyJWS
    from jwt.exceptions import PyJWTError

    try:
        public = {name: key[name] for name in _PUBLIC if name in key}
        PyJWS().decode(jwt.token, PyJWK(public, jwt.algorithm), algorithms=[jwt.algorithm])
    except (PyJWTError, ValueError, TypeError):
        # A key that is none counts as a wrong one: its issuer published it.
        raise JwtRejected("its signature is not of the key that it names") from None


def _part(text: str) -> dict[str, Any]:
    try:
        read: object = json.loads(decoded(text).decode())
    except (ValueError, RecursionError):
        raise JwtRejected("a part of it is no JSON") from None
    if not isinstance(read, dict):
        raise JwtRejected("a part of it is no object")
    return read


def _fits(key: Jwk, algorithm: str) -> bool:
    kind, curve = ALGORITHMS[algorithm]
    if key.get("kty") != kind or key.get("alg", algorithm) != algorithm or key.get("use", "sig") != "sig":
        return False
    if curve is not None:
        return key.get("crv") == curve
    try:
        return len(decoded(key["n"])) in _RSA_BYTES and len(decoded(key["e"])) <= _EXPONENT_BYTES
    except (KeyError, TypeError, ValueError):
        return False


def decoded(text: str) -> bytes:
    """Return the bytes of base64url without padding; raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
