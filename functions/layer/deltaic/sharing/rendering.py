"""Decides how file lines are made fast: Arrow batches of live files in, whole NDJSON chunks of signed lines out.

What a line says is decided by `protocol.lines`, of which this is the fast equal (tests compare the two): everything
that does not depend on the signature is prepared once a batch, column by column, and may be kept with the snapshot.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import md5, sha256
from itertools import pairwise
from typing import Any, Final

import orjson

from deltaic.delta import deletion_vectors
from deltaic.protocol.capabilities import FileIdHash, ResponseFormat
from deltaic.protocol.lines import file_id
from deltaic.storage.urls import TableUrls

LINES_PER_CHUNK: Final = 512
"""Measured: larger chunks cost more in memory than they save in calls."""


@dataclass(frozen=True, slots=True)
class FileStyle:
    """What is the same for all file lines of one answer."""

    response_format: ResponseFormat
    scheme: FileIdHash
    version: int | None = None
    """With `timestamp`: written where the snapshot was asked for by version or timestamp."""
    timestamp: int | None = None


def render(batch: Any, urls: TableUrls, style: FileStyle) -> Iterator[bytes]:
    """Yield the lines of a batch of FILE_SCHEMA, in its order, in chunks of at most LINES_PER_CHUNK lines."""
    for start in range(0, batch.num_rows, LINES_PER_CHUNK):
        yield _chunk(batch.slice(start, LINES_PER_CHUNK), urls, style)


def _chunk(batch: Any, urls: TableUrls, style: FileStyle) -> bytes:
    raw_paths = batch.column("path")
    texts: list[str] = raw_paths.to_pylist()
    head = _head(style, urls.expires_at_ms)
    tails = _tails(batch, texts, urls, style)
    paths = urls.relative(raw_paths)
    if paths is None:
        return b"".join(head + urls.url(text).encode() + tail for text, tail in zip(texts, tails, strict=True))
    return urls.signer.lines(head, paths, tails)


def _head(style: FileStyle, expires_at_ms: int) -> bytes:
    """Return what stands before the URL; what is the same for all lines goes here, so that tails can be kept."""
    common = f'"expirationTimestamp":{expires_at_ms}'
    if style.version is not None:
        common += f',"version":{style.version}'
    if style.timestamp is not None:
        common += f',"timestamp":{style.timestamp}'
    if style.response_format == "parquet":
        return f'{{"file":{{{common},"url":"'.encode()
    return f'{{"file":{{{common},"deltaSingleAction":{{"add":{{"path":"'.encode()


def _tails(batch: Any, paths: Sequence[str], urls: TableUrls, style: FileStyle) -> list[bytes]:
    partitions = partition_values(batch.column("partitionValues"))
    statistics = _statistics(batch.column("stats"))
    sizes = batch.column("size").to_pylist()
    ids = _ids(paths, style.scheme)
    if style.response_format == "parquet":
        return [
            b'","id":"%b","partitionValues":%b,"size":%d%b}}\n' % fields
            for fields in zip(ids, partitions, sizes, statistics, strict=True)
        ]
    times = batch.column("modificationTime").to_pylist()
    changes = batch.column("dataChange").to_pylist()
    insides, outsides = _row_tracking(batch), [b""] * batch.num_rows
    for row, vector in enumerate(batch.column("deletionVector").to_pylist()):
        if vector is not None:
            inside, outsides[row] = _deletion_vector(vector, urls, style.scheme)
            insides[row] += inside
    return [
        b'","partitionValues":%b,"size":%d,"modificationTime":%d,"dataChange":%b%b%b}},%b"id":"%b"}}\n'
        % (partition, size, time or 0, b"false" if change is False else b"true", stats, inside, outside, id_)
        for partition, size, time, change, stats, inside, outside, id_ in zip(
            partitions, sizes, times, changes, statistics, insides, outsides, ids, strict=True
        )
    ]


def _ids(paths: Sequence[str], scheme: FileIdHash) -> list[bytes]:
    if scheme == "parquet":
        return [md5(path.encode(), usedforsecurity=False).hexdigest().encode() for path in paths]
    return [sha256(path.encode()).hexdigest().encode() for path in paths]


def partition_values(column: Any) -> list[bytes]:
    """Return the JSON objects of a `map<string,string>` column; each distinct value is encoded once."""
    keys: list[str] = column.keys.to_pylist()
    items: list[str | None] = column.items.to_pylist()
    offsets: list[int] = column.offsets.to_pylist()
    known: dict[tuple[str | None, ...], bytes] = {}
    answer: list[bytes] = []
    for start, end in pairwise(offsets):
        entry = (*keys[start:end], *items[start:end])
        encoded = known.get(entry)
        if encoded is None:
            middle = len(entry) // 2
            encoded = known[entry] = _ascii_json(dict(zip(entry[:middle], entry[middle:], strict=True)))
        answer.append(encoded)
    return answer


def _statistics(column: Any) -> list[bytes]:
    """Return `,"stats":"..."` for each row, nothing where there are none."""
    return [b"" if text is None else b',"stats":' + _ascii_string(text) for text in column.to_pylist()]


def _ascii_string(text: str) -> bytes:
    # orjson leaves non-ASCII characters as they are; clients split lines at some of them.
    return orjson.dumps(text) if text.isascii() else json.dumps(text).encode()


def _ascii_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _row_tracking(batch: Any) -> list[bytes]:
    """Return `,"baseRowId":..,"defaultRowCommitVersion":..` for each row, nothing where rows are not tracked."""
    first, second = batch.column("baseRowId"), batch.column("defaultRowCommitVersion")
    if first.null_count == second.null_count == batch.num_rows:
        return [b""] * batch.num_rows
    return [
        (b"" if base is None else b',"baseRowId":%d' % base)
        + (b"" if commit is None else b',"defaultRowCommitVersion":%d' % commit)
        for base, commit in zip(first.to_pylist(), second.to_pylist(), strict=True)
    ]


def _deletion_vector(vector: dict[str, Any], urls: TableUrls, scheme: FileIdHash) -> tuple[bytes, bytes]:
    """Return the add's `deletionVector` field and the wrapper's `deletionVectorFileId` field.

    A vector in a file leaves as storage type `p` with a signed URL; an inline one as it is (PROTOCOL.md, "File").
    """
    fields: dict[str, Any] = {"storageType": "i", "pathOrInlineDv": vector["pathOrInlineDv"]}
    outside = b""
    path = deletion_vectors.file_path(vector["storageType"], vector["pathOrInlineDv"])
    if path is not None:
        fields = {"storageType": "p", "pathOrInlineDv": urls.url(path)}
        outside = b'"deletionVectorFileId":"%b",' % file_id(path, scheme).encode()
    if vector["offset"] is not None:
        fields["offset"] = vector["offset"]
    fields |= {"sizeInBytes": vector["sizeInBytes"], "cardinality": vector["cardinality"]}
    return b',"deletionVector":' + _ascii_json(fields), outside
