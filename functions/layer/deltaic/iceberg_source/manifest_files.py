"""Decode manifest lists, and manifests as batches of live files.

Each manifest is read only if its partition summaries do not exclude it, and decoded in pieces, so that the first files
of a large manifest are sent at once.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from io import BytesIO
from math import isnan
from typing import Any, Final, NamedTuple

import fastavro
import msgspec
import pyarrow as pa

from deltaic.delta.scan.file_batches import FILE_SCHEMA
from deltaic.iceberg.refusals import unshareable
from deltaic.iceberg_source.delta_schema import Path, column_error
from deltaic.iceberg_source.file_statistics import encode_statistics, partition_text, to_dict
from deltaic.pruning.values import ColumnType

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
"""Status of a file in the snapshot that wrote a manifest."""
_LIVE: Final = frozenset({EXISTING, ADDED})
_PIECE: Final = 1024
_CODECS: Final = frozenset({"null", "deflate"})
"""Compressions of Avro files that need no further package."""
_METRICS: Final = ("lower_bounds", "upper_bounds", "null_value_counts", "nan_value_counts")

Record = dict[str, Any]
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
    """Consecutive live files of a manifest."""

    files: pa.RecordBatch
    """Record batch with FILE_SCHEMA, without deletion vectors."""
    keys: Sequence[DeleteKey]


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
        self, manifest: SourceManifest, content: bytes, statuses: Collection[int] = _LIVE
    ) -> Iterator[ManifestPiece]:
        """Decode files of a manifest in pieces; raises UnsupportedOperation for files that clients would misread."""
        columns = {key: column for key, column in self.columns.items() if key not in self.partition_columns}
        sources = self._identity_columns(manifest)
        rows: list[tuple[Record, DeleteKey]] = []
        for file, sequence_number, snapshot_id in list_files(manifest, content, statuses):
            if file["file_format"].upper() != "PARQUET":
                raise unshareable(f"it has files in the format {file['file_format']}", "rewrite these files to Parquet")
            values = dict(zip(sources, map(partition_text, file["partition"].values()), strict=True))
            self._check_columns(file, values)
            metrics = [to_dict(file.get(name)) for name in _METRICS]
            add = {
                "path": self.paths.logged(file["file_path"]),
                "partitionValues": [(name, values[key]) for key, name in self.partition_columns.items()],
                "size": file["file_size_in_bytes"],
                "modificationTime": self.times.get(snapshot_id, 0),
                "stats": encode_statistics(file["record_count"], columns, metrics),
            }
            rows.append((add, (sequence_number, partition_key(file))))
            if len(rows) == _PIECE:
                yield _piece(rows)
                rows = []
        if rows:
            yield _piece(rows)

    def _check_columns(self, file: Record, values: Mapping[int, str | None]) -> None:
        """Raise UnsupportedOperation for a file that lacks a column whose value is elsewhere in the metadata."""
        if not self.defaults and not self.only_in_partitions:
            return
        counts = to_dict(file.get("value_counts"))
        reasons = {path: "has an initial default" for key, path in self.defaults.items() if key not in counts}
        for key in self.only_in_partitions:
            if values.get(key) is not None and key not in counts:
                reasons[self.columns[key][0]] = "has its values only in the partitions of some files"
        for path, reason in reasons.items():
            result = "which would be read as null in files that lack the column"
            raise column_error(path, f"{reason}, {result}", "rewrite its files, with value counts of this column")

    def bounds(self, manifest: SourceManifest) -> str:
        """Return statistics of the identity partition columns that are valid for all files of a manifest, as JSON."""
        summaries = dict(zip(self._identity_columns(manifest), manifest.summaries, strict=False))
        lower = {key: summary.get("lower_bound") for key, summary in summaries.items()}
        upper = {key: summary.get("upper_bound") for key, summary in summaries.items()}
        nulls = {key: 0 for key, summary in summaries.items() if not summary["contains_null"]}
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
    if manifest.length not in {None, len(content)}:
        raise ValueError("its length differs from that in the manifest list")
    for entry in _records(content):
        if entry["status"] not in statuses:
            continue
        file: Record = entry["data_file"]
        if file.get("key_metadata") is not None:
            raise unshareable("it has encrypted files, and recipients have no keys", "share a table without encryption")
        sequence_number = entry.get("sequence_number")
        yield (
            file,
            manifest.sequence_number if sequence_number is None else sequence_number,
            entry.get("snapshot_id") or manifest.snapshot_id,
        )


def partition_key(file: Record) -> tuple[Any, ...]:
    """Return the partition of a data file or delete file, in which NaN equals NaN."""
    return tuple("NaN" if isinstance(value, float) and isnan(value) else value for value in file["partition"].values())


def _records(content: bytes) -> Iterator[Record]:
    reader: Any = fastavro.reader(BytesIO(content))
    if reader.codec not in _CODECS:
        remedy = "set the property write.avro.compression-codec to gzip and rewrite its manifests"
        raise unshareable(f"its manifests are compressed with {reader.codec}", remedy)
    return iter(reader)


def _piece(rows: Sequence[tuple[Record, DeleteKey]]) -> ManifestPiece:
    adds, keys = zip(*rows, strict=True)
    return ManifestPiece(pa.RecordBatch.from_pylist(adds, FILE_SCHEMA), keys)
