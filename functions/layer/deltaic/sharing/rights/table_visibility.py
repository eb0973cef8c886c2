"""Determine which files and metadata of a table version one recipient may see."""

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
_HIDDEN_KEYS: Final = {"delta.generationExpression", "delta.identity.highWaterMark"}
"""Keys of column metadata that reveal hidden rows or columns. Only writers need them."""
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
_COLUMN_ID: Final = "delta.columnMapping.id"
_NESTED_IDS: Final = "delta.columnMapping.nested.ids"
_MAX_COLUMN_ID: Final = "delta.columnmapping.maxcolumnid"
_READER_KEYS: Final = {
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
"""Keys of column metadata that readers need. With hidden columns, others are removed, because they could name them."""


class TableVisibility(msgspec.Struct, frozen=True):
    """Files and metadata of one version that one recipient may see."""

    metadata: Metadata
    """Metadata without hidden columns, for the response and for predicate hints."""
    partition_filter: "BoundFilter | None" = None
    """Selects the visible files; None for all."""
    shown_columns: frozenset[str] | None = None
    """Columns that partition values and statistics in the response may contain; None if no column is hidden.

    These are the shown, not the hidden columns, because upper and lower case of a hidden column can differ in the log.
    """

    @property
    def is_filtered(self) -> bool:
        """Return whether lines must omit row ids and deletion vector files, which could reveal hidden files."""
        return self.partition_filter is not None or self.shown_columns is not None

    def shows(self, partition_values: Mapping[str, str | None]) -> bool:
        """Return whether files of a partition are visible."""
        return self.partition_filter is None or self.partition_filter.sees(partition_values)

    def row_filter(self, pruning: FileFilter | None) -> FileFilter | None:
        """Return the filter for visible files that also match the predicate hints; None if it selects all files."""
        return pruning if self.partition_filter is None else _RowFilter(self.partition_filter, pruning)

    def totals(self, snapshot: Snapshot, *, files_follow: bool = False) -> Totals:
        """Return number and bytes of the visible files; set `files_follow` if a scan of the files follows."""
        return snapshot.totals(self.row_filter(None), files_follow=files_follow)


class _RowFilter(msgspec.Struct, frozen=True):
    """`deltaic.delta.file_filter.FileFilter` that selects visible files that match the predicate hints."""

    visible: "BoundFilter"
    pruning: FileFilter | None

    @property
    def identity(self) -> Hashable:
        return "seen", self.visible.identity, None if self.pruning is None else self.pruning.identity

    @property
    def needs_statistics(self) -> bool:
        return self.pruning is not None and self.pruning.needs_statistics

    @property
    def needs_partition_values(self) -> bool:
        return True

    def by_bounds(self, statistics: pa.StringArray) -> pa.BooleanArray:
        # Bounds only skip row groups without visible files. `by_partition` decides about each file.
        visible = self.visible.by_bounds(statistics)
        return visible if self.pruning is None else pc.and_(visible, self.pruning.by_bounds(statistics))

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        visible = self.visible.mask(partition_values)
        return visible if self.pruning is None else pc.and_(visible, self.pruning.by_partition(partition_values))

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        return [] if self.pruning is None else self.pruning.typed_leaves(stats_parsed)

    # The log calls these methods in this order, with the remaining files: the next two never get hidden files.
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
    """Determine from the metadata of a version what a recipient with `rights` may see.

    Raises TableUnreadable if a filter cannot be evaluated with the columns of that version, or if a hidden column is
    not a partition column.
    """
    if not rights.are_filtered:
        return TableVisibility(metadata)
    from deltaic.partition_filters import evaluate  # few tables have a filter

    visible_metadata, shown_columns = _hide_columns(metadata, rights.hidden)
    partition_filter = evaluate(rights.filters, rights.properties, metadata) if rights.filters else None
    return TableVisibility(visible_metadata, partition_filter, shown_columns)


def check_hidden(rights: Rights, protocol: Protocol, metadata: Metadata) -> None:
    """Raise TableUnreadable if the data files contain values of hidden columns."""
    if rights.hidden and (feature := partition_values_in_files(protocol, metadata)):
        raise TableUnreadable(
            "the files of this table contain a hidden column: ask its provider to show the column or stop writing it",
            f"the table has hidden columns and {feature}",
        )


def _hide_columns(metadata: Metadata, hidden: frozenset[str]) -> tuple[Metadata, frozenset[str] | None]:
    """Return the metadata without hidden columns, and the names of the shown columns.

    Raises TableUnreadable if a hidden column is not a partition column of that version: then files contain its values,
    or the version has the column under another name.
    """
    partition_columns = {name.lower() for name in metadata.partition_columns}
    if missing := sorted(hidden - partition_columns):
        raise TableUnreadable(
            "this version of the table is not shared: a column that is hidden from recipients is not a partition "
            "column in it. Read another version",
            f"hidden columns that are not partition columns: {', '.join(missing)}",
        )
    schema = read_schema(metadata.schema_string)
    fields: Sequence[dict[str, Any]] = schema["fields"]
    schema["fields"] = [_without_counters(field) for field in fields if field["name"].lower() not in hidden]
    shown = _names(schema["fields"]) - _names([field for field in fields if field["name"].lower() in hidden])
    configuration = {name: value for name, value in metadata.configuration.items() if name.lower() != _ROW_TRACKING}
    if hidden:
        largest = _keep_reader_metadata(schema)
        for name in [name for name in configuration if name.lower() == _MAX_COLUMN_ID]:
            configuration[name] = str(largest)
    visible = msgspec.structs.replace(
        metadata,
        schema_string=json.dumps(schema, separators=(",", ":")),
        partition_columns=[name for name in metadata.partition_columns if name.lower() not in hidden],
        configuration=configuration,
    )
    return visible, shown if hidden else None


def _names(fields: Sequence[dict[str, Any]]) -> frozenset[str]:
    pairs = [(field["name"], (field.get("metadata") or {}).get(_PHYSICAL_NAME)) for field in fields]
    return frozenset(name for pair in pairs for name in pair if isinstance(name, str))


def _without_counters(column: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in (column.get("metadata") or {}).items() if name not in _HIDDEN_KEYS}
    return {**column, "metadata": metadata}


def _keep_reader_metadata(schema: dict[str, Any]) -> int:
    """Remove column metadata that readers do not need, also of nested columns; return the largest column id."""
    ids = [0]
    for item in nested_parts(schema):
        if "name" in item:
            metadata = {name: value for name, value in (item.get("metadata") or {}).items() if name in _READER_KEYS}
            item["metadata"] = metadata
            nested = metadata.get(_NESTED_IDS)
            candidates = [metadata.get(_COLUMN_ID), *(nested.values() if isinstance(nested, dict) else ())]
            ids += [column_id for column_id in candidates if isinstance(column_id, int)]
    return max(ids)
