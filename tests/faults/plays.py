"""Faults of a store, DynamoDB, STS, Secrets Manager, and of networks before them."""

import asyncio
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from faults.proxy import STALLED_SECONDS, Forward, Play, Response

PAGE = b"<html><head><title>Sign in</title></head><body>Please sign in to this network</body></html>"
"""Response of a captive portal or a proxy instead of AWS."""


def respond(status: int, body: bytes, **headers: str) -> Play:
    """Respond without a request to AWS."""
    response_headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def play(_: Forward) -> Response:
        return Response(status, response_headers, body)

    return play


def s3(status: int, code: str, message: str = "") -> Play:
    """Respond with an error of S3."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return respond(status, body.encode(), content_type="application/xml")


def aws_json(status: int, code: str, message: str = "") -> Play:
    """Respond with an error of DynamoDB or Secrets Manager."""
    body = json.dumps({"__type": f"com.amazonaws#{code}", "message": message}).encode()
    return respond(status, body, content_type="application/x-amz-json-1.0", x_amz_crc32=str(zlib.crc32(body)))


def sts(status: int, code: str, message: str = "") -> Play:
    """Respond with an error of STS."""
    error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
    body = f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{error}</ErrorResponse>'
    return respond(status, body.encode(), content_type="text/xml")


async def reset(_: Forward) -> None:
    """Reset the connection without a response."""


async def stall(_: Forward) -> None:
    """Accept the request and do not respond."""
    await asyncio.sleep(STALLED_SECONDS)


def body(change: Callable[[bytes], bytes], **headers: str) -> Play:
    """Respond like AWS, with a changed body and its correct length."""

    async def play(forward: Forward) -> Response:
        response = await forward()
        return replace(response, body=change(response.body), headers=_without_checksums(response.headers) | headers)

    return play


def cut(ending: str) -> Play:
    """Send half of the body with the full length, then `close`, `reset` or `stall`."""

    async def play(forward: Forward) -> Response:
        response = await forward()
        length = len(response.body)
        return replace(response, body=response.body[: length // 2], length=length, ending=ending)

    return play


async def trickle(forward: Forward) -> Response:
    """Send one byte per second."""
    return replace(await forward(), pause_seconds=1.0)


async def delay(forward: Forward) -> Response:
    """Respond correctly after half a second."""
    await asyncio.sleep(0.5)
    return await forward()


def _without_checksums(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in {"x-amz-crc32", "etag", "content-md5"}}
