"""Errors of a download: the message says what is wrong and what to do, and has no token and no signed URL in it."""

from typing import ClassVar


class PullError(Exception):
    """Something rules the download out. The code is one of those that Delta Sharing servers answer with."""

    code: ClassVar[str]


class InvalidParameter(PullError):
    """An argument has a value that cannot be accepted."""

    code = "INVALID_PARAMETER_VALUE"


class UnsupportedOperation(PullError):
    """The server, the table or the target format does not allow it."""

    code = "UNSUPPORTED_OPERATION"


class Unauthenticated(PullError):
    """The token is missing, unknown or expired."""

    code = "UNAUTHENTICATED"


class PermissionDenied(PullError):
    """The recipient, or the URL, may not read this."""

    code = "PERMISSION_DENIED"


class NotFound(PullError):
    """It does not exist, or not for this recipient."""

    code = "RESOURCE_DOES_NOT_EXIST"


class Conflict(PullError):
    """Something else changed it, or holds it."""

    code = "CONFLICT"


class Unavailable(PullError):
    """A server or store failed for a moment: the request can be repeated."""

    code = "TEMPORARILY_UNAVAILABLE"

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait, if the server names them."""


class TooManyRequests(Unavailable):
    """A server or store is busy."""

    code = "RESOURCE_EXHAUSTED"
