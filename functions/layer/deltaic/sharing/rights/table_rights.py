"""Rights of one recipient to one table: row filters and hidden columns.

A signed URL gives access to a complete file, so filters select files by their partition values. All code that lists,
counts or describes files uses the `TableVisibility` of a version. Page tokens become invalid if the rights change.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from deltaic.protocol.sealed_tokens import checksum

if TYPE_CHECKING:
    from deltaic.partition_filters.conditions import PartitionFilter


class Rights(msgspec.Struct, frozen=True):
    """Rights of a recipient to all versions of a table; by default to the complete table."""

    filters: "tuple[PartitionFilter, ...]" = ()
    """A file is visible if all filters accept it."""
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Properties of the recipient, to which filters can refer."""
    hidden: frozenset[str] = frozenset()
    """Names of hidden columns, in lower case."""

    @property
    def are_filtered(self) -> bool:
        """Return whether only some of the table's rows or columns are shared."""
        return bool(self.filters or self.hidden)

    @property
    def identity(self) -> str:
        """Checksum of filters, hidden columns and recipient properties; empty for an unfiltered table."""
        if not self.are_filtered:
            return ""
        used = set().union(*(row_filter.properties for row_filter in self.filters))
        return checksum({
            "filters": [row_filter.text for row_filter in self.filters],
            "properties": {name: self.properties.get(name) for name in sorted(used)},
            "hidden": sorted(self.hidden),
        })  # fmt: skip


ALL: Final = Rights()
"""Rights to the complete table."""
