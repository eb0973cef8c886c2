"""File lines, made fast: Arrow batches of live files in, whole NDJSON chunks of signed lines out.

What a line says is decided by `protocol.lines`, of which this is the fast equal (tests compare the two): everything
that does not depend on the signature is prepared once, column by column, and may be kept (line_cache).
"""

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import repeat
from typing import Any, Final

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta import deletion_vectors
from deltaic.delta.scan.file_batches import FileBatch
from deltaic.delta.scan.partition_codes import partition_codes
from deltaic.protocol.capabilities import FileIdHash, ResponseFormat
from deltaic.protocol.parquet_lines import deletion_vector_error
from deltaic.protocol.wire_actions import file_id
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.lines.cells import integers, octets, texts
from deltaic.sharing.lines.line_cache import VersionLines
from deltaic.sharing.lines.prepared_lines import LateUrl, Prepared
from deltaic.sharing.lines.shown_columns import all_shown_statistics, shown_values
from deltaic.storage.table_urls import TableUrls

try:
    from _md5 import md5  # type: ignore[import-not-found]  # CPython's own: for a path it takes half of OpenSSL's time
except ImportError:
    from hashlib import md5

CHUNK_LINES: Final = 256
"""The most lines of a chunk: with a session token half a megabyte, which a processor's own cache holds until it is
compressed and sent."""

_PREPARED_ROWS: Final = 1024
"""Files whose lines are made column by column at once: more is hardly cheaper, and for nothing where a page ends."""


class FileStyle(msgspec.Struct, frozen=True):
    """What is the same for all file lines of one answer."""

    response_format: ResponseFormat
    scheme: FileIdHash
    version: int | None = None
    """With `timestamp`: written where the snapshot was asked for by version or timestamp."""
    timestamp: int | None = None
    partition_columns: tuple[str, ...] = ()
    """Those that every line names, null where the log leaves one out: in parquet format, where Spark looks them up."""
    statistics: bool = True
    """Whether lines have those that the log has."""
    shown_columns: frozenset[str] | None = None
    """Columns that partition values and statistics may name; None for all."""
    restricted: bool = False
    """Whether something is kept back, so that row ids, which count rows of other files, are left out."""


def render(
    batch: FileBatch, urls: TableUrls, style: FileStyle, metrics: ResponseMetrics, kept: VersionLines | None = None
) -> Iterator[bytes]:
    """Yield the lines of some live files, in their order, in chunks of at most CHUNK_LINES, and count them."""
    prefix = _prefix(style, urls.expires_at_ms)
    if kept is None:
        for at in range(0, batch.files.num_rows, _PREPARED_ROWS):
            yield from _passing(batch.files.slice(at, _PREPARED_ROWS), prefix, urls, style, metrics)
        return
    for block in kept.blocks(batch):
        lines = block.lines
        if lines is None:
            lines = _prepared(block.files, urls, style)
            kept.keep(block, lines)
        if lines is None:
            yield from _passing(block.files, prefix, urls, style, metrics)
        else:
            yield from _chunks(lines, prefix, urls, metrics)


def render_kept(
    blocks: Iterable[Prepared], urls: TableUrls, style: FileStyle, metrics: ResponseMetrics
) -> Iterator[bytes]:
    """Yield prepared lines as `render` does."""
    prefix = _prefix(style, urls.expires_at_ms)
    for block in blocks:
        yield from _chunks(block, prefix, urls, metrics)


def _prepared(files: pa.RecordBatch, urls: TableUrls, style: FileStyle) -> Prepared | None:
    """Return the lines without their signatures; None where a file lies outside the table's root."""
    paths = urls.relative(files.column("path"))
    return None if paths is None else _lines(paths, files, style)


def _lines(paths: list[bytes], files: pa.RecordBatch, style: FileStyle) -> Prepared:
    suffixes, late = _suffixes(files, style)
    return Prepared(paths, suffixes, array("q", integers(files.column("size"))), late)


def _chunks(lines: Prepared, prefix: bytes, urls: TableUrls, metrics: ResponseMetrics) -> Iterator[bytes]:
    suffixes = _signed(lines.suffixes, lines.late, urls)
    for at in range(0, len(suffixes), CHUNK_LINES):
        end = at + CHUNK_LINES
        sizes = lines.sizes[at:end]
        metrics.add(len(sizes), sum(sizes))
        metrics.deletion_vectors += sum(at <= one.row < end for one in lines.late)
        yield urls.signer.lines(prefix, lines.paths[at:end], suffixes[at:end])


