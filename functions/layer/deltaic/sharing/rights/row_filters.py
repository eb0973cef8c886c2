"""Row filters of a table for one recipient: its own, the grant's, and for a view that of the recipient's audience."""

from typing import TYPE_CHECKING, Final

from deltaic.catalog.reader import CatalogReader, GrantedTable
from deltaic.errors import InvalidParameter, TableUnreadable, UnsupportedOperation
from deltaic.partition_filters import parse
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN, audience
from deltaic.sharing.rights.table_rights import Rights

if TYPE_CHECKING:
    from deltaic.partition_filters.conditions import PartitionFilter

_NOBODY: Final = ""
"""The audience of a recipient that lacks a property, of which no view has rows."""


def filtered_rights(catalog: CatalogReader, granted: GrantedTable) -> tuple[Rights, int]:
    """Return the rights, and from which version on they hold.

    Raises UnsupportedOperation for a view that has not been refreshed since the recipient got its rights, and
    TableUnreadable for a filter that cannot be read.
    """
    table = granted.table
    filters = [table.partition_filter, granted.grant.partition_filter]
    start_version = table.start_version
    if table.view_properties is not None:
        own = audience(table.view_properties, granted.properties) or _NOBODY
        filters.append(f"{AUDIENCE_COLUMN} = '{own}'")
        partition = catalog.get_view_partition(table.share, table.id, own) if own != _NOBODY else None
        if partition is None and (own != _NOBODY or not catalog.is_refreshed(table)):
            raise UnsupportedOperation(
                f"Your rows of {table.title} are not there yet: the view's next refresh makes them. Ask again "
                "after it, or ask its provider when that is."
            )
        start_version = max(start_version, partition.since_version if partition else 0)
    rights = Rights(
        tuple(_parsed(text) for text in filters if text),
        granted.properties,
        frozenset(name.lower() for name in table.hidden_columns),
    )
    return rights, start_version


def _parsed(text: str) -> "PartitionFilter":
    try:
        return parse(text)
    except InvalidParameter as wrong:
        raise TableUnreadable(
            "which rows of this table are yours cannot be told: its provider must correct its partition filter",
            wrong.message,
        ) from wrong
