"""Decides what one recipient may see of one table: by whose filters, and without which columns.

A signed URL gives a whole file, so it is files that are kept back, by their partition values. Whatever names, counts or
describes files goes through the `TableVisibility` of the version that it speaks of; tokens are bound to the rights'
`identity`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from deltaic.protocol.sealed_tokens import checksum

if TYPE_CHECKING:
    from deltaic.partition_filters.conditions import PartitionFilter


class Rights(msgspec.Struct, frozen=True):
    """What a recipient may see of a table, whatever its version; without arguments: all of it."""

    filters: "tuple[PartitionFilter, ...]" = ()
    """A file leaves if all of them keep it."""
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The recipient's."""
    hidden: frozenset[str] = frozenset()
    """Columns that it does not see, in lower case."""

    @property
    def are_filtered(self) -> bool:
        """Whether less than all of the table is shared."""
        return bool(self.filters or self.hidden)

    @property
    def identity(self) -> str:
        """Name what the filters come to for this recipient; empty where nothing is kept back."""
        if not self.are_filtered:
            return ""
        used = set().union(*(one.properties for one in self.filters))
        return checksum({
            "filters": [one.text for one in self.filters],
            "properties": {name: self.properties.get(name) for name in sorted(used)},
            "hidden": sorted(self.hidden),
        })  # fmt: skip


ALL: Final = Rights()
"""The rights to all of a table."""
