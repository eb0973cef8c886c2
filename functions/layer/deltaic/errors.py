"""Tree of errors that callers can see, each with its HTTP status and errorCode.

    DeltaicError
    ├── InvalidParameter       400  INVALID_PARAMETER_VALUE   a value is wrong; the caller can correct it
    ├── MalformedRequest       400  MALFORMED_REQUEST         cannot be parsed, or the log lacks the version
    ├── UnsupportedOperation   400  UNSUPPORTED_OPERATION     impossible for this table; the message has the remedy
    ├── TableUnreadable        400  RESOURCE_DOES_NOT_EXIST   log or files are broken or missing; the provider must act
    │   └── TableRefused       400  RESOURCE_DOES_NOT_EXIST   the storage denies access
    ├── Unauthenticated        401  UNAUTHENTICATED           no valid bearer token
    ├── PermissionDenied       403  PERMISSION_DENIED         authenticated, but not allowed
    ├── NotFound               404  RESOURCE_DOES_NOT_EXIST   absent or not granted; the caller sees no difference
    ├── AlreadyExists          409  RESOURCE_ALREADY_EXISTS   administration only
    ├── Conflict               409  CONFLICT                  administration only: locked, or changed by another run
    ├── TooManyRequests        429  RESOURCE_EXHAUSTED        throttled, or too many at once; clients retry
    └── Unavailable            503  TEMPORARILY_UNAVAILABLE   a transient failure of another service; clients retry

A message says what is wrong and what to do. It never contains a secret (token, signed URL, credential) or a location of
the provider. Locations belong in `detail`, which only the provider's log shows. Any other exception is logged and
returned as 500 INTERNAL_ERROR with an empty message. A permanent failure is never a 5xx, because clients retry those
for minutes (PROTOCOL.md, "REST APIs": the error body).
"""

from typing import ClassVar


class DeltaicError(Exception):
    """An error with a `message` for the caller and a `detail` for the provider alone."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "INTERNAL_ERROR"

    def __init_subclass__(cls, status: int | None = None, code: str | None = None) -> None:
        """Set the status and code of a subclass, by default those of its base."""
        cls.status, cls.code = status or cls.status, code or cls.code

    def __init__(self, message: str, detail: str = "", retry_after: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        """Buckets, paths and settings that the message omits; never a secret."""
        self.retry_after = retry_after
        """Seconds until a retry can succeed; None if unknown."""


class InvalidParameter(DeltaicError, status=400, code="INVALID_PARAMETER_VALUE"):
    """A parameter has an invalid value."""


class MalformedRequest(DeltaicError, status=400, code="MALFORMED_REQUEST"):
    """The request cannot be parsed, or asks for a missing version or time."""


class UnsupportedOperation(DeltaicError, status=400, code="UNSUPPORTED_OPERATION"):
    """The table, format or client capabilities do not allow this; the message has the remedy."""


class TableUnreadable(DeltaicError, status=400, code="RESOURCE_DOES_NOT_EXIST"):
    """The log is broken, inconsistent or incomplete; the message has the cause."""


class TableRefused(TableUnreadable):
    """The storage, or the service that vends credentials for it, denies access to the table."""


class Unauthenticated(DeltaicError, status=401, code="UNAUTHENTICATED"):
    """The bearer token is missing, unknown, expired or revoked."""


class PermissionDenied(DeltaicError, status=403, code="PERMISSION_DENIED"):
    """The caller is authenticated but may not do this."""


class NotFound(DeltaicError, status=404, code="RESOURCE_DOES_NOT_EXIST"):
    """The resource does not exist or is not granted; the caller sees no difference."""


class AlreadyExists(DeltaicError, status=409, code="RESOURCE_ALREADY_EXISTS"):
    """A resource with the requested name exists already."""


class Conflict(DeltaicError, status=409, code="CONFLICT"):
    """The resource is locked, was changed by another run, or still has children."""


class TooManyRequests(DeltaicError, status=429, code="RESOURCE_EXHAUSTED"):
    """Another service throttles, or the caller has too many requests running; the client can retry."""


class Unavailable(DeltaicError, status=503, code="TEMPORARILY_UNAVAILABLE"):
    """Another service had a transient failure; the client can retry."""
