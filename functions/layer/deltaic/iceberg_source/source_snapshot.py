"""A version of an Iceberg table as a Delta snapshot."""

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import Any, Final, Self

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from deltaic import compute as pc
from deltaic.delta.actions import Metadata, Protocol, parse_metadata, parse_protocol
from deltaic.delta.checksum import Totals
from deltaic.delta.features import DELETION_VECTORS
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.scan.add_rows import replace_column
from deltaic.delta.scan.file_batches import DELETION_VECTOR, FileBatch, Position
from deltaic.delta.scan.file_order import Scan
from deltaic.delta.scan.row_group_cache import RowGroupCache
from deltaic.delta.snapshot import BATCH_ROWS, Snapshot
from deltaic.delta.store import TableStore
from deltaic.errors import MalformedRequest, UnsupportedOperation
from deltaic.iceberg_source.delete_files import DeleteFiles
from deltaic.iceberg_source.delta_schema import NAME_MAPPING, ColumnHistory, DeltaSchema
from deltaic.iceberg_source.manifest_entries import PIECE_SIZES
from deltaic.iceberg_source.manifest_files import (
    ManifestPiece,
    ManifestReader,
    SourceManifest,
    TablePaths,
    decode_manifest_list,
)
from deltaic.iceberg_source.source_metadata import SourceMetadata, SourceSnapshot, decoding
from deltaic.lru import Lru

_WITH_VECTORS: Final = 256
"""Files of a batch if the version has deletes, because vectors are in memory."""
_AT_ONCE: Final = 8
_SMALL_AT_ONCE: Final = 64
"""Maximum number of manifests that are read in parallel: of any size, and if together they fit into _TOGETHER bytes."""
_TOGETHER: Final = 64 << 20
_BYTES_PER_FILE: Final = 200
_SNAPSHOT_BYTES: Final = 100_000
_BYTES_PER_COLUMN: Final = 1500
_BYTES_PER_MANIFEST: Final = 2000
_BYTES_PER_DELETE: Final = 800


class IcebergSource(msgspec.Struct, frozen=True, dict=True):
    """An Iceberg table at one state of its metadata."""

    store: TableStore
    """Reads metadata; `files` reads delete files."""
    files: TableStore
    paths: TablePaths
    metadata: SourceMetadata
    cache: Lru[Hashable, Any]
    identity: str
    """Key of the table in the cache."""

    @cached_property
    def history(self) -> ColumnHistory:
        """All names of the columns, which the versions share."""
        return ColumnHistory(self.metadata)


