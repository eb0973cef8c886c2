"""Check that settings and overlapping folders do not expose filtered rows, without reading table logs."""

from collections.abc import Collection, Iterator, Sequence
from functools import cache, cached_property

from deltaic import partition_filters
from deltaic.catalog import keys
from deltaic.catalog.admin.records import Records
from deltaic.catalog.asset_items import FOLDERS, Folder, Model, ModelVersion
from deltaic.catalog.items import Storage, Table
from deltaic.catalog.writes import ABSENT, Write, Writes
from deltaic.errors import InvalidParameter
from deltaic.protocol import names
from deltaic.storage.endpoints import AWS, store_name
from deltaic.storage.locations import Location, access_point

Entry = Table | Folder
"""Entry that has a folder. Volumes, skills and model versions share all their files, also in access mode `url`."""


def checked_filter(text: str) -> str:
    """Return a partition filter in SQL without surrounding spaces; raises InvalidParameter for a syntax error."""
    if not text.strip():
        return ""
    return partition_filters.parse(text.strip()).text


def checked_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return column names without duplicates (case-insensitive); raises InvalidParameter for an empty name."""
    if not all(columns):
        raise InvalidParameter("the name of a hidden column is empty: name partition columns of the table")
    unique: dict[str, str] = {}
    for name in columns:
        unique.setdefault(name.lower(), name)
    return tuple(unique.values())


def check_access(access_modes: Collection[str], partition_filter: str, hidden_columns: Collection[str]) -> None:
    """Raise InvalidParameter if a filtered table has the access mode `dir`, which would expose all rows."""
    if "dir" in access_modes and (partition_filter or hidden_columns):
        reason = "a partition filter" if partition_filter else "hidden columns"
        raise InvalidParameter(
            f"a table with {reason} cannot have access mode 'dir', because its credentials read the whole folder: "
            "use access mode 'url' only"
        )


def check_iceberg(table: Table) -> None:
    """Raise InvalidParameter if settings of a table are incompatible with its format or its Iceberg access."""
    if table.format == "iceberg":
        if table.hidden_columns or table.start_version or table.checkpoint:
            raise InvalidParameter(
                "an Iceberg table cannot have hidden columns, a start version or checkpoints: leave out these settings"
            )
        if bool(table.iceberg) != ("dir" in table.access_modes) or (table.iceberg and not table.history):
            raise InvalidParameter(
                "Iceberg clients read the whole folder of an Iceberg table: use --iceberg signed or vended with "
                "--access-mode dir --history, or none of them"
            )
        if table.iceberg == "vended" and table.metadata_location.startswith("s3tables://"):
            raise InvalidParameter("credentials cannot be restricted to a table in S3 Tables: use --iceberg signed")
    elif table.metadata_location:
        raise InvalidParameter("a Delta table cannot have an Iceberg metadata location: add --format iceberg")
    if table.iceberg == "vended" and not ("dir" in table.access_modes and table.history and not table.start_version):
        raise InvalidParameter(
            "with 'vended', Iceberg clients get credentials for the whole folder and its history: add --access-mode "
            "dir --history, remove the start version, or use 'signed'"
        )


def check_folders(
    records: Records, new_entry: Entry | None = None, *, filtered_share: str = "", moved: Storage | None = None
) -> Writes:
    """Reject a change that would expose filtered rows by credentials or URLs for an overlapping folder.

    The change is one of these: the entry `new_entry` is stored, the share `filtered_share` is granted with a filter,
    or the storage `moved` gets another endpoint. Raises InvalidParameter.

    Returns writes for the transaction that stores the change. Their conditions fail if a concurrent change may have
    invalidated this check (decision 187).
    """
    all_key, share_key = keys.OVERLAPS, keys.share_overlaps(filtered_share or (new_entry.share if new_entry else ""))
    # Read the counters first: any change during the following reads then fails the transaction.
    counters = records.find_many([all_key, share_key])
    overlaps = Overlaps(records, filtered_share, moved)
    entries = [new_entry] if new_entry else overlaps.affected()
    for entry in entries:
        overlaps.check(entry)
    for unfiltered, filtered in overlaps.conflicts(entries):
        remedy = "move one of them elsewhere"
        if isinstance(unfiltered, Folder):
            reason = f"'{unfiltered.title}' shares all files"
        else:
            reason = f"'{unfiltered.title}' has access mode 'dir', whose credentials read all files"
            remedy = f"share '{unfiltered.title}' by access mode 'url' only, or {remedy}"
        raise InvalidParameter(
            f"{reason} in {unfiltered.location}, but '{filtered.title}' ({filtered.location}) is filtered: {remedy}"
        )

    def increment(key: keys.Key, counter: str, unchanged: str) -> Write:
        expect = {unchanged: counters.get(key, {}).get(unchanged, ABSENT)}
        return records.update(key, add={counter: 1}, expect=expect, create=True)

    if new_entry is not None and not _is_unfiltered_folder(new_entry) and not overlaps.is_filtered(new_entry):
        # Only a new filter of a grant could filter it, and such a filter is stored only if no table was counted since.
        return [increment(share_key, "tables", unchanged="filters")]
    filter_writes = [increment(share_key, "filters", unchanged="tables")] if filtered_share else []
    return [increment(all_key, "revision", unchanged="revision"), *filter_writes]


def entries_of(records: Records, *, tables_only: bool = False) -> Iterator[Entry]:
    """Yield every entry of the catalog that has a folder, or only the tables."""
    for share in records.all(keys.all_of("share")):
        yield from map(Table.read, records.all(keys.in_share("table", share["name"])))
        if tables_only:
            continue
        for item in FOLDERS:
            yield from map(item.read, records.all(keys.in_share(item.kind, share["name"])))
        for model in map(Model.read, records.all(keys.in_share(Model.kind, share["name"]))):
            yield from map(ModelVersion.read, records.all(keys.model_versions(model.share, model.id)))


def stores_of(storage: Storage) -> frozenset[str]:
    """Return names that identify the object store of a storage, from its endpoints for server and recipients."""
    return frozenset(map(store_name, {storage.endpoint, storage.public_endpoint or storage.endpoint}))


class Overlaps:
    """Compare the folders of all entries of the catalog, as if a planned change was already stored."""

    def __init__(self, records: Records, filtered_share: str = "", moved: Storage | None = None) -> None:
        self._records = records
        self._filtered_share = filtered_share
        self._moved = moved

        @cache
        def has_filtered_grant(share: str) -> bool:
            grants = records.all(keys.of_share("grant", share))
            return share.lower() == filtered_share.lower() or any(grant.get("partition_filter") for grant in grants)

        self._has_filtered_grant = has_filtered_grant

    def affected(self) -> list[Entry]:
        """Return the entries that the planned change applies to: tables of the share, or entries in the storage."""
        if self._moved:
            return [entry for entry in entries_of(self._records) if entry.storage == names.key(self._moved.name)]
        return [Table.read(item) for item in self._records.all(keys.in_share("table", self._filtered_share))]

    def check(self, entry: Entry) -> None:
        """Raise InvalidParameter for an entry in the stack's buckets, or a view in a share granted with a filter."""
        buckets = {folder.bucket for folder in self.folders(entry)}
        if internal := buckets.intersection(self._records.buckets.stack_buckets()):
            raise InvalidParameter(
                f"'{entry.title}' would share the bucket '{min(internal)}', which contains files of the stack itself: "
                "name a folder in another bucket"
            )
        if isinstance(entry, Table) and entry.view_properties is not None and self._has_filtered_grant(entry.share):
            raise InvalidParameter(
                f"'{entry.title}' is a view, whose SQL selects the rows of each recipient, and a grant of "
                f"'{entry.share}' has a filter: put the view into another share, or grant the share without a filter"
            )

    def conflicts(self, entries: Sequence[Entry] | None = None) -> Iterator[tuple[Entry, Table]]:
        """Yield pairs of an unfiltered folder and a filtered table, whose files the folder would expose.

        Unfiltered folders are tables with access mode `dir`, volumes, skills and model versions. With `entries`, only
        yields pairs that contain one of them.
        """
        if entries is not None and not any(
            _is_unfiltered_folder(entry) or self.is_filtered(entry) for entry in entries
        ):
            return  # The common case does not read the rest of the catalog.
        # A planned entry without a filter conflicts only with filtered tables, so other folders need not be read.
        tables_only = entries is not None and not any(map(self.is_filtered, entries))
        stored = entries_of(self._records, tables_only=tables_only)
        candidates = {_identity(entry): entry for entry in [*stored, *(entries or ())]}
        selected = candidates if entries is None else {_identity(entry): entry for entry in entries}
        for folder_id, folder in candidates.items():
            if _is_unfiltered_folder(folder):
                for table_id, table in (candidates if folder_id in selected else selected).items():
                    if (
                        isinstance(table, Table)
                        and table_id != folder_id
                        and self._exposes(folder, table)
                        and self.stores(folder) & self.stores(table)
                        and self.is_filtered(table)
                    ):
                        yield folder, table

    def incomparable(self) -> Iterator[Entry]:
        """Yield entries that cannot be compared with others, because the bucket of their access point is unknown."""
        for entry in entries_of(self._records):
            unknown = any(map(self._records.buckets.is_unknown, _locations(entry)))
            if unknown and (_is_unfiltered_folder(entry) or self.is_filtered(entry)):
                yield entry

    def overlapping(self, folder: Folder) -> list[Entry]:
        """Return the other entries whose folders overlap with this folder."""
        [location] = self.folders(folder)
        return [
            entry
            for entry in entries_of(self._records)
            if _identity(entry) != _identity(folder)
            and any(other.contains(location) or location.contains(other) for other in self.folders(entry))
            and self.stores(entry) & self.stores(folder)
        ]

    def is_filtered(self, entry: Entry) -> bool:
        """Return whether the table, or any grant of its share, has a filter or hidden columns."""
        return isinstance(entry, Table) and (entry.is_filtered or self._has_filtered_grant(entry.share))

    def folders(self, entry: Entry) -> list[Location]:
        """Return the folders of an entry, with access points replaced by their buckets, if known."""
        return [self._records.buckets.resolve(location) for location in _locations(entry)]

    def stores(self, entry: Entry) -> frozenset[str]:
        """Return names that identify the object store of an entry; access points always belong to AWS."""
        storage = self._storages.get(entry.storage)
        has_access_point = any(access_point(location.bucket) for location in _locations(entry))
        return (stores_of(storage) if storage else frozenset({AWS})) | ({AWS} if has_access_point else frozenset())

    @cached_property
    def _storages(self) -> dict[str, Storage]:
        stored = map(Storage.read, self._records.all(keys.all_of("storage")))
        return {names.key(storage.name): storage for storage in [*stored, *([self._moved] if self._moved else [])]}

    def _exposes(self, entry: Entry, table: Table) -> bool:
        """Return whether sharing an entry's folders would expose files of a table.

        False for two entries of the same table: one may be filtered, and the other share all files. This exception
        does not apply to a view, because its folder contains the rows of all recipients.
        """
        is_same = isinstance(entry, Table) and table.view_properties is None
        root = self.folders(entry)[0] if is_same else None
        return any(
            (folder.contains(other) or other.contains(folder)) and not folder == other == root
            for folder in self.folders(entry)
            for other in self.folders(table)
        )


def _is_unfiltered_folder(entry: Entry) -> bool:
    return isinstance(entry, Folder) or "dir" in entry.access_modes


def _identity(entry: Entry) -> tuple[str, str]:
    return type(entry).__name__, entry.title.lower()


def _locations(entry: Entry) -> list[Location]:
    auxiliary = () if isinstance(entry, Folder) else entry.auxiliary_locations
    return [Location.parse(uri) for uri in (entry.location, *auxiliary)]
