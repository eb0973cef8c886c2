"""The faults themselves: what a store, DynamoDB, STS or Secrets Manager, or whatever stands before them, does wrong."""

import asyncio
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from faults.proxy import STALLED_SECONDS, Answer, Play, Real

PAGE = b"<html><head><title>Sign in</title></head><body>Please sign in to this network</body></html>"
"""What a captive portal or a proxy answers in AWS's place."""


def answers(status: int, body: bytes, **headers: str) -> Play:
    """Answer so, without asking AWS."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}

    async def play(_: Real) -> Answer:
        return Answer(status, told, body)

    return play


def s3(status: int, code: str, message: str = "") -> Play:
    """Answer with an error of S3's."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return answers(status, body.encode(), content_type="application/xml")


def aws_json(status: int, code: str, message: str = "") -> Play:
    """Answer with an error of DynamoDB's or Secrets Manager's."""
    body = json.dumps({"__type": f"com.amazonaws#{code}", "message": message}).encode()
    return answers(status, body, content_type="application/x-amz-json-1.0", x_amz_crc32=str(zlib.crc32(body)))


def sts(status: int, code: str, message: str = "") -> Play:
    """Answer with an error of STS's."""
    error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
    body = f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{error}</ErrorResponse>'
    return answers(status, body.encode(), content_type="text/xml")


async def resets(_: Real) -> None:
    """Break the connection without a word."""


async def stalls(_: Real) -> None:
    """Take the request and say nothing."""
    await asyncio.sleep(STALLED_SECONDS)


def body(change: Callable[[bytes], bytes], **told: str) -> Play:
    """Answer as AWS would, with another body and its right length."""

    async def play(real: Real) -> Answer:
        answer = await real()
        return replace(answer, body=change(answer.body), headers=_without_checksums(answer.headers) | told)

    return play


def cut(ends: str) -> Play:
    """Send half of what the length promises, then end so: `close`, `reset` or `stall`."""

    async def play(real: Real) -> Answer:
        answer = await real()
        return replace(answer, body=answer.body[: len(answer.body) // 2], length=len(answer.body), ends=ends)

    return play


async def trickles(real: Real) -> Answer:
    """Send a byte a second."""
    return replace(await real(), pause_seconds=1.0)


async def late(real: Real) -> Answer:
    """Answer rightly, after a while that nobody need mind."""
    await asyncio.sleep(0.5)
    return await real()


def _without_checksums(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in {"x-amz-crc32", "etag", "content-md5"}}
