"""Write Iceberg manifests and manifest lists: the data files and deletion vectors of a version.

Iceberg specification, "Manifests" and "Manifest Lists". All entries have the same sequence number, so that
versions with the same files can share a manifest. An entry has the snapshot id of the version that added its file, or
an id that no document lists: ClickHouse reads a file with that snapshot's schema, and would drop newer columns.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isnan
from typing import Any, Final, NamedTuple

import msgspec

from deltaic.iceberg import avro
from deltaic.iceberg.column_types import Value, iceberg_type
from deltaic.iceberg.table_schema import IcebergSchema, PartitionColumn

FIRST_SNAPSHOT: Final = 10**12
"""Number added to a version to get its snapshot id, because clients treat 0 as no snapshot."""
NOT_RECORDED: Final = -1
"""Placeholder version of files for which the log does not record the version that added them."""
_ENTRY_FORMAT: Final = 2
_VECTOR_FORMAT: Final = 3

Partition = tuple[Value | None, ...]
"""Values of the partition columns, in the order of the partition spec."""


class ManifestEntry(NamedTuple):
    """An encoded manifest entry: one data file or deletion vector."""

    digest: bytes
    """Digest that identifies the file, or the file together with its deletion vector."""
    partition: Partition
    rows: int
    body: bytes


class ListedManifest(msgspec.Struct, frozen=True, array_like=True):
    """A stored manifest, as manifest lists and the file index list it."""

    key: str
    """Object key, relative to the location."""
    length: int
    rows: int
    summary: bytes
    """Encoded summary of the partitions of its entries, for the manifest list."""
    digests: bytes
    """Concatenated digests of its entries, `DIGEST` bytes each."""
    is_deletes: bool = False

    @property
    def files(self) -> int:
        """Number of files that the manifest lists."""
        return len(self.digests) // DIGEST


DIGEST: Final = 16
_STATUS_ADDED: Final = avro.integer(1)
_DATA, _DELETES = avro.integer(0), avro.integer(1)
_SEQUENCE_NUMBERS: Final = (avro.PRESENT + avro.integer(1)) * 2
"""Encoded data and file sequence numbers of all entries, which are 1."""
_PARQUET, _PUFFIN = avro.text("PARQUET"), avro.text("PUFFIN")
_NO_METRICS: Final = avro.NULL * 3


def digest(location: str, file: str) -> bytes:
    """Return the digest that identifies a file in the file index of a metadata location."""
    return hashlib.blake2b(f"{location}\n{file}".encode(), digest_size=DIGEST).digest()


@lru_cache(maxsize=1024)
def _entry_head(added: int) -> bytes:
    return _STATUS_ADDED + avro.PRESENT + avro.integer(FIRST_SNAPSHOT + added) + _SEQUENCE_NUMBERS


def data_body(  # noqa: PLR0913 -- the fields of one entry
    uri: str, partition: bytes, rows: int, size: int, metrics: bytes, *, added: int
) -> bytes:
    """Encode the manifest entry of a data file; `added` is the version that added it, or NOT_RECORDED."""
    described = (_DATA, avro.text(uri), _PARQUET, partition, avro.integer(rows), avro.integer(size), metrics)
    return b"".join((_entry_head(added), *described))


class VectorPosition(NamedTuple):
    """Position of a deletion vector in a Puffin file."""

    file_uri: str
    file_size: int
    offset: int
    length: int


def vector_body(uri: str, partition: bytes, deleted: int, position: VectorPosition) -> bytes:
    """Encode the manifest entry of a deletion vector; `uri` is that of its data file."""
    start = (_entry_head(NOT_RECORDED), _DELETES, avro.text(position.file_uri), _PUFFIN, partition)
    target = (avro.integer(deleted), avro.integer(position.file_size), _NO_METRICS, avro.PRESENT, avro.text(uri))
    location = (avro.PRESENT, avro.integer(position.offset), avro.PRESENT, avro.integer(position.length))
    return b"".join((*start, *target, *location))


class PartitionEncoder:
    """Encoder of the partitions of manifest entries and of their summaries."""

    def __init__(self, columns: Sequence[PartitionColumn]) -> None:
        self._writers = [iceberg_type(column.type).encode_partition for column in columns]
        self._bounds = [iceberg_type(column.type).encode_bound for column in columns]

    def encode(self, partition: Partition) -> bytes:
        """Encode the partition of a manifest entry."""
        return b"".join(
            avro.NULL if value is None else avro.PRESENT + write(value)
            for write, value in zip(self._writers, partition, strict=True)
        )

    def summary(self, partitions: Sequence[Partition]) -> bytes:
        """Encode the summary of each partition column over all partitions of a manifest, as an optional array."""
        if not self._bounds:
            return avro.NULL
        columns = zip(self._bounds, zip(*set(partitions), strict=True), strict=True)
        return avro.PRESENT + avro.items([_field_summary(write, values) for write, values in columns])


def _field_summary(write: Callable[[Any], bytes], values: Sequence[Any]) -> bytes:
    present = [value for value in values if value is not None]
    numbers = [value for value in present if not (isinstance(value, float) and isnan(value))]
    has_null, has_nan = len(present) < len(values), len(numbers) < len(present)
    limits = (min(numbers), max(numbers)) if numbers else ()
    bounds = b"".join(avro.PRESENT + avro.data(write(limit)) for limit in limits) or avro.NULL * 2
    return (b"\x01" if has_null else b"\x00") + avro.PRESENT + (b"\x01" if has_nan else b"\x00") + bounds


class ManifestWriter:
    """Writer of manifests and manifest lists with one schema."""

    def __init__(self, schema: IcebergSchema, location: str, put: Callable[[str, bytes], None]) -> None:
        self._put = put
        self._location = location
        self._spec_id = schema.spec["spec-id"]
        self._partitions = PartitionEncoder(schema.partitions)
        self._metadata = {
            "schema": json.dumps(schema.schema),
            "schema-id": str(schema.schema["schema-id"]),
            "partition-spec": json.dumps(schema.spec["fields"]),
            "partition-spec-id": str(self._spec_id),
        }
        fields = [
            avro.optional(f"p{number}", iceberg_type(column.type, column.field_id).avro, column.field_id)
            for number, column in enumerate(schema.partitions)
        ]
        self._partition_type = avro.record("r102", fields)

    def manifest(self, entries: Sequence[ManifestEntry], *, is_deletes: bool = False) -> ListedManifest:
        """Write a manifest with these entries, and return its description for manifest lists."""
        metadata = {
            **self._metadata,
            "format-version": str(_VECTOR_FORMAT if is_deletes else _ENTRY_FORMAT),
            "content": "deletes" if is_deletes else "data",
        }
        body = b"".join([entry.body for entry in entries])
        schema = _entry_schema(self._partition_type, is_deletes=is_deletes)
        key, length = self._store("m", "avro", avro.container(schema, metadata, len(entries), body))
        return ListedManifest(
            key,
            length,
            sum(entry.rows for entry in entries),
            self._partitions.summary([entry.partition for entry in entries]),
            b"".join([entry.digest for entry in entries]),
            is_deletes,
        )

    def manifest_list(self, version: int, manifests: Sequence[ListedManifest], format_version: int) -> tuple[str, int]:
        """Write the manifest list of a version; return its object key and the row count of its data files."""
        rows, lines = 0, []
        for manifest in manifests:
            lines.append(self._line(manifest, first_row=rows if format_version >= _VECTOR_FORMAT else None))
            rows += 0 if manifest.is_deletes else manifest.rows
        metadata = {
            "snapshot-id": str(FIRST_SNAPSHOT + version),
            "parent-snapshot-id": "null",
            "sequence-number": str(version + 1),
            "format-version": str(format_version),
        }
        content = avro.container(_list_schema(format_version), metadata, len(lines), b"".join(lines))
        return self._store("l", "avro", content)[0], rows

    def _line(self, manifest: ListedManifest, first_row: int | None) -> bytes:
        uri = f"{self._location}/{manifest.key}"
        head = avro.text(uri) + avro.integer(manifest.length) + avro.integer(self._spec_id)
        content = _DELETES if manifest.is_deletes else _DATA
        numbers = (1, 1, FIRST_SNAPSHOT + NOT_RECORDED, manifest.files, 0, 0, manifest.rows, 0, 0)
        line = head + content + b"".join(map(avro.integer, numbers)) + manifest.summary
        if first_row is None:
            return line
        return line + (avro.NULL if manifest.is_deletes else avro.PRESENT + avro.integer(first_row))

    def _store(self, folder: str, suffix: str, content: bytes) -> tuple[str, int]:
        key = content_key(folder, suffix, content)
        self._put(key, content)
        return key, len(content)


def content_key(folder: str, suffix: str, content: bytes) -> str:
    """Return the object key for some content, whose name is a hash of the content."""
    return f"{folder}/{hashlib.sha256(content).hexdigest()[:32]}.{suffix}"


def _entry_schema(partition: Mapping[str, Any], *, is_deletes: bool) -> dict[str, Any]:
    file = [
        avro.field("content", "int", 134),
        avro.field("file_path", "string", 100),
        avro.field("file_format", "string", 101),
        avro.field("partition", partition, 102),
        avro.field("record_count", "long", 103),
        avro.field("file_size_in_bytes", "long", 104),
        _map_field("null_value_counts", 110, 121, "long"),
        _map_field("lower_bounds", 125, 126, "bytes"),
        _map_field("upper_bounds", 128, 129, "bytes"),
    ]
    if is_deletes:
        file += [
            avro.optional("referenced_data_file", "string", 143),
            avro.optional("content_offset", "long", 144),
            avro.optional("content_size_in_bytes", "long", 145),
        ]
    fields = [
        avro.field("status", "int", 0),
        avro.optional("snapshot_id", "long", 1),
        avro.optional("sequence_number", "long", 3),
        avro.optional("file_sequence_number", "long", 4),
        avro.field("data_file", avro.record("r2", file), 2),
    ]
    return avro.record("manifest_entry", fields)


def _map_field(name: str, field_id: int, key_id: int, values: str) -> dict[str, Any]:
    """Return the schema of a map from field ids to `values`, which Avro encodes as an array of pairs."""
    pair = avro.record(
        f"k{key_id}_v{key_id + 1}", [avro.field("key", "int", key_id), avro.field("value", values, key_id + 1)]
    )
    return avro.optional(name, {"type": "array", "logicalType": "map", "items": pair}, field_id)


def _list_schema(format_version: int) -> dict[str, Any]:
    summary = avro.record(
        "r508",
        [
            avro.field("contains_null", "boolean", 509),
            avro.optional("contains_nan", "boolean", 518),
            avro.optional("lower_bound", "bytes", 510),
            avro.optional("upper_bound", "bytes", 511),
        ],
    )
    fields = [
        avro.field("manifest_path", "string", 500),
        avro.field("manifest_length", "long", 501),
        avro.field("partition_spec_id", "int", 502),
        avro.field("content", "int", 517),
        avro.field("sequence_number", "long", 515),
        avro.field("min_sequence_number", "long", 516),
        avro.field("added_snapshot_id", "long", 503),
        avro.field("added_files_count", "int", 504),
        avro.field("existing_files_count", "int", 505),
        avro.field("deleted_files_count", "int", 506),
        avro.field("added_rows_count", "long", 512),
        avro.field("existing_rows_count", "long", 513),
        avro.field("deleted_rows_count", "long", 514),
        avro.optional("partitions", {"type": "array", "element-id": 508, "items": summary}, 507),
    ]
    if format_version >= _VECTOR_FORMAT:
        fields.append(avro.optional("first_row_id", "long", 520))
    return avro.record("manifest_file", fields)
