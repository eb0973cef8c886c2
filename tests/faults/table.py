"""The table of faults below the server, and the response that recipients get.

Temporary faults return 503, or 429 if AWS throttles, because clients repeat such requests. Faults that the provider
must fix return 400, because clients do not repeat these. A complete response is never partial, and the next request
after the fault succeeds in the same processes.
"""

from dataclasses import dataclass
from typing import Final

from faults.plays import PAGE, aws_json, body, cut, delay, reset, respond, s3, stall, sts, trickle
from faults.proxy import Play


@dataclass(frozen=True)
class Promise:
    """Response to the recipient during a fault."""

    status: int
    code: str = ""
    seconds: float = 27.0
    """Maximum time until the response is complete: below the 29 s of functions that do not stream."""


SUCCESS: Final = Promise(200)
TEMPORARY: Final = Promise(503, "TEMPORARILY_UNAVAILABLE")
THROTTLED: Final = Promise(429, "RESOURCE_EXHAUSTED")
UNCHECKED: Final = Promise(503, "TEMPORARILY_UNAVAILABLE", 15.0)
"""If the authorizer's read fails: its function has 10 s, and this machine needs some more."""
PROVIDER: Final = Promise(400, "RESOURCE_DOES_NOT_EXIST")

METADATA, VERSION, PARQUET, DELTA = "metadata", "version", "query in parquet", "query in delta"
CHANGES, RANGE, SHARES, CREDENTIALS = "changes", "range in delta", "shares", "credentials"
SIGNED: Final = (PARQUET, DELTA, CHANGES, RANGE)
CALLS: Final = {
    "listing": (VERSION, PARQUET, DELTA, CHANGES, RANGE),
    "object": (METADATA, *SIGNED),
    "catalog": (SHARES, VERSION, METADATA, PARQUET, CHANGES, CREDENTIALS),
    "token": (SHARES, METADATA, DELTA, RANGE, CREDENTIALS),
    "role": (*SIGNED, CREDENTIALS),
    "keys": (METADATA, *SIGNED),
}
"""Calls that use the failing part: listings and objects of the store, the two tables of DynamoDB, the signing role in
STS, and static keys of a storage in Secrets Manager."""


@dataclass(frozen=True)
class Fault:
    """A row of the table."""

    part: str
    name: str
    play: Play
    promise: Promise
    times: int | None = None
    """Number of requests that it affects; None for all."""


def _first_half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _store_faults(part: str) -> list[Fault]:
    """Return faults of both the listings and the objects of a store."""
    return [
        Fault(part, "one SlowDown", s3(503, "SlowDown"), SUCCESS, times=1),
        Fault(part, "one InternalError", s3(500, "InternalError"), SUCCESS, times=1),
        Fault(part, "one reset", reset, SUCCESS, times=1),
        Fault(part, "half a second late", delay, SUCCESS),
        Fault(part, "SlowDown", s3(503, "SlowDown"), THROTTLED),
        Fault(part, "429", s3(429, "TooManyRequests"), THROTTLED),
        Fault(part, "InternalError", s3(500, "InternalError"), TEMPORARY),
        Fault(part, "502 of a proxy", respond(502, PAGE, content_type="text/html"), TEMPORARY),
        Fault(part, "503 without a body", respond(503, b""), TEMPORARY),
        Fault(part, "reset before the answer", reset, TEMPORARY),
        Fault(part, "reset within the body", cut("reset"), TEMPORARY),
        Fault(part, "closed within the body", cut("close"), TEMPORARY),
        Fault(part, "stalled before the answer", stall, TEMPORARY),
        Fault(part, "stalled within the body", cut("stall"), TEMPORARY),
        Fault(part, "a byte a second", trickle, TEMPORARY),
        Fault(part, "empty 200", body(lambda _: b""), TEMPORARY),
        Fault(part, "half of it as a whole", body(_first_half), TEMPORARY),
        Fault(part, "HTML page with 200", body(lambda _: PAGE, content_type="text/html"), TEMPORARY),
        Fault(part, "HTML page with 403", respond(403, PAGE, content_type="text/html"), TEMPORARY),
        Fault(part, "RequestTimeTooSkewed", s3(403, "RequestTimeTooSkewed"), TEMPORARY),
        Fault(part, "ExpiredToken", s3(400, "ExpiredToken"), TEMPORARY),
        Fault(part, "AccessDenied", s3(403, "AccessDenied"), PROVIDER),
        Fault(part, "InvalidAccessKeyId", s3(403, "InvalidAccessKeyId"), PROVIDER),
        Fault(part, "another region", s3(301, "PermanentRedirect"), PROVIDER),
    ]


