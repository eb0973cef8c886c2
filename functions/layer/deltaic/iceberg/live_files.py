"""The live files of a version as entries of manifests: each known by a digest, encoded where that is asked for."""

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
    VectorPlace,
    data_body,
    digest,
    vector_body,
)
from deltaic.iceberg.refusals import misread_column
from deltaic.iceberg.table_schema import IcebergSchema
from deltaic.iceberg.table_version import MetadataContext, TableVersion
from deltaic.pruning.partition_facts import values

_MOST_NAMED: Final = 1_000
_MOST_KNOWN: Final = 100_000
"""Partitions that are kept as read, and as encoded."""


class LiveVector(msgspec.Struct, frozen=True):
    """A live file that has a deletion vector."""

    digest: bytes
    """Names file and vector."""
    uri: str
    partition: Partition
    vector: DeletionVector


_OfPartition = TypeVar("_OfPartition", ManifestEntry, LiveVector)


class _Batch(msgspec.Struct, frozen=True):
    rows: pa.RecordBatch
    uris: Sequence[str]
    digests: Sequence[bytes]


class LiveFiles:
    """The files of one version; raises TableUnreadable for a log that names one twice."""

    def __init__(self, context: MetadataContext, version: TableVersion, schema: IcebergSchema) -> None:
        self._store = context.store
        self._schema = schema
        self._metrics = FileMetrics(version.metadata, schema)
        self._partitions = _Partitions(schema)
        self._batches = []
        self._untold = 0
        self._version = version.version
        self._location = context.location
        for rows in version.files():
            uris = context.uris(rows.column("path"))
            self._batches.append(_Batch(rows, uris, [digest(self._location, uri) for uri in uris]))
        self.digests = frozenset(name for batch in self._batches for name in batch.digests)
        self.vectors = list(self._vectors())
        if len(self.digests) < sum(len(batch.digests) for batch in self._batches):
            raise TableUnreadable("the table's log contradicts itself: a file is live twice in one version")

    def some(self, wanted: frozenset[bytes]) -> Iterator[DataFile]:
        """Yield files of these digests as the log names them: all of a few, else some from everywhere."""
        every = len(wanted) // _MOST_NAMED + 1
        for batch in self._batches:
            if (rows := _chosen(batch, wanted)) is not None:
                rows = pa.array(rows.to_pylist()[::every], pa.uint64())
                taken = pc.take(batch.rows.column("path"), rows).to_pylist()
                yield from map(DataFile, taken, pc.take(batch.rows.column("size"), rows).to_pylist())

    def entries(self, wanted: frozenset[bytes]) -> list[ManifestEntry]:
        """Return the entries of data files, those of one partition beside each other, else in the log's order.

        Raises UnsupportedOperation for more files than can be looked at whose rows the log does not tell, and for a
        partition value that is none of its column's type.
        """
        found = [entry for batch in self._batches for entry in self._entries(batch, wanted)]
        return by_partition(found)

    def vector_entry(self, one: LiveVector, place: VectorPlace) -> ManifestEntry:
        """Return the entry of a deletion vector that lies somewhere."""
        deleted = one.vector.cardinality
        body = vector_body(one.uri, self._partitions.encoded(one.partition), deleted, place)
        return ManifestEntry(one.digest, one.partition, deleted, body)

    def _entries(self, batch: _Batch, wanted: frozenset[bytes]) -> Iterator[ManifestEntry]:
        rows = _chosen(batch, wanted)
        if rows is None:
            return
        chosen = rows.to_pylist()
        files = pa.RecordBatch.from_arrays(
            [pc.take(batch.rows.column(name), rows) for name in _COLUMNS], names=list(_COLUMNS)
        )
        counts, metrics = self._metrics.encode(files.column("stats"))
        sizes = files.column("size").to_pylist()
        rows_of = self._counted(counts, files.column("path"), sizes)
        partitions = self._partitions.of(files.column("partitionValues"))
        added_in = files.column("defaultRowCommitVersion").to_pylist()
        columns = zip(chosen, partitions, rows_of, sizes, metrics, added_in, strict=True)
        for at, partition, count, size, maps, added in columns:
            encoded = self._partitions.encoded(partition)
            recorded = added if added is not None and 0 <= added <= self._version else NOT_RECORDED
            body = data_body(batch.uris[at], encoded, count, size or 0, maps, added=recorded)
            yield ManifestEntry(batch.digests[at], partition, count, body)

    def _counted(self, counts: Sequence[int | None], paths: pa.Array, sizes: Sequence[int]) -> list[int]:
        """Fill in what statistics leave out."""
        unknown = [at for at, count in enumerate(counts) if count is None]
        self._untold += len(unknown)
        if unknown:
            check_countable(self._untold)
            names = paths.to_pylist()
            found = count_rows(self._store, [DataFile(names[at], sizes[at]) for at in unknown])
            told = dict(zip(unknown, found, strict=True))
            return [told[at] if count is None else count for at, count in enumerate(counts)]
        return [count for count in counts if count is not None]

    def _vectors(self) -> Iterator[LiveVector]:
        for batch in self._batches:
            column = batch.rows.column("deletionVector")
            if column.null_count == len(column):
                continue
            rows = pc.indices_nonzero(pc.is_valid(column))
            partitions = self._partitions.of(pc.take(batch.rows.column("partitionValues"), rows))
            described = pc.take(column, rows).to_pylist()
            for at, partition, row in zip(rows.to_pylist(), partitions, described, strict=True):
                vector = DeletionVector.of_row(row)
                uri = batch.uris[at]
                yield LiveVector(digest(self._location, f"{uri}\n{vector.unique_id}"), uri, partition, vector)


