"""AWS error codes that have the same meaning in every AWS service."""

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
"""AWS throttles the requests: a retry may succeed."""

DENIED: Final = frozenset({
    "AccessDenied",
    "AccessDeniedException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
})  # fmt: skip
"""The credentials are wrong or lack the permission: a retry cannot succeed."""

SKEWED: Final = ("Signature expired", "Signature not yet current")
"""Parts of AWS's error message if the caller's clock is wrong; the error code is the same as for a wrong key."""

UNREADABLE: Final[Mapping[str, str]] = {
    "InvalidObjectState": "files of this table are archived: its provider must restore them",
    "InvalidRequest": "files of this table have a key that S3 lacks (SSE-C): its provider must change the encryption",
    "KMS": "the KMS key of this table's files cannot be used: its provider must enable or replace it",
}
"""Permanent S3 errors for objects that the caller may read: error code (up to a dot) -> cause and remedy."""
