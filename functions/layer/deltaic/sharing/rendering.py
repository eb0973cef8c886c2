"""Decides how file lines are made fast: Arrow batches of live files in, whole NDJSON chunks of signed lines out.

What a line says is decided by `protocol.lines`, of which this is the fast equal (tests compare the two): everything
that does not depend on the signature is prepared once, column by column, and may be kept (sharing/kept.py).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import orjson

from deltaic.delta import deletion_vectors
from deltaic.delta.partitions import partition_codes
from deltaic.delta.scan import FileBatch
from deltaic.protocol.capabilities import FileIdHash, ResponseFormat
from deltaic.protocol.lines import file_id
from deltaic.sharing.cells import integers, octets, texts
from deltaic.sharing.kept import BLOCK_ROWS, KeptLines, LateUrl, Prepare, Prepared
from deltaic.storage.urls import TableUrls

try:
    from _md5 import md5  # type: ignore[import-not-found]  # CPython's own: for a path it takes half of OpenSSL's time
except ImportError:
    from hashlib import md5


@dataclass(frozen=True, slots=True)
class FileStyle:
    """What is the same for all file lines of one answer."""

    response_format: ResponseFormat
    scheme: FileIdHash
    version: int | None = None
    """With `timestamp`: written where the snapshot was asked for by version or timestamp."""
    timestamp: int | None = None


def render(batch: FileBatch, urls: TableUrls, style: FileStyle, kept: KeptLines | None = None) -> Iterator[bytes]:
    """Yield the lines of some live files, in their order, in chunks of at most BLOCK_ROWS lines."""
    head = _head(style, urls.expires_at_ms)

    def prepare(files: Any) -> Prepared | None:
        paths = urls.relative(files.column("path"))
        return None if paths is None else Prepared(paths, *_tails(files, style))

    for block in _halves(batch, prepare) if kept is None else kept.blocks(batch, prepare):
        if isinstance(block, Prepared):
            yield from _chunks(block, head, urls)
        else:
            for at in range(0, block.num_rows, BLOCK_ROWS):
                yield _one_by_one(block.slice(at, BLOCK_ROWS), head, urls, style)


def render_kept(blocks: Iterable[Prepared], urls: TableUrls, style: FileStyle) -> Iterator[bytes]:
    """Yield prepared lines as `render` does."""
    head = _head(style, urls.expires_at_ms)
    for block in blocks:
        yield from _chunks(block, head, urls)


def _halves(batch: FileBatch, prepare: Prepare) -> Iterator[Any]:
    """Prepare a few lines, so that they leave soon, then the others of the batch at once, which is cheaper."""
    for files in (batch.files.slice(0, BLOCK_ROWS), batch.files.slice(BLOCK_ROWS)):
        if files.num_rows:
            yield prepare(files) or files


def _chunks(lines: Prepared, head: bytes, urls: TableUrls) -> Iterator[bytes]:
    tails = _signed(lines.tails, lines.late, urls)
    for at in range(0, len(tails), BLOCK_ROWS):
        yield urls.signer.lines(head, lines.paths[at : at + BLOCK_ROWS], tails[at : at + BLOCK_ROWS])


def _one_by_one(files: Any, head: bytes, urls: TableUrls, style: FileStyle) -> bytes:
    """Render files of which some lie outside the table's root."""
    tails = _signed(*_tails(files, style), urls)
    paths: list[str] = files.column("path").to_pylist()
    return b"".join(head + urls.url(path).encode() + tail for path, tail in zip(paths, tails, strict=True))


def _signed(tails: list[bytes], late: Sequence[LateUrl], urls: TableUrls) -> list[bytes]:
    """Return the tails with the URLs that stand in them."""
    if not late:
        return tails
    complete = list(tails)
    for one in late:
        complete[one.row] = one.before + urls.url(one.path).encode() + one.after
    return complete


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


