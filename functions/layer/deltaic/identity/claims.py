"""Check the claims of a JWT: whether it is valid now, and whether it matches a federation policy."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from deltaic.identity.jose import JwtRejected

SKEW_SECONDS: Final = 60
"""Tolerated difference between the issuer's clock and the server's clock."""

_LATEST: Final = 10**12
"""Upper limit for times in a token, in seconds since the epoch."""

SubjectClaim = Literal["sub", "oid", "azp", "groups"]
"""The claim that a policy compares; `groups` is a list that must contain the policy's subject."""


def check_times(claims: Mapping[str, Any], now: float) -> None:
    """Raise JwtRejected unless the token is valid at `now`; requires `exp`, but neither `nbf` nor `iat`."""
    expiry = _time(claims, "exp")
    if expiry is None:
        raise JwtRejected("the token has no expiry (exp)")
    if expiry + SKEW_SECONDS <= now:
        raise JwtRejected("the token has expired (exp)")
    for name in ("nbf", "iat"):
        start = _time(claims, name)
        if start is not None and start - SKEW_SECONDS > now:
            raise JwtRejected(f"the token is not valid yet ({name})")


def issuer_of(claims: Mapping[str, Any]) -> str:
    """Return the issuer (claim `iss`) of a token; raises JwtRejected if it has none."""
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or not issuer:
        raise JwtRejected("the token has no issuer (iss)")
    return issuer


def matches(claims: Mapping[str, Any], *, audience: str, claim: SubjectClaim, subject: str) -> bool:
    """Return whether a token has the audience `audience` (claim `aud`) and the value `subject` in the claim `claim`."""
    audiences = claims.get("aud")
    if audience != audiences and not (isinstance(audiences, list) and audience in audiences):
        return False
    value = claims.get(claim)
    return isinstance(value, list) and subject in value if claim == "groups" else subject == value


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    # math.isfinite would raise for an integer that is too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LATEST:
        raise JwtRejected(f"the claim {name} of the token is not a valid time")
    return value
