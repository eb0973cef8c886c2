"""Decides which files of a table a recipient may see: SQL over partition columns and the recipient's properties.

Unlike a hint, a filter guards rows: whatever is not understood, not told or not certain hides a file (decision 83).

    "region = current_recipient('region') AND year >= 2024"

    lexer, grammar      names, texts, numbers; a tree of conditions
    filter_binding      region = ['EU', 'EU'], on the table's column; year >= [2024, 2024]
    readings, truth     a file's partition values as all that they may be; the answers that these can give
    evaluated, masks    shown if the only possible answer is true; once for each combination of partition values

A filter's columns hold for whole files, so that a file is shown or not. `parse` and `check` are for who writes a
filter, `evaluate` for who answers a recipient. Most tables have no filter, so that each of them is loaded when it is
first called; Arrow by the first mask.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltaic.partition_filters.conditions import PartitionFilter
    from deltaic.partition_filters.evaluated import Evaluated
    from deltaic.pruning.columns import TableMetadata

BEFORE_SNAPSHOT: Final = (
    "deltaic.partition_filters.filter_binding",
    "deltaic.partition_filters.grammar",
    "deltaic.partition_filters.masks",
)
"""Modules that are imported when the first filter is evaluated; a snapshot of the process has them already."""


def parse(text: str) -> "PartitionFilter":
    """Read a filter; raises InvalidParameter, which says at which character it is wrong, why, and what to write."""
    from deltaic.partition_filters import grammar

    return grammar.parse(text)


def check(partition_filter: "PartitionFilter", metadata: "TableMetadata") -> None:
    """Raise InvalidParameter, with position and remedy, where a filter does not fit the table.

    A column that the table does not have, one that is no partition column, values of another type.
    """
    from deltaic.partition_filters.filter_binding import FilterBinder

    FilterBinder(metadata, None).bind(partition_filter)


def evaluate(
    filters: "Sequence[PartitionFilter]", properties: Mapping[str, str], metadata: "TableMetadata"
) -> "Evaluated":
    """Bind filters, all of which must hold, to a table and to the properties of a recipient.

    Raises TableUnreadable where one does not fit the table: its schema was another one when the filter was checked. A
    recipient that lacks a property of any of them sees nothing.
    """
    from deltaic.partition_filters import evaluated

    return evaluated.evaluate(filters, properties, metadata)
