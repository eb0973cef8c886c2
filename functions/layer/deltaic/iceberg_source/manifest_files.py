"""Decode manifest lists, and manifests as batches of live files.

Each manifest is read only if its partition summaries do not exclude it, and decoded in pieces, so that the first files
of a large manifest are sent at once.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain
from math import isnan
from typing import Any, Final, NamedTuple, cast

import fastavro
import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.scan.file_batches import FILE_SCHEMA
from deltaic.iceberg.refusals import unshareable
from deltaic.iceberg_source.delta_schema import Path, column_error
from deltaic.iceberg_source.file_statistics import encode_statistics, partition_text, to_dict
from deltaic.iceberg_source.manifest_entries import Entries, EntryReader, Record, check_codec, entry_reader, join_blocks
from deltaic.pruning.values import ColumnType

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
"""Status of a file in the snapshot that wrote a manifest."""
_LIVE: Final = frozenset({EXISTING, ADDED})
_MOST_COLUMNS: Final = 100
"""Most columns that are expected in all files. Iceberg writes statistics of a table's first 100 columns by default."""
_FEW: Final = 500
"""Up to this number of files, a manifest is decoded without compiling an expression."""
_METRICS: Final = ("lower_bounds", "upper_bounds", "null_value_counts", "nan_value_counts")

DeleteKey = tuple[int, tuple[Any, ...]]
"""Data sequence number and partition of a data file, which decide which deletes apply to it."""


class SourceManifest(msgspec.Struct, frozen=True):
    """A manifest in a manifest list."""

    path: str
    """Path for TableStore."""
    spec_id: int
    is_deletes: bool
    sequence_number: int
    snapshot_id: int
    added: int
    """Number of files with the status ADDED; `existing` and `deleted` are those of the others."""
    existing: int
    deleted: int
    summaries: Sequence[Record]
    """For each partition field: `contains_null`, `lower_bound` and `upper_bound`."""
    length: int | None = None
    """Size of the manifest in bytes; None if the list lacks it."""

    @property
    def live(self) -> int:
        """Number of live files."""
        return self.added + self.existing


class ManifestPiece(NamedTuple):
    """Consecutive files of a manifest."""

    number: int
    files: pa.RecordBatch
    """Record batch with FILE_SCHEMA, without deletion vectors."""
    keys: Sequence[DeleteKey]
    is_last: bool


class TablePaths:
    """Translate absolute paths in Iceberg metadata to paths for TableStore and paths as in a Delta log."""

    def __init__(self, root: str) -> None:
        """Create a translation for the table at `root`, a URI without a slash at the end."""
        self._prefix = f"{root}/"

    def stored(self, uri: str) -> str:
        """Return a path for TableStore; raises UnsupportedOperation for a path that Delta clients would change."""
        path = re.sub("^s3[an]://", "s3://", uri)
        inside = path.removeprefix(self._prefix)
        if not {"", ".", ".."}.isdisjoint(inside.removeprefix("s3://").split("/")):
            reason = "the path of a file has an empty, '.' or '..' segment"
            raise unshareable(reason, "rewrite the table's files into a location without them", uri)
        return inside if inside != path else path.replace("%", "%25")

    def logged(self, uri: str) -> str:
        """Return a percent-encoded path as in a Delta log; raises the errors of `stored`."""
        inside = uri[len(self._prefix) - 1 :]
        is_usual = "%" not in inside and "//" not in inside and "/." not in inside and not inside.endswith("/")
        if is_usual and uri.startswith(self._prefix):
            return inside[1:]
        path = self.stored(uri)
        return path if path.startswith("s3://") else path.replace("%", "%25")


def decode_manifest_list(paths: TablePaths, content: bytes, summary: Mapping[str, str]) -> list[SourceManifest]:
    """Return the manifests of a snapshot, in the list's order; raises ValueError if it lacks files of the `summary`."""
    manifests = [
        SourceManifest(
            path=paths.stored(record["manifest_path"]),
            spec_id=record["partition_spec_id"],
            is_deletes=bool(record.get("content")),
            sequence_number=record.get("sequence_number") or 0,
            snapshot_id=record["added_snapshot_id"],
            # Older writers have other names.
            **{
                kind: record[f"{kind}_files_count" if f"{kind}_files_count" in record else f"{kind}_data_files_count"]
                for kind in ("added", "existing", "deleted")
            },
            summaries=record.get("partitions") or (),
            length=record.get("manifest_length"),
        )
        for record in _records(content)
    ]
    for kind, is_deletes in (("data", False), ("delete", True)):
        live = sum(manifest.live for manifest in manifests if manifest.is_deletes == is_deletes)
        if live < int(summary.get(f"total-{kind}-files", 0)):  # a truncated list can be a valid file
            raise ValueError(f"it lacks {kind} files that the snapshot has")
    return manifests


