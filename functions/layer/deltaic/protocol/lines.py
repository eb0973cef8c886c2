"""Write the lines of an NDJSON response; `sharing.lines.rendering` must produce the same bytes.

A response is a sequence of ASCII lines, each a JSON object with one key, ended by a line feed. It is ASCII because the
Python client also splits at U+2028 and similar characters, which JSON does not escape. Missing values are omitted,
never null.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from deltaic.protocol import delta_lines, parquet_lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.wire_actions import FileAction, WireMetadata


class EndStreamAction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Last line of a response, for clients that requested it."""

    refresh_token: str | None = None
    next_page_token: str | None = None
    min_url_expiration_timestamp: int | None = None
    """Time at which the first URL of the response expires, in ms since the epoch; None without URLs."""
    error_message: str | None = None
    """Cause of an incomplete response, for which the client must raise an error."""
    http_status_error_code: int | None = None
    """HTTP status for the error in `error_message`; Spark retries 429 and 5xx."""


def line(value: Mapping[str, Any]) -> bytes:
    """Return one line: ASCII JSON without spaces, ended by a line feed."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def protocol(
    response_format: ResponseFormat, delta_protocol: Mapping[str, Any] | None = None, *, version: int | None = None
) -> bytes:
    """Return the protocol line; in delta format it contains the log's protocol, and `version` unless None."""
    if response_format == "delta":
        return line({"protocol": delta_lines.protocol(delta_protocol or {}, version)})
    return line({"protocol": parquet_lines.PROTOCOL})


def metadata(response_format: ResponseFormat, table: WireMetadata) -> bytes:
    """Return the metaData line in the response format."""
    if response_format == "delta":
        return line({"metaData": delta_lines.metadata(table)})
    return line({"metaData": parquet_lines.metadata(table)})


def file(response_format: ResponseFormat, action: FileAction) -> bytes:
    """Return the line of a file: its key is `file`, or in parquet format the type of the action."""
    if response_format == "delta":
        return line({"file": delta_lines.file(action)})
    return line({action.kind: parquet_lines.file(action)})


def end_stream_action(end: EndStreamAction) -> bytes:
    """Return the endStreamAction line, the same in both formats; it can be an empty object."""
    return line({"endStreamAction": msgspec.to_builtins(end)})


def query_status(query_id: str) -> bytes:
    """Return the only line of a response about a pending query."""
    return line({"queryStatus": {"queryId": query_id, "status": "pending"}})
