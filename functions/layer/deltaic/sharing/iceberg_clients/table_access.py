"""Check whether a recipient may read a table with an Iceberg client."""

from deltaic.catalog.items import Table
from deltaic.errors import NotFound, UnsupportedOperation
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import SharedTable, Sharing


def is_offered(table: Table) -> bool:
    """Return whether a recipient can load a listed table with an Iceberg client."""
    return bool(table.iceberg) and (not _opens_folder(table) or "dir" in table.access_modes)


def _opens_folder(entry: Table) -> bool:
    return entry.iceberg == "vended" or entry.format == "iceberg"


def check_open(table: SharedTable) -> None:
    """Raise NotFound for a table that its provider has not opened to Iceberg clients."""
    if not table.entry.iceberg:
        raise NotFound(
            f"the table {table.gate.full_name} is not open to Iceberg clients: read it with a Delta Sharing client, or "
            "ask its provider"
        )


def open_table(sharing: Sharing, caller: Caller, name: RequestedTable) -> SharedTable:
    """Return a table that this recipient may read with an Iceberg client.

    Raises NotFound if the table does not exist, is not granted or is not open to Iceberg clients. Raises
    UnsupportedOperation or InvalidParameter if Iceberg clients need its complete folder, but the folder is not shared.
    """
    table = sharing.table(caller, name)
    check_open(table)
    if table.counts_bytes and _opens_folder(table.entry):
        raise UnsupportedOperation(
            "your share provider limits how many bytes you may read in a day, which the server cannot count if an "
            f"Iceberg client reads the complete folder: read {table.gate.full_name} with a Delta Sharing client"
        )
    if _opens_folder(table.entry):
        table.require_directory_access(by_iceberg=True)
    if table.entry.iceberg == "vended":
        _check_storage(sharing, table)
    return table


def _check_storage(sharing: Sharing, table: SharedTable) -> None:
    """Raise UnsupportedOperation if table and metadata need different AWS keys: clients support only one pair."""
    storage, home = table.storage, sharing.home
    access = (storage.region, storage.endpoint or home.endpoint, bool(storage.role_arn), bool(storage.secret))
    if access != (home.region, home.endpoint, False, False):
        raise UnsupportedOperation(
            f"The table {table.gate.full_name} is in a separate storage, for which Iceberg clients cannot get "
            "credentials: ask its provider to open the table with signed requests (--iceberg signed)"
        )
