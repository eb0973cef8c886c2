"""What the catalog itself demands of partition filters and hidden columns; whether a table has them it cannot know."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from deltaic import partition_filters
from deltaic.catalog import keys
from deltaic.catalog.asset_items import FOLDERS, Folder, Model, ModelVersion
from deltaic.catalog.items import Storage, Table
from deltaic.catalog.records import Records
from deltaic.errors import InvalidParameter
from deltaic.protocol import names
from deltaic.storage.locations import Location, TableLocations

_AWS: Final = "amazonaws.com"

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
        if table.is_restricted or table.start_version or table.checkpoint:
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


def check_folders(records: Records, entered: Sequence[Entry], filtered: str = "") -> None:
    """Refuse entries after which one folder would open a table of which not all is shared.

    `entered` are entries as they are about to be stored; `filtered` is a share that is about to be granted with a
    filter. Raises InvalidParameter.
    """
    for wide, narrow in opened(records, entered, filtered):
        if isinstance(wide, Folder):
            how, remedy = f"'{wide.title}' shares all", "move one of them elsewhere"
        else:
            how = f"'{wide.title}' is shared by the access mode 'dir', whose credentials read all"
            remedy = f"share '{wide.title}' by the access mode 'url' alone, or move one of them elsewhere"
        raise InvalidParameter(
            f"{how} that lies in {wide.location}, and not all of '{narrow.title}' ({narrow.location}) is shared: "
            f"{remedy}"
        )


def opened(
    records: Records, entered: Sequence[Entry] | None = None, filtered: str = ""
) -> Iterator[tuple[Entry, Table]]:
    """Yield each folder that is shared whole with each table that it opens and of which not all is shared.

    Those are tables shared by `dir`, volumes, skills and versions of models. Of the whole catalog, or only the pairs
    with one of `entered` (see `check_folders`).
    """

    @cache
    def held_in_part(share: str) -> bool:
        grants = records.all(keys.grantees(share))
        return share.lower() == filtered.lower() or any(grant.get("partition_filter") for grant in grants)

    def is_narrow(entry: Entry) -> bool:
        return isinstance(entry, Table) and (entry.is_restricted or held_in_part(entry.share))

    if entered is not None and not any(_is_wide(entry) or is_narrow(entry) for entry in entered):
        return  # most tables: the rest of the catalog is not read for them
    entries = {_identity(entry): entry for entry in [*entries_of(records), *(entered or ())]}
    looked_at = entries.keys() if entered is None else {_identity(entry) for entry in entered}
    addresses = _addresses(records)
    for one, wide in entries.items():
        if _is_wide(wide):
            for other, narrow in entries.items():
                if (
                    isinstance(narrow, Table)
                    and other != one
                    and not looked_at.isdisjoint((one, other))
                    and _reads(wide, narrow)
                    and addresses(wide) & addresses(narrow)
                    and is_narrow(narrow)
                ):
                    yield wide, narrow


def overlapping(records: Records, entered: Folder) -> list[Entry]:
    """Return what else is shared of which the same files are a part, in whole or as one of several folders."""
    addresses = _addresses(records)
    own = Location.parse(entered.location)
    return [
        entry
        for entry in entries_of(records)
        if _identity(entry) != _identity(entered)
        and any(place.contains(own) or own.contains(place) for place in _places(entry))
        and addresses(entry) & addresses(entered)
    ]


def entries_of(records: Records) -> Iterator[Entry]:
    """Yield everything in the catalog that lies in a folder."""
    for share in records.all(keys.shares()):
        yield from map(Table.read, records.all(keys.all_tables(share["name"])))
        for item in FOLDERS:
            yield from map(item.read, records.all(keys.all_assets(item.kind, share["name"])))
        for model in map(Model.read, records.all(keys.all_assets(Model.kind, share["name"]))):
            yield from map(ModelVersion.read, records.all(keys.model_versions(model.share, model.id)))


def _is_wide(entry: Entry) -> bool:
    return isinstance(entry, Folder) or "dir" in entry.access_modes


def _identity(entry: Entry) -> tuple[str, str]:
    return type(entry).__name__, entry.title.lower()


def _places(entry: Entry) -> TableLocations:
    return TableLocations.parse(entry.location, () if isinstance(entry, Folder) else entry.auxiliary_locations)


def _reads(wide: Entry, narrow: Table) -> bool:
    """Tell whether the folders of one entry hold files of a table that the entry does not share itself.

    What lies in its own root a table shares as a whole: who enters the same folder twice, in part and by `dir`, says
    so. A view's folder holds the rows of all recipients.
    """
    is_same = isinstance(wide, Table) and narrow.view_properties is None
    own = Location.parse(wide.location) if is_same else None
    return any(
        (folder.contains(place) or place.contains(folder)) and not folder == place == own
        for folder in _places(wide)
        for place in _places(narrow)
    )


def _addresses(records: Records) -> Callable[[Entry], frozenset[str]]:
    """Return what tells the endpoints of an entry's store, which several storages may name; those of AWS are one."""

    @cache
    def storages() -> dict[str, Storage]:
        return {names.key(storage.name): storage for storage in map(Storage.read, records.all(keys.storages()))}

    def addresses(entry: Entry) -> frozenset[str]:
        storage = storages().get(entry.storage)
        told = {storage.endpoint, storage.public_endpoint} - {""} if storage else set()
        hosts = {urlsplit(url).netloc.lower() for url in told} or {_AWS}
        return frozenset(_AWS if host.endswith(_AWS) else host for host in hosts)

    return addresses
