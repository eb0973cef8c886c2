"""Failures of AWS in the layer's own errors, so that no error of botocore's leaves the catalog."""

from typing import Any, Final

from deltaic.aws_codes import DENIED, SKEWED, THROTTLED
from deltaic.catalog.attributes import unmarshal_item
from deltaic.errors import DeltaicError, InvalidParameter, NotFound, PermissionDenied, TooManyRequests, Unavailable

_CONTENDED: Final = frozenset({
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
})  # fmt: skip
_REFUSED: Final = DENIED | {
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}
_SERVER_ERROR: Final = 500


class ConditionFailed(Exception):
    """A condition did not hold, so nothing was written; `index` tells which of the writes had it."""

    def __init__(self, index: int, item: dict[str, Any] | None) -> None:
        super().__init__(f"the condition of write {index} did not hold")
        self.index = index
        self.item = item
        """The item as it stands, where the write asked for it."""


class Contended(Exception):
    """Another transaction touched the same item at the same moment: try again."""


def refused(error: Exception) -> Exception:
    """Return what the catalog raises for an exception out of botocore; any other exception comes back as it is."""
    # Imported here: it is loaded already wherever botocore could have raised, and nobody else should pay for it.
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    match error:
        case exceptions.ClientError():
            return _answered(error)
        case (
            exceptions.NoCredentialsError()
            | exceptions.PartialCredentialsError()
            | exceptions.CredentialRetrievalError()
            | exceptions.TokenRetrievalError()
            | exceptions.SSOError()
        ):
            return PermissionDenied(
                "there are no usable AWS credentials: set AWS_PROFILE or the AWS variables; `deltaic env` prints "
                "those of the AWS that `deltaic serve` runs on this machine"
            )
        case exceptions.HTTPClientError() | exceptions.ConnectionError() | exceptions.IncompleteReadError():
            return Unavailable("AWS cannot be reached: try again, and check AWS_ENDPOINT_URL and the region")
        case ResponseParserError() | AttributeError() | KeyError() | TypeError():
            # What botocore's parsers make of an answer in another form than they know.
            return Unavailable("AWS gave half an answer: try again")
        case exceptions.BotoCoreError() | ValueError():
            return InvalidParameter(f"AWS cannot be asked this way: {error}")
        case _:
            return error


def withheld(error: Exception) -> Exception:
    """Return what a recipient is told of an exception out of botocore or of `refused`: to try again, and nothing else.

    A table that is missing, a role without rights, a request that AWS does not take: all are trouble of the server,
    which its operator finds in the log by the cause, and none is the recipient's to correct. A transaction that met
    another is left to whoever tries it again.
    """
    refusal = refused(error)
    if isinstance(refusal, Contended) and getattr(error, "operation_name", "") == "TransactWriteItems":
        return refusal
    if isinstance(refusal, TooManyRequests) or not isinstance(refusal, DeltaicError | Contended):
        return refusal
    return Unavailable("the server's catalog cannot be read at the moment: try again later")


def _answered(error: Any) -> Exception:
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "TransactionCanceledException":
        return _cancelled(error.response.get("CancellationReasons", []))
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(0, _item(error.response))
    return _named(code, error.response.get("Error", {}).get("Message", ""), status, error.operation_name)


def _cancelled(reasons: list[dict[str, Any]]) -> Exception:
    codes = [reason.get("Code", "None") for reason in reasons]
    if "ConditionalCheckFailed" in codes:
        index = codes.index("ConditionalCheckFailed")
        return ConditionFailed(index, _item(reasons[index]))
    if _CONTENDED.intersection(codes):
        return Contended("TransactionConflict")
    for reason in reasons:
        if reason.get("Code", "None") != "None":
            return _named(reason["Code"], reason.get("Message") or "", 0, "TransactWriteItems")
    return Unavailable("the catalog did not take the change: try again in a moment")


def _item(failure: dict[str, Any]) -> dict[str, Any] | None:
    item = failure.get("Item")
    return unmarshal_item(item) if item else None


def _named(code: str, message: str, status: int, operation: str) -> Exception:
    if code in _CONTENDED:
        return Contended(code)
    if code in THROTTLED:
        return TooManyRequests("the catalog is busy: try again in a moment")
    if code in _REFUSED and message.startswith(SKEWED):
        return Unavailable("the clock of this machine and that of AWS differ too much: set it, and try again")
    if code in _REFUSED:
        return PermissionDenied(f"AWS refused {operation} ({code}): check the credentials and the role's policy")
    if code == "ResourceNotFoundException":
        return NotFound("the catalog's tables do not exist here: deploy the stack, or name the tables that it made")
    if "Item size" in message:
        return InvalidParameter("it is larger than the 400 KB of one catalog entry: shorten the comment or properties")
    if status >= _SERVER_ERROR or code in {"InternalServerError", "ServiceUnavailable", "InternalFailure"}:
        return Unavailable("the catalog failed in passing: try again in a moment")
    return InvalidParameter(f"AWS did not accept {operation} ({code}): {message}")
