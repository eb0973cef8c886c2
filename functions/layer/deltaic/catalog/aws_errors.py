"""Translate botocore exceptions into the exceptions of `deltaic.errors`."""

from typing import Any, Final

from deltaic.aws_codes import DENIED, SKEWED, THROTTLED
from deltaic.catalog.attributes import unmarshal_item
from deltaic.errors import DeltaicError, InvalidParameter, NotFound, PermissionDenied, TooManyRequests, Unavailable

_CONTENDED: Final = frozenset({
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
})  # fmt: skip
_REJECTED_CREDENTIALS: Final = DENIED | {
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
    """Error: the condition of write number `index` (from 0) of a transaction failed, so nothing was written."""

    def __init__(self, index: int, item: dict[str, Any] | None) -> None:
        super().__init__(f"the condition of write {index} failed")
        self.index = index
        self.item = item
        """The stored item that did not match the condition, if the write requested it."""


class Contended(Exception):
    """Error: another DynamoDB transaction changed the same item at the same time, so callers try again."""


def to_operator_error(error: Exception) -> Exception:
    """Translate a botocore exception into an error for operators; return other exceptions unchanged."""
    # Imported here, to keep the import away from code without botocore. If botocore raised, it is loaded already.
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    match error:
        case exceptions.ClientError():
            return _response_error(error)
        case (
            exceptions.NoCredentialsError()
            | exceptions.PartialCredentialsError()
            | exceptions.CredentialRetrievalError()
            | exceptions.TokenRetrievalError()
            | exceptions.SSOError()
        ):
            return PermissionDenied(
                "no usable AWS credentials: set AWS_PROFILE or the AWS variables, or use the output of `deltaic env` "
                "for the local server of `deltaic serve`"
            )
        case exceptions.HTTPClientError() | exceptions.ConnectionError() | exceptions.IncompleteReadError():
            return Unavailable("AWS cannot be reached: try again, and check AWS_ENDPOINT_URL and the region")
        case ResponseParserError() | AttributeError() | KeyError() | TypeError():
            # Raised by botocore's parsers for a response in an unexpected form.
            return Unavailable("AWS returned an incomplete response: try again")
        case exceptions.BotoCoreError() | ValueError():
            return InvalidParameter(f"the request to AWS is invalid: {error}")
        case _:
            return error


def to_recipient_error(error: Exception) -> Exception:
    """Translate a botocore exception into an error for recipients, which does not show the cause.

    A missing table, a role without rights or an invalid request is a problem of the server, which a recipient cannot
    fix. Its operator finds the cause in the log. `Contended` of a transaction is kept, because callers try again.
    """
    translated = to_operator_error(error)
    if isinstance(translated, Contended) and getattr(error, "operation_name", "") == "TransactWriteItems":
        return translated
    if isinstance(translated, TooManyRequests) or not isinstance(translated, DeltaicError | Contended):
        return translated
    return Unavailable("the server cannot read its catalog: try again later")


def _response_error(error: Any) -> Exception:
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "TransactionCanceledException":
        return _cancellation_error(error.response.get("CancellationReasons", []))
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(0, _item(error.response))
    return _error_of_code(code, error.response.get("Error", {}).get("Message", ""), status, error.operation_name)


def _cancellation_error(reasons: list[dict[str, Any]]) -> Exception:
    codes = [reason.get("Code", "None") for reason in reasons]
    if "ConditionalCheckFailed" in codes:
        index = codes.index("ConditionalCheckFailed")
        return ConditionFailed(index, _item(reasons[index]))
    if _CONTENDED.intersection(codes):
        return Contended("TransactionConflict")
    for reason in reasons:
        if reason.get("Code", "None") != "None":
            return _error_of_code(reason["Code"], reason.get("Message") or "", 0, "TransactWriteItems")
    return Unavailable("the catalog cancelled the change without a reason: try again")


def _item(failure: dict[str, Any]) -> dict[str, Any] | None:
    item = failure.get("Item")
    return unmarshal_item(item) if item else None


def _error_of_code(code: str, message: str, status: int, operation: str) -> Exception:
    if code in _CONTENDED:
        return Contended(code)
    if code in THROTTLED:
        return TooManyRequests("the catalog is busy: try again later")
    if code in _REJECTED_CREDENTIALS and message.startswith(SKEWED):
        return Unavailable("the clock of this machine differs too much from that of AWS: set it, and try again")
    if code in _REJECTED_CREDENTIALS:
        return PermissionDenied(f"AWS denied {operation} ({code}): check the credentials and the role's policy")
    if code == "ResourceNotFoundException":
        return NotFound("the DynamoDB tables of the catalog do not exist: deploy the stack, or name its tables")
    if "Item size" in message:
        return InvalidParameter("the catalog entry is larger than 400 KB: shorten its comment or properties")
    if status >= _SERVER_ERROR or code in {"InternalServerError", "ServiceUnavailable", "InternalFailure"}:
        return Unavailable("the catalog has a temporary failure: try again later")
    return InvalidParameter(f"AWS rejected {operation} ({code}): {message}")
