"""What the catalog itself demands of partition filters and hidden columns; whether a table has them it cannot know."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from deltaic import partition_filters
from deltaic.catalog import keys
from deltaic.catalog.items import Storage, Table
from deltaic.catalog.records import Records
from deltaic.errors import InvalidParameter
from deltaic.protocol import names
from deltaic.storage.locations import Location, TableLocations

_AWS: Final = "amazonaws.com"


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


def check_folders(records: Records, entered: Sequence[Table], filtered: str = "") -> None:
    """Refuse entries after which credentials for one table's folder would read a table of which not all is shared.

    `entered` are entries as they are about to be stored; `filtered` is a share that is about to be granted with a
    filter. Raises InvalidParameter.
    """
    for wide, narrow in opened(records, entered, filtered):
        raise InvalidParameter(
            f"'{_title(wide)}' is shared by the access mode 'dir', whose credentials read all that lies in "
            f"{wide.location}, and not all of '{_title(narrow)}' ({narrow.location}) is shared: share "
            f"'{_title(wide)}' by the access mode 'url' alone, or move one of them elsewhere"
        )


def opened(
    records: Records, entered: Sequence[Table] | None = None, filtered: str = ""
) -> Iterator[tuple[Table, Table]]:
    """Yield each table shared by `dir` with each that its credentials open and of which not all is shared.

    Of the whole catalog, or only the pairs with one of `entered` (see `check_folders`).
    """

    @cache
    def held_in_part(share: str) -> bool:
        grants = records.all(keys.grantees(share))
        return share.lower() == filtered.lower() or any(grant.get("partition_filter") for grant in grants)

    def is_narrow(table: Table) -> bool:
        return table.is_restricted or held_in_part(table.share)

    if entered is not None and not any("dir" in table.access_modes or is_narrow(table) for table in entered):
        return  # most tables: the rest of the catalog is not read for them
    tables = {_title(table).lower(): table for table in [*_tables(records), *(entered or ())]}
    entered_titles = tables.keys() if entered is None else {_title(table).lower() for table in entered}
    addresses = _addresses(records)
    for title, wide in tables.items():
        if "dir" in wide.access_modes:
            for other, narrow in tables.items():
                looked_at = other != title and not entered_titles.isdisjoint((title, other)) and _reads(wide, narrow)
                if looked_at and addresses(wide) & addresses(narrow) and is_narrow(narrow):
                    yield wide, narrow


def _reads(wide: Table, narrow: Table) -> bool:
    """Tell whether the folders of one table hold files of another that it does not share itself.

    What lies in its own root it shares as a whole: who enters the same folder twice, in part and by `dir`, says so.
    """
    own = None if narrow.view_properties is not None else Location.parse(wide.location)
    there, here = (TableLocations.parse(table.location, table.auxiliary_locations) for table in (wide, narrow))
    return any(
        (folder.contains(place) or place.contains(folder)) and not folder == place == own
        for folder in there
        for place in here
    )


def _tables(records: Records) -> Iterator[Table]:
    for share in records.all(keys.shares()):
        yield from map(Table.read, records.all(keys.all_tables(share["name"])))


def _addresses(records: Records) -> Callable[[Table], frozenset[str]]:
    """Return what tells the endpoints of a table's store, which several storages may name; those of AWS are one."""

    @cache
    def storages() -> dict[str, Storage]:
        return {names.key(storage.name): storage for storage in map(Storage.read, records.all(keys.storages()))}

    def addresses(table: Table) -> frozenset[str]:
        storage = storages().get(table.storage)
        told = {storage.endpoint, storage.public_endpoint} - {""} if storage else set()
        hosts = {urlsplit(url).netloc.lower() for url in told} or {_AWS}
        return frozenset(_AWS if host.endswith(_AWS) else host for host in hosts)

    return addresses


def _title(table: Table) -> str:
    return f"{table.share}.{table.schema_name}.{table.name}"
