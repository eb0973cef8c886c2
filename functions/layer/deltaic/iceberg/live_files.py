"""Convert the files that a table version contains (live files) to manifest entries, identified by digests."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.deletion_vectors import DeletionVector
from deltaic.errors import TableUnreadable
from deltaic.iceberg.column_bounds import FileMetrics
from deltaic.iceberg.column_types import partition_value
from deltaic.iceberg.data_footers import DataFile, check_countable, count_rows
from deltaic.iceberg.manifests import (
    NOT_RECORDED,
    ManifestEntry,
    Partition,
    PartitionEncoder,
    VectorPosition,
    data_body,
    digest,
    vector_body,
)
from deltaic.iceberg.refusals import misread_column
from deltaic.iceberg.table_schema import IcebergSchema
from deltaic.iceberg.table_version import MetadataContext, TableVersion
from deltaic.pruning.partition_facts import values

_MAX_SAMPLE: Final = 1_000
_CACHED_PARTITIONS: Final = 100_000
"""Maximum number of partitions in the cache of parsed partitions, and in the cache of encoded partitions."""


class LiveVector(msgspec.Struct, frozen=True):
    """A live file that has a deletion vector."""

    digest: bytes
    """Digest that identifies the file together with its vector."""
    uri: str
    partition: Partition
    vector: DeletionVector


_Partitioned = TypeVar("_Partitioned", ManifestEntry, LiveVector)


class _Batch(msgspec.Struct, frozen=True):
    rows: pa.RecordBatch
    uris: Sequence[str]
    digests: Sequence[bytes]


class LiveFiles:
    """The live files of one version; raises TableUnreadable if the log contains two add actions for one file."""

    def __init__(self, context: MetadataContext, version: TableVersion, schema: IcebergSchema) -> None:
        self._store = context.store
        self._schema = schema
        self._metrics = FileMetrics(version.metadata, schema)
        self._partitions = _PartitionValues(schema)
        self._batches = []
        self._without_row_count = 0
        self._version = version.version
        self._location = context.location
        for rows in version.files():
            uris = context.uris(rows.column("path"))
            self._batches.append(_Batch(rows, uris, [digest(self._location, uri) for uri in uris]))
        self.digests = frozenset(name for batch in self._batches for name in batch.digests)
        self.vectors = list(self._read_vectors())
        if len(self.digests) < sum(len(batch.digests) for batch in self._batches):
            raise TableUnreadable("the table's log is inconsistent: a version has two add actions for the same file")

    def sample(self, digests: frozenset[bytes]) -> Iterator[DataFile]:
        """Yield the files with these digests, or an evenly spaced sample of at most about a thousand."""
        step = len(digests) // _MAX_SAMPLE + 1
        for batch in self._batches:
            if (rows := _rows_with_digest(batch, digests)) is not None:
                rows = pa.array(rows.to_pylist()[::step], pa.uint64())
                paths = pc.take(batch.rows.column("path"), rows).to_pylist()
                yield from map(DataFile, paths, pc.take(batch.rows.column("size"), rows).to_pylist())

    def entries(self, digests: frozenset[bytes]) -> list[ManifestEntry]:
        """Return the manifest entries of data files, sorted by partition, otherwise in the log's order.

        Raises UnsupportedOperation if too many files have no row count in the log, or if a partition value does not
        have its column's type.
        """
        return by_partition([entry for batch in self._batches for entry in self._entries(batch, digests)])

    def vector_entry(self, file: LiveVector, position: VectorPosition) -> ManifestEntry:
        """Return the manifest entry of a deletion vector that is at this position in a Puffin file."""
        deleted_rows = file.vector.cardinality
        body = vector_body(file.uri, self._partitions.encoded(file.partition), deleted_rows, position)
        return ManifestEntry(file.digest, file.partition, deleted_rows, body)

    def _entries(self, batch: _Batch, digests: frozenset[bytes]) -> Iterator[ManifestEntry]:
        rows = _rows_with_digest(batch, digests)
        if rows is None:
            return
        row_numbers = rows.to_pylist()
        files = pa.RecordBatch.from_arrays(
            [pc.take(batch.rows.column(name), rows) for name in _COLUMNS], names=list(_COLUMNS)
        )
        counts, metrics = self._metrics.encode(files.column("stats"))
        sizes = files.column("size").to_pylist()
        row_counts = self._complete_counts(counts, files.column("path"), sizes)
        partitions = self._partitions.partitions_of(files.column("partitionValues"))
        added_versions = files.column("defaultRowCommitVersion").to_pylist()
        columns = zip(row_numbers, partitions, row_counts, sizes, metrics, added_versions, strict=True)
        for row, partition, count, size, metric_maps, added_in in columns:
            encoded = self._partitions.encoded(partition)
            recorded = added_in if added_in is not None and 0 <= added_in <= self._version else NOT_RECORDED
            body = data_body(batch.uris[row], encoded, count, size or 0, metric_maps, added=recorded)
            yield ManifestEntry(batch.digests[row], partition, count, body)

    def _complete_counts(self, counts: Sequence[int | None], paths: pa.Array, sizes: Sequence[int]) -> list[int]:
        """Return row counts, read from file footers where the log has no statistics."""
        missing = [row for row, count in enumerate(counts) if count is None]
        self._without_row_count += len(missing)
        if missing:
            check_countable(self._without_row_count)
            raw_paths = paths.to_pylist()
            read_counts = count_rows(self._store, [DataFile(raw_paths[row], sizes[row]) for row in missing])
            counts_by_row = dict(zip(missing, read_counts, strict=True))
            return [counts_by_row[row] if count is None else count for row, count in enumerate(counts)]
        return [count for count in counts if count is not None]

    def _read_vectors(self) -> Iterator[LiveVector]:
        for batch in self._batches:
            column = batch.rows.column("deletionVector")
            if column.null_count == len(column):
                continue
            rows = pc.indices_nonzero(pc.is_valid(column))
            partitions = self._partitions.partitions_of(pc.take(batch.rows.column("partitionValues"), rows))
            descriptors = pc.take(column, rows).to_pylist()
            for row, partition, descriptor in zip(rows.to_pylist(), partitions, descriptors, strict=True):
                vector = DeletionVector.of_row(descriptor)
                uri = batch.uris[row]
                yield LiveVector(digest(self._location, f"{uri}\n{vector.unique_id}"), uri, partition, vector)


_COLUMNS: Final = ("path", "partitionValues", "size", "stats", "defaultRowCommitVersion")


def _rows_with_digest(batch: _Batch, digests: frozenset[bytes]) -> pa.Array | None:
    if digests.isdisjoint(batch.digests):
        return None
    rows = [row for row, digest in enumerate(batch.digests) if digest in digests]
    return pa.array(rows, pa.uint64())


def by_partition(entries: list[_Partitioned]) -> list[_Partitioned]:
    """Sort manifest entries or vectors by partition, nulls first, so that each manifest has few partitions."""
    partitions = {entry.partition for entry in entries}
    if len(partitions) < 2:  # noqa: PLR2004 -- a single partition needs no order
        return entries
    order = {partition: position for position, partition in enumerate(sorted(partitions, key=_sort_key))}
    return sorted(entries, key=lambda entry: order[entry.partition])


def _sort_key(partition: Partition) -> tuple[Any, ...]:
    return tuple((value is not None, 0 if value is None else value) for value in partition)


class _PartitionValues:
    def __init__(self, schema: IcebergSchema) -> None:
        self._columns = schema.partitions
        self.encoded = lru_cache(_CACHED_PARTITIONS)(PartitionEncoder(schema.partitions).encode)
        self._partition = lru_cache(_CACHED_PARTITIONS)(self._read)

    def partitions_of(self, maps: pa.MapArray) -> list[Partition]:
        """Return the partition of each file, from its `partitionValues` map."""
        if not self._columns:
            return [()] * len(maps)
        texts = [self._texts(maps, column.physical_name) for column in self._columns]
        return [self._partition(combination) for combination in zip(*texts, strict=True)]

    def _texts(self, maps: pa.MapArray, name: str) -> Sequence[str | None]:
        column = values(maps, name)
        if column is not None:
            texts: list[str | None] = column.to_pylist()
            return texts
        return [dict(pairs or ()).get(name) for pairs in maps.to_pylist()]

    def _read(self, texts: tuple[str | None, ...]) -> Partition:
        return tuple(map(_value, texts, self._columns))


def _value(text: str | None, column: Any) -> Any:
    try:
        return partition_value(text, column.type)
    except ValueError as expected:
        raise misread_column([column.name], f"has a partition value that is not of type {expected}") from None
