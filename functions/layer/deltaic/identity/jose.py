"""Parse a JWT, and check its signature with a public key of its issuer.

Uses only `alg` and `kid` of the header: keys in the token, and URLs of keys (`jwk`, `jku`, `x5u`), are ignored.
Each key is used only for the algorithms of its key type.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

LONGEST: Final = 8192
"""Maximum number of characters of a token."""

_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_LONGEST_KID: Final = 256
_RSA_BYTES: Final = range(256, 1025)
"""Accepted lengths of an RSA modulus: 2,048 to 8,192 bits. Shorter keys are weak, and longer keys slow and unusual."""
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
"""Accepted algorithms, with the type and the curve of their keys; without `none` and algorithms with shared secrets."""

Jwk = Mapping[str, Any]
"""Public key in the JSON format in which issuers publish it (RFC 7517)."""


class JwtRejected(Exception):
    """Error for a rejected token; its message is for the log, and contains no part of the token."""


class Jwt(NamedTuple):
    """Parsed token, whose signature has not been checked."""

    token: str
    algorithm: str
    kid: str
    claims: Mapping[str, Any]


def read(token: str) -> Jwt:
    """Parse a token without checking its signature; raises JwtRejected."""
    if len(token) > LONGEST:
        raise JwtRejected("the token is longer than 8 KB")
    if not _FORM.fullmatch(token):
        raise JwtRejected("the token does not consist of three parts in base64url")
    header, claims = (_part(part) for part in token.split(".")[:2])
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise JwtRejected("the token's algorithm (alg) is not supported")
    if not isinstance(kid, str) or not 0 < len(kid) <= _LONGEST_KID:
        raise JwtRejected("the token has no valid key id (kid)")
    if "crit" in header or "b64" in header:
        raise JwtRejected("the token requires an unsupported extension (crit or b64)")
    return Jwt(token, algorithm, kid, claims)


def key_for(jwt: Jwt, keys: tuple[Jwk, ...]) -> Jwk | None:
    """Return the key with the token's key id that is suitable for its algorithm, or None."""
    return next((key for key in keys if key.get("kid") == jwt.kid and _is_key_for(key, jwt.algorithm)), None)


def check_signature(jwt: Jwt, key: Jwk) -> None:
    """Raise JwtRejected unless the token was signed with the private key of this public key."""
    from jwt import PyJWK, PyJWS
    from jwt.exceptions import PyJWTError

    try:
        public = {name: key[name] for name in _PUBLIC if name in key}
        PyJWS().decode(jwt.token, PyJWK(public, jwt.algorithm), algorithms=[jwt.algorithm])
    except (PyJWTError, ValueError, TypeError):
        # An invalid key counts like a wrong one, because its issuer published it.
        raise JwtRejected("the token's signature does not match the key with its key id (kid)") from None


def _part(text: str) -> dict[str, Any]:
    try:
        part: object = json.loads(decoded(text).decode())
    except (ValueError, RecursionError):
        raise JwtRejected("the token's header or claims are not JSON") from None
    if not isinstance(part, dict):
        raise JwtRejected("the token's header or claims are not a JSON object")
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
    """Decode base64url without padding; raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