class IcebergSnapshot(Snapshot):
    """Version of an Iceberg table, whose manifests are read when they are needed; threads can share it."""

    inlines_vectors = True
    checkpoint_version = None

    def __init__(self, table: IcebergSource, version: int, snapshot: SourceSnapshot | None) -> None:
        """Read the manifest list; raises UnsupportedOperation for what Delta Sharing clients cannot read."""
        self._source = table
        self._version = version
        self.entry = snapshot
        self._filtered_totals = {}
        self._refusals: dict[int, tuple[str, str]] = {}
        metadata = table.metadata
        is_latest = snapshot is metadata.current
        schema_id = metadata.current_schema_id if is_latest or snapshot is None else snapshot.schema_id
        schema = metadata.schemas_by_id.get(metadata.current_schema_id if schema_id is None else schema_id)
        if schema is None:
            raise MalformedRequest(f"Cannot load table version {version}, because its schema was removed.")
        self._schema_id = schema["schema-id"]
        self._schema = DeltaSchema(table.history, schema)
        self.parquet_refusal = self._schema.parquet_refusal
        self.timestamp = snapshot.timestamp_ms if snapshot else metadata.last_updated_ms
        self.manifests: list[SourceManifest] = []
        """All manifests of the snapshot, also those that only have deleted files."""
        if snapshot is not None:
            path = table.paths.stored(snapshot.manifest_list)
            with decoding(path):
                self.manifests = decode_manifest_list(table.paths, table.store.get(path), snapshot.summary)
        live = [manifest for manifest in self.manifests if manifest.live]
        self._manifests = [manifest for manifest in live if not manifest.is_deletes]
        self._delete_manifests = [manifest for manifest in live if manifest.is_deletes]
        self.has_deletion_vectors = bool(self._delete_manifests)
        specs = metadata.specs_by_id
        used = sorted((manifest.spec_id, at) for at, manifest in enumerate(self._manifests))
        self._partition_columns = self._schema.partition_columns(
            [specs[spec_id] for spec_id, _ in used] or [specs[metadata.default_spec_id]],
            [self._manifests[at].summaries for _, at in used],
        )
        self.reader = ManifestReader(
            paths=table.paths,
            columns=self._schema.columns,
            defaults=self._schema.defaults,
            only_in_partitions=self._only_in_partitions(),
            partition_columns={column: self._schema.columns[column][0][0] for column in self._partition_columns},
            specs=specs,
            times={entry.snapshot_id: entry.timestamp_ms for entry in metadata.snapshots},
        )

    @property
    def version(self) -> int:
        """Sequence number of the snapshot."""
        return self._version

    @property
    def nbytes(self) -> int:
        """Estimated bytes of this snapshot in memory, with all its deletes."""
        deletes = sum(manifest.live for manifest in self._delete_manifests)
        parts = (self._schema.columns, _BYTES_PER_COLUMN), (self.manifests, _BYTES_PER_MANIFEST)
        return _SNAPSHOT_BYTES + sum(len(part) * size for part, size in parts) + deletes * _BYTES_PER_DELETE

    @cached_property
    def identity(self) -> Hashable:
        """Key of the content of this version."""
        return self._source.identity, self.log_id

    @property
    def commit_id(self) -> str:
        """Key of snapshot and view."""
        return f"{self.entry.snapshot_id if self.entry else 0} {self._view}"

    @cached_property
    def _view(self) -> str:
        """Key of the schema as clients see it: a rename in a later version changes physical names in this one."""
        parts = self._schema_id, self._schema.fields, self._partition_columns
        return sha256(msgspec.json.encode(parts)).hexdigest()[:32]

    @cached_property
    def _protocol_and_metadata(self) -> tuple[Protocol, Metadata]:
        """Return the protocol and metadata of a Delta table with this content."""
        configuration = {"delta.enableChangeDataFeed": "true"}
        if self._schema.by_id:
            largest = str(self._source.metadata.last_column_id)
            configuration |= {"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": largest}
        features = [*self._schema.features, DELETION_VECTORS]  # changes can contain vectors of an earlier version
        lists = {"readerFeatures": features, "writerFeatures": [*features, "changeDataFeed"]}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **lists}
        metadata = {
            "id": self._source.metadata.table_uuid,
            "schemaString": msgspec.json.encode(self._schema.fields).decode(),
            "partitionColumns": [self._schema.names[column] for column in self._partition_columns],
            "configuration": configuration,
        }
        return parse_protocol(protocol, "protocol"), parse_metadata(metadata, "metaData")

    def load_commits(self) -> Self:
        """Read the deletes, and all files if some are likely to be refused: errors come before the response begins."""
        file_format = self._source.metadata.properties.get("write.format.default", "parquet").lower()
        needs_all = self.reader.defaults or self.reader.only_in_partitions or file_format != "parquet"
        _ = self.deletes, needs_all and self._count(None, files_follow=True)
        return self

    def _only_in_partitions(self) -> set[int]:
        """Return the columns that files added from another kind of table can lack (Iceberg, "Column Projection")."""
        if NAME_MAPPING not in self._source.metadata.properties:
            return set()
        specs = [self._source.metadata.specs_by_id[manifest.spec_id] for manifest in self._manifests]
        identity = {field["source-id"] for fields in specs for field in fields if field["transform"] == "identity"}
        return identity.intersection(self._schema.columns).difference(self._partition_columns)

    @cached_property
    def deletes(self) -> DeleteFiles:
        """The live deletes, read at the first access."""
        table = self._source
        deletes = DeleteFiles(table.files, table.paths, table.cache, table.identity)
        with decoding("a delete manifest"):
            contents = table.store.get_many([manifest.path for manifest in self._delete_manifests])
        for manifest, content in zip(self._delete_manifests, contents, strict=True):
            with decoding(manifest.path):
                deletes.add(manifest, content)
        return deletes

    @cached_property
    def _totals(self) -> Totals:
        """Totals from the snapshot's summary if it agrees with the manifest list; otherwise counted."""
        summary = self.entry.summary if self.entry else {}
        files, size = sum(manifest.live for manifest in self._manifests), summary.get("total-files-size", "")
        # The size includes delete files, but clients only estimate with it.
        if summary.get("total-data-files") == str(files) and size.isdecimal():
            return Totals(files, int(size))
        return self._count(None, files_follow=False)

    def _count(self, file_filter: FileFilter | None, *, files_follow: bool) -> Totals:  # noqa: ARG002
        files = size = 0
        for _, piece in self._pieces(file_filter, 0):
            kept = piece.files
            if file_filter is not None:
                kept = pc.filter(kept, file_filter.by_partition(kept["partitionValues"]))
            files, size = files + kept.num_rows, size + (pc.sum(kept["size"]).as_py() or 0)
        return Totals(files, size)

    def scan(
        self, file_filter: FileFilter | None = None, batch_rows: int = BATCH_ROWS, start: Position | None = None
    ) -> Generator[FileBatch]:
        """Return the live files from `start` on; raises MalformedRequest if this version lacks its manifest."""
        if start is not None and start.base not in self._bases:
            raise MalformedRequest("The page token is not of this version of the table: send the query again.")
        refused = self._refusals.keys() & self._unexcluded(file_filter) if self._refusals else ()
        if refused:  # an earlier response ended at a file in one of these manifests
            raise UnsupportedOperation(*self._refusals[min(refused)])
        return self._scan(file_filter, min(batch_rows, _WITH_VECTORS) if self.deletes else batch_rows, start)

    def _scan(self, file_filter: FileFilter | None, batch_rows: int, start: Position | None) -> Generator[FileBatch]:
        first_manifest = self._bases.index(start.base) if start else 0
        first_piece = start.row_group if start else 0
        for number, piece in self._pieces(file_filter, first_manifest, first_piece):
            is_first = start is not None and (number, piece.number) == (first_manifest, first_piece)
            scan = Scan(piece.files, lambda *_: None, (), file_filter, batch_rows, RowGroupCache(0), "")
            for batch in scan.run(Position("", 0, 0, start.row if start and is_first else 0)):
                position = Position(self._bases[number], 1, piece.number, batch.start.row)
                yield replace(self._with_vectors(batch, piece, self._manifests[number]), start=position)

    def _with_vectors(self, batch: FileBatch, piece: ManifestPiece, manifest: SourceManifest) -> FileBatch:
        if not self.deletes:
            return batch
        rows = range(batch.files.num_rows) if batch.rows is None else batch.rows.to_pylist()
        keys = [piece.keys[batch.start.row + row] for row in rows]
        vectors = self.deletes.vectors(batch.files["path"].to_pylist(), keys, manifest.spec_id)
        return replace(batch, files=replace_column(batch.files, "deletionVector", pa.array(vectors, DELETION_VECTOR)))

    @cached_property
    def _bases(self) -> list[str]:
        """Keys of the files of each manifest with their deletes, as clients see them."""
        view = [self._view, [manifest.path for manifest in self._delete_manifests]]
        return [
            sha256(f"pieces of {PIECE_SIZES} of {manifest.path} {view}".encode()).hexdigest()[:32]
            for manifest in self._manifests
        ]

    def _pieces(
        self, file_filter: FileFilter | None, first: int, first_piece: int = 0
    ) -> Iterator[tuple[int, ManifestPiece]]:
        """Yield pieces from a piece of manifest number `first` on, each with its manifest's number."""
        numbers = [number for number in self._unexcluded(file_filter) if number >= first]
        starts = {number: first_piece if number == first else 0 for number in numbers}
        groups = self._groups(starts)
        with ThreadPoolExecutor(1, "read-ahead") as reader:
            contents = next(groups, {})
            while contents:
                last = max(contents)
                for number in tuple(contents):
                    with decoding(self._manifests[number].path):
                        pieces = self._manifest_pieces(number, starts[number], contents.pop(number))
                        for at, piece in enumerate(pieces):
                            yield number, piece
                            if number == last and at == 0:  # only if the response goes on
                                following: Future[dict[int, bytes | None]] = reader.submit(next, groups, {})
                contents = following.result()

    def _groups(self, starts: Mapping[int, int]) -> Iterator[dict[int, bytes | None]]:
        """Read manifests in growing groups, by number; None if the cache has the piece at which they start."""
        largest = max((self._manifests[number].length or _TOGETHER for number in starts), default=1)
        most = max(_AT_ONCE, min(_SMALL_AT_ONCE, _TOGETHER // largest))
        numbers, count = iter(starts), 1
        while group := tuple(islice(numbers, count)):
            missing = [number for number in group if self._cached(number, starts[number]) is None]
            with decoding("a manifest"):
                fetched = self._source.store.get_many([self._manifests[number].path for number in missing])
            yield dict.fromkeys(group) | dict(zip(missing, fetched, strict=True))
            count = min(2 * count, most)

    def _manifest_pieces(self, number: int, at: int, content: bytes | None) -> Iterator[ManifestPiece]:
        """Yield the pieces of a manifest, which never change, from the cache as long as it has them."""
        while (piece := self._cached(number, at)) is not None:
            yield piece
            if piece.is_last:
                return
            at += 1
        manifest = self._manifests[number]
        content = self._source.store.get(manifest.path) if content is None else content
        try:
            for piece in self.reader.pieces(manifest, content, first=at):
                size = piece.files.get_total_buffer_size() + _BYTES_PER_FILE * piece.files.num_rows
                self._source.cache.put(self._key(number, piece.number), piece, size)
                yield piece
        except UnsupportedOperation as refusal:
            self._refusals[number] = refusal.message, refusal.detail  # its traceback keeps the manifest in memory
            raise

    def _cached(self, number: int, piece: int) -> ManifestPiece | None:
        return self._source.cache.get(self._key(number, piece))

    def _key(self, number: int, piece: int) -> Hashable:
        return "piece", self._source.identity, self._manifests[number].path, self._view, piece

    def _unexcluded(self, file_filter: FileFilter | None) -> Sequence[int]:
        """Return the numbers of the manifests that partition summaries do not exclude."""
        if file_filter is None or not self._manifests:
            return range(len(self._manifests))
        keeps = file_filter.by_bounds(self.reader.bounds(self._manifests)).to_pylist()
        return [number for number, is_kept in enumerate(keeps) if is_kept]
