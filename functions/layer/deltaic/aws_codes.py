"""The error codes of AWS that mean the same whichever of its services answers with them."""

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
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
})  # fmt: skip
"""The credentials are wrong or have no right to this: trying again is in vain."""

SKEWED: Final = ("Signature expired", "Signature not yet current")
"""How AWS says that the clock of whoever signed is wrong: the code is that of a wrong key."""
