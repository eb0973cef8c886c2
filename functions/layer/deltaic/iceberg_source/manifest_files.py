"""Decode manifest lists, and manifests as batches of live files.

Each manifest is read only if its partition summaries do not exclude it, and decoded in pieces, so that the first files
of a large manifest are sent at once.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from math import isnan
from typing import Any, Final, cast

import fastavro
import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.scan.file_batches import FILE_SCHEMA
from deltaic.iceberg.refusals import unshareable
from deltaic.iceberg_source.delta_schema import Path, column_error
from deltaic.iceberg_source.file_statistics import encode_statistics, partition_text
from deltaic.iceberg_source.manifest_entries import Entries, EntryReader, Record, check_codec
from deltaic.pruning.values import ColumnType

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
"""Status of a file in the snapshot that wrote a manifest."""
_LIVE: Final = frozenset({EXISTING, ADDED})
_METRICS: Final = ("lower_bounds", "upper_bounds", "null_value_counts", "nan_value_counts")

_UNUSUAL: Final = "%|^[/.]|/[/.]|/$|^$"
"""Expression for paths in a table that TablePaths changes or refuses."""

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

    def check_count(self, entries: int) -> None:
        """Raise ValueError if a manifest has fewer entries: whole blocks of a truncated one look complete."""
        if entries < self.live + self.deleted:
            raise ValueError("it has fewer files than the manifest list counts")


class ManifestPiece(msgspec.Struct, frozen=True, dict=True):
    """Consecutive files of a manifest."""

    number: int
    files: pa.RecordBatch
    """Record batch with FILE_SCHEMA, without deletion vectors."""
    encoded_keys: Sequence[tuple[Any, Any, Sequence[Any]]]
    """Sequence numbers of some files, the index of each file's partition, and the partitions that have this index."""
    is_last: bool

    @cached_property
    def keys(self) -> Sequence[DeleteKey]:
        """Keys of the files."""
        return [
            (number, partitions[at])
            for numbers, indexes, partitions in self.encoded_keys
            for number, at in zip(numbers.to_pylist(), indexes.to_pylist(), strict=True)
        ]


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
        path = self.stored(uri)
        return path if path.startswith("s3://") else path.replace("%", "%25")

    def all_logged(self, uris: Any) -> Any:
        """Return encoded paths as an array of paths as in a Delta log; raises the errors of `stored`."""
        inside = pc.binary_slice(uris, len(self._prefix.encode()), 1 << 31)  # Arrow requires an end
        is_usual = pc.and_not(pc.starts_with(uris, self._prefix), pc.match_substring_regex(inside, _UNUSUAL))
        if is_usual.true_count == len(uris):
            return pc.cast(inside, pa.string())
        return pa.array(map(self.logged, pc.cast(uris, pa.string()).to_pylist()), pa.string())


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
        keys = dict.fromkeys(_METRICS, self.columns.keys() - self.partition_columns.keys())
        reader = EntryReader(content, keys | {"value_counts": {*self.defaults, *self.only_in_partitions}})
        for number, encoded, count, is_last in reader.pieces(first):
            parts, decoded = [], 0
            for entries in reader.read(encoded, count):
                decoded += entries.number
                selected = pc.is_in(entries.values("status"), pa.array(statuses, pa.int64()))
                kept = entries if selected.true_count == entries.number else entries.select(selected)
                parts.append(self._convert(manifest, kept, reader))
            if decoded != count:
                raise ValueError("a block has another number of entries than it declares")
            if is_last:
                manifest.check_count(reader.count)
            batches = [files for files, _ in parts]
            files = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            yield ManifestPiece(number, files, [keys for _, keys in parts], is_last)

    def _convert(self, manifest: SourceManifest, entries: Entries, reader: EntryReader) -> tuple[pa.RecordBatch, Any]:
        """Return files as a batch with FILE_SCHEMA, and their encoded keys."""
        if entries.values("key_metadata").null_count < entries.number:
            raise _encrypted()
        for name in pc.unique(entries.values("file_format")).to_pylist():
            if name is not None and name.upper() != b"PARQUET":
                raise unshareable(f"it has files in the format {name.decode()}", "rewrite these files to Parquet")
        partitions, of_files = _distinct(entries.values("partition"), reader.partition)
        sources = self._identity_columns(manifest)
        texts = [dict(zip(sources, map(partition_text, each.values()), strict=True)) for each in partitions]
        self._check_columns(entries, texts, of_files)
        pairs = [[(name, row[key]) for key, name in self.partition_columns.items()] for row in texts]
        numbers = pc.coalesce(entries.values("sequence_number"), manifest.sequence_number)
        times, of_times = _distinct(
            entries.values("snapshot_id"), lambda number: self.times.get(number or manifest.snapshot_id, 0)
        )
        stored = {
            "path": self.paths.all_logged(entries.values("file_path")),
            "partitionValues": pc.take(pa.array(pairs, FILE_SCHEMA.field("partitionValues").type), of_files),
            "size": entries.values("file_size_in_bytes"),
            "modificationTime": pc.take(pa.array(times, pa.int64()), of_times),
            "stats": self._statistics(entries),
        }
        arrays = [stored.get(field.name, pa.nulls(entries.number, field.type)) for field in FILE_SCHEMA]
        files = pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)
        return files, (numbers, of_files, list(map(partition_key, partitions)))

    def _statistics(self, entries: Entries) -> pa.StringArray:
        columns = {key: column for key, column in self.columns.items() if key not in self.partition_columns}
        metrics = [
            {key: entries.columns[name, key] for key in columns if (name, key) in entries.columns} for name in _METRICS
        ]
        return encode_statistics(entries.number, entries.values("record_count"), columns, metrics)

    def _check_columns(self, entries: Entries, partitions: Sequence[Mapping[int, str | None]], of_files: Any) -> None:
        """Raise UnsupportedOperation for a file that lacks a column whose value is elsewhere in the metadata."""
        reasons: dict[Path, str] = {}
        for key, path in self.defaults.items():
            if entries.values(("value_counts", key)).null_count:
                reasons[path] = "has an initial default"
        for key in self.only_in_partitions:
            has_value = pc.take(pa.array([row.get(key) is not None for row in partitions], pa.bool_()), of_files)
            if pc.and_(has_value, pc.is_null(entries.values(("value_counts", key)))).true_count:
                reasons[self.columns[key][0]] = "has its values only in the partitions of some files"
        for path, reason in reasons.items():
            result = "which would be read as null in files that lack the column"
            raise column_error(path, f"{reason}, {result}", "rewrite its files, with value counts of this column")

    def bounds(self, manifests: Sequence[SourceManifest]) -> pa.StringArray:
        """Return statistics of identity partition columns that are valid for all files of each manifest, as JSON."""
        summaries = [dict(zip(self._identity_columns(each), each.summaries, strict=False)) for each in manifests]
        lower, upper = (
            {key: pa.array([row.get(key, {}).get(bound) for row in summaries], pa.binary()) for key in self.columns}
            for bound in ("lower_bound", "upper_bound")
        )
        nulls = {
            key: pa.array(
                [0 if key in row and not row[key]["contains_null"] else None for row in summaries], pa.int64()
            )
            for key in self.columns
        }
        return encode_statistics(len(manifests), None, self.columns, (lower, upper, nulls, {}))

    def _identity_columns(self, manifest: SourceManifest) -> list[int]:
        """Return the column of each partition field of a manifest; -1 for another transform than identity."""
        fields = self.specs[manifest.spec_id]
        return [field["source-id"] if field["transform"] == "identity" else -1 for field in fields]


def list_files(
    manifest: SourceManifest, content: bytes, statuses: Collection[int] = _LIVE
) -> Iterator[tuple[Record, int, int]]:
    """Yield the files of a manifest with these statuses, each with its inherited sequence number and snapshot id.

    Raises UnsupportedOperation for encrypted files, and ValueError for a truncated manifest.
    """
    _check_length(manifest, content)
    count = 0
    for entry in _records(content):
        count += 1
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
    manifest.check_count(count)


def _distinct(values: Any, convert: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Return the converted distinct values, and the index of each value among them."""
    encoded = pc.dictionary_encode(values, "encode")
    return list(map(convert, encoded.dictionary.to_pylist())), encoded.indices


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
