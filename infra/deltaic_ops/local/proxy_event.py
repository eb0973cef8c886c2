"""API Gateway's Lambda proxy event (REST, version 1.0) of a request, and the response of a proxy answer.

The path goes to the function as it was sent, parameters of it too; query strings are decoded. These are the rules of
the deployed gateway, so a function cannot tell the two apart.
"""

import base64
import binascii
import gzip
import io
import json
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from deltaic_ops.deploy.emulated_account import ACCOUNT
from deltaic_ops.local.authorizer import Refused
from deltaic_ops.local.exchange import BODY_LIMIT, Exchange, Header
from deltaic_ops.local.routes import Match

API_ID = "local"
ANSWER_LIMIT = 6 * 1024 * 1024
"""Lambda's limit of a buffered answer, JSON document and all."""

PRELUDE_END = b"\0" * 8
PRELUDE_LIMIT = 16 * 1024

_DROPPED_FROM_REQUESTS = {"connection", "content-length", "expect", "te", "transfer-encoding", "upgrade"}
_REMAPPED = {
    "authorization",
    "connection",
    "content-length",
    "content-md5",
    "date",
    "expect",
    "host",
    "max-forwards",
    "server",
    "te",
    "trailer",
    "upgrade",
    "user-agent",
    "warning",
    "www-authenticate",
}
"""Headers of a function's answer that API Gateway sends under another name."""

_ANSWER_KEYS = {"statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded"}


class MalformedAnswer(Exception):
    """The function's answer is not one that the proxy integration takes: 502."""


@dataclass(frozen=True, slots=True)
class Call:
    """What the gateway knows of a request when it calls a function."""

    match: Match
    stage: str
    path: str
    """Below the stage, as it was sent."""
    query: str
    authorizer: Mapping[str, str]
    request_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response."""

    status: int
    headers: Sequence[Header]
    body: bytes


def proxy_event(exchange: Exchange, call: Call, *, binary: bool) -> dict[str, Any]:
    """Return the event for a function, its body in base64 if `binary`; raises Refused for one too large or broken."""
    headers = [(name, value) for name, value in exchange.headers if name.lower() not in _DROPPED_FROM_REQUESTS]
    body = exchange.body()
    if body and (exchange.header("content-encoding") or "").lower() == "gzip":
        headers = [(name, value) for name, value in headers if name.lower() != "content-encoding"]
        body = _unpacked(body)
    headers += [
        ("X-Amzn-Trace-Id", f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]}"),
        ("X-Forwarded-For", exchange.client[0]),
        ("X-Forwarded-Port", str(exchange.server[1])),
        ("X-Forwarded-Proto", "http"),
    ]
    parameters = parse_qsl(call.query, keep_blank_values=True, errors="replace")
    now = datetime.now(UTC)
    return {
        "resource": call.match.route.path,
        "path": call.path,
        "httpMethod": exchange.method,
        "headers": dict(headers),
        "multiValueHeaders": _grouped(headers),
        "queryStringParameters": dict(parameters) or None,
        "multiValueQueryStringParameters": _grouped(parameters) or None,
        "pathParameters": dict(call.match.parameters) or None,
        "stageVariables": None,
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": API_ID,
            "authorizer": dict(call.authorizer),
            "domainName": exchange.header("host") or "",
            "extendedRequestId": call.request_id,
            "httpMethod": exchange.method,
            "identity": {"sourceIp": exchange.client[0], "userAgent": exchange.header("user-agent")},
            "path": f"/{call.stage}{call.path}",
            "protocol": "HTTP/1.1",
            "requestId": call.request_id,
            "requestTime": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "requestTimeEpoch": int(now.timestamp() * 1000),
            "resourceId": "local",
            "resourcePath": call.match.route.path,
            "stage": call.stage,
        },
        "body": (base64.b64encode(body).decode() if binary else body.decode("utf-8", "replace")) if body else None,
        "isBase64Encoded": bool(body) and binary,
    }


def read_answer(answer: Any, *, decodes_base64: bool) -> Answer:
    """Return the response for a function's buffered answer; raises MalformedAnswer.

    Base64 is decoded only where the API has binary media types that the request accepts; elsewhere the client gets
    the letters, as it would from the deployed gateway.
    """
    if not isinstance(answer, dict) or not answer.keys() <= _ANSWER_KEYS:
        raise MalformedAnswer("the answer is not a proxy answer")
    body = answer.get("body") or ""
    if not isinstance(body, str):
        raise MalformedAnswer("the body is not a string")
    try:
        if len(json.dumps(answer, ensure_ascii=False).encode()) > ANSWER_LIMIT:
            raise MalformedAnswer("the answer exceeds 6 MB")
        encoded = answer.get("isBase64Encoded") and decodes_base64
        data = base64.b64decode(body, validate=True) if encoded else body.encode()
        status = int(answer.get("statusCode", 200))
    except (binascii.Error, TypeError, ValueError) as error:
        raise MalformedAnswer(str(error)) from error
    return Answer(status, read_headers(answer), data)


def read_prelude(received: bytes) -> tuple[int, list[Header], bytes] | None:
    """Return status, headers and first bytes of a streamed answer; None while its delimiter is still to come."""
    head, delimiter, _ = received[: PRELUDE_LIMIT + len(PRELUDE_END)].partition(PRELUDE_END)
    if not delimiter:
        if len(received) > PRELUDE_LIMIT:
            raise MalformedAnswer("there is no delimiter in the first 16 KB")
        return None
    try:
        document = json.loads(head)
        status = int(document.get("statusCode", 200))
    except (AttributeError, TypeError, ValueError) as error:
        raise MalformedAnswer(str(error)) from error
    # A streamed answer's own Content-Length stays: it tells the client where the answer ends.
    headers = read_headers(document, renamed=_REMAPPED - {"content-length"})
    headers += [("Set-Cookie", value) for value in document.get("cookies", ())]
    return status, headers, received[len(head) + len(delimiter) :]


def read_headers(answer: Mapping[str, Any], renamed: AbstractSet[str] = _REMAPPED) -> list[Header]:
    """Return an answer's headers; of a name in both maps the one with several values wins."""
    headers: list[Header] = []
    several = answer.get("multiValueHeaders") or {}
    single = answer.get("headers") or {}
    lowered = {name.lower() for name in several}
    for name, value in single.items():
        if not isinstance(value, (str, int, float)):
            raise MalformedAnswer(f"header {name} is not a string")
        if name.lower() not in lowered:
            headers.append((name, str(value)))
    for name, values in several.items():
        headers += [(name, str(value)) for value in values]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", "application/json"))
    return [
        (f"x-amzn-Remapped-{name}" if name.lower() in renamed else name, value)
        for name, value in headers
        if name.lower() != "transfer-encoding"
    ]


def _unpacked(body: bytes) -> bytes:
    """Unpack gzip as the gateway does (with a minimum compression size), of several members too, to BODY_LIMIT."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            unpacked = file.read(BODY_LIMIT + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Refused("BAD_REQUEST_BODY") from error
    if len(unpacked) > BODY_LIMIT:
        raise Refused("REQUEST_TOO_LARGE")
    return unpacked


def _grouped(pairs: Sequence[Header]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped
