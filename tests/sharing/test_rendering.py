"""The fast renderer returns the same lines as the simple renderer of the protocol."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

import pyarrow as pa
import pytest
from contract.logs import z85
from deltaic.delta.scan.file_batches import FILE_SCHEMA, FileBatch, Position
from deltaic.errors import UnsupportedOperation
from deltaic.protocol import lines
from deltaic.protocol.capabilities import FileIdHash, ResponseFormat
from deltaic.protocol.wire_actions import FileAction, WireDeletionVector, file_id
from deltaic.sharing.audit_record import ResponseMetrics
from deltaic.sharing.lines.rendering import CHUNK_LINES, FileStyle, render
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.table_urls import TableUrls
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import tries
from msgspec.structs import replace

Row = dict[str, Any]

LOCATIONS = TableLocations.parse("s3://lake/folder/table", ["s3://other/more", "s3://lake/aside"])
STORE = StorageConfig(endpoint="http://127.0.0.1:9000", path_style=True)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ODD = "\u2028\u2029\u0085\x0b\x0c\x1c\"'\\/\u00fc\u6771\U0001f600%+=&?# "

TEXT = st.text(max_size=8) | st.text(st.sampled_from(ODD), max_size=6)
SEGMENT = (st.text(min_size=1, max_size=8) | st.text(st.sampled_from(ODD), min_size=1, max_size=6)).map(
    lambda text: text.replace("/", "_").replace("\x00", "_").replace("%", "%25")
)
SEGMENTS = st.lists(SEGMENT.filter(lambda text: text not in {".", ".."}), min_size=1, max_size=3)
RELATIVE = st.one_of(
    SEGMENTS.map("/".join).filter(lambda text: ":" not in text),
    SEGMENTS.map(lambda parts: quote("/".join(parts), safe="/=")),
    st.from_regex(r"date=2021-04-2[0-9]/part-0000[0-9]-[0-9a-f]{8}\.c000\.snappy\.parquet", fullmatch=True),
    st.sampled_from(["a=b/c%20d/e%2Bf.parquet", "a%253Db/x.parquet", "x/../y.parquet", "./z.parquet", "p=%2525/f"]),
)
PATH = st.one_of(
    RELATIVE,
    SEGMENTS.map(lambda parts: "s3://lake/folder/table/" + quote("/".join(parts), safe="/=")),
    SEGMENTS.map(lambda parts: "s3a://other/more/" + quote("/".join(parts), safe="/=")),
    SEGMENTS.map(lambda parts: "s3n://lake/aside/" + quote("/".join(parts), safe="/=")),
)
COUNT = st.integers(0, 2**31 - 1)
LONG = st.integers(0, 2**63 - 1)


@st.composite
def vectors(draw: st.DrawFn) -> Row:
    """Draw a descriptor of a deletion vector."""
    kind: Literal["u", "p", "i"] = draw(st.sampled_from(["u", "p", "i"]))
    name = uuid.UUID(int=draw(st.integers(0, 2**128 - 1)))
    path = {
        "u": draw(st.sampled_from(["", "ab", "Xy"])) + z85(name.bytes),
        "p": f"s3://lake/folder/table/deletion_vector_{name}.bin",
        "i": z85(name.bytes),
    }[kind]
    offset = None if kind == "i" else draw(st.none() | COUNT)
    sizes = {"sizeInBytes": draw(COUNT), "cardinality": draw(LONG)}
    return {"storageType": kind, "pathOrInlineDv": path, "offset": offset, **sizes}


ROW = st.fixed_dictionaries(
    {
        "path": PATH,
        "partitionValues": st.dictionaries(TEXT, st.none() | TEXT, max_size=3).map(lambda values: list(values.items())),
        "size": LONG,
        "modificationTime": st.none() | LONG,
        "stats": st.none() | TEXT | st.just('{"numRecords":3,"minValues":{"x":"\u2028"}}'),
        "deletionVector": st.none() | vectors(),
        "baseRowId": st.none() | LONG,
        "defaultRowCommitVersion": st.none() | LONG,
    }
)
SIMPLE = {
    "path": "date=2021-04-28/part-00000.parquet",
    "partitionValues": [("date", "2021-04-28")],
    "size": 573,
    "stats": '{"numRecords":1}',
}
FORMAT = st.sampled_from(["parquet", "delta"])


def batch_of(rows: list[Row]) -> FileBatch:
    files = pa.RecordBatch.from_pylist(rows, schema=FILE_SCHEMA)
    return FileBatch(files, Position("", 0, 0, 0), len(rows), None)


def urls() -> TableUrls:
    keys = Credentials("AKIAEXAMPLE", "secret", "session/token+with=signs")
    return TableUrls(LOCATIONS, STORE, keys, ttl=timedelta(hours=1), now=NOW)


def vector_path(vector: Row) -> str | None:
    """Return the file of a deletion vector (Delta protocol, "Derived Fields"), without the code under test."""
    if vector["storageType"] == "i":
        return None
    text: str = vector["pathOrInlineDv"]
    if vector["storageType"] == "p":
        return text
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    blocks = [text[-20:][at : at + 5] for at in range(0, 20, 5)]
    numbers = [sum(alphabet.index(char) * 85 ** (4 - index) for index, char in enumerate(block)) for block in blocks]
    name = uuid.UUID(bytes=b"".join(number.to_bytes(4, "big") for number in numbers))
    return f"{text[:-20]}/deletion_vector_{name}.bin".removeprefix("/")


def render_simply(row: Row, style: FileStyle) -> bytes:
    """Render one file with the simple renderer of the protocol."""
    signer = urls()
    vector = row.get("deletionVector")
    wire = None
    if vector is not None:
        path = vector_path(vector)
        wire = WireDeletionVector(
            storage_type="i" if path is None else "p",
            path_or_inline=vector["pathOrInlineDv"] if path is None else signer.url(path),
            size_in_bytes=vector["sizeInBytes"],
            cardinality=vector["cardinality"],
            offset=vector["offset"],
            file_id=None if path is None else file_id(path, style.scheme),
        )
    return lines.file(
        style.response_format,
        FileAction(
            kind="file",
            url=signer.url(row["path"]),
            id=file_id(row["path"], style.scheme),
            partition_values=dict.fromkeys(style.partition_columns) | dict(row["partitionValues"]),
            size=row["size"],
            stats=row.get("stats"),
            version=style.version,
            timestamp=style.timestamp,
            expiration=signer.expires_at_ms,
            modification_time=row.get("modificationTime") or 0,
            deletion_vector=wire,
            base_row_id=row.get("baseRowId"),
            default_row_commit_version=row.get("defaultRowCommitVersion"),
        ),
    )


def check(batch: FileBatch, rows: list[Row], style: FileStyle) -> None:
    metrics = ResponseMetrics()
    if style.response_format == "parquet" and any(row.get("deletionVector") for row in rows):
        with pytest.raises(UnsupportedOperation, match="deletion vector"):
            list(render(batch, urls(), style, metrics))
        with pytest.raises(UnsupportedOperation, match="deletion vector"):
            _ = [render_simply(row, style) for row in rows]
        return
    chunks = list(render(batch, urls(), style, metrics))
    assert all(chunk.isascii() and chunk.endswith(b"\n") for chunk in chunks)
    assert all(chunk.count(b"\n") <= CHUNK_LINES for chunk in chunks)
    rendered = b"".join(chunks).splitlines()
    assert rendered == b"".join(chunks).split(b"\n")[:-1]
    vectors = [row["deletionVector"] for row in rows if row.get("deletionVector")]
    assert (metrics.files or 0, metrics.bytes, metrics.deletion_vectors) == (
        len(rows),
        sum(row["size"] for row in rows),
        sum(vector_path(vector) is not None for vector in vectors),
    )
    assert [json.loads(line) for line in rendered] == [json.loads(render_simply(row, style)) for row in rows]


@settings(deadline=None, max_examples=tries(100))
@given(
    rows=st.lists(ROW, max_size=4),
    response_format=FORMAT,
    scheme=FORMAT,
    time_travel=st.none() | st.tuples(LONG, LONG),
    columns=st.lists(TEXT, max_size=2, unique=True).map(tuple),
)
@example(rows=[], response_format="parquet", scheme="parquet", time_travel=None, columns=("date",))
@example(rows=[SIMPLE, SIMPLE], response_format="parquet", scheme="parquet", time_travel=None, columns=("date", "hour"))
@example(
    rows=[SIMPLE | {"partitionValues": []}], response_format="delta", scheme="delta", time_travel=(0, 0), columns=()
)
def test_lines_equal_those_of_the_simple_renderer(
    rows: list[Row],
    response_format: ResponseFormat,
    scheme: FileIdHash,
    time_travel: tuple[int, int] | None,
    columns: tuple[str, ...],
) -> None:
    version, timestamp = time_travel if time_travel is not None else (None, None)
    full = [{"modificationTime": 0} | row for row in rows]
    check(batch_of(full), full, FileStyle(response_format, scheme, version, timestamp, columns))


@settings(deadline=None, max_examples=tries(25))
@given(rows=st.lists(ROW, min_size=3, max_size=6), response_format=FORMAT, data=st.data())
def test_slices_of_a_batch_render_as_their_rows(
    rows: list[Row], response_format: ResponseFormat, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(rows) - 1))
    length = data.draw(st.integers(0, len(rows) - start))
    style = FileStyle(response_format, response_format)
    batch = batch_of(rows)
    part = replace(batch, files=batch.files.slice(start, length), num_scanned=length)
    check(part, rows[start : start + length], style)


@pytest.mark.parametrize("response_format", ["parquet", "delta"])
def test_large_batches_are_rendered_in_chunks_and_in_order(response_format: ResponseFormat) -> None:
    rows = [
        SIMPLE | {"path": f"date=2021-04-28/part-{number:05d}.parquet", "size": number}
        for number in range(5 * CHUNK_LINES + 3)
    ]
    style = FileStyle(response_format, response_format)
    check(batch_of(rows), rows, style)
    counts = [chunk.count(b"\n") for chunk in render(batch_of(rows), urls(), style, ResponseMetrics())]
    assert counts == [CHUNK_LINES] * 5 + [3]


def test_statistics_are_omitted_on_request() -> None:
    (chunk,) = render(batch_of([SIMPLE]), urls(), FileStyle("parquet", "parquet"), ResponseMetrics())
    (short,) = render(batch_of([SIMPLE]), urls(), FileStyle("parquet", "parquet", statistics=False), ResponseMetrics())
    line = json.loads(chunk)
    assert line["file"].pop("stats") == SIMPLE["stats"]
    assert json.loads(short) == line


def test_urls_of_all_lines_expire_together() -> None:
    line = json.loads(
        next(iter(render(batch_of([SIMPLE]), urls(), FileStyle("parquet", "parquet"), ResponseMetrics())))
    )["file"]
    assert line["expirationTimestamp"] == int((NOW + timedelta(hours=1)).timestamp() * 1000)
    assert line["url"].startswith("http://127.0.0.1:9000/lake/folder/table/date%3D2021-04-28/part-00000.parquet?X-Amz-")