def _tails(batch: Any, style: FileStyle) -> tuple[list[bytes], tuple[LateUrl, ...]]:
    partitions = partition_values(batch.column("partitionValues"))
    statistics = _statistics(batch.column("stats"))
    sizes = integers(batch.column("size"))
    ids = _ids(octets(batch.column("path")), style.scheme)
    if style.response_format == "parquet":
        return [
            b'","id":"%b","partitionValues":%b,"size":%d%b}}\n' % fields
            for fields in zip(ids, partitions, sizes, statistics, strict=True)
        ], ()
    times = batch.column("modificationTime").to_pylist()
    changes = batch.column("dataChange").to_pylist()
    tracking = _row_tracking(batch)
    tails = [
        b'","partitionValues":%b,"size":%d,"modificationTime":%d,"dataChange":%b%b%b}},"id":"%b"}}\n'
        % (partition, size, time or 0, b"false" if change is False else b"true", stats, tracked, id_)
        for partition, size, time, change, stats, tracked, id_ in zip(
            partitions, sizes, times, changes, statistics, tracking, ids, strict=True
        )
    ]
    vectors = batch.column("deletionVector")
    late: list[LateUrl] = []
    if vectors.null_count < batch.num_rows:
        for row, vector in enumerate(vectors.to_pylist()):
            if vector is not None:
                # The tail up to the end of the add, the vector in between, and the wrapper's fields.
                start, end = tails[row][: -len(ids[row]) - _ID_FRAME], tails[row][-len(ids[row]) - _ID_FRAME :]
                tails[row], found = _with_vector(row, vector, start, end, style.scheme)
                late += [found] if found else []
    return tails, tuple(late)


_ID_FRAME = len(b'}},"id":""}}\n')
"""What surrounds the id at the end of a line in delta format."""


def _ids(paths: Sequence[bytes], scheme: FileIdHash) -> list[bytes]:
    if scheme == "parquet":
        return [md5(path, usedforsecurity=False).hexdigest().encode() for path in paths]
    return [sha256(path).hexdigest().encode() for path in paths]


def partition_values(column: Any) -> list[bytes]:
    """Return the JSON objects of a `map<string,string>` column; each distinct value is encoded once."""
    if (single := _one_key(column)) is not None:
        return single
    present = column.is_valid()
    found = partition_codes(column, present) if present.true_count == len(column) else None
    if found is None:
        return [_ascii_json(dict(pairs or ())) for pairs in column.to_pylist()]
    distinct = [_ascii_json(dict(pairs)) for pairs in found.distinct.to_pylist()]
    return [distinct[code] for code in integers(found.codes)]


def _one_key(column: Any) -> list[bytes] | None:
    """Render the values of a table with one partition column, as most have; None for others."""
    count = len(column)
    first = integers(column.offsets.slice(0, 1))[0] if count else 0
    # The children of a slice are those of the whole array.
    if integers(column.offsets) != list(range(first, first + count + 1)):
        return None
    names = column.keys.slice(first, count).unique()
    if len(names) != 1:
        return None
    items = column.items.slice(first, count)
    values = items.to_pylist() if items.null_count else texts(items)
    name = names[0].as_py()
    known = {value: _one_value(name, value) for value in set(values)}
    return [known[value] for value in values]


@lru_cache(maxsize=8192)
def _one_value(name: str, value: str | None) -> bytes:
    return _ascii_json({name: value})


def _statistics(column: Any) -> list[bytes]:
    """Return `,"stats":"..."` for each row, nothing where there are none."""
    lines = [b',"stats":' + _ascii_string(text) for text in texts(column)]
    if column.null_count:
        return [b"" if absent else line for line, absent in zip(lines, column.is_null().to_pylist(), strict=True)]
    return lines


def _ascii_string(text: str) -> bytes:
    # orjson leaves non-ASCII characters as they are; clients split lines at some of them.
    return orjson.dumps(text) if text.isascii() else json.dumps(text).encode()


def _ascii_json(value: Any) -> bytes:
    encoded = orjson.dumps(value)
    return encoded if encoded.isascii() else json.dumps(value, separators=(",", ":")).encode()


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


def _with_vector(
    row: int, vector: dict[str, Any], start: bytes, end: bytes, scheme: FileIdHash
) -> tuple[bytes, LateUrl | None]:
    """Put the `deletionVector` of a row between `start` and `end` of its tail.

    A vector in a file leaves as storage type `p` with a signed URL, which is late, and `deletionVectorFileId`; an
    inline one as it is (PROTOCOL.md, "File").
    """
    sizes = {"offset": vector["offset"]} if vector["offset"] is not None else {}
    sizes |= {"sizeInBytes": vector["sizeInBytes"], "cardinality": vector["cardinality"]}
    path = deletion_vectors.file_path(vector["storageType"], vector["pathOrInlineDv"])
    if path is None:
        inline = _ascii_json({"storageType": "i", "pathOrInlineDv": vector["pathOrInlineDv"]} | sizes)
        return start + b',"deletionVector":' + inline + end, None
    named = b'}},"deletionVectorFileId":"%b",' % file_id(path, scheme).encode()
    before = start + b',"deletionVector":{"storageType":"p","pathOrInlineDv":"'
    return b"", LateUrl(row, before, path, b'",' + _ascii_json(sizes)[1:] + named + end[len(b"}},") :])
