"""The lines of an NDJSON answer, in both formats; the plain renderer that a fast one must equal.

Answers consist of ASCII lines, each one JSON object with one key, each ended by a line feed. ASCII, because the Python
client splits the body at U+2028 and its like, which JSON leaves unescaped. Absent things are left out, never null.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from deltaic.protocol import delta_lines, parquet_lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.wire_actions import FileAction, WireMetadata


class EndStreamAction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The last line of an answer, for clients that asked for it."""

    refresh_token: str | None = None
    next_page_token: str | None = None
    min_url_expiration_timestamp: int | None = None
    """Milliseconds at which the first of the answer's URLs dies; None without URLs."""
    error_message: str | None = None
    """Why the answer is not complete: the client must fail."""
    http_status_error_code: int | None = None
    """The status that the failure would have had; Spark retries 429 and 5xx."""


def line(value: Mapping[str, Any]) -> bytes:
    """Return one line: ASCII JSON without spaces, ended by a line feed."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def protocol(
    response_format: ResponseFormat, delta_protocol: Mapping[str, Any] | None = None, *, version: int | None = None
) -> bytes:
    """Return the protocol line; in delta format the log's, with `version` where it is asked for."""
    if response_format == "delta":
        return line({"protocol": delta_lines.protocol(delta_protocol or {}, version)})
    return line({"protocol": parquet_lines.PROTOCOL})


def metadata(response_format: ResponseFormat, table: WireMetadata) -> bytes:
    """Return the metaData line."""
    if response_format == "delta":
        return line({"metaData": delta_lines.metadata(table)})
    return line({"metaData": parquet_lines.metadata(table)})


def file(response_format: ResponseFormat, action: FileAction) -> bytes:
    """Return one file's line: `file`, `add`, `cdf` or `remove` in parquet format, always `file` in delta format."""
    if response_format == "delta":
        return line({"file": delta_lines.file(action)})
    return line({action.kind: parquet_lines.file(action)})


def end_stream_action(end: EndStreamAction) -> bytes:
    """Return the endStreamAction line, the same in both formats; with nothing to say it is an empty object."""
    return line({"endStreamAction": msgspec.to_builtins(end)})


def query_status(query_id: str) -> bytes:
    """Return the only line of an answer about a query that has no result yet."""
    return line({"queryStatus": {"queryId": query_id, "status": "pending"}})
