"""Translate errors of an object store to `deltaic.errors`: permanent and transient errors, and missing objects."""

import re
from http import HTTPStatus

from deltaic.aws_codes import THROTTLED, UNREADABLE
from deltaic.errors import DeltaicError, TableRefused, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.locations import ObjectName

# These patterns match the debug form of obstore's errors that have no error class. That form contains the key
# as a URI, without spaces, quotes and brackets, so the patterns must not match anything that a key can contain.
_STATUS = re.compile(r"Status \{\s*status: (\d{3}),")
_CODE = re.compile(r"<Code>([\w.]{1,100})</Code>")
_REDIRECTED = re.compile(r"\binner: BareRedirect,|- Received redirect without LOCATION")
_RANGE = re.compile(r"StartTooLarge \{|range \S+ .*exceeds|Wanted range ")
_DENIED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
REFUSALS = frozenset({*range(400, 500), HTTPStatus.NOT_IMPLEMENTED} - {HTTPStatus.REQUEST_TIMEOUT})
"""HTTP statuses of permanent errors, unless the error code is in `TRANSIENT_ERRORS`."""
_MOVED = frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
_OTHER_REGION = frozenset({"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"})
TRANSIENT_ERRORS = frozenset(
    {"ExpiredToken", "InternalError", "RequestTimeout", "ServiceUnavailable", "TokenRefreshRequired"}
)
"""Error codes of S3 after which a retry can succeed, although most have a 4xx status."""
_FAILED = "the storage of this table failed to process a request; try again"
_REFUSES = "the storage rejects reading this table: ask its provider to read the server's log for the reason"
_CLOCK = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
# Empty objects have no valid range: S3 sends 416, MiniStack a range that ends before it starts.
_EMPTY = re.compile(r"status: 416,|\"bytes 0--1/0\"")


def map_error(error: Exception, name: ObjectName, region: str, path: str = "", *, has_body: bool = True) -> Exception:
    """Translate an exception of obstore to one that TableStore documents.

    `path` is empty for a request about a bucket. `has_body` is false for HEAD, whose responses have no error code.
    Messages never quote the store's response, because it can contain the request and its signature.
    """
    from obstore.exceptions import InvalidPathError, PermissionDeniedError, UnauthenticatedError

    if isinstance(error, DeltaicError):
        return error
    uri = f"s3://{name.bucket}/{name.key}"
    status, code = _status(error)
    detail = f"{uri}: {status} {code}" if code else uri
    if isinstance(error, FileNotFoundError) or status == HTTPStatus.NOT_FOUND:
        if path:
            return FileNotFoundError(path)
        return TableUnreadable("the bucket of this table does not exist: ask its provider to correct the location", uri)
    if code.removeprefix("KMS.") in THROTTLED or status == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests("the storage of this table is throttling requests; try again", detail)
    if code in _CLOCK:
        return Unavailable(
            "the clock of this server and that of this table's storage differ too much; try again later", uri
        )
    if code in TRANSIENT_ERRORS or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in REFUSALS):
        return Unavailable(_FAILED, detail)
    if isinstance(error, InvalidPathError | ValueError):
        return TableUnreadable("the table's log has a path that this server cannot read", uri)
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or _RANGE.search(str(error)):
        # Callers know the length of the object, so it was truncated or replaced.
        return Unavailable("the storage of this table returned less of a file than its log says; try again", uri)
    if code in _OTHER_REGION or status in _MOVED or _REDIRECTED.search(str(error)):
        return TableUnreadable(
            "the bucket of this table is not in the region of its storage: ask its provider to register a storage with "
            "the correct region",
            f"'{name.bucket}' is not in {region}: use deltaic storage create --region",
        )
    if status in REFUSALS and not code and has_body:
        # Stores always send a code, so this response is from a proxy.
        return Unavailable("a proxy responded instead of the storage of this table; try again later", uri)
    message = UNREADABLE.get(code.partition(".")[0])
    if message or (status in REFUSALS and status not in _DENIED):
        return TableUnreadable(message or _REFUSES, detail)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in _DENIED:
        return TableRefused(
            "the server may not read the files of this table: ask its provider to allow it",
            f"{detail}: add the bucket to the stack's parameter DataBuckets, or allow the role or keys of the table's "
            "storage to read it",
        )
    return Unavailable(_FAILED, uri)


def _status(error: Exception) -> tuple[int, str]:
    """Return the HTTP status and the store's error code in an exception; 0 and an empty string if missing."""
    status, code = _STATUS.search(str(error)), _CODE.search(str(error))
    return int(status[1]) if status else 0, code[1] if code else ""


def is_empty(error: Exception) -> bool:
    """Return whether reading the last bytes of an object failed only because the object is empty."""
    return _EMPTY.search(str(error)) is not None
