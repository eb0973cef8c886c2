"""Parse the lines of two access logs: requests from the functions' log, downloads from S3's server access log.

Requests are JSON lines from CloudWatch: plain, after the time that an export adds, or in the envelope of a
subscription. Downloads are lines in the format of the Amazon S3 User Guide, "Amazon S3 server access log format".
Malformed lines are counted, and other lines of a log group are skipped. Secrets in a URL (its signature, its token) are
never stored.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import unquote

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

UNDERSTOOD, MALFORMED, OTHER = "understood", "malformed", "other"
"""Verdicts on a line; an `other` line of the functions' log does not describe a request."""

COLUMNS: Final = {
    "day": "DATE", "time": "TIMESTAMP", "kind": "STRING", "id": "STRING", "recipient_id": "STRING",
    "recipient": "STRING", "token_id": "STRING", "request_id": "STRING", "explained_by": "INT", "operation": "STRING",
    "share": "STRING", "schema": "STRING", "table": "STRING", "table_id": "STRING", "bucket": "STRING",
    "key": "STRING", "status": "INT", "error_code": "STRING", "ended": "STRING", "bytes_sent": "BIGINT",
    "object_bytes": "BIGINT", "files_signed": "BIGINT", "bytes_signed": "BIGINT", "deletion_vectors": "BIGINT",
    "change_files": "BIGINT", "removed_files": "BIGINT", "lines": "BIGINT", "version": "BIGINT",
    "end_version": "BIGINT", "response_format": "STRING", "predicates": "STRING", "row_limit": "BIGINT",
    "max_files": "BIGINT", "is_page": "BOOLEAN", "duration_ms": "DOUBLE", "source_ip": "STRING",
    "user_agent": "STRING", "session": "STRING", "signed_at": "STRING", "signed_until": "TIMESTAMP",
    "locations": "ARRAY<STRING>",
}  # fmt: skip
"""Columns of the usage table, with Spark's types."""

_NOT_OF_A_REQUEST: Final = frozenset({"day", "kind", "explained_by", "bucket", "key", "bytes_sent", "object_bytes"})
REQUEST_COLUMNS: Final = {name: kind for name, kind in COLUMNS.items() if name not in _NOT_OF_A_REQUEST}
FETCH_COLUMNS: Final = {"role": "STRING"} | {
    name: COLUMNS[name]
    for name in (
        "time", "id", "operation", "session", "signed_at", "bucket", "key", "status", "error_code", "bytes_sent",
        "object_bytes", "duration_ms", "source_ip", "user_agent",
    )
}  # fmt: skip

LINE_COLUMNS: Final = {"verdict": "STRING", "file": "STRING"}
"""Columns of a parsed line before those of its log; the others of a malformed line are null."""

# Clients cannot forge the fields before the referer: a request's target can contain quotes, but no space.
_LINE: Final = re.compile(
    r"\S+ (\S+) \[([^\]]+)\] (\S+) (\S+) (\S+) (\S+) (\S+) "
    r'(?:"\S+ (\S+) \S+"|-|"-") (\d{3}|-) (\S+) (\d+|-) (\d+|-) (\d+|-) (?:\d+|-)( .*)?',
    re.ASCII | re.DOTALL,
)
_SESSION: Final = re.compile(r"arn:[^:]*:sts::[^:]*:assumed-role/([^/]+)/([^/]+)")
_AGENT: Final = re.compile(r' "[^"]*" "(.*?)" \S+ ', re.ASCII | re.DOTALL)
_PREFIX: Final = re.compile(r"(?:^|&)prefix=([^&]*)")
_NOT_ENCODED: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_NEXT_RECORD: Final = re.compile(r'(?<=})(?={"messageType")')
_SCHEME: Final = re.compile("^s3[an]://")
_UNDERSCORE: Final = re.compile("_([a-z])")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_AGENT: Final = 200

# The fields of a request in the order of its columns, by their names in the log if these differ.
_FIELD_OF: Final = {
    "operation": "endpoint", "locations": "tableLocations", "response_format": "format", "row_limit": "limit",
    "files_signed": "files", "bytes_signed": "bytes", "duration_ms": "milliseconds",
}  # fmt: skip
_TYPE_OF: Final[dict[str, Any]] = {
    "STRING": str, "TIMESTAMP": str, "BOOLEAN": bool, "DOUBLE": float, "ARRAY<STRING>": list[str | None],
    "BIGINT": Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    "INT": Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)],
}  # fmt: skip
_NAMES: Final = ("share", "schema", "table")
_Names: Final = msgspec.defstruct("_Names", [(name, str | None, None) for name in _NAMES])
_Event: Final = msgspec.defstruct(
    "_Event",
    [*((name, _TYPE_OF[kind] | None, None) for name, kind in REQUEST_COLUMNS.items()), ("names", _Names | None, None)],
    rename=lambda name: _FIELD_OF.get(name) or _UNDERSCORE.sub(lambda match: match[1].upper(), name),
)
_Envelope: Final = msgspec.defstruct(
    "_Envelope", [("messageType", str | None, None), ("logEvents", list[dict[str, Any]] | None, None)]
)
_event = msgspec.json.Decoder(_Event)
_envelope = msgspec.json.Decoder(_Envelope)


def request_rows(line: str, file: str) -> Iterator[Sequence[Any]]:
    """Yield verdict, file and `REQUEST_COLUMNS` of each message in a line of the functions' log."""
    # Records of a subscription can follow each other without a line break.
    for part in _NEXT_RECORD.split(line) if '"messageType"' in line else (line,):
        messages = [part]
        if '"messageType"' in part:
            with suppress(msgspec.MsgspecError):
                record: Any = _envelope.decode(part[max(part.find("{"), 0) :])
                if record.messageType is not None:
                    messages = [str(event.get("message")) for event in record.logEvents or ()]
        for message in messages:
            fields = _request(message)
            if fields is not None:
                yield UNDERSTOOD, file, *fields
            else:
                is_event = '"endpoint"' in message and '"requestId"' in message
                yield MALFORMED if is_event else OTHER, file, *(None,) * len(REQUEST_COLUMNS)


def _request(message: str) -> Sequence[Any] | None:
    """Return the columns of a request; None for another message, and for one with a field of another type."""
    try:
        event: Any = _event.decode(message[max(message.find("{"), 0) :])
        event.time = _microseconds(datetime.fromisoformat(event.time or ""))
    except (msgspec.MsgspecError, ValueError, OverflowError):
        return None
    if not event.request_id:
        return None
    event.id = f"request/{event.request_id}"
    event.signed_until = _time(event.signed_until or "", "%Y%m%dT%H%M%S%z")
    for name in ("recipient_id", "recipient", "token_id"):
        setattr(event, name, getattr(event, name) or None)
    if event.names is not None:  # a rejected request has no table, but the names that the client requested
        for name in _NAMES:
            setattr(event, name, getattr(event.names if getattr(event, name) is None else event, name))
    if event.locations is not None:  # in the canonical form of the catalog
        event.locations = [path and _SCHEME.sub("s3://", path).rstrip("/") for path in event.locations]
    return msgspec.structs.astuple(event)[:-1]


def fetch_rows(line: str, file: str) -> Iterator[Sequence[Any]]:
    """Yield verdict, file and `FETCH_COLUMNS` of a line of S3's access log; nothing for an empty line."""
    if not line.strip():
        return
    match = _LINE.fullmatch(line)
    at = _time(match[2], "%d/%b/%Y:%H:%M:%S %z") if match else None
    if match is None or at is None:
        yield MALFORMED, file, *(None,) * len(FETCH_COLUMNS)
        return
    bucket, _, source_ip, requester, number, operation, key, target, status, error, sent, size, took, rest = (
        match.groups()
    )
    path, _, query = (target or "").partition("?")
    _, _, signed_at = f"&{query}".partition("&X-Amz-Date=")
    agent, prefix, session = _AGENT.match(rest or ""), _PREFIX.search(query), _SESSION.fullmatch(requester)
    listed = _decoded(prefix[1]) if prefix else ""  # a listing has no key
    yield (
        UNDERSTOOD, file, session and session[1], at, f"fetch/{number}/{operation}/{key}", operation,
        session and session[2], signed_at.partition("&")[0] or None, bucket, listed if key == "-" else _key(key, path),
        None if status == "-" else int(status), None if error == "-" else error, _integer(sent) or 0, _integer(size),
        None if took == "-" else float(took), None if source_ip == "-" else source_ip,
        agent[1][:_LONGEST_AGENT] or None if agent else None,
    )  # fmt: skip


def arrow_schema(columns: dict[str, str]) -> "pa.Schema":
    """Return the Arrow schema of columns, which are given with Spark's types."""
    import pyarrow as pa

    types = {
        "STRING": pa.string(), "BIGINT": pa.int64(), "INT": pa.int32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(),
        "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us", "UTC"), "ARRAY<STRING>": pa.list_(pa.string()),
    }  # fmt: skip
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])


def record_batch(rows: Sequence[Sequence[Any]], schema: "pa.Schema") -> "pa.RecordBatch":
    """Return parsed rows as an Arrow batch."""
    import pyarrow as pa

    columns: Any = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _microseconds(at: datetime) -> int:
    delta = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


@lru_cache(maxsize=1 << 14)
def _time(text: str, form: str) -> int | None:
    """Return a time in microseconds since 1970, None if the text does not have the format."""
    with suppress(ValueError):
        return _microseconds(datetime.strptime(text, form))  # noqa: DTZ007 -- the format has %z
    return None


@lru_cache(maxsize=1 << 14)
def _key(logged: str, path: str) -> str:
    # The log usually encodes a key twice; if not, the target shows it.
    once = _decoded(logged)
    twice, path = _decoded(once), _decoded(path)
    return once if not path.endswith(twice) and path.endswith(once) else twice


def _decoded(text: str) -> str:
    """Decode percent-encoding but not `+`; an invalid string stays unchanged."""
    return text if "%" not in text or _NOT_ENCODED.search(text) else unquote(text)


def _integer(text: str) -> int | None:
    return None if text == "-" or (number := int(text)) >= 1 << 63 else number