class ManifestReader(msgspec.Struct, frozen=True):
    """Reader of the files of data manifests, for one schema and one set of partition columns."""

    paths: TablePaths
    columns: Mapping[int, tuple[Path, ColumnType]]
    """As in DeltaSchema."""
    defaults: Mapping[int, Path]
    """As in DeltaSchema."""
    only_in_partitions: Collection[int]
    """Columns that some files can lack, because only the partition has the value, and clients read only the files."""
    partition_columns: Mapping[int, str]
    """Physical names of the partition columns."""
    specs: Mapping[int, Sequence[Mapping[str, Any]]]
    times: Mapping[int, int]
    """Commit times of snapshots."""

    def pieces(
        self, manifest: SourceManifest, content: bytes, statuses: Collection[int] = _LIVE, first: int = 0
    ) -> Iterator[ManifestPiece]:
        """Decode the files of a manifest in pieces, from piece number `first` on; at least one, which can be empty.

        Raises UnsupportedOperation for files that clients would misread, and ValueError for a truncated manifest.
        """
        _check_length(manifest, content)
        blocks = fastavro.block_reader(BytesIO(content))
        check_codec(blocks)
        many = manifest.live + manifest.deleted > _FEW
        reader = None
        for number, (encoded, count, is_last) in enumerate(join_blocks(blocks)):
            reader = reader or self._entry_reader(blocks, encoded)
            if number >= first:
                parts, decoded = [], 0
                for entries in reader.read(encoded, many=many):
                    selected = [status in statuses for status in entries.integers("status")]
                    decoded += len(selected)
                    kept = entries if all(selected) else entries.select(selected)
                    parts.append(self._convert(manifest, kept, reader))
                if decoded != count:
                    raise ValueError("a block has another number of entries than it declares")
                files = pa.concat_batches([files for files, _ in parts])
                yield ManifestPiece(number, files, [key for _, keys in parts for key in keys], is_last)

    def _entry_reader(self, blocks: Any, encoded: bytes) -> EntryReader:
        """Return a reader for the columns of this table and of the first entry in `encoded`."""
        file: Record = {}
        if encoded:
            example: Any = fastavro.schemaless_reader(BytesIO(encoded), blocks.writer_schema, None)
            file = example["data_file"]
        maps = [to_dict(file.get(name)) for name in ("column_sizes", "value_counts", *_METRICS)]
        keys = dict.fromkeys(chain(*maps))
        is_ascending = all([*each] == sorted(each) for each in maps)
        needs_counts = {*self.defaults, *self.only_in_partitions}
        keys |= dict.fromkeys(sorted(needs_counts.union(self.columns if len(self.columns) <= _MOST_COLUMNS else ())))
        names = (*_METRICS, "value_counts") if needs_counts else _METRICS
        return entry_reader(blocks.metadata["avro.schema"], tuple(sorted(keys) if is_ascending else keys), names)

    def _convert(
        self, manifest: SourceManifest, entries: Entries, reader: EntryReader
    ) -> tuple[pa.RecordBatch, Sequence[DeleteKey]]:
        """Return files as a batch with FILE_SCHEMA, and their keys."""
        if any(key is not None for key in entries.encoded("key_metadata")):
            raise _encrypted()
        for name in {value[1:].decode() for value in entries.encoded("file_format") if value}:
            if name.upper() != "PARQUET":
                raise unshareable(f"it has files in the format {name}", "rewrite these files to Parquet")
        encoded = entries.encoded("partition")
        partitions = {value: reader.partition(value or b"") for value in set(encoded)}
        sources = self._identity_columns(manifest)
        texts = {
            value: dict(zip(sources, map(partition_text, partition.values()), strict=True))
            for value, partition in partitions.items()
        }
        self._check_columns(entries, [texts[value] for value in encoded])
        pairs = [[(name, row[key]) for key, name in self.partition_columns.items()] for row in texts.values()]
        numbers = {value: number for number, value in enumerate(texts)}
        rows = pa.array([numbers[value] for value in encoded], pa.uint32())
        keys = {value: partition_key(partition) for value, partition in partitions.items()}
        sequence_numbers = [
            manifest.sequence_number if number is None else number for number in entries.integers("sequence_number")
        ]
        snapshot_ids = [number or manifest.snapshot_id for number in entries.integers("snapshot_id")]
        stored = {
            "path": [self.paths.logged((path or b"").decode()) for path in entries.encoded("file_path")],
            "partitionValues": pc.take(pa.array(pairs, FILE_SCHEMA.field("partitionValues").type), rows),
            "size": entries.integers("file_size_in_bytes"),
            "modificationTime": [self.times.get(snapshot_id, 0) for snapshot_id in snapshot_ids],
            "stats": self._statistics(entries),
        }
        missing = [None] * len(rows)
        arrays = [pa.array(stored.get(field.name, missing), field.type) for field in FILE_SCHEMA]
        files = pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)
        return files, list(zip(sequence_numbers, map(keys.__getitem__, encoded), strict=True))

    def _statistics(self, entries: Entries) -> pa.StringArray:
        columns = {key: column for key, column in self.columns.items() if key not in self.partition_columns}
        lower, upper = ({key: entries.bounds(name, key) for key in columns} for name in _METRICS[:2])
        nulls, nans = ({key: entries.integers((name, key)) for key in columns} for name in _METRICS[2:])
        return encode_statistics(entries.integers("record_count"), columns, (lower, upper, nulls, nans))

    def _check_columns(self, entries: Entries, partitions: Sequence[Mapping[int, str | None]]) -> None:
        """Raise UnsupportedOperation for a file that lacks a column whose value is elsewhere in the metadata."""
        reasons: dict[Path, str] = {}
        for key, path in self.defaults.items():
            if None in entries.encoded(("value_counts", key)):
                reasons[path] = "has an initial default"
        for key in self.only_in_partitions:
            counts = entries.encoded(("value_counts", key))
            if any(count is None and row.get(key) is not None for count, row in zip(counts, partitions, strict=True)):
                reasons[self.columns[key][0]] = "has its values only in the partitions of some files"
        for path, reason in reasons.items():
            result = "which would be read as null in files that lack the column"
            raise column_error(path, f"{reason}, {result}", "rewrite its files, with value counts of this column")

    def bounds(self, manifests: Sequence[SourceManifest]) -> pa.StringArray:
        """Return statistics of identity partition columns that are valid for all files of each manifest, as JSON."""
        summaries = [dict(zip(self._identity_columns(each), each.summaries, strict=False)) for each in manifests]
        lower, upper = (
            {key: [row.get(key, {}).get(bound) for row in summaries] for key in self.columns}
            for bound in ("lower_bound", "upper_bound")
        )
        nulls = {
            key: [0 if key in row and not row[key]["contains_null"] else None for row in summaries]
            for key in self.columns
        }
        return encode_statistics(None, self.columns, (lower, upper, nulls, {}))

    def _identity_columns(self, manifest: SourceManifest) -> list[int]:
        """Return the column of each partition field of a manifest; -1 for another transform than identity."""
        fields = self.specs[manifest.spec_id]
        return [field["source-id"] if field["transform"] == "identity" else -1 for field in fields]


