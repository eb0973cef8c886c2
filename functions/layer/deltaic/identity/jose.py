"""Parse a JWT, and check its signature with a key of its issuer.

Only `alg` and `kid` of the header are used. Keys and addresses in the token itself (`jwk`, `jku`, `x5u`) are ignored,
and each key is used only for the algorithms of its type.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

LONGEST: Final = 8192
"""Most characters of a token."""

_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_LONGEST_KID: Final = 256
_RSA_BYTES: Final = range(256, 1025)
"""Length of a modulus: 2,048 to 8,192 bits. Smaller ones are weak, larger ones slow and not in use."""
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
"""Accepted algorithms with the type and the curve of their keys: neither `none` nor shared secrets."""

Jwk = Mapping[str, Any]
"""A key as an issuer publishes it (RFC 7517)."""


class JwtRejected(Exception):
    """Rejected token; the message for the log contains no part of the token."""


class Jwt(NamedTuple):
    """A parsed token, whose signature may be invalid."""

    token: str
    algorithm: str
    kid: str
    claims: Mapping[str, Any]


def read(token: str) -> Jwt:
    """Parse a token without a check of its signature; raises JwtRejected."""
    if len(token) > LONGEST:
        raise JwtRejected("it is longer than 8 KB")
    if not _FORM.fullmatch(token):
        raise JwtRejected("it does not consist of three parts in base64url")
    header, claims = (_part(part) for part in token.split(".")[:2])
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise JwtRejected("its algorithm (alg) is not supported")
    if not isinstance(kid, str) or not 0 < len(kid) <= _LONGEST_KID:
        raise JwtRejected("it names no key (kid)")
    if "crit" in header or "b64" in header:
        raise JwtRejected("its header requires an unsupported extension (crit or b64)")
    return Jwt(token, algorithm, kid, claims)


def key_for(jwt: Jwt, keys: tuple[Jwk, ...]) -> Jwk | None:
    """Return the key that the token names for its algorithm, or None."""
    return next((key for key in keys if key.get("kid") == jwt.kid and _is_key_for(key, jwt.algorithm)), None)


def check_signature(jwt: Jwt, key: Jwk) -> None:
    """Raise JwtRejected unless this key has signed the token."""
    from jwt import PyJWK, PyJWS
    from jwt.exceptions import PyJWTError

    try:
        public = {name: key[name] for name in _PUBLIC if name in key}
        PyJWS().decode(jwt.token, PyJWK(public, jwt.algorithm), algorithms=[jwt.algorithm])
    except (PyJWTError, ValueError, TypeError):
        # An invalid key counts like a wrong one, because its issuer published it.
        raise JwtRejected("its signature does not match the key that it names") from None


def _part(text: str) -> dict[str, Any]:
    try:
        part: object = json.loads(decoded(text).decode())
    except (ValueError, RecursionError):
        raise JwtRejected("its header or its claims are not JSON") from None
    if not isinstance(part, dict):
        raise JwtRejected("its header or its claims are not a JSON object")
    return part


def _is_key_for(key: Jwk, algorithm: str) -> bool:
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
