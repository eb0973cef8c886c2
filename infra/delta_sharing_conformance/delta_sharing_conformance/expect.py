"""What answers must look like, whatever was asked: each function raises Fails and says what came instead."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx

from delta_sharing_conformance.check import Fails
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


def that(holds: bool, said: object) -> None:
    """Fail with what was seen unless it holds."""
    if not holds:
        raise Fails(str(said))


def answered(reply: Reply) -> Reply:
    """Expect a 200."""
    that(reply.status == httpx.codes.OK, reply)
    return reply


def refused(reply: Reply, *statuses: int) -> Reply:
    """Expect one of these statuses with the error body: `errorCode` and `message`, as JSON."""
    that(reply.status in statuses, f"{reply}, not {' or '.join(map(str, statuses))}")
    return shaped(reply)


def shaped(reply: Reply) -> Reply:
    """Expect the error body."""
    that(reply.media.startswith(JSON), f"{reply} with Content-Type {reply.media or 'none'}, not {JSON}")
    told = reply.json if isinstance(reply.json, dict) else {}
    lacks = [name for name in ("errorCode", "message") if not isinstance(told.get(name), str)]
    that(not lacks, f"{reply} without {' and '.join(lacks)} in its body")
    return reply


def typed(what: str, value: object, keys: Keys) -> Mapping[str, Any]:
    """Expect an object that has these keys, each with a value of its type."""
    if not isinstance(value, dict):
        raise Fails(f"{what} is no object")
    for name, kind in keys.items():
        that(name in value, f"{what} has no {name}")
        that(_is(value[name], kind), f"{what} has a {name} of another type: {type(value[name]).__name__}")
    for name, kind in OPTIONAL.items():
        that(value.get(name) is None or _is(value[name], kind), f"{what} has a {name} of another type")
    return value


def lines(reply: Reply) -> Sequence[Mapping[str, Any]]:
    """Expect 200 and NDJSON with a version: protocol, metaData, then the rest, each line with one key."""
    answered(reply)
    that(reply.media == NDJSON, f"{reply} with Content-Type {reply.media or 'none'}, not {NDJSON}")
    that(reply.version is not None, f"{reply} without Delta-Table-Version")
    if reply.lines is None:
        raise Fails(f"{reply} with lines that are no JSON objects")
    many = [list(line) for line in reply.lines if len(line) != 1]
    that(not many, f"{reply} with a line of keys {many[:1]}, not of one")
    that(reply.kinds[:2] == ["protocol", "metaData"], f"{reply} beginning with {reply.kinds[:2]}")
    return reply.lines


def head(reply: Reply, response_format: str) -> None:
    """Expect protocol and metaData of this format, and the header that names it."""
    protocol, metadata = (next(iter(line.values())) for line in lines(reply)[:2])
    that(reply.format == response_format, f"{reply} in {reply.format} format")
    if response_format == "parquet":
        typed("protocol", protocol, {"minReaderVersion": int})
        inner = typed("metaData", metadata, PARQUET_METADATA)
    else:
        typed("deltaProtocol", typed("protocol", protocol, {"deltaProtocol": dict})["deltaProtocol"], DELTA_PROTOCOL)
        inner = typed("metaData", metadata, {"deltaMetadata": dict})["deltaMetadata"]
        inner = typed("deltaMetadata", inner, PARQUET_METADATA)
    that(isinstance(inner["format"].get("provider"), str), "format has no provider")
    try:
        schema = json.loads(inner["schemaString"])
    except ValueError:
        schema = None
    typed("schemaString", schema, {"type": str, "fields": list})


def body(reply: Reply, response_format: str, kinds: Iterable[str], *, changes: bool = False) -> None:
    """Expect lines of these kinds below the head, each with the keys that its format demands."""
    head(reply, response_format)
    allowed = {*kinds, "endStreamAction"}
    for line in lines(reply)[2:]:
        ((kind, content),) = line.items()
        that(kind in allowed, f"{reply} with a line {kind!r}")
        if kind in {"metaData", "protocol", "endStreamAction"}:
            continue
        if response_format == "parquet":
            typed(kind, content, PARQUET_CHANGE if changes else PARQUET_FILE)
        else:
            keys: Keys = {**DELTA_FILE, "version": int, "timestamp": int} if changes else DELTA_FILE
            action = typed(kind, content, keys)["deltaSingleAction"]
            that(len(action) == 1 and {*action} <= {"add", "remove", "cdc"}, f"deltaSingleAction of {[*action]}")
            typed("deltaSingleAction", next(iter(action.values())), DELTA_ACTION)
    that("endStreamAction" not in reply.kinds[:-1], f"{reply} with an endStreamAction that is not its last line")


def same(what: str, found: Sequence[str], wanted: Sequence[str]) -> None:
    """Expect the same ids."""
    missing, more = len({*wanted} - {*found}), len({*found} - {*wanted})
    twice = len(found) - len({*found})
    told = f"{what}: {missing} files missing, {more} more, {twice} twice"
    that(sorted(found) == sorted(wanted), told)


def within(files: Iterable[FileLine], first: int, last: int) -> None:
    """Expect every line's version to lie in a range."""
    outside = [file.version for file in files if file.version is None or not first <= file.version <= last]
    that(not outside, f"a file of version {outside[:1]} in a range from {first} to {last}")


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is int)


def files(reply: Reply) -> list[FileLine]:
    """Expect an answer with files, and return them."""
    return list(files_of(lines(reply)))


def ids(reply: Reply) -> list[str]:
    """Expect an answer with files, and return their ids."""
    return [file.id for file in files(reply)]