def list_files(
    manifest: SourceManifest, content: bytes, statuses: Collection[int] = _LIVE
) -> Iterator[tuple[Record, int, int]]:
    """Yield the files of a manifest with these statuses, each with its inherited sequence number and snapshot id.

    Raises UnsupportedOperation for encrypted files, and ValueError for a truncated manifest: whole blocks of it would
    look complete.
    """
    _check_length(manifest, content)
    for entry in _records(content):
        if entry["status"] not in statuses:
            continue
        file: Record = entry["data_file"]
        if file.get("key_metadata") is not None:
            raise _encrypted()
        sequence_number = entry.get("sequence_number")
        yield (
            file,
            manifest.sequence_number if sequence_number is None else sequence_number,
            entry.get("snapshot_id") or manifest.snapshot_id,
        )


def partition_key(partition: Record) -> tuple[Any, ...]:
    """Return the values of a partition as a key, in which NaN equals NaN."""
    return tuple("NaN" if isinstance(value, float) and isnan(value) else value for value in partition.values())


def _check_length(manifest: SourceManifest, content: bytes) -> None:
    if manifest.length not in {None, len(content)}:
        raise ValueError("its length differs from that in the manifest list")


def _records(content: bytes) -> Iterator[Record]:
    reader = fastavro.reader(BytesIO(content))
    check_codec(reader)
    return cast("Iterator[Record]", reader)


def _encrypted() -> Exception:
    return unshareable("it has encrypted files, and recipients have no keys", "share a table without encryption")