_COLUMNS: Final = ("path", "partitionValues", "size", "stats", "defaultRowCommitVersion")


def _chosen(batch: _Batch, wanted: frozenset[bytes]) -> pa.Array | None:
    if wanted.isdisjoint(batch.digests):
        return None
    rows = [at for at, name in enumerate(batch.digests) if name in wanted]
    return pa.array(rows, pa.uint64())


def by_partition(entries: list[_OfPartition]) -> list[_OfPartition]:
    """Return what has a partition in the order of their partitions, nulls first, so that a manifest has few of them."""
    partitions = {entry.partition for entry in entries}
    if len(partitions) < 2:  # noqa: PLR2004 -- one needs no order
        return entries
    order = {one: at for at, one in enumerate(sorted(partitions, key=_sort_key))}
    return sorted(entries, key=lambda entry: order[entry.partition])


def _sort_key(partition: Partition) -> tuple[Any, ...]:
    return tuple((value is not None, 0 if value is None else value) for value in partition)


class _Partitions:
    def __init__(self, schema: IcebergSchema) -> None:
        self._columns = schema.partitions
        self.encoded = lru_cache(_MOST_KNOWN)(PartitionEncoder(schema.partitions).encode)
        """Returns a partition as entries have it."""
        self._partition = lru_cache(_MOST_KNOWN)(self._read)

    def of(self, maps: pa.MapArray) -> list[Partition]:
        """Return the partition of each file."""
        if not self._columns:
            return [()] * len(maps)
        texts = [self._texts(maps, column.physical_name) for column in self._columns]
        return [self._partition(combination) for combination in zip(*texts, strict=True)]

    def _texts(self, maps: pa.MapArray, name: str) -> Sequence[str | None]:
        found = values(maps, name)
        if found is not None:
            texts: list[str | None] = found.to_pylist()
            return texts
        return [dict(pairs or ()).get(name) for pairs in maps.to_pylist()]

    def _read(self, texts: tuple[str | None, ...]) -> Partition:
        return tuple(map(_value, texts, self._columns))


def _value(text: str | None, column: Any) -> Any:
    try:
        return partition_value(text, column.type)
    except ValueError as wrong:
        raise misread_column([column.name], f"has a partition value that is no {wrong}") from None
