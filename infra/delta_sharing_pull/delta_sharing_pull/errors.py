"""Errors of a download: what is wrong and what to do, without tokens and signed URLs."""

from typing import ClassVar


class PullError(Exception):
    """Base class of the errors that end a download. `code` is an error code of Delta Sharing servers."""

    code: ClassVar[str]


class InvalidParameter(PullError):
    """An argument has an invalid value."""

    code = "INVALID_PARAMETER_VALUE"


class UnsupportedOperation(PullError):
    """The server, the table or the target format does not support the operation."""

    code = "UNSUPPORTED_OPERATION"


class Unauthenticated(PullError):
    """The token is missing, unknown or expired."""

    code = "UNAUTHENTICATED"


class PermissionDenied(PullError):
    """The recipient or the signed URL has no permission to read the item."""

    code = "PERMISSION_DENIED"


class NotFound(PullError):
    """The item does not exist, or is not shared with this recipient."""

    code = "RESOURCE_DOES_NOT_EXIST"


class Conflict(PullError):
    """Another process changed or locked the item."""

    code = "CONFLICT"


class Unavailable(PullError):
    """A server or object store failed temporarily. The request can be repeated."""

    code = "TEMPORARILY_UNAVAILABLE"

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait, from the Retry-After header of the response."""


class TooManyRequests(Unavailable):
    """A server or object store is busy."""

    code = "RESOURCE_EXHAUSTED"