def _dynamo_faults(part: str, promise: Promise) -> list[Fault]:
    """Return faults of DynamoDB, which recipients cannot fix."""
    return [
        Fault(part, "one throttling", aws_json(400, "ThrottlingException"), SUCCESS, times=1),
        Fault(part, "one InternalServerError", aws_json(500, "InternalServerError"), SUCCESS, times=1),
        Fault(part, "one reset", reset, SUCCESS, times=1),
        Fault(part, "half a second late", delay, SUCCESS),
        Fault(part, "InternalServerError", aws_json(500, "InternalServerError"), promise),
        Fault(part, "502 of a proxy", respond(502, PAGE, content_type="text/html"), promise),
        Fault(part, "reset before the answer", reset, promise),
        Fault(part, "reset within the body", cut("reset"), promise),
        Fault(part, "closed within the body", cut("close"), promise),
        Fault(part, "stalled before the answer", stall, promise),
        Fault(part, "stalled within the body", cut("stall"), promise),
        Fault(part, "empty 200", body(lambda _: b""), promise),
        Fault(part, "empty object", body(lambda _: b"[]"), promise),
        Fault(part, "half JSON", body(_first_half), promise),
        Fault(part, "HTML page with 200", body(lambda _: PAGE, content_type="text/html"), promise),
        Fault(part, "wrong checksum", body(lambda content: content, **{"x-amz-crc32": "1"}), promise),
        Fault(part, "wrong clock", aws_json(400, "InvalidSignatureException", "Signature expired: 20200101"), promise),
        Fault(part, "expired credentials", aws_json(400, "ExpiredTokenException"), promise),
        Fault(part, "access denied", aws_json(400, "AccessDeniedException"), promise),
        Fault(part, "no such table", aws_json(400, "ResourceNotFoundException"), promise),
    ]


_THROTTLED_CATALOG = [
    Fault("catalog", code, aws_json(400, code), THROTTLED)
    for code in ("ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded")
]
# API Gateway returns the same response for all failures of an authorizer.
_THROTTLED_TOKENS = [
    Fault("token", code, aws_json(400, code), UNCHECKED)
    for code in ("ThrottlingException", "ProvisionedThroughputExceededException")
]

_OBJECTS = [
    Fault("object", "a byte more than was listed", body(lambda content: content + b"\n"), TEMPORARY),
    Fault("object", "NoSuchKey", s3(404, "NoSuchKey"), PROVIDER),
]
_LISTINGS = [
    Fault("listing", "NoSuchBucket", s3(404, "NoSuchBucket"), PROVIDER),
    Fault(
        "listing",
        "a listing of nothing",
        respond(200, b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></ListBucketResult>'),
        TEMPORARY,
    ),
]

_ROLE = [
    Fault("role", "one throttling", sts(400, "Throttling"), SUCCESS, times=1),
    Fault("role", "one 500", sts(500, "InternalFailure"), SUCCESS, times=1),
    Fault("role", "throttling", sts(400, "Throttling"), THROTTLED),
    Fault("role", "500", sts(500, "InternalFailure"), TEMPORARY),
    Fault("role", "reset before the answer", reset, TEMPORARY),
    Fault("role", "reset within the body", cut("reset"), TEMPORARY),
    Fault("role", "stalled before the answer", stall, TEMPORARY),
    Fault("role", "empty 200", body(lambda _: b""), TEMPORARY),
    Fault("role", "half XML", body(_first_half), TEMPORARY),
    Fault("role", "HTML page with 200", body(lambda _: PAGE, content_type="text/html"), TEMPORARY),
    Fault("role", "wrong clock", sts(403, "SignatureDoesNotMatch", "Signature expired: 20200101"), TEMPORARY),
    Fault("role", "expired credentials", sts(403, "ExpiredToken"), TEMPORARY),
    Fault("role", "AccessDenied", sts(403, "AccessDenied"), PROVIDER),
]

_KEYS = [
    Fault("keys", "one throttling", aws_json(400, "ThrottlingException"), SUCCESS, times=1),
    Fault("keys", "throttling", aws_json(400, "ThrottlingException"), THROTTLED),
    Fault("keys", "InternalServiceError", aws_json(500, "InternalServiceError"), TEMPORARY),
    Fault("keys", "reset before the answer", reset, TEMPORARY),
    Fault("keys", "stalled before the answer", stall, TEMPORARY),
    Fault("keys", "empty 200", body(lambda _: b""), TEMPORARY),
    Fault("keys", "half JSON", body(_first_half), TEMPORARY),
    Fault("keys", "HTML page with 200", body(lambda _: PAGE, content_type="text/html"), TEMPORARY),
    Fault("keys", "AccessDeniedException", aws_json(400, "AccessDeniedException"), PROVIDER),
    Fault("keys", "ResourceNotFoundException", aws_json(400, "ResourceNotFoundException"), PROVIDER),
]

FAULTS: Final = [
    *_store_faults("listing"),
    *_LISTINGS,
    *_store_faults("object"),
    *_OBJECTS,
    *_dynamo_faults("catalog", TEMPORARY),
    *_THROTTLED_CATALOG,
    *_dynamo_faults("token", UNCHECKED),
    *_THROTTLED_TOKENS,
    *_ROLE,
    *_KEYS,
]
