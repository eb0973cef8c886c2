"""The kinds of answers: JSON, headers alone, or NDJSON chunk by chunk; failures in the protocol's error shape.

Once a 200 has begun its status cannot change. A failure after that must not end in an answer that looks whole: the
last line is then `endStreamAction.errorMessage` where the client negotiated one, else a line that is not JSON, and the
exception is raised again so that the stream itself is marked as failed (DESIGN.md, section 3).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from deltaic.errors import DeltaicError
from deltaic.protocol import json_bodies


class Response(msgspec.Struct, frozen=True):
    """A status, headers, and a body that is known."""

    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""


class Stream(msgspec.Struct, frozen=True):
    """A 200 whose body is made while it is sent."""

    headers: Mapping[str, str]
    chunks: Iterable[bytes]
    """Whole lines only, so that a chunk boundary is a line boundary."""
    failed: Callable[[Exception], bytes]
    """Gives the last line to send if `chunks` raises, or if the time for the answer is up."""


def json_response(body: bytes) -> Response:
    """Answer 200 with one JSON document on a single line (the Python client reads the first line only)."""
    return Response(headers={"content-type": json_bodies.JSON_TYPE}, body=body)


def error_response(error: DeltaicError, _request: object = None) -> Response:
    """Answer with the error's status and the protocol's error object, whatever was asked."""
    headers = {"content-type": json_bodies.JSON_TYPE}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return Response(status=error.status, headers=headers, body=json_bodies.error(error))
