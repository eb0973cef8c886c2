"""Render Arrow batches of files quickly as chunks of NDJSON lines with signed URLs.

The lines are the same as those of `protocol.lines` (tests compare them). All parts of the lines except the signatures
are rendered column by column and can be cached (`line_cache`).
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
from deltaic.sharing.lines.prepared_lines import PreparedLines, VectorUrl
from deltaic.sharing.lines.shown_columns import all_shown_statistics, shown_values
from deltaic.storage.table_urls import TableUrls

try:
    from _md5 import md5  # type: ignore[import-not-found]  # CPython's own: twice as fast as OpenSSL for a path
except ImportError:
    from hashlib import md5

CHUNK_LINES: Final = 256
"""Most lines of a chunk: at half a megabyte, with session tokens, it stays in the processor's cache until sent."""

_PREPARED_ROWS: Final = 1024
"""Most files to render together: more would hardly be faster, and be wasted if the page ends earlier."""


class FileStyle(msgspec.Struct, frozen=True):
    """Format of all file lines in one response."""

    response_format: ResponseFormat
    scheme: FileIdHash
    version: int | None = None
    """Version in all lines, with `timestamp`; None if the client requests no specific version or timestamp."""
    timestamp: int | None = None
    partition_columns: tuple[str, ...] = ()
    """Keys of partition values in parquet format; a column that the log omits is null, because Spark expects it."""
    statistics: bool = True
    """Whether lines contain the min/max statistics of the log."""
    shown_columns: frozenset[str] | None = None
    """Columns that partition values and statistics may contain; None for all."""
    filtered: bool = False
    """Whether the table is filtered: if so, lines omit row ids, which would reveal the number of hidden rows."""


def render(
    batch: FileBatch, urls: TableUrls, style: FileStyle, metrics: ResponseMetrics, cache: VersionLines | None = None
) -> Iterator[bytes]:
    """Yield the signed lines of a batch of files, in chunks of at most CHUNK_LINES, and count them in `metrics`."""
    prefix = _prefix(style, urls.expires_at_ms)
    if cache is None:
        for at in range(0, batch.files.num_rows, _PREPARED_ROWS):
            yield from _render_uncached(batch.files.slice(at, _PREPARED_ROWS), prefix, urls, style, metrics)
        return
    for block in cache.blocks(batch):
        lines = block.lines
        if lines is None:
            lines = _prepare_lines(block.files, urls, style)
            cache.store(block, lines)
        if lines is None:
            yield from _render_uncached(block.files, prefix, urls, style, metrics)
        else:
            yield from _sign_chunks(lines, prefix, urls, metrics)


def render_prepared(
    blocks: Iterable[PreparedLines], urls: TableUrls, style: FileStyle, metrics: ResponseMetrics
) -> Iterator[bytes]:
    """Sign and yield prepared lines, in the same chunks as `render`."""
    prefix = _prefix(style, urls.expires_at_ms)
    for block in blocks:
        yield from _sign_chunks(block, prefix, urls, metrics)


def _prepare_lines(files: pa.RecordBatch, urls: TableUrls, style: FileStyle) -> PreparedLines | None:
    """Return the lines of files without signatures; None if a file is outside the table's root."""
    paths = urls.relative(files.column("path"))
    return None if paths is None else _build_lines(paths, files, style)


def _build_lines(paths: list[bytes], files: pa.RecordBatch, style: FileStyle) -> PreparedLines:
    suffixes, vector_urls = _suffixes(files, style)
    return PreparedLines(paths, suffixes, array("q", integers(files.column("size"))), vector_urls)


def _sign_chunks(lines: PreparedLines, prefix: bytes, urls: TableUrls, metrics: ResponseMetrics) -> Iterator[bytes]:
    suffixes = _sign_suffixes(lines.suffixes, lines.vector_urls, urls)
    for at in range(0, len(suffixes), CHUNK_LINES):
        end = at + CHUNK_LINES
        sizes = lines.sizes[at:end]
        metrics.add(len(sizes), sum(sizes))
        metrics.deletion_vectors += sum(at <= suffix.row < end for suffix in lines.vector_urls)
        yield urls.signer.lines(prefix, lines.paths[at:end], suffixes[at:end])


