"""Errors of a download. Messages say what is wrong and what to do, and contain no tokens or signed URLs."""

from typing import ClassVar


class PullError(Exception):
    """Base class of errors that end a download. `code` is an error code that Delta Sharing servers use."""

    code: ClassVar[str]


class InvalidParameter(PullError):
    """An argument of the command or of a function has an invalid value."""

    code = "INVALID_PARAMETER_VALUE"


class UnsupportedOperation(PullError):
    """The server, the table or the target format does not support the operation."""

    code = "UNSUPPORTED_OPERATION"


class Unauthenticated(PullError):
    """The recipient's token is missing, unknown or expired."""

    code = "UNAUTHENTICATED"


class PermissionDenied(PullError):
    """The recipient or the signed URL has no permission to read the shared item or file."""

    code = "PERMISSION_DENIED"


class NotFound(PullError):
    """The table, folder or file does not exist, or is not shared with this recipient."""

    code = "RESOURCE_DOES_NOT_EXIST"


class Conflict(PullError):
    """Another process changed or locked the file or folder."""

    code = "CONFLICT"


class Unavailable(PullError):
    """A sharing server or object store failed temporarily. The request can be repeated."""

    code = "TEMPORARILY_UNAVAILABLE"

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait before the request is repeated, from the Retry-After header of the response."""


class TooManyRequests(Unavailable):
    """A sharing server or object store rejects requests temporarily, because it receives too many."""

    code = "RESOURCE_EXHAUSTED"
