"""Decides what a recipient sees of one version of a table: which of its files, and which metadata."""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.checksum import Totals
from deltaic.delta.features import partition_values_in_files
from deltaic.delta.file_filter import FileFilter
from deltaic.delta.schema_string import nested_parts, read_schema
from deltaic.delta.snapshot import Snapshot
from deltaic.errors import TableUnreadable
from deltaic.sharing.rights.table_rights import Rights

if TYPE_CHECKING:
    from deltaic.partition_filters.bound_filter import BoundFilter

_ROW_TRACKING: Final = "delta.enablerowtracking"
_UNTOLD: Final = {"delta.generationExpression", "delta.identity.highWaterMark"}
"""What a column of the schema says that counts rows of others or names other columns; only writers need it."""
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
_COLUMN_ID: Final = "delta.columnMapping.id"
_NESTED_IDS: Final = "delta.columnMapping.nested.ids"
_MAX_COLUMN_ID: Final = "delta.columnmapping.maxcolumnid"
_FOR_READERS: Final = {
    "comment",
    _COLUMN_ID,
    _PHYSICAL_NAME,
    _NESTED_IDS,
    "parquet.field.id",
    "parquet.field.nested.ids",
    "delta.typeChanges",
    "__CHAR_VARCHAR_TYPE_STRING",
    "__COLLATIONS",
    "EXISTS_DEFAULT",
}
"""All that a column says where columns are hidden: what files are read by; the rest may name any column."""


class TableVisibility(msgspec.Struct, frozen=True):
    """What a recipient sees of one version."""

    metadata: Metadata
    """Without what is hidden: the schema that hints are understood by, and that is told."""
    kept: "BoundFilter | None" = None
    """Which files; None for all."""
    shown_columns: frozenset[str] | None = None
    """The only keys of partition values and statistics that leave; None where no column is hidden.

    A writer may spell the key of a hidden column in another way, so keys are compared with what may be shown.
    """

    @property
    def is_filtered(self) -> bool:
        """Whether lines may reveal nothing that other files share: neither row ids nor files of deletion vectors."""
        return self.kept is not None or self.shown_columns is not None

    def sees(self, partition_values: Mapping[str, str | None]) -> bool:
        """Tell whether files of a partition may leave."""
        return self.kept is None or self.kept.sees(partition_values)

    def row_filter(self, pruning: FileFilter | None) -> FileFilter | None:
        """Return the filter that keeps what is seen and what the hints ask for; None for all files."""
        return pruning if self.kept is None else _RowFilter(self.kept, pruning)

    def totals(self, snapshot: Snapshot, *, files_follow: bool = False) -> Totals:
        """Return how many files of the version are seen, and their bytes; `files_follow` as for `Snapshot.totals`."""
        return snapshot.totals(self.row_filter(None), files_follow=files_follow)


class _RowFilter(msgspec.Struct, frozen=True):
    """Implements `deltaic.delta.file_filter.FileFilter`: what may be seen, and of that what hints ask for."""

    kept: "BoundFilter"
    pruning: FileFilter | None

    @property
    def identity(self) -> Hashable:
        return "seen", self.kept.identity, None if self.pruning is None else self.pruning.identity

    @property
    def needs_statistics(self) -> bool:
        return self.pruning is not None and self.pruning.needs_statistics

    @property
    def needs_partition_values(self) -> bool:
        return True

    def by_bounds(self, statistics: pa.StringArray) -> pa.BooleanArray:
        # They spare row groups that hold nothing that is seen; what is seen of the others, values decide.
        seen = self.kept.by_bounds(statistics)
        return seen if self.pruning is None else pc.and_(seen, self.pruning.by_bounds(statistics))

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        seen = self.kept.mask(partition_values)
        return seen if self.pruning is None else pc.and_(seen, self.pruning.by_partition(partition_values))

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        return [] if self.pruning is None else self.pruning.typed_leaves(stats_parsed)

    # The log calls the steps in this order, for what survived: what is not seen never comes to the next two.
    def by_typed_statistics(self, partition_values: pa.MapArray, stats_parsed: pa.StructArray) -> pa.BooleanArray:
        assert self.pruning is not None  # noqa: S101 -- needs_statistics
        return self.pruning.by_typed_statistics(partition_values, stats_parsed)

    def is_decided_by(self, stats_parsed: pa.StructArray) -> bool:
        assert self.pruning is not None  # noqa: S101 -- needs_statistics
        return self.pruning.is_decided_by(stats_parsed)

    def by_json_statistics(self, partition_values: pa.MapArray, stats: pa.StringArray) -> pa.BooleanArray:
        assert self.pruning is not None  # noqa: S101 -- needs_statistics
        return self.pruning.by_json_statistics(partition_values, stats)


