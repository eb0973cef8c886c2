"""The failures that a caller can see: one tree, each class with its HTTP status and errorCode.

    DeltaicError
    ├── InvalidParameter       400  INVALID_PARAMETER_VALUE   a value is wrong: the caller can correct it
    ├── MalformedRequest       400  MALFORMED_REQUEST         it cannot be read, or asks for what the log lacks
    ├── UnsupportedOperation   400  UNSUPPORTED_OPERATION     not with this table; the message has the remedy
    ├── TableUnreadable        400  RESOURCE_DOES_NOT_EXIST   log or files are broken or gone: the provider acts
    │   └── TableRefused       400  RESOURCE_DOES_NOT_EXIST   the storage refuses its reader
    ├── Unauthenticated        401  UNAUTHENTICATED           no valid bearer token
    ├── PermissionDenied       403  PERMISSION_DENIED         known, but not allowed
    ├── NotFound               404  RESOURCE_DOES_NOT_EXIST   absent or not granted, which look alike
    ├── AlreadyExists          409  RESOURCE_ALREADY_EXISTS   administration only
    ├── Conflict               409  CONFLICT                  administration only: somebody else holds or changed it
    ├── TooManyRequests        429  RESOURCE_EXHAUSTED        throttled, or too much at once: clients retry
    └── Unavailable            503  TEMPORARILY_UNAVAILABLE   a transient failure below us: clients retry

A message says what was wrong and what to do, and never holds a secret: no token, no signed URL, no credential; nor
where a provider keeps things. That is the `detail`, which goes to the provider's log and nowhere else.
Anything that is not in this tree is logged and answered as 500 INTERNAL_ERROR with an empty message. A permanent
condition is never a 5xx, because clients retry those for minutes (PROTOCOL.md, "REST APIs": the error body).
"""

from typing import ClassVar


class DeltaicError(Exception):
    """The root: a failure whose `message` is safe to show to the caller, and whose `detail` is the provider's alone."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "INTERNAL_ERROR"

    def __init_subclass__(cls, status: int | None = None, code: str | None = None) -> None:
        """Give a class its status and code; one without them has those of the class above it."""
        cls.status, cls.code = status or cls.status, code or cls.code

    def __init__(self, message: str, detail: str = "", retry_after: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        """Buckets, paths and settings that the message leaves out; no secret either."""
        self.retry_after = retry_after
        """Seconds until it is worth asking again, where that is known."""


class InvalidParameter(DeltaicError, status=400, code="INVALID_PARAMETER_VALUE"):
    """A parameter has a value that cannot be accepted."""


class MalformedRequest(DeltaicError, status=400, code="MALFORMED_REQUEST"):
    """The request cannot be parsed, or names a version or time that the log does not have."""


class UnsupportedOperation(DeltaicError, status=400, code="UNSUPPORTED_OPERATION"):
    """The table, the format or the client's capabilities rule this out; the message names the remedy."""


class TableUnreadable(DeltaicError, status=400, code="RESOURCE_DOES_NOT_EXIST"):
    """The log is broken, has a gap, contradicts itself, or its files are gone; the message names the cause."""


class TableRefused(TableUnreadable):
    """The store, or who gives credentials for it, refuses whoever reads the table."""


class Unauthenticated(DeltaicError, status=401, code="UNAUTHENTICATED"):
    """The bearer token is missing, unknown, expired or revoked."""


class PermissionDenied(DeltaicError, status=403, code="PERMISSION_DENIED"):
    """The caller is known but may not do this."""


class NotFound(DeltaicError, status=404, code="RESOURCE_DOES_NOT_EXIST"):
    """The thing does not exist for this caller; an ungranted thing looks the same."""


class AlreadyExists(DeltaicError, status=409, code="RESOURCE_ALREADY_EXISTS"):
    """A thing of that name exists already."""


class Conflict(DeltaicError, status=409, code="CONFLICT"):
    """Somebody else holds it, changed it meanwhile, or it still has children."""


class TooManyRequests(DeltaicError, status=429, code="RESOURCE_EXHAUSTED"):
    """A service below throttles, or the caller has too much under way; the client may try again later."""


class Unavailable(DeltaicError, status=503, code="TEMPORARILY_UNAVAILABLE"):
    """A service below failed in passing; the client may try again."""
