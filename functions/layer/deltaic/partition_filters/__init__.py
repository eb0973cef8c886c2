"""Decide which files of a table a recipient can see, by SQL over partition columns and the recipient's properties.

Unlike a hint, a filter protects rows: invalid, missing and uncertain values hide a file (decision 83).

    "region = current_recipient('region') AND year >= 2024"

    lexer, grammar      parse names, strings and numbers to a tree of conditions
    filter_binding      binds it to columns and properties: region = ['EU', 'EU'], year >= [2024, 2024]
    readings, truth     all possible values of a file's partition values; the possible results of a condition
    bound_filter, masks show a file if the only possible result is true, once per combination of partition values

All rows of a file have the same partition values, so a file is either visible or hidden. Call `parse` and `check` when
a filter is created, and `evaluate` for a request. Most tables have no filter, so modules are imported at the first
call, and Arrow for the first mask.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltaic.partition_filters.bound_filter import BoundFilter
    from deltaic.partition_filters.conditions import PartitionFilter
    from deltaic.pruning.columns import TableMetadata

BEFORE_SNAPSHOT: Final = (
    "deltaic.partition_filters.filter_binding",
    "deltaic.partition_filters.grammar",
    "deltaic.partition_filters.masks",
)
"""Modules to import before a snapshot of the process. Otherwise the first filter imports them."""


def parse(text: str) -> "PartitionFilter":
    """Parse a partition filter; raises InvalidParameter with the position, the problem and a remedy."""
    from deltaic.partition_filters import grammar

    return grammar.parse(text)


def check(partition_filter: "PartitionFilter", metadata: "TableMetadata") -> None:
    """Raise InvalidParameter if a filter has wrong types, or columns that are not the table's partition columns."""
    from deltaic.partition_filters.filter_binding import FilterBinder

    FilterBinder(metadata, None).bind(partition_filter)


def evaluate(
    filters: "Sequence[PartitionFilter]", properties: Mapping[str, str], metadata: "TableMetadata"
) -> "BoundFilter":
    """Combine filters with AND, and bind them to a table and the properties of a recipient.

    Raises TableUnreadable if the schema changed and a filter no longer matches it. A recipient without one of the
    properties sees no files.
    """
    from deltaic.partition_filters import bound_filter

    return bound_filter.evaluate(filters, properties, metadata)