def visibility_of(rights: Rights, metadata: Metadata) -> TableVisibility:
    """Return what rights come to under a version's metadata.

    Raises TableUnreadable where their filters say nothing certain of that version's columns, and where one that is
    hidden is no partition column.
    """
    if not rights.are_filtered:
        return TableVisibility(metadata)
    from deltaic.partition_filters import evaluate  # few tables have a filter

    shown, shown_columns = _without(metadata, rights.hidden)
    kept = evaluate(rights.filters, rights.properties, metadata) if rights.filters else None
    return TableVisibility(shown, kept, shown_columns)


def check_hidden(rights: Rights, protocol: Protocol, metadata: Metadata) -> None:
    """Raise TableUnreadable where the values of hidden columns stand in the files, which are read whole."""
    if rights.hidden and (feature := partition_values_in_files(protocol, metadata)):
        raise TableUnreadable(
            "a hidden column of this table is written into its files: its provider must show it, or stop writing it",
            f"columns are hidden, and the table has {feature}",
        )


def _without(metadata: Metadata, hidden: frozenset[str]) -> tuple[Metadata, frozenset[str] | None]:
    """Return metadata as recipients see it where something is kept back, and the names of the columns that they see.

    Raises TableUnreadable where one of them is no partition column of that version: its values are in the files then,
    or it is shown by another name.
    """
    partition_columns = {name.lower() for name in metadata.partition_columns}
    if lost := sorted(hidden - partition_columns):
        raise TableUnreadable(
            "this version of the table is not shared: a column that is hidden from recipients is no partition column "
            "in it; other versions may still be read",
            f"hidden and no partition columns: {', '.join(lost)}",
        )
    schema = read_schema(metadata.schema_string)
    fields: Sequence[dict[str, Any]] = schema["fields"]
    schema["fields"] = [_without_counters(one) for one in fields if one["name"].lower() not in hidden]
    shown = _names_of(schema["fields"]) - _names_of([one for one in fields if one["name"].lower() in hidden])
    configuration = {name: value for name, value in metadata.configuration.items() if name.lower() != _ROW_TRACKING}
    if hidden:
        largest = _left_for_readers(schema)
        for name in [name for name in configuration if name.lower() == _MAX_COLUMN_ID]:
            configuration[name] = str(largest)
    visible = msgspec.structs.replace(
        metadata,
        schema_string=json.dumps(schema, separators=(",", ":")),
        partition_columns=[name for name in metadata.partition_columns if name.lower() not in hidden],
        configuration=configuration,
    )
    return visible, shown if hidden else None


def _names_of(fields: Sequence[dict[str, Any]]) -> frozenset[str]:
    both = [(field["name"], (field.get("metadata") or {}).get(_PHYSICAL_NAME)) for field in fields]
    return frozenset(name for names in both for name in names if isinstance(name, str))


def _without_counters(column: dict[str, Any]) -> dict[str, Any]:
    about = {name: value for name, value in (column.get("metadata") or {}).items() if name not in _UNTOLD}
    return {**column, "metadata": about}


def _left_for_readers(schema: dict[str, Any]) -> int:
    """Leave of what its columns say, nested ones too, what readers need; return the largest id of column mapping."""
    ids = [0]
    for item in nested_parts(schema):
        if "name" in item:
            about = {name: value for name, value in (item.get("metadata") or {}).items() if name in _FOR_READERS}
            item["metadata"] = about
            nested = about.get(_NESTED_IDS)
            found = [about.get(_COLUMN_ID), *(nested.values() if isinstance(nested, dict) else ())]
            ids += [one for one in found if isinstance(one, int)]
    return max(ids)
