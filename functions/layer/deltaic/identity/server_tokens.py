"""Create JWTs for the server's OAuth clients, signed with a key in AWS KMS."""

import base64
import json
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from deltaic.identity.jose import Jwk

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

KID_PREFIX: Final = "deltaic-"  # of the server's own tokens

_HALF: Final = 32
"""Length in bytes of each of the two numbers of a P-256 signature."""


def public_jwk(public_key: bytes) -> dict[str, Any]:
    """Convert a P-256 public key (DER) to a JWK, whose `kid` is derived from its thumbprint (RFC 7638)."""
    from cryptography.hazmat.primitives.serialization import load_der_public_key
    from jwt.algorithms import ECAlgorithm

    full_jwk = ECAlgorithm.to_jwk(cast("EllipticCurvePublicKey", load_der_public_key(public_key)), as_dict=True)
    jwk = {name: full_jwk[name] for name in ("crv", "kty", "x", "y")}
    thumbprint = sha256(json.dumps(jwk, separators=(",", ":"), sort_keys=True).encode()).digest()
    return {**jwk, "kid": f"{KID_PREFIX}{_encoded(thumbprint)[:16]}", "use": "sig", "alg": "ES256"}


def signed_token(claims: dict[str, Any], key: Jwk, sign: Callable[[bytes], bytes]) -> str:
    """Return a signed JWT with the given claims; `sign` signs bytes and returns the signature in DER format."""
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    header = {"alg": "ES256", "typ": "at+jwt", "kid": key["kid"]}
    message = ".".join(_encoded(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
    numbers = decode_dss_signature(sign(message.encode()))
    return f"{message}.{_encoded(b''.join(number.to_bytes(_HALF, 'big') for number in numbers))}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
