"""Combine the row filters for one recipient: of table, grant, and view audience (recipients with equal properties)."""

from typing import TYPE_CHECKING, Final

from deltaic.catalog.reader import CatalogReader, GrantedTable
from deltaic.errors import InvalidParameter, TableUnreadable, UnsupportedOperation
from deltaic.partition_filters import parse
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN, audience
from deltaic.sharing.rights.table_rights import Rights

if TYPE_CHECKING:
    from deltaic.partition_filters.conditions import PartitionFilter

_NO_AUDIENCE: Final = ""
"""Audience of a recipient without a required property; no view has rows for this audience."""


def filtered_rights(catalog: CatalogReader, granted: GrantedTable) -> tuple[Rights, int]:
    """Return the recipient's rights to a table, and the first version that they apply to.

    Raises UnsupportedOperation for a view that was not refreshed since the recipient got its rights, and
    TableUnreadable for an invalid filter.
    """
    table = granted.table
    filters = [table.partition_filter, granted.grant.partition_filter]
    start_version = table.start_version
    if table.view_properties is not None:
        group = audience(table.view_properties, granted.properties) or _NO_AUDIENCE
        filters.append(f"{AUDIENCE_COLUMN} = '{group}'")
        partition = catalog.get_view_partition(table.share, table.id, group) if group != _NO_AUDIENCE else None
        if partition is None and (group != _NO_AUDIENCE or not catalog.is_refreshed(table)):
            raise UnsupportedOperation(
                f"The view {table.title} has no rows for you yet: its next refresh creates them. Try again after the "
                "refresh, or ask its provider when that is."
            )
        start_version = max(start_version, partition.since_version if partition else 0)
    rights = Rights(
        tuple(_parse_filter(text) for text in filters if text),
        granted.properties,
        frozenset(name.lower() for name in table.hidden_columns),
    )
    return rights, start_version


def _parse_filter(text: str) -> "PartitionFilter":
    try:
        return parse(text)
    except InvalidParameter as invalid:
        raise TableUnreadable(
            "cannot select your rows of this table: its partition filter is invalid. Ask its provider to fix it",
            invalid.message,
        ) from invalid
