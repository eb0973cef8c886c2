"""Check the claims of a JWT: its times, and whether it matches a policy."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from deltaic.identity.jose import JwtRejected

SKEW_SECONDS: Final = 60
"""Tolerance for the difference of the issuer's clock."""

_LATEST: Final = 10**12
"""Upper bound of the times of a token, in seconds since the epoch."""

SubjectClaim = Literal["sub", "oid", "azp", "groups"]
"""The claim that a policy compares; `groups` is a list that must contain the policy's subject."""


def check_times(claims: Mapping[str, Any], now: float) -> None:
    """Raise JwtRejected unless the token is valid now; only `exp` is required."""
    expiry = _time(claims, "exp")
    if expiry is None:
        raise JwtRejected("it has no expiry (exp)")
    if expiry + SKEW_SECONDS <= now:
        raise JwtRejected("it has expired (exp)")
    for name in ("nbf", "iat"):
        start = _time(claims, name)
        if start is not None and start - SKEW_SECONDS > now:
            raise JwtRejected(f"it is not valid yet ({name})")


def issuer_of(claims: Mapping[str, Any]) -> str:
    """Return the issuer that the token names; raises JwtRejected."""
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or not issuer:
        raise JwtRejected("it names no issuer (iss)")
    return issuer


def matches(claims: Mapping[str, Any], *, audience: str, claim: SubjectClaim, subject: str) -> bool:
    """Return whether the token has exactly this audience and this subject."""
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
        raise JwtRejected(f"its claim {name} is not a valid time")
    return value
