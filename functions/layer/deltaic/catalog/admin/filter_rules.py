"""What the catalog itself demands of partition filters and hidden columns; whether a table has them it cannot know."""

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
"""What lies in a folder. A volume, a skill or a version of a model is shared whole, by its URLs too."""


def checked_filter(text: str) -> str:
    """Return the text of a filter, trimmed, or "" for none; raises InvalidParameter for what cannot be parsed."""
    if not text.strip():
        return ""
    return partition_filters.parse(text.strip()).text


def checked_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns once each, without regard to case; raises InvalidParameter for an empty one."""
    if not all(columns):
        raise InvalidParameter("the name of a hidden column is empty: name partition columns of the table")
    once: dict[str, str] = {}
    for name in columns:
        once.setdefault(name.lower(), name)
    return tuple(once.values())


def check_access(access_modes: Collection[str], partition_filter: str, hidden_columns: Collection[str]) -> None:
    """Refuse directory access for a table of which not all is shared: raises InvalidParameter."""
    if "dir" in access_modes and (partition_filter or hidden_columns):
        what = "a partition filter" if partition_filter else "hidden columns"
        raise InvalidParameter(
            f"a table with {what} cannot have the access mode 'dir', whose credentials read the whole folder: share it "
            "by the access mode 'url' alone"
        )


def check_iceberg(table: Table) -> None:
    """Refuse what an Iceberg table, or one that is open to such clients, cannot have: raises InvalidParameter."""
    if table.format == "iceberg":
        if not table.iceberg:
            raise InvalidParameter("an Iceberg table is open to Iceberg clients alone: by 'signed' or by 'vended'")
        if table.is_filtered or table.start_version or table.checkpoint:
            raise InvalidParameter(
                "an Iceberg table is shared whole: without filter, hidden columns, start version and checkpoints"
            )
        if table.access_modes != ("dir",) or not table.history:
            raise InvalidParameter("an Iceberg table is shared by its folder: access mode 'dir' alone, with history")
    elif table.metadata_location:
        raise InvalidParameter("a Delta table has no Iceberg metadata of its own: say --format iceberg")
    if table.iceberg == "vended" and not ("dir" in table.access_modes and table.history and not table.start_version):
        raise InvalidParameter(
            "credentials for Iceberg clients ('vended') read the whole folder: they want the access mode 'dir' and all "
            "of the history (--access-mode dir --history); 'signed' wants neither"
        )


def check_folders(
    records: Records, entered: Entry | None = None, *, filtered: str = "", moved: Storage | None = None
) -> Writes:
    """Refuse a change after which one folder would open a table of which not all is shared.

    `entered` is an entry as it is about to be stored; `filtered` is a share that is about to be granted with a filter;
    `moved` is a storage that is about to get another address. Raises InvalidParameter.

    Returns writes for the transaction that stores the change. They make it fail if another change could have made this
    check untrue (decision 187).
    """
    of_all, of_share = keys.OVERLAPS, keys.share_overlaps(filtered or (entered.share if entered else ""))
    # Read before everything else: a change that is made while the rest is read fails the transaction.
    before = records.several([of_all, of_share])
    overlaps = Overlaps(records, filtered, moved)
    changed = [entered] if entered else overlaps.concerned()
    for entry in changed:
        overlaps.check(entry)
    for wide, narrow in overlaps.conflicts(changed):
        if isinstance(wide, Folder):
            how, remedy = f"'{wide.title}' shares all", "move one of them elsewhere"
        else:
            how = f"'{wide.title}' is shared by the access mode 'dir', whose credentials read all"
            remedy = f"share '{wide.title}' by the access mode 'url' alone, or move one of them elsewhere"
        raise InvalidParameter(
            f"{how} that lies in {wide.location}, and not all of '{narrow.title}' ({narrow.location}) is shared: "
            f"{remedy}"
        )

    def raised(key: keys.Key, counter: str, seen: str) -> Write:
        expect = {seen: before.get(key, {}).get(seen, ABSENT)}
        return records.update(key, add={counter: 1}, expect=expect, create=True)

    if entered is not None and not _is_wide(entered) and not overlaps.is_narrow(entered):
        # Only a new filter of a grant could restrict it, and such a filter is stored only if no table was counted.
        return [raised(of_share, "tables", seen="filters")]
    of_filter = [raised(of_share, "filters", seen="tables")] if filtered else []
    return [raised(of_all, "revision", seen="revision"), *of_filter]


def entries_of(records: Records) -> Iterator[Entry]:
    """Yield everything in the catalog that lies in a folder."""
    for share in records.all(keys.all_of("share")):
        yield from map(Table.read, records.all(keys.in_share("table", share["name"])))
        for item in FOLDERS:
            yield from map(item.read, records.all(keys.in_share(item.kind, share["name"])))
        for model in map(Model.read, records.all(keys.in_share(Model.kind, share["name"]))):
            yield from map(ModelVersion.read, records.all(keys.model_versions(model.share, model.id)))


def stores_of(storage: Storage) -> frozenset[str]:
    """Return the names of a storage's store: its endpoints for the server and for recipients."""
    return frozenset(map(store_name, {storage.endpoint, storage.public_endpoint or storage.endpoint}))


