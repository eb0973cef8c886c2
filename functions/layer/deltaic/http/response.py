"""Response types: JSON, headers only, streamed NDJSON, and errors in the protocol's format.

After a 200 response has started, its status cannot change. If an exception is raised then, the response must not look
complete. So the last line is `endStreamAction.errorMessage` if the client negotiated that, else a line that is not
JSON. The exception is raised again, so that the stream itself is marked as failed.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from deltaic.errors import DeltaicError
from deltaic.protocol import json_bodies


class Response(msgspec.Struct, frozen=True):
    """A response with a complete body."""

    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""


class StreamedResponse(msgspec.Struct, frozen=True):
    """A response with status 200 whose body is created while it is sent."""

    headers: Mapping[str, str]
    chunks: Iterable[bytes]
    """Chunks of the body; each consists of complete lines."""
    failed: Callable[[Exception], bytes]
    """Returns the last line to send if `chunks` raises or the time limit is reached."""


def json_response(body: bytes) -> Response:
    """Return a 200 response with a JSON document on one line (the Python client reads only the first line)."""
    return Response(headers={"content-type": json_bodies.JSON_TYPE}, body=body)


def error_response(error: DeltaicError, _request: object = None) -> Response:
    """Return a response with the error's status and the Delta Sharing protocol's error object."""
    headers = {"content-type": json_bodies.JSON_TYPE}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return Response(status=error.status, headers=headers, body=json_bodies.error(error))
