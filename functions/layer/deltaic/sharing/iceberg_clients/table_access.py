"""Decides whether a recipient may read a table with an Iceberg client, and by which access to its files."""

from deltaic.catalog.items import Table
from deltaic.errors import NotFound, UnsupportedOperation
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import SharedTable, Sharing


def is_offered(listed: Table) -> bool:
    """Tell whether an entry, as the recipient's listing has it, can be loaded: what opens a folder opens all of it."""
    return bool(listed.iceberg) and (not _opens_folder(listed) or "dir" in listed.access_modes)


def _opens_folder(entry: Table) -> bool:
    return entry.iceberg == "vended" or entry.format == "iceberg"


def check_open(table: SharedTable) -> None:
    """Raise NotFound for a table that its provider has not opened to such clients."""
    if not table.entry.iceberg:
        raise NotFound(
            f"the table {table.gate.full_name} is not open to Iceberg clients: read it with a Delta Sharing client, or "
            "ask its provider"
        )


def open_table(sharing: Sharing, caller: Caller, name: RequestedTable) -> SharedTable:
    """Return a table that this recipient may read so.

    Raises NotFound for one that is not there, not granted or not open, UnsupportedOperation and InvalidParameter where
    all of a folder would be opened and must not.
    """
    table = sharing.table(caller, name)
    check_open(table)
    if table.counted and _opens_folder(table.entry):
        raise UnsupportedOperation(
            "your share provider allows you so many bytes a day, which cannot be counted where an Iceberg client reads "
            f"a whole folder: read {table.gate.full_name} with a Delta Sharing client"
        )
    if _opens_folder(table.entry):
        table.require_directory_access()
    if table.entry.iceberg == "vended":
        _check_storage(sharing, table)
    return table


def _check_storage(sharing: Sharing, table: SharedTable) -> None:
    """Refuse credentials of another role than the one that reads the metadata too: a client has one pair of keys."""
    read, home = table.storage, sharing.home
    where = (read.region, read.endpoint or home.endpoint, bool(read.role_arn), bool(read.secret))
    if where != (home.region, home.endpoint, False, False):
        raise UnsupportedOperation(
            f"The table {table.gate.full_name} lies in a storage of its own, for which Iceberg clients cannot be given "
            "credentials: ask its provider to open it by 'signed'"
        )