def _render_uncached(
    files: pa.RecordBatch, prefix: bytes, urls: TableUrls, style: FileStyle, metrics: ResponseMetrics
) -> Iterator[bytes]:
    """Render lines that are not cached, which is faster because no separate suffix for each line is necessary."""
    paths = urls.relative(files.column("path"))
    if paths is None:
        for at in range(0, files.num_rows, CHUNK_LINES):
            part = files.slice(at, CHUNK_LINES)
            suffixes, vector_urls = _suffixes(part, style)
            metrics.deletion_vectors += len(vector_urls)
            metrics.add(part.num_rows, sum(integers(part.column("size"))))
            yield _render_each(part, prefix, _sign_suffixes(suffixes, vector_urls, urls), urls)
        return
    if style.response_format == "delta" and files.column("deletionVector").null_count < files.num_rows:
        yield from _sign_chunks(_build_lines(paths, files, style), prefix, urls, metrics)
        return
    columns, sizes = _columns(files, style), array("q", integers(files.column("size")))
    for at in range(0, len(paths), CHUNK_LINES):
        rows = slice(at, at + CHUNK_LINES)
        metrics.add(len(sizes[rows]), sum(sizes[rows]))
        tails = (column if isinstance(column, bytes) else column[rows] for column in columns)
        yield urls.signer.lines(prefix, paths[rows], *tails)


def _render_each(files: pa.RecordBatch, prefix: bytes, suffixes: list[bytes], urls: TableUrls) -> bytes:
    paths: list[str] = files.column("path").to_pylist()
    return b"".join(prefix + urls.url(path).encode() + tail for path, tail in zip(paths, suffixes, strict=True))


def _sign_suffixes(suffixes: list[bytes], vector_urls: Sequence[VectorUrl], urls: TableUrls) -> list[bytes]:
    if not vector_urls:
        return suffixes
    complete = list(suffixes)
    for suffix in vector_urls:
        complete[suffix.row] = suffix.before + urls.url(suffix.path).encode() + suffix.after
    return complete


def _prefix(style: FileStyle, expires_at_ms: int) -> bytes:
    """Return the start of every line, up to the URL, with all values that differ between requests."""
    common = f'"expirationTimestamp":{expires_at_ms}'
    if style.version is not None:
        common += f',"version":{style.version}'
    if style.timestamp is not None:
        common += f',"timestamp":{style.timestamp}'
    if style.response_format == "parquet":
        return f'{{"file":{{{common},"url":"'.encode()
    return f'{{"file":{{{common},"deltaSingleAction":{{"add":{{"path":"'.encode()


def _columns(batch: pa.RecordBatch, style: FileStyle) -> list[bytes | list[bytes]]:
    """Return the parts of lines after the URL, except deletion vectors: one value for all lines, or one for each."""
    values = shown_values(batch.column("partitionValues"), style.shown_columns)
    partitions = partition_values(values, style.partition_columns)
    statistics_column = all_shown_statistics(batch.column("stats"), style.shown_columns) if style.statistics else None
    frame, statistics = (b"", b"") if statistics_column is None else _statistics(statistics_column)
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
    tracking = b"" if style.filtered else _row_tracking(batch)
    return [b'","partitionValues":', partitions, sized, statistics, tracking, b'}},"id":"', ids, b'"}}\n']


def _suffixes(batch: pa.RecordBatch, style: FileStyle) -> tuple[list[bytes], tuple[VectorUrl, ...]]:
    columns = _columns(batch, style)
    count = batch.num_rows
    rows = zip(*(repeat(part, count) if isinstance(part, bytes) else part for part in columns), strict=True)
    suffixes = [b"".join(row) for row in rows]
    vectors = batch.column("deletionVector")
    vector_urls: list[VectorUrl] = []
    if style.response_format == "delta" and vectors.null_count < count:
        for row, vector in enumerate(vectors.to_pylist()):
            if vector is not None:
                # Insert the vector between the fields of the add and those of its wrapper.
                end = len(suffixes[row]) - _ID_END[style.scheme]
                suffixes[row], url = _with_vector(row, vector, suffixes[row][:end], suffixes[row][end:], style.scheme)
                vector_urls += [url] if url else []
    return suffixes, tuple(vector_urls)


_END = len(b'}},"id":""}}\n')
_ID_END: Final[dict[FileIdHash, int]] = {"parquet": _END + 32, "delta": _END + 64}
"""Length of the end of a line in delta format after the nested action, with the file id as hex digest."""


def _ids(paths: Sequence[bytes], scheme: FileIdHash) -> list[bytes]:
    if scheme == "parquet":
        return [md5(path, usedforsecurity=False).hexdigest().encode() for path in paths]
    return [sha256(path).hexdigest().encode() for path in paths]


