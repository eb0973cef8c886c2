"""The table of faults: what may go wrong below the server, and what a recipient is promised then.

A fault that passes is answered with 503, or 429 where AWS throttles, for clients repeat those; one that lasts until
its provider acts is answered with 400, for clients do not. Whatever was answered, no answer that came to its end is
less than the whole, and the next request after the fault is right, in the same processes.
"""

from dataclasses import dataclass
from typing import Final

from faults.plays import PAGE, answers, aws_json, body, cut, late, resets, s3, stalls, sts, trickles
from faults.proxy import Play


@dataclass(frozen=True)
class Promise:
    """What the recipient gets while the fault lasts."""

    status: int
    code: str = ""
    seconds: float = 27.0
    """At most, until the answer has come to its end: below the 29 s of the functions that do not stream."""


WHOLE: Final = Promise(200)
PASSING: Final = Promise(503, "TEMPORARILY_UNAVAILABLE")
THROTTLED: Final = Promise(429, "RESOURCE_EXHAUSTED")
UNCHECKED: Final = Promise(503, "TEMPORARILY_UNAVAILABLE", 15.0)
"""Where the authorizer's read fails: its function has 10 s, and this machine needs some for itself."""
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
"""Which calls need the part that fails: the store's listings and objects, DynamoDB's two tables, STS's role for
signing, and the static keys of a storage in Secrets Manager."""


@dataclass(frozen=True)
class Fault:
    """One row."""

    part: str
    name: str
    play: Play
    promise: Promise
    times: int | None = None
    """How often it is played; None: until it is mended."""


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _store(part: str) -> list[Fault]:
    """Return what both the listings and the objects of a store may do wrong."""
    return [
        Fault(part, "one SlowDown", s3(503, "SlowDown"), WHOLE, times=1),
        Fault(part, "one InternalError", s3(500, "InternalError"), WHOLE, times=1),
        Fault(part, "one reset", resets, WHOLE, times=1),
        Fault(part, "half a second late", late, WHOLE),
        Fault(part, "SlowDown", s3(503, "SlowDown"), THROTTLED),
        Fault(part, "429", s3(429, "TooManyRequests"), THROTTLED),
        Fault(part, "InternalError", s3(500, "InternalError"), PASSING),
        Fault(part, "502 of a proxy", answers(502, PAGE, content_type="text/html"), PASSING),
        Fault(part, "503 without a body", answers(503, b""), PASSING),
        Fault(part, "reset before the answer", resets, PASSING),
        Fault(part, "reset within the body", cut("reset"), PASSING),
        Fault(part, "closed within the body", cut("close"), PASSING),
        Fault(part, "stalled before the answer", stalls, PASSING),
        Fault(part, "stalled within the body", cut("stall"), PASSING),
        Fault(part, "a byte a second", trickles, PASSING),
        Fault(part, "empty 200", body(lambda _: b""), PASSING),
        Fault(part, "half of it as a whole", body(_half), PASSING),
        Fault(part, "HTML page with 200", body(lambda _: PAGE, content_type="text/html"), PASSING),
        Fault(part, "HTML page with 403", answers(403, PAGE, content_type="text/html"), PASSING),
        Fault(part, "RequestTimeTooSkewed", s3(403, "RequestTimeTooSkewed"), PASSING),
        Fault(part, "ExpiredToken", s3(400, "ExpiredToken"), PASSING),
        Fault(part, "AccessDenied", s3(403, "AccessDenied"), PROVIDER),
        Fault(part, "InvalidAccessKeyId", s3(403, "InvalidAccessKeyId"), PROVIDER),
        Fault(part, "another region", s3(301, "PermanentRedirect"), PROVIDER),
    ]


