"""Failures of an object store in the layer's own errors: the provider's to correct, to be tried again, or not there."""

import re
from http import HTTPStatus

from deltaic.aws_codes import THROTTLED, UNREADABLE
from deltaic.errors import DeltaicError, TableRefused, TableUnreadable, TooManyRequests, Unavailable
from deltaic.storage.locations import ObjectName

# What obstore says of an answer that it has no class for, from the debug form of its error. That form holds the key as
# well, so nothing here may match what a key can hold: keys stand in it as URIs, without spaces, quotes and brackets.
_STATUS = re.compile(r"Status \{\s*status: (\d{3}),")
_CODE = re.compile(r"<Code>([\w.]{1,100})</Code>")
_REDIRECTED = re.compile(r"\binner: BareRedirect,|- Received redirect without LOCATION")
_RANGE = re.compile(r"StartTooLarge \{|range \S+ .*exceeds|Wanted range ")
_DENIED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
REFUSALS = frozenset({*range(400, 500), HTTPStatus.NOT_IMPLEMENTED} - {HTTPStatus.REQUEST_TIMEOUT})
"""Statuses that no other attempt changes, unless the code is one of `PASSING`."""
_MOVED = frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
_OTHER_REGION = frozenset({"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"})
PASSING = frozenset({"ExpiredToken", "InternalError", "RequestTimeout", "ServiceUnavailable", "TokenRefreshRequired"})
"""Failures that another attempt may not meet, although S3 answers most of them with a 4xx status."""
_FAILED = "the storage of this table failed to answer; try again"
_REFUSES = "the storage refuses to read the files of this table: its provider finds the reason in the server's log"
_CLOCK = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
# No range of an empty object can be satisfied: S3 answers 416, MiniStack a range that ends before it starts.
_EMPTY = re.compile(r"status: 416,|\"bytes 0--1/0\"")


def failure(error: Exception, name: ObjectName, region: str, path: str = "", *, has_body: bool = True) -> Exception:
    """Return what a failure of obstore means for the reader, as the port TableStore says.

    Without a `path` a whole bucket was asked. An answer to HEAD has no body, in which the store's code would stand.
    The store is never quoted: it may quote the request and its signature.
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
        return TableUnreadable("the bucket of this table does not exist: its provider must correct the location", uri)
    if code.removeprefix("KMS.") in THROTTLED or status == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests("the storage of this table is throttling requests; try again", detail)
    if code in _CLOCK:
        return Unavailable(
            "the clock of this server and that of this table's storage differ too much; try again later", uri
        )
    if code in PASSING or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in REFUSALS):
        return Unavailable(_FAILED, detail)
    if isinstance(error, InvalidPathError | ValueError):
        return TableUnreadable("the table's log names a path that this server cannot read", uri)
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or _RANGE.search(str(error)):
        # Who asks knows the length: it was cut or replaced since.
        return Unavailable("the storage of this table gave less of a file than the log says it has; try again", uri)
    if code in _OTHER_REGION or status in _MOVED or _REDIRECTED.search(str(error)):
        return TableUnreadable(
            "the bucket of this table is in another region than its provider said: the provider must register its "
            "storage with the right one",
            f"'{name.bucket}' is not in {region}: deltaic storage create --region",
        )
    if status in REFUSALS and not code and has_body:
        # Every refusal of a store has a code, where it can have one: this is the page of a proxy.
        return Unavailable("something before the storage of this table answered in its place; try again later", uri)
    lasting = UNREADABLE.get(code.partition(".")[0])
    if lasting or (status in REFUSALS and status not in _DENIED):
        return TableUnreadable(lasting or _REFUSES, detail)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in _DENIED:
        return TableRefused(
            "the server may not read the files of this table: its provider must give the server access to them",
            f"{detail}: the bucket is missing in the stack's parameter DataBuckets, or the role or the keys of the "
            "table's storage may not read it",
        )
    return Unavailable(_FAILED, uri)


def _status(error: Exception) -> tuple[int, str]:
    """Return the HTTP status and the store's code that an error tells; 0 and an empty text where it tells none."""
    status, code = _STATUS.search(str(error)), _CODE.search(str(error))
    return int(status[1]) if status else 0, code[1] if code else ""


def is_empty(error: Exception) -> bool:
    """Tell whether the last bytes of an object could not be read because it has none."""
    return _EMPTY.search(str(error)) is not None