def partition_values(column: pa.MapArray, columns: tuple[str, ...] = ()) -> list[bytes]:
    """Encode a `map<string,string>` column as JSON objects, with null for missing keys of `columns`.

    Each distinct value is encoded once.
    """
    absent = dict.fromkeys(columns)
    if (single := _single_column_values(column, absent)) is not None:
        return single
    present = pc.is_valid(column)
    encoded = partition_codes(column, present) if present.true_count == len(column) else None
    if encoded is None:
        return [_partition(pairs, absent) for pairs in column.to_pylist()]
    distinct = [_partition(pairs, absent) for pairs in encoded.distinct.to_pylist()]
    return [distinct[code] for code in integers(encoded.codes)]


def _partition(pairs: Sequence[tuple[str, str | None]] | None, absent: dict[str, None]) -> bytes:
    values = dict(pairs or ())
    return _ascii_json(values | {name: None for name in absent if name not in values})


def _single_column_values(column: pa.MapArray, absent: dict[str, None]) -> list[bytes] | None:
    """Encode maps that all have the same single key as JSON objects; return None for other maps."""
    count = len(column)
    first = integers(column.offsets.slice(0, 1))[0] if count else 0
    # The children of a slice are those of the complete array.
    if integers(column.offsets) != list(range(first, first + count + 1)):
        return None
    names = pc.unique(column.keys.slice(first, count))
    if len(names) != 1 or not absent.keys() <= {names[0].as_py()}:
        return None
    items = column.items.slice(first, count)
    values = items.to_pylist() if items.null_count else texts(items)
    encoded = _encoded_values(names[0].as_py())
    return [encoded[value] for value in values]


class _EncodedValues(dict[str | None, bytes]):
    """Cache of the values of one partition column as JSON objects, filled on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __missing__(self, value: str | None) -> bytes:
        if len(self) >= _MAX_VALUES:
            self.clear()
        encoded = self[value] = _ascii_json({self._name: value})
        return encoded


_MAX_VALUES: Final = 8192
_encoded_values = lru_cache(maxsize=64)(_EncodedValues)


def _statistics(column: pa.StringArray) -> tuple[bytes, bytes | list[bytes]]:
    """Return the JSON key `stats`, and each file's value; if any is null, an empty key, and values with key."""
    before = b',"stats":'
    encoded = [_ascii_string(text) for text in texts(column)]
    if not column.null_count:
        return before, encoded
    absent = pc.is_null(column).to_pylist()
    return b"", [b"" if is_null else before + text for text, is_null in zip(encoded, absent, strict=True)]


_encode: Final = msgspec.json.Encoder().encode


def _ascii_string(text: str) -> bytes:
    # msgspec does not escape non-ASCII characters, and clients split lines at some of them.
    return _encode(text) if text.isascii() else json.dumps(text).encode()


def _ascii_json(value: Any) -> bytes:
    encoded = _encode(value)
    return encoded if encoded.isascii() else json.dumps(value, separators=(",", ":")).encode()


def _row_tracking(batch: pa.RecordBatch) -> bytes | list[bytes]:
    """Return `,"baseRowId":..,"defaultRowCommitVersion":..` for each file; empty without row tracking."""
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
) -> tuple[bytes, VectorUrl | None]:
    """Return a line's suffix: `start`, the file's `deletionVector` field, `end`.

    A vector in its own file gets storage type `p`, `deletionVectorFileId`, and a URL when URLs are signed. An inline
    vector is unchanged (PROTOCOL.md, "File").
    """
    sizes = {"offset": vector["offset"]} if vector["offset"] is not None else {}
    sizes |= {"sizeInBytes": vector["sizeInBytes"], "cardinality": vector["cardinality"]}
    path = deletion_vectors.file_path(vector["storageType"], vector["pathOrInlineDv"])
    if path is None:
        inline = _ascii_json({"storageType": "i", "pathOrInlineDv": vector["pathOrInlineDv"]} | sizes)
        return start + b',"deletionVector":' + inline + end, None
    file_id_field = b'}},"deletionVectorFileId":"%b",' % file_id(path, scheme).encode()
    before = start + b',"deletionVector":{"storageType":"p","pathOrInlineDv":"'
    return b"", VectorUrl(row, before, path, b'",' + _ascii_json(sizes)[1:] + file_id_field + end[len(b"}},") :])
