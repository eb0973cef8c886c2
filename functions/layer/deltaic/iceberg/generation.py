"""Makes the Iceberg metadata of a version: what other versions have made already stays.

live files ──> digests ──> a manifest all of whose files are live stays
                   └─────> all other files: new ones, those beside files that are gone, those of small manifests;
                           put in order by partition and written a thousand a manifest
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from deltaic.errors import InvalidParameter
from deltaic.iceberg.data_footers import check_columns
from deltaic.iceberg.file_index import (
    MOST_SNAPSHOTS,
    FileIndex,
    ListedSnapshot,
    pack_gone,
    split,
)
from deltaic.iceberg.live_files import LiveFiles, LiveVector, by_partition
from deltaic.iceberg.manifests import ListedManifest, ManifestEntry, ManifestWriter, VectorPlace, content_key
from deltaic.iceberg.puffin import FramedVector, frames, puffin
from deltaic.iceberg.refusals import TooManyFiles, misread
from deltaic.iceberg.table_schema import IcebergSchema, iceberg_schema
from deltaic.iceberg.table_version import MetadataContext, TableVersion

FILES_A_MANIFEST: Final = 1_000
_SMALL: Final = FILES_A_MANIFEST // 2
_FEW_VECTORS: Final = FILES_A_MANIFEST // 10
"""These are read again when they are put elsewhere."""

_T = TypeVar("_T")


def first_index(context: MetadataContext, version: TableVersion, settled: frozenset[bytes] | None = None) -> FileIndex:
    """Make the metadata of one version with nothing to start from.

    `settled` are `live_digests` of the first version that will be listed beside it: what has come since gets manifests
    of its own, so that the versions between find the others as they need them. Raises UnsupportedOperation, naming
    reason and remedy, for a table that Iceberg clients would misread, and TooManyFiles for more than `means` list anew.
    """
    schema = iceberg_schema(version.metadata)
    return _Generation(context, version, schema, None, settled).run().index(schema, schema.name_mapping)


def live_digests(context: MetadataContext, version: TableVersion) -> frozenset[bytes]:
    """Return by what an index knows the files of a version; raises what `first_index` does."""
    return LiveFiles(context, version, iceberg_schema(version.metadata)).digests


def newer_index(context: MetadataContext, version: TableVersion, before: FileIndex) -> FileIndex:
    """Make the metadata of a version later than any that is listed; raises what `first_index` does.

    What the index lists already stays listed, up to MOST_SNAPSHOTS versions.
    """
    if version.version <= before.version:
        raise InvalidParameter(f"version {version.version} is not later than {before.version}")
    schema = iceberg_schema(version.metadata)
    made = _Generation(context, version, schema, before).run()
    mapping = _merged(before.name_mapping, schema.name_mapping)
    if mapping is None:
        # A name means another column now: files of both cannot be read by one table.
        return made.index(schema, schema.name_mapping)
    return made.index(schema, mapping, before)


def with_earlier(context: MetadataContext, version: TableVersion, index: FileIndex) -> FileIndex:
    """List a version before those that are listed, too; raises what `first_index` does.

    That is refused as well where one name stands for two columns, as when column mapping began in between.
    """
    if version.version >= index.snapshots[0].version:
        raise InvalidParameter(f"version {version.version} is not before {index.snapshots[0].version}")
    schema = iceberg_schema(version.metadata)
    mapping = _merged(schema.name_mapping, index.name_mapping)
    if mapping is None:
        raise misread(
            f"version {version.version} has a column by the name of another one of later versions",
            "ask for a later version",
        )
    made = _Generation(context, version, schema, index).run()
    gone = dict.fromkeys(made.live - index.live, version.version) | index.gone
    return msgspec.structs.replace(
        index,
        snapshots=(made.snapshot, *index.snapshots),
        schemas={schema.schema["schema-id"]: schema.schema} | index.schemas,
        specs={schema.spec["spec-id"]: schema.spec} | index.specs,
        name_mapping=mapping,
        packed_gone=pack_gone(gone),
    )


class _Made(msgspec.Struct, frozen=True):
    snapshot: ListedSnapshot
    live: frozenset[bytes]
    manifests: tuple[ListedManifest, ...]

    def index(self, schema: IcebergSchema, mapping: list[dict[str, Any]], before: FileIndex | None = None) -> FileIndex:
        """Return the index of this version, beside what an index of earlier ones lists."""
        snapshots = (*(before.snapshots if before else ()), self.snapshot)[-MOST_SNAPSHOTS:]
        schemas = (before.schemas if before else {}) | {schema.schema["schema-id"]: schema.schema}
        specs = (before.specs if before else {}) | {schema.spec["spec-id"]: schema.spec}
        gone = before.gone | dict.fromkeys(before.live - self.live, before.version) if before else {}
        first = snapshots[0].version
        return FileIndex(
            snapshots,
            self.manifests,
            {key: schemas[key] for key in dict.fromkeys(one.schema_id for one in snapshots)},
            {key: specs[key] for key in dict.fromkeys(one.spec_id for one in snapshots)},
            mapping,
            pack_gone({name: last for name, last in gone.items() if name not in self.live and last >= first}),
        )


class _Generation:
    def __init__(
        self,
        context: MetadataContext,
        version: TableVersion,
        schema: IcebergSchema,
        other: FileIndex | None,
        settled: frozenset[bytes] | None = None,
    ) -> None:
        self._context = context
        self._version = version
        self._schema = schema
        self._other = other
        self._settled = settled
        self._files = LiveFiles(context, version, schema)
        self._writer = ManifestWriter(schema, context.location, context.put)

    def run(self) -> _Made:
        """Put what is new."""
        kept = self._kept(self._files.digests, is_deletes=False)
        loose = self._files.digests.difference(*(split(one.digests) for one in kept))
        if len(loose) > self._context.most_files:
            raise TooManyFiles(len(loose), self._context.most_files)
        known = self._other.live if self._other else frozenset()
        check_columns(self._context.store, list(self._files.some(loose - known)), self._schema.name_mapping)
        groups = self._by_age(self._files.entries(loose))
        vectors = {one.digest: one for one in self._files.vectors}
        kept_deletes = self._kept(frozenset(vectors), is_deletes=True)
        loose = frozenset(vectors).difference(*(split(one.digests) for one in kept_deletes))
        new = by_partition([one for name, one in vectors.items() if name in loose])
        framed = list(zip(new, frames(self._context.store, [one.vector for one in new]), strict=True))
        # What can be refused has been by now.
        data = [*kept, *(self._writer.manifest(some) for group in groups for some in _pieces(group))]
        deletes = [*kept_deletes, *map(self._deletes, _pieces(framed))]
        format_version = 3 if vectors else 2
        listed, rows = self._writer.manifest_list(self._version.version, data + deletes, format_version)
        snapshot = ListedSnapshot(
            self._version.version,
            self._version.timestamp,
            listed,
            self._schema.schema["schema-id"],
            self._schema.spec["spec-id"],
            format_version,
            len(self._files.digests),
            rows,
            sum(one.rows for one in deletes),
        )
        return _Made(snapshot, self._files.digests, tuple(data + deletes))

    def _by_age(self, entries: list[ManifestEntry]) -> Sequence[list[ManifestEntry]]:
        """Return what is settled and what has come since, each in the order of the entries."""
        if self._settled is None:
            return [entries]
        new = frozenset(one.digest for one in entries).difference(self._settled)
        return [[one for one in entries if one.digest not in new], [one for one in entries if one.digest in new]]

    def _deletes(self, framed: Sequence[tuple[LiveVector, bytes]]) -> ListedManifest:
        """Put deletion vectors and their manifest.

        pyiceberg takes from a Puffin file all that is in it, whichever vectors a version has: so no file has vectors
        that some version would not have which reads it.
        """
        content, offsets = puffin([FramedVector(one.uri, one.vector.cardinality, frame) for one, frame in framed])
        key = content_key("p", "puffin", content)
        self._context.put(key, content)
        uri = f"{self._context.location}/{key}"
        entries = [
            self._files.vector_entry(one, VectorPlace(uri, len(content), offset, len(frame)))
            for (one, frame), offset in zip(framed, offsets, strict=True)
        ]
        return self._writer.manifest(entries, is_deletes=True)

    def _kept(self, live: frozenset[bytes], *, is_deletes: bool) -> list[ListedManifest]:
        """Return manifests that stay: all of theirs is live, and they are not small where others are written."""
        if self._other is None or not self._is_alike(self._other.snapshots[-1]):
            return []
        all_of_them = [one for one in self._other.manifests if one.is_deletes is is_deletes]
        whole = [one for one in all_of_them if live.issuperset(split(one.digests))]
        if len(whole) == len(all_of_them) and sum(one.files for one in whole) == len(live):
            return whole
        return [one for one in whole if one.files >= (_FEW_VECTORS if is_deletes else _SMALL)]

    def _is_alike(self, snapshot: ListedSnapshot) -> bool:
        """Tell whether manifests of another version say what this version's would."""
        ids = self._schema.schema["schema-id"], self._schema.spec["spec-id"]
        return (snapshot.schema_id, snapshot.spec_id) == ids


def _pieces(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for at in range(0, len(items), FILES_A_MANIFEST):
        yield items[at : at + FILES_A_MANIFEST]


def _merged(one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return a name mapping that holds for files of both; None where a name stands for two fields.

    It says which field a column of a file without field ids is (Iceberg specification, "Column Projection").
    """
    fields = {field["field-id"]: field for field in one}
    names = {name: field["field-id"] for field in one for name in field["names"]}
    for field in other:
        if any(names.get(name, field["field-id"]) != field["field-id"] for name in field["names"]):
            return None
        own = fields.setdefault(field["field-id"], field)
        if own is field:
            continue
        if own["names"] != field["names"]:
            return None
        below = _merged(own.get("fields", ()), field.get("fields", ()))
        if below is None:
            return None
        fields[field["field-id"]] = {**field, **({"fields": below} if below else {})}
    return list(fields.values())
