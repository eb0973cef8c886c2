"""What the claims of a JWT mean: whether its time is now, and whether it is meant by a policy."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from deltaic.identity.jose import JwtRejected

SKEW_SECONDS: Final = 60
"""By how much an issuer's clock may differ."""

_LATEST: Final = 10**12
"""Seconds: no time of a token is beyond."""

SubjectClaim = Literal["sub", "oid", "azp", "groups"]
"""Which claim of a token a policy looks at; `groups` is a list, of which one must be the policy's."""


def check_times(claims: Mapping[str, Any], now: float) -> None:
    """Raise JwtRejected unless the token is in force: `exp` is a must, `nbf` and `iat` count where they stand."""
    ends = _time(claims, "exp")
    if ends is None:
        raise JwtRejected("it has no end")
    if ends + SKEW_SECONDS <= now:
        raise JwtRejected("it has ended")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and begins - SKEW_SECONDS > now:
            raise JwtRejected("it has not begun")


def issuer_of(claims: Mapping[str, Any]) -> str:
    """Return who the token says that it is from; raises JwtRejected."""
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or not issuer:
        raise JwtRejected("it names no issuer")
    return issuer


def meant(claims: Mapping[str, Any], *, audience: str, claim: SubjectClaim, subject: str) -> bool:
    """Tell whether the token is for this audience and about this subject, to the letter."""
    told = claims.get("aud")
    if audience != told and not (isinstance(told, list) and audience in told):
        return False
    value = claims.get(claim)
    return isinstance(value, list) and subject in value if claim == "groups" else subject == value


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    # Not by math.isfinite, which fails with an integer that no float holds.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LATEST:
        raise JwtRejected("one of its times is no number")
    return value
