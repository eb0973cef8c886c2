"""Generate the Iceberg metadata of a table version, reusing manifests of other versions.

live files ──> digests ──> manifests whose files are all live: reused
                   └─────> remaining files (new, from small manifests, or from manifests with removed files):
                           sorted by partition and written to new manifests of a thousand files each
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.iceberg.data_footers import check_columns
from deltaic.iceberg.file_index import MOST_SNAPSHOTS, FileIndex, ListedSnapshot, pack_removed, split
from deltaic.iceberg.live_files import LiveFiles, LiveVector, by_partition
from deltaic.iceberg.manifests import ListedManifest, ManifestEntry, ManifestWriter, VectorPosition, content_key
from deltaic.iceberg.puffin import FramedVector, frames, puffin
from deltaic.iceberg.refusals import TooManyFiles, misread
from deltaic.iceberg.table_schema import IcebergSchema, iceberg_schema
from deltaic.iceberg.table_version import MetadataContext, TableVersion

FILES_A_MANIFEST: Final = 1_000
_SMALL_MANIFEST: Final = FILES_A_MANIFEST // 2
_SMALL_VECTOR_MANIFEST: Final = FILES_A_MANIFEST // 10
"""Size of small manifests of deletion vectors: smaller than of data files, because merging reads all vectors again."""

_T = TypeVar("_T")
_Field = dict[str, Any]


def first_index(context: MetadataContext, version: TableVersion, baseline: frozenset[bytes] | None = None) -> FileIndex:
    """Generate the metadata of a table's first listed version.

    `baseline` is the result of `live_digests` for the earliest version that will be listed later. Newer files get
    separate manifests, so that the versions in between can reuse the others. Raises UnsupportedOperation, with reason
    and remedy, for a table that Iceberg clients would misread, and TooManyFiles above the context's maximum.
    """
    schema = iceberg_schema(version.metadata)
    return _Generation(context, version, schema, None, baseline).run().index(schema, schema.name_mapping)


def live_digests(context: MetadataContext, version: TableVersion) -> frozenset[bytes]:
    """Return the digests of a version's data files; raises the same errors as `first_index`."""
    return LiveFiles(context, version, iceberg_schema(version.metadata)).digests


def newer_index(context: MetadataContext, version: TableVersion, previous: FileIndex) -> FileIndex:
    """Add a later version to an index, and generate its metadata; raises the same errors as `first_index`.

    The index keeps the latest 30 versions (MOST_SNAPSHOTS).
    """
    if version.version <= previous.version:
        raise InvalidParameter(
            f"version {version.version} is not later than the newest listed version {previous.version}"
        )
    schema = iceberg_schema(version.metadata)
    generated = _Generation(context, version, schema, previous).run()
    mapping = _merge_name_mappings(previous.name_mapping, schema.name_mapping)
    if mapping is None:
        # A name belongs to another column now, so one Iceberg table cannot read the files of both versions.
        return generated.index(schema, schema.name_mapping)
    return generated.index(schema, mapping, previous)


def with_earlier(context: MetadataContext, version: TableVersion, index: FileIndex) -> FileIndex:
    """Add a version that is earlier than all listed versions to an index; raises the same errors as `first_index`.

    Also raises UnsupportedOperation if a name belongs to different columns in this version and in listed versions.
    """
    if version.version >= index.snapshots[0].version:
        raise InvalidParameter(
            f"version {version.version} is not before the earliest listed version {index.snapshots[0].version}"
        )
    schema = iceberg_schema(version.metadata)
    mapping = _merge_name_mappings(schema.name_mapping, index.name_mapping)
    if mapping is None:
        raise misread(
            f"a column of version {version.version} has the name of another column of later versions",
            "request a later version",
        )
    generated = _Generation(context, version, schema, index).run()
    removed = dict.fromkeys(generated.live - index.live, version.version) | index.removed
    return msgspec.structs.replace(
        index,
        snapshots=(generated.snapshot, *index.snapshots),
        schemas={schema.schema["schema-id"]: schema.schema} | index.schemas,
        specs={schema.spec["spec-id"]: schema.spec} | index.specs,
        name_mapping=mapping,
        packed_removed=pack_removed(removed),
    )


class _GeneratedVersion(msgspec.Struct, frozen=True):
    snapshot: ListedSnapshot
    live: frozenset[bytes]
    manifests: tuple[ListedManifest, ...]

    def index(self, schema: IcebergSchema, mapping: list[_Field], previous: FileIndex | None = None) -> FileIndex:
        """Return an index that lists this version and the versions of the previous index."""
        snapshots = (*(previous.snapshots if previous else ()), self.snapshot)[-MOST_SNAPSHOTS:]
        schemas = (previous.schemas if previous else {}) | {schema.schema["schema-id"]: schema.schema}
        specs = (previous.specs if previous else {}) | {schema.spec["spec-id"]: schema.spec}
        removed = previous.removed | dict.fromkeys(previous.live - self.live, previous.version) if previous else {}
        first = snapshots[0].version
        return FileIndex(
            snapshots,
            self.manifests,
            {key: schemas[key] for key in dict.fromkeys(snapshot.schema_id for snapshot in snapshots)},
            {key: specs[key] for key in dict.fromkeys(snapshot.spec_id for snapshot in snapshots)},
            mapping,
            pack_removed({file: last for file, last in removed.items() if file not in self.live and last >= first}),
        )


class _Generation:
    def __init__(
        self,
        context: MetadataContext,
        version: TableVersion,
        schema: IcebergSchema,
        existing: FileIndex | None,
        baseline: frozenset[bytes] | None = None,
    ) -> None:
        self._context = context
        self._version = version
        self._schema = schema
        self._existing = existing
        self._baseline = baseline
        self._files = LiveFiles(context, version, schema)
        self._writer = ManifestWriter(schema, context.location, context.put)

    def run(self) -> _GeneratedVersion:
        """Write new manifests and the manifest list of the version."""
        reused = self._reusable_manifests(self._files.digests, is_deletes=False)
        remaining = self._files.digests.difference(*(split(manifest.digests) for manifest in reused))
        if len(remaining) > self._context.most_files:
            raise TooManyFiles(len(remaining), self._context.most_files)
        existing = self._existing.live if self._existing else frozenset()
        check_columns(self._context.store, list(self._files.sample(remaining - existing)), self._schema.name_mapping)
        groups = self._group_by_age(self._files.entries(remaining))
        vectors = {file.digest: file for file in self._files.vectors}
        reused_deletes = self._reusable_manifests(frozenset(vectors), is_deletes=True)
        remaining = frozenset(vectors).difference(*(split(manifest.digests) for manifest in reused_deletes))
        new_vectors = by_partition([file for digest, file in vectors.items() if digest in remaining])
        vector_frames = frames(self._context.store, [file.vector for file in new_vectors])
        framed = list(zip(new_vectors, vector_frames, strict=True))
        # Nothing is written before this line: everything that can raise an error was checked above.
        data = [*reused, *(self._writer.manifest(chunk) for group in groups for chunk in _chunks(group))]
        deletes = [*reused_deletes, *map(self._write_vectors, _chunks(framed))]
        format_version = 3 if vectors else 2
        manifest_list, rows = self._writer.manifest_list(self._version.version, data + deletes, format_version)
        snapshot = ListedSnapshot(
            self._version.version,
            self._version.timestamp,
            manifest_list,
            self._schema.schema["schema-id"],
            self._schema.spec["spec-id"],
            format_version,
            len(self._files.digests),
            rows,
            sum(manifest.rows for manifest in deletes),
        )
        return _GeneratedVersion(snapshot, self._files.digests, tuple(data + deletes))

    def _group_by_age(self, entries: list[ManifestEntry]) -> Sequence[list[ManifestEntry]]:
        """Split manifest entries into entries of baseline files and entries of newer files, in unchanged order."""
        if self._baseline is None:
            return [entries]
        new = frozenset(entry.digest for entry in entries).difference(self._baseline)
        return [[entry for entry in entries if (entry.digest in new) is is_new] for is_new in (False, True)]

    def _write_vectors(self, framed: Sequence[tuple[LiveVector, bytes]]) -> ListedManifest:
        """Write deletion vectors to a Puffin file, and write the manifest of that file.

        pyiceberg applies every vector of a Puffin file, so all of its vectors must belong to each version that reads
        the file.
        """
        content, offsets = puffin([FramedVector(file.uri, file.vector.cardinality, frame) for file, frame in framed])
        key = content_key("p", "puffin", content)
        self._context.put(key, content)
        uri = f"{self._context.location}/{key}"
        entries = [
            self._files.vector_entry(file, VectorPosition(uri, len(content), offset, len(frame)))
            for (file, frame), offset in zip(framed, offsets, strict=True)
        ]
        return self._writer.manifest(entries, is_deletes=True)

    def _reusable_manifests(self, live: frozenset[bytes], *, is_deletes: bool) -> list[ListedManifest]:
        """Return existing manifests whose files are all live; omit small manifests if any new one is needed."""
        if self._existing is None or not self._has_same_schema(self._existing.snapshots[-1]):
            return []
        candidates = [manifest for manifest in self._existing.manifests if manifest.is_deletes is is_deletes]
        live_manifests = [manifest for manifest in candidates if live.issuperset(split(manifest.digests))]
        if len(live_manifests) == len(candidates) and sum(manifest.files for manifest in live_manifests) == len(live):
            return live_manifests
        small = _SMALL_VECTOR_MANIFEST if is_deletes else _SMALL_MANIFEST
        return [manifest for manifest in live_manifests if manifest.files >= small]

    def _has_same_schema(self, snapshot: ListedSnapshot) -> bool:
        ids = self._schema.schema["schema-id"], self._schema.spec["spec-id"]
        return (snapshot.schema_id, snapshot.spec_id) == ids


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), FILES_A_MANIFEST):
        yield items[start : start + FILES_A_MANIFEST]


def _merge_name_mappings(first: Sequence[_Field], second: Sequence[_Field]) -> list[_Field] | None:
    """Return a name mapping for files of two versions; None if a name belongs to different fields.

    The mapping identifies columns of files that have no field ids (Iceberg specification, "Column Projection").
    """
    fields = {field["field-id"]: field for field in first}
    names = {name: field["field-id"] for field in first for name in field["names"]}
    for field in second:
        if any(names.get(name, field["field-id"]) != field["field-id"] for name in field["names"]):
            return None
        existing = fields.setdefault(field["field-id"], field)
        if existing is field:
            continue
        if existing["names"] != field["names"]:
            return None
        nested = _merge_name_mappings(existing.get("fields", ()), field.get("fields", ()))
        if nested is None:
            return None
        fields[field["field-id"]] = {**field, **({"fields": nested} if nested else {})}
    return list(fields.values())
