"""Convert requests to API Gateway's Lambda proxy events (REST, version 1.0), and functions' results to responses.

As with API Gateway on AWS, functions get percent-encoded paths and path parameters, and decoded query strings.
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
from deltaic_ops.local.authorizer import GatewayRefusal
from deltaic_ops.local.exchange import BODY_LIMIT, Header, HttpExchange
from deltaic_ops.local.routes import Match

API_ID = "local"
RESPONSE_LIMIT = 6 * 1024 * 1024
"""Maximum size of a buffered response on Lambda, encoded as a JSON document, in bytes."""

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
"""Response headers of functions that API Gateway renames to `x-amzn-Remapped-...`."""

_ANSWER_KEYS = {"statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded"}


class MalformedResponse(Exception):
    """A function's result is not a valid proxy response; the gateway then responds with 502."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request with its route and the authorizer's context, before the function is called."""

    match: Match
    stage: str
    path: str
    """Path after the stage, still percent-encoded."""
    query: str
    authorizer: Mapping[str, str]
    request_id: str


@dataclass(frozen=True, slots=True)
class BufferedResponse:
    """A complete response of a function."""

    status: int
    headers: Sequence[Header]
    body: bytes


def proxy_event(exchange: HttpExchange, call: Call, *, binary: bool) -> dict[str, Any]:
    """Return a request's event for a function, with the body in base64 if `binary`; raises GatewayRefusal."""
    headers = [(name, value) for name, value in exchange.headers if name.lower() not in _DROPPED_FROM_REQUESTS]
    body = exchange.body()
    if body and (exchange.header("content-encoding") or "").lower() == "gzip":
        headers = [(name, value) for name, value in headers if name.lower() != "content-encoding"]
        body = _decompress(body)
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
        "multiValueHeaders": _group(headers),
        "queryStringParameters": dict(parameters) or None,
        "multiValueQueryStringParameters": _group(parameters) or None,
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


def read_response(result: Any, *, decodes_base64: bool) -> BufferedResponse:
    """Convert a function's result to a buffered response; raises MalformedResponse.

    Base64 is decoded only for APIs with binary media types. Otherwise, the client gets the base64 string, as from API
    Gateway on AWS.
    """
    if not isinstance(result, dict) or not result.keys() <= _ANSWER_KEYS:
        raise MalformedResponse("the function's result is not a proxy response")
    body = result.get("body") or ""
    if not isinstance(body, str):
        raise MalformedResponse("the body in the function's result is not a string")
    try:
        if len(json.dumps(result, ensure_ascii=False).encode()) > RESPONSE_LIMIT:
            raise MalformedResponse("the function's response exceeds 6 MB")
        encoded = result.get("isBase64Encoded") and decodes_base64
        data = base64.b64decode(body, validate=True) if encoded else body.encode()
        status = int(result.get("statusCode", 200))
    except (binascii.Error, TypeError, ValueError) as error:
        raise MalformedResponse(str(error)) from error
    return BufferedResponse(status, read_headers(result), data)


def read_prelude(received: bytes) -> tuple[int, list[Header], bytes] | None:
    """Return status, headers and first body bytes of a streamed response; None if its delimiter is not received yet."""
    head, delimiter, _ = received[: PRELUDE_LIMIT + len(PRELUDE_END)].partition(PRELUDE_END)
    if not delimiter:
        if len(received) > PRELUDE_LIMIT:
            raise MalformedResponse("the first 16 KB of the response do not contain the prelude's delimiter")
        return None
    try:
        document = json.loads(head)
        status = int(document.get("statusCode", 200))
    except (AttributeError, TypeError, ValueError) as error:
        raise MalformedResponse(str(error)) from error
    # A streamed response keeps its Content-Length, by which the client finds its end.
    headers = read_headers(document, renamed=_REMAPPED - {"content-length"})
    headers += [("Set-Cookie", value) for value in document.get("cookies", ())]
    return status, headers, received[len(head) + len(delimiter) :]


def read_headers(result: Mapping[str, Any], renamed: AbstractSet[str] = _REMAPPED) -> list[Header]:
    """Return the response headers of a function's result; `multiValueHeaders` override `headers`."""
    headers: list[Header] = []
    multiple = result.get("multiValueHeaders") or {}
    single = result.get("headers") or {}
    lowered = {name.lower() for name in multiple}
    for name, value in single.items():
        if not isinstance(value, (str, int, float)):
            raise MalformedResponse(f"the value of header {name} is not a string")
        if name.lower() not in lowered:
            headers.append((name, str(value)))
    for name, values in multiple.items():
        headers += [(name, str(value)) for value in values]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", "application/json"))
    return [
        (f"x-amzn-Remapped-{name}" if name.lower() in renamed else name, value)
        for name, value in headers
        if name.lower() != "transfer-encoding"
    ]


def _decompress(body: bytes) -> bytes:
    """Unpack a request's gzip body; raises GatewayRefusal above 10 MB or for invalid gzip."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            content = file.read(BODY_LIMIT + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise GatewayRefusal("BAD_REQUEST_BODY") from error
    if len(content) > BODY_LIMIT:
        raise GatewayRefusal("REQUEST_TOO_LARGE")
    return content


def _group(pairs: Sequence[Header]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped
