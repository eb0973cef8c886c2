"""Expectations about responses. Each function raises CheckFailed, with the difference, if a response does not match."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx

from delta_sharing_conformance.check import CheckFailed
from delta_sharing_conformance.client import Reply
from delta_sharing_conformance.files import FileLine, files_of

JSON = "application/json"
NDJSON = "application/x-ndjson;charset=utf-8"

Keys = Mapping[str, type | tuple[type, ...]]

PARQUET_FILE: Keys = {"url": str, "id": str, "partitionValues": dict, "size": int}
PARQUET_CHANGE: Keys = {**PARQUET_FILE, "timestamp": int, "version": int}
PARQUET_METADATA: Keys = {"id": str, "format": dict, "schemaString": str, "partitionColumns": list}
DELTA_PROTOCOL: Keys = {"minReaderVersion": int, "minWriterVersion": int}
DELTA_FILE: Keys = {"id": str, "deltaSingleAction": dict}
DELTA_ACTION: Keys = {"path": str, "partitionValues": dict}
OPTIONAL: Keys = {"expirationTimestamp": int, "version": int, "timestamp": int, "stats": str, "numFiles": int}


def that(condition: bool, message: object) -> None:
    """Raise CheckFailed with the message unless the condition is true."""
    if not condition:
        raise CheckFailed(str(message))


def ok(reply: Reply) -> Reply:
    """Expect a response with status 200, and return it."""
    that(reply.status == httpx.codes.OK, reply)
    return reply


def error(reply: Reply, *statuses: int) -> Reply:
    """Expect a response with one of these statuses and the protocol's error body, and return it."""
    that(reply.status in statuses, f"{reply}, not {' or '.join(map(str, statuses))}")
    return error_body(reply)


def error_body(reply: Reply) -> Reply:
    """Expect a JSON body with `errorCode` and `message`, and return the response."""
    that(reply.media.startswith(JSON), f"{reply} with Content-Type {reply.media or 'none'}, not {JSON}")
    missing = [name for name in ("errorCode", "message") if not isinstance(reply.fields.get(name), str)]
    that(not missing, f"{reply} without {' and '.join(missing)} in its body")
    return reply


def fields(name: str, value: object, keys: Keys) -> Mapping[str, Any]:
    """Expect a JSON object with these keys and types of values, and return it; `name` is for messages."""
    if not isinstance(value, dict):
        raise CheckFailed(f"{name} is not an object")
    for key, kind in keys.items():
        that(key in value, f"{name} has no {key}")
        that(_has_type(value[key], kind), f"{name} has a {key} of the wrong type {type(value[key]).__name__}")
    for key, kind in OPTIONAL.items():
        that(value.get(key) is None or _has_type(value[key], kind), f"{name} has a {key} of the wrong type")
    return value


def lines(reply: Reply) -> Sequence[Mapping[str, Any]]:
    """Expect NDJSON with a table version and lines with one key each: protocol, metaData, then others."""
    ok(reply)
    that(reply.media == NDJSON, f"{reply} with Content-Type {reply.media or 'none'}, not {NDJSON}")
    that(reply.version is not None, f"{reply} without Delta-Table-Version")
    if reply.lines is None:
        raise CheckFailed(f"{reply} with lines that are not JSON objects")
    invalid = [list(line) for line in reply.lines if len(line) != 1]
    that(not invalid, f"{reply} with a line that has several keys or none: {invalid[:1]}")
    that(reply.kinds[:2] == ["protocol", "metaData"], f"{reply} with {reply.kinds[:2]} as its first lines")
    return reply.lines


def head(reply: Reply, response_format: str) -> None:
    """Expect protocol and metaData lines in this response format, and the format in the capabilities header."""
    protocol, metadata = (next(iter(line.values())) for line in lines(reply)[:2])
    that(reply.format == response_format, f"{reply} in {reply.format} format")
    if response_format == "parquet":
        fields("protocol", protocol, {"minReaderVersion": int})
        inner = fields("metaData", metadata, PARQUET_METADATA)
    else:
        fields("deltaProtocol", fields("protocol", protocol, {"deltaProtocol": dict})["deltaProtocol"], DELTA_PROTOCOL)
        inner = fields("metaData", metadata, {"deltaMetadata": dict})["deltaMetadata"]
        inner = fields("deltaMetadata", inner, PARQUET_METADATA)
    that(isinstance(inner["format"].get("provider"), str), "format has no provider")
    try:
        schema = json.loads(inner["schemaString"])
    except ValueError:
        schema = None
    fields("schemaString", schema, {"type": str, "fields": list})


def body(reply: Reply, response_format: str, kinds: Iterable[str], *, changes: bool = False) -> None:
    """Expect lines of these types after protocol and metaData, each with the keys of the response format."""
    head(reply, response_format)
    allowed = {*kinds, "endStreamAction"}
    for line in lines(reply)[2:]:
        ((kind, content),) = line.items()
        that(kind in allowed, f"{reply} with an unexpected line {kind!r}")
        if kind in {"metaData", "protocol", "endStreamAction"}:
            continue
        if response_format == "parquet":
            fields(kind, content, PARQUET_CHANGE if changes else PARQUET_FILE)
        else:
            keys: Keys = {**DELTA_FILE, "version": int, "timestamp": int} if changes else DELTA_FILE
            action = fields(kind, content, keys)["deltaSingleAction"]
            that(len(action) == 1 and {*action} <= {"add", "remove", "cdc"}, f"deltaSingleAction with {[*action]}")
            fields("deltaSingleAction", next(iter(action.values())), DELTA_ACTION)
    that("endStreamAction" not in reply.kinds[:-1], f"{reply} with an endStreamAction before the last line")


def same_ids(name: str, actual: Sequence[str], expected: Sequence[str]) -> None:
    """Expect two lists to contain the same file ids, in any order; `name` is for messages."""
    missing, extra = len({*expected} - {*actual}), len({*actual} - {*expected})
    message = f"{name}: {missing} files missing, {extra} unexpected, {len(actual) - len({*actual})} duplicates"
    that(sorted(actual) == sorted(expected), message)


def versions_between(files: Iterable[FileLine], first: int, last: int) -> None:
    """Expect each file to have a version from `first` to `last`."""
    outside = [file.version for file in files if file.version is None or not first <= file.version <= last]
    that(not outside, f"a file of version {outside[:1]} outside the range from {first} to {last}")


def _has_type(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is int)


def files(reply: Reply) -> list[FileLine]:
    """Return the files that a response lists."""
    return list(files_of(lines(reply)))


def ids(reply: Reply) -> list[str]:
    """Return the ids of the files that a response lists."""
    return [file.id for file in files(reply)]
