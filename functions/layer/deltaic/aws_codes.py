"""The error codes of AWS that mean the same whichever of its services answers with them."""

from collections.abc import Mapping
from typing import Final

THROTTLED: Final = frozenset({
    "LimitExceededException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingError",
    "ThrottlingException",
    "TooManyRequests",
    "TooManyRequestsException",
})  # fmt: skip
"""Too much was asked for at once: the same request may succeed a little later."""

DENIED: Final = frozenset({
    "AccessDenied",
    "AccessDeniedException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
})  # fmt: skip
"""The credentials are wrong or have no right to this: trying again is in vain."""

SKEWED: Final = ("Signature expired", "Signature not yet current")
"""How AWS says that the clock of whoever signed is wrong: the code is that of a wrong key."""

UNREADABLE: Final[Mapping[str, str]] = {
    "InvalidObjectState": "files of this table are archived: its provider must restore them",
    "InvalidRequest": "files of this table are encrypted with a key that S3 lacks (SSE-C): its provider must change it",
    "KMS": "the KMS key of this table's files cannot be used: its provider must enable or replace it",
}
"""Codes (up to a dot) with which S3 refuses an object for good although the caller may read it, with the remedy."""