def _passing(
    files: pa.RecordBatch, prefix: bytes, urls: TableUrls, style: FileStyle, metrics: ResponseMetrics
) -> Iterator[bytes]:
    """Render files whose lines are not kept: without the detour over a suffix for each."""
    paths = urls.relative(files.column("path"))
    if paths is None:
        for at in range(0, files.num_rows, CHUNK_LINES):
            some = files.slice(at, CHUNK_LINES)
            suffixes, late = _suffixes(some, style)
            metrics.deletion_vectors += len(late)
            metrics.add(some.num_rows, sum(integers(some.column("size"))))
            yield _one_by_one(some, prefix, _signed(suffixes, late, urls), urls)
        return
    if style.response_format == "delta" and files.column("deletionVector").null_count < files.num_rows:
        yield from _chunks(_lines(paths, files, style), prefix, urls, metrics)
        return
    columns, sizes = _columns(files, style), array("q", integers(files.column("size")))
    for at in range(0, len(paths), CHUNK_LINES):
        part = slice(at, at + CHUNK_LINES)
        metrics.add(len(sizes[part]), sum(sizes[part]))
        tails = (column if isinstance(column, bytes) else column[part] for column in columns)
        yield urls.signer.lines(prefix, paths[part], *tails)


def _one_by_one(files: pa.RecordBatch, prefix: bytes, suffixes: list[bytes], urls: TableUrls) -> bytes:
    paths: list[str] = files.column("path").to_pylist()
    return b"".join(prefix + urls.url(path).encode() + tail for path, tail in zip(paths, suffixes, strict=True))


def _signed(suffixes: list[bytes], late: Sequence[LateUrl], urls: TableUrls) -> list[bytes]:
    if not late:
        return suffixes
    complete = list(suffixes)
    for one in late:
        complete[one.row] = one.before + urls.url(one.path).encode() + one.after
    return complete


def _prefix(style: FileStyle, expires_at_ms: int) -> bytes:
    """Return what stands before the URL; what is the same for all lines goes here, so that suffixes can be kept."""
    common = f'"expirationTimestamp":{expires_at_ms}'
    if style.version is not None:
        common += f',"version":{style.version}'
    if style.timestamp is not None:
        common += f',"timestamp":{style.timestamp}'
    if style.response_format == "parquet":
        return f'{{"file":{{{common},"url":"'.encode()
    return f'{{"file":{{{common},"deltaSingleAction":{{"add":{{"path":"'.encode()


def _columns(batch: pa.RecordBatch, style: FileStyle) -> list[bytes | list[bytes]]:
    """Return what follows the URLs, but for deletion vectors, in columns: the same for all lines, or one for each."""
    values = shown_values(batch.column("partitionValues"), style.shown_columns)
    partitions = partition_values(values, style.partition_columns)
    shown = all_shown_statistics(batch.column("stats"), style.shown_columns) if style.statistics else None
    frame, statistics = (b"", b"") if shown is None else _statistics(shown)
    sizes = integers(batch.column("size"))
    ids = _ids(octets(batch.column("path")), style.scheme)
    if style.response_format == "parquet":
        if batch.column("deletionVector").null_count < batch.num_rows:
            raise deletion_vector_error()
        sized = [b',"size":%d%b' % (size, frame) for size in sizes]
        return [b'","id":"', ids, b'","partitionValues":', partitions, sized, statistics, b"}}\n"]
    times = integers(batch.column("modificationTime"))
    sized = [
        b',"size":%d,"modificationTime":%d,"dataChange":true%b' % (size, time, frame)
        for size, time in zip(sizes, times, strict=True)
    ]
    tracking = b"" if style.restricted else _row_tracking(batch)
    return [b'","partitionValues":', partitions, sized, statistics, tracking, b'}},"id":"', ids, b'"}}\n']


def _suffixes(batch: pa.RecordBatch, style: FileStyle) -> tuple[list[bytes], tuple[LateUrl, ...]]:
    columns = _columns(batch, style)
    count = batch.num_rows
    rows = zip(*(repeat(one, count) if isinstance(one, bytes) else one for one in columns), strict=True)
    suffixes = [b"".join(row) for row in rows]
    vectors = batch.column("deletionVector")
    late: list[LateUrl] = []
    if style.response_format == "delta" and vectors.null_count < count:
        for row, vector in enumerate(vectors.to_pylist()):
            if vector is not None:
                # The suffix up to the end of the add, the vector in between, and the wrapper's fields.
                end = len(suffixes[row]) - _ID_END[style.scheme]
                suffixes[row], found = _with_vector(row, vector, suffixes[row][:end], suffixes[row][end:], style.scheme)
                late += [found] if found else []
    return suffixes, tuple(late)