class Overlaps:
    """Compares the folders of a catalog, as if a change was made already; reads grants and storages once."""

    def __init__(self, records: Records, filtered: str = "", moved: Storage | None = None) -> None:
        self._records = records
        self._filtered = filtered
        self._moved = moved

        @cache
        def is_filtered(share: str) -> bool:
            grants = records.all(keys.of_share("grant", share))
            return share.lower() == filtered.lower() or any(grant.get("partition_filter") for grant in grants)

        self._is_filtered = is_filtered

    def concerned(self) -> list[Entry]:
        """Return the entries that the filter or the storage's new address applies to."""
        if self._moved:
            return [entry for entry in entries_of(self._records) if entry.storage == names.key(self._moved.name)]
        return [Table.read(item) for item in self._records.all(keys.in_share("table", self._filtered))]

    def check(self, entry: Entry) -> None:
        """Raise InvalidParameter for a folder of the stack's own, and for a view in a share with filtered grants."""
        own = {place.bucket for place in self.places(entry)}.intersection(self._records.buckets.stack_buckets())
        if own:
            raise InvalidParameter(
                f"'{entry.title}' would share the bucket '{min(own)}', which holds the stack's own files: name a "
                "folder in another bucket"
            )
        if isinstance(entry, Table) and entry.view_properties is not None and self._is_filtered(entry.share):
            raise InvalidParameter(
                f"'{entry.title}' is a view, whose SQL says what each recipient sees, and a grant of '{entry.share}' "
                "has a filter: put the view into another share, or grant the share without a filter"
            )

    def conflicts(self, entered: Sequence[Entry] | None = None) -> Iterator[tuple[Entry, Table]]:
        """Yield each folder that is shared whole with each table that it opens and of which not all is shared.

        Those are tables shared by `dir`, volumes, skills and versions of models. Of the whole catalog, or only the
        pairs with one of `entered`.
        """
        if entered is not None and not any(_is_wide(entry) or self.is_narrow(entry) for entry in entered):
            return  # most tables: the rest of the catalog is not read for them
        entries = {_identity(entry): entry for entry in [*entries_of(self._records), *(entered or ())]}
        looked_at = entries.keys() if entered is None else {_identity(entry) for entry in entered}
        for one, wide in entries.items():
            if _is_wide(wide):
                for other, narrow in entries.items():
                    if (
                        isinstance(narrow, Table)
                        and other != one
                        and not looked_at.isdisjoint((one, other))
                        and self._reads(wide, narrow)
                        and self.stores(wide) & self.stores(narrow)
                        and self.is_narrow(narrow)
                    ):
                        yield wide, narrow

    def incomparable(self) -> Iterator[Entry]:
        """Yield entries that should be compared with others but cannot, since their bucket is unknown."""
        for entry in entries_of(self._records):
            unknown = any(map(self._records.buckets.is_unknown, _locations(entry)))
            if unknown and (_is_wide(entry) or self.is_narrow(entry)):
                yield entry

    def overlapping(self, entered: Folder) -> list[Entry]:
        """Return the other entries that share some of the same files."""
        [own] = self.places(entered)
        return [
            entry
            for entry in entries_of(self._records)
            if _identity(entry) != _identity(entered)
            and any(place.contains(own) or own.contains(place) for place in self.places(entry))
            and self.stores(entry) & self.stores(entered)
        ]

    def is_narrow(self, entry: Entry) -> bool:
        """Return whether some recipient may not see all of a table."""
        return isinstance(entry, Table) and (entry.is_filtered or self._is_filtered(entry.share))

    def places(self, entry: Entry) -> list[Location]:
        """Return the folders of an entry, with known buckets in place of access points."""
        return [self._records.buckets.resolve(place) for place in _locations(entry)]

    def stores(self, entry: Entry) -> frozenset[str]:
        """Return the names of an entry's store; an access point is AWS's own, whatever the storage."""
        storage = self._storages.get(entry.storage)
        by_points = any(access_point(place.bucket) for place in _locations(entry))
        return (stores_of(storage) if storage else frozenset({AWS})) | ({AWS} if by_points else frozenset())

    @cached_property
    def _storages(self) -> dict[str, Storage]:
        known = map(Storage.read, self._records.all(keys.all_of("storage")))
        return {names.key(storage.name): storage for storage in [*known, *([self._moved] if self._moved else [])]}

    def _reads(self, wide: Entry, narrow: Table) -> bool:
        """Return whether an entry's folders hold files of a table that the entry does not share itself.

        A table shares all files of its own root, so the same folder may be entered twice, in part and by `dir`. A
        view's folder holds the rows of all recipients.
        """
        is_same = isinstance(wide, Table) and narrow.view_properties is None
        own = self.places(wide)[0] if is_same else None
        return any(
            (folder.contains(place) or place.contains(folder)) and not folder == place == own
            for folder in self.places(wide)
            for place in self.places(narrow)
        )


def _is_wide(entry: Entry) -> bool:
    return isinstance(entry, Folder) or "dir" in entry.access_modes


def _identity(entry: Entry) -> tuple[str, str]:
    return type(entry).__name__, entry.title.lower()


def _locations(entry: Entry) -> list[Location]:
    auxiliary = () if isinstance(entry, Folder) else entry.auxiliary_locations
    return [Location.parse(uri) for uri in (entry.location, *auxiliary)]