def _dynamo(part: str, passing: Promise) -> list[Fault]:
    """Return what DynamoDB may do wrong; nothing of it is a recipient's to mend."""
    return [
        Fault(part, "one throttling", aws_json(400, "ThrottlingException"), WHOLE, times=1),
        Fault(part, "one InternalServerError", aws_json(500, "InternalServerError"), WHOLE, times=1),
        Fault(part, "one reset", resets, WHOLE, times=1),
        Fault(part, "half a second late", late, WHOLE),
        Fault(part, "InternalServerError", aws_json(500, "InternalServerError"), passing),
        Fault(part, "502 of a proxy", answers(502, PAGE, content_type="text/html"), passing),
        Fault(part, "reset before the answer", resets, passing),
        Fault(part, "reset within the body", cut("reset"), passing),
        Fault(part, "closed within the body", cut("close"), passing),
        Fault(part, "stalled before the answer", stalls, passing),
        Fault(part, "stalled within the body", cut("stall"), passing),
        Fault(part, "empty 200", body(lambda _: b""), passing),
        Fault(part, "empty object", body(lambda _: b"[]"), passing),
        Fault(part, "half JSON", body(_half), passing),
        Fault(part, "HTML page with 200", body(lambda _: PAGE, content_type="text/html"), passing),
        Fault(part, "wrong checksum", body(lambda content: content, **{"x-amz-crc32": "1"}), passing),
        Fault(part, "wrong clock", aws_json(400, "InvalidSignatureException", "Signature expired: 20200101"), passing),
        Fault(part, "expired credentials", aws_json(400, "ExpiredTokenException"), passing),
        Fault(part, "access denied", aws_json(400, "AccessDeniedException"), passing),
        Fault(part, "no such table", aws_json(400, "ResourceNotFoundException"), passing),
    ]


_THROTTLED_CATALOG = [
    Fault("catalog", code, aws_json(400, code), THROTTLED)
    for code in ("ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded")
]
# API Gateway has one answer for an authorizer that fails, whatever it failed of.
_THROTTLED_TOKENS = [
    Fault("token", code, aws_json(400, code), UNCHECKED)
    for code in ("ThrottlingException", "ProvisionedThroughputExceededException")
]

_OBJECTS = [
    Fault("object", "a byte more than was listed", body(lambda content: content + b"\n"), PASSING),
    Fault("object", "NoSuchKey", s3(404, "NoSuchKey"), PROVIDER),
]
_LISTINGS = [
    Fault("listing", "NoSuchBucket", s3(404, "NoSuchBucket"), PROVIDER),
    Fault(
        "listing",
        "a listing of nothing",
        answers(200, b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></ListBucketResult>'),
        PASSING,
    ),
]

_ROLE = [
    Fault("role", "one throttling", sts(400, "Throttling"), WHOLE, times=1),
    Fault("role", "one 500", sts(500, "InternalFailure"), WHOLE, times=1),
    Fault("role", "throttling", sts(400, "Throttling"), THROTTLED),
    Fault("role", "500", sts(500, "InternalFailure"), PASSING),
    Fault("role", "reset before the answer", resets, PASSING),
    Fault("role", "reset within the body", cut("reset"), PASSING),
    Fault("role", "stalled before the answer", stalls, PASSING),
    Fault("role", "empty 200", body(lambda _: b""), PASSING),
    Fault("role", "half XML", body(_half), PASSING),
    Fault("role", "HTML page with 200", body(lambda _: PAGE, content_type="text/html"), PASSING),
    Fault("role", "wrong clock", sts(403, "SignatureDoesNotMatch", "Signature expired: 20200101"), PASSING),
    Fault("role", "expired credentials", sts(403, "ExpiredToken"), PASSING),
    Fault("role", "AccessDenied", sts(403, "AccessDenied"), PROVIDER),
]

_KEYS = [
    Fault("keys", "one throttling", aws_json(400, "ThrottlingException"), WHOLE, times=1),
    Fault("keys", "throttling", aws_json(400, "ThrottlingException"), THROTTLED),
    Fault("keys", "InternalServiceError", aws_json(500, "InternalServiceError"), PASSING),
    Fault("keys", "reset before the answer", resets, PASSING),
    Fault("keys", "stalled before the answer", stalls, PASSING),
    Fault("keys", "empty 200", body(lambda _: b""), PASSING),
    Fault("keys", "half JSON", body(_half), PASSING),
    Fault("keys", "HTML page with 200", body(lambda _: PAGE, content_type="text/html"), PASSING),
    Fault("keys", "AccessDeniedException", aws_json(400, "AccessDeniedException"), PROVIDER),
    Fault("keys", "ResourceNotFoundException", aws_json(400, "ResourceNotFoundException"), PROVIDER),
]

FAULTS: Final = [
    *_store("listing"),
    *_LISTINGS,
    *_store("object"),
    *_OBJECTS,
    *_dynamo("catalog", PASSING),
    *_THROTTLED_CATALOG,
    *_dynamo("token", UNCHECKED),
    *_THROTTLED_TOKENS,
    *_ROLE,
    *_KEYS,
]