_END = len(b'}},"id":""}}\n')
_ID_END: Final[dict[FileIdHash, int]] = {"parquet": _END + 32, "delta": _END + 64}
"""How much of a line in delta format is its end with the id, a digest in hex."""


def _ids(paths: Sequence[bytes], scheme: FileIdHash) -> list[bytes]:
    if scheme == "parquet":
        return [md5(path, usedforsecurity=False).hexdigest().encode() for path in paths]
    return [sha256(path).hexdigest().encode() for path in paths]


def partition_values(column: pa.MapArray, named: tuple[str, ...] = ()) -> list[bytes]:
    """Return the JSON objects of a `map<string,string>` column, null for what `named` has and a map leaves out.

    Each distinct value is encoded once.
    """
    absent = dict.fromkeys(named)
    if (single := _one_key(column, absent)) is not None:
        return single
    present = pc.is_valid(column)
    found = partition_codes(column, present) if present.true_count == len(column) else None
    if found is None:
        return [_partition(pairs, absent) for pairs in column.to_pylist()]
    distinct = [_partition(pairs, absent) for pairs in found.distinct.to_pylist()]
    return [distinct[code] for code in integers(found.codes)]


def _partition(pairs: Sequence[tuple[str, str | None]] | None, absent: dict[str, None]) -> bytes:
    values = dict(pairs or ())
    return _ascii_json(values | {name: None for name in absent if name not in values})


def _one_key(column: pa.MapArray, absent: dict[str, None]) -> list[bytes] | None:
    """Render the values of a table with one partition column, as most have; None for others."""
    count = len(column)
    first = integers(column.offsets.slice(0, 1))[0] if count else 0
    # The children of a slice are those of the whole array.
    if integers(column.offsets) != list(range(first, first + count + 1)):
        return None
    names = pc.unique(column.keys.slice(first, count))
    if len(names) != 1 or not absent.keys() <= {names[0].as_py()}:
        return None
    items = column.items.slice(first, count)
    values = items.to_pylist() if items.null_count else texts(items)
    known = _one_column(names[0].as_py())
    return [known[value] for value in values]


class _Encoded(dict[str | None, bytes]):
    """The values of one partition column as JSON objects, each made when first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __missing__(self, value: str | None) -> bytes:
        if len(self) >= _MOST_VALUES:
            self.clear()
        encoded = self[value] = _ascii_json({self._name: value})
        return encoded


_MOST_VALUES: Final = 8192
_one_column = lru_cache(maxsize=64)(_Encoded)


def _statistics(column: pa.StringArray) -> tuple[bytes, bytes | list[bytes]]:
    """Return what stands before each row's statistics, and those as JSON strings; nothing where there are none."""
    before = b',"stats":'
    encoded = [_ascii_string(text) for text in texts(column)]
    if not column.null_count:
        return before, encoded
    absent = pc.is_null(column).to_pylist()
    return b"", [b"" if none else before + text for text, none in zip(encoded, absent, strict=True)]


_encode: Final = msgspec.json.Encoder().encode


def _ascii_string(text: str) -> bytes:
    # msgspec leaves non-ASCII characters as they are; clients split lines at some of them.
    return _encode(text) if text.isascii() else json.dumps(text).encode()


def _ascii_json(value: Any) -> bytes:
    encoded = _encode(value)
    return encoded if encoded.isascii() else json.dumps(value, separators=(",", ":")).encode()


def _row_tracking(batch: pa.RecordBatch) -> bytes | list[bytes]:
    """Return `,"baseRowId":..,"defaultRowCommitVersion":..` for each row, nothing where rows are not tracked."""
    first, second = batch.column("baseRowId"), batch.column("defaultRowCommitVersion")
    if first.null_count == second.null_count == batch.num_rows:
        return b""
    return [
        (b"" if base is None else b',"baseRowId":%d' % base)
        + (b"" if commit is None else b',"defaultRowCommitVersion":%d' % commit)
        for base, commit in zip(first.to_pylist(), second.to_pylist(), strict=True)
    ]


def _with_vector(
    row: int, vector: dict[str, Any], start: bytes, end: bytes, scheme: FileIdHash
) -> tuple[bytes, LateUrl | None]:
    """Put the `deletionVector` of a row between `start` and `end` of its suffix.

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
