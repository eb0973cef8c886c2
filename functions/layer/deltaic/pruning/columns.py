"""Look up a table's columns by case-insensitive, possibly nested names, and return their physical names."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from deltaic.pruning.values import ColumnType, column_type, is_utf8


class TableMetadata(Protocol):
    """Fields of a table's `metaData` action that pruning needs."""

    @property
    def schema_string(self) -> str:
        """The table's `schemaString`."""

    @property
    def partition_columns(self) -> Sequence[str]:
        """Logical names of the partition columns."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """Table properties."""


_Field: TypeAlias = Mapping[str, Any]
_Fields: TypeAlias = list[_Field]


class TableColumn(msgspec.Struct, frozen=True):
    """A column with its physical path, which is its name in statistics and partition values."""

    path: tuple[str, ...]
    type: ColumnType
    is_partition: bool


class Columns:
    """Columns of one table; without any column if the schema is invalid."""

    def __init__(self, metadata: TableMetadata) -> None:
        mode = (metadata.configuration or {}).get("delta.columnMapping.mode", "none")
        self._mapped = mode.lower() in {"name", "id"}
        self._partitions = {name.lower() for name in metadata.partition_columns or ()}
        try:
            schema = json.loads(metadata.schema_string)
        except (ValueError, TypeError, RecursionError):
            schema = None
        self._fields = _fields(schema)

    def find(self, path: tuple[str, ...]) -> TableColumn | None:
        """Return the column with a logical name; None if missing, ambiguous or unsupported."""
        column = self._resolve(path)
        # JSON hints have a single name; its dots separate levels if no column name contains them.
        if column is None and len(path) == 1 and "." in path[0] and not _find_fields(self._fields, path[0]):
            return self._resolve(tuple(path[0].split(".")))
        return column

    def leaves(self) -> Iterator[tuple[tuple[str, ...], TableColumn]]:
        """Yield logical name and column of all supported columns without nested columns, in schema order."""

        def walk(fields: _Fields, upper_bound: tuple[_Field, ...]) -> Iterator[tuple[_Field, ...]]:
            spelled = Counter(field["name"].lower() for field in fields)
            for field in fields:
                if spelled[field["name"].lower()] == 1:
                    inner, field_path = _fields(field.get("type")), (*upper_bound, field)
                    yield from walk(inner, field_path) if inner else (field_path,)

        for field_path in walk(self._fields, ()):
            if (column := self._column(field_path)) is not None:
                yield tuple(field["name"] for field in field_path), column

    def _resolve(self, path: tuple[str, ...]) -> TableColumn | None:
        fields, field_path = self._fields, list[_Field]()
        for name in path:
            matches = _find_fields(fields, name)
            if len(matches) != 1:
                return None
            field_path += matches
            fields = _fields(matches[0].get("type"))
        return self._column(field_path) if field_path else None

    def _column(self, field_path: Sequence[_Field]) -> TableColumn | None:
        """Return the column for a path of nested schema fields."""
        physical, type_ = tuple(map(self._physical, field_path)), _type(field_path[-1])
        if type_ is None or not all(map(is_utf8, physical)):
            return None
        return TableColumn(physical, type_, len(field_path) == 1 and field_path[0]["name"].lower() in self._partitions)

    def _physical(self, field: _Field) -> str:
        name = _metadata(field).get("delta.columnMapping.physicalName") if self._mapped else None
        return name if isinstance(name, str) else str(field["name"])


def _metadata(field: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = field.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _fields(type_: Any) -> list[Mapping[str, Any]]:
    fields = type_.get("fields") if isinstance(type_, dict) and type_.get("type") == "struct" else None
    if not isinstance(fields, list):
        return []
    return [field for field in fields if isinstance(field, dict) and isinstance(field.get("name"), str)]


def _find_fields(fields: list[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [field for field in fields if field["name"].lower() == name.lower()]


def _type(field: Mapping[str, Any]) -> ColumnType | None:
    """Return a field's type; None for structs, which have no statistics of their own."""
    type_, metadata = field.get("type"), _metadata(field)
    if isinstance(type_, str):
        padded = str(metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")).lower().startswith("char")
        if type_ == "string" and (padded or "__COLLATIONS" in metadata):
            # char(n) is compared with padding, and collations have their own order: only null tests are possible.
            return ColumnType("string by other rules")
        kind = column_type(type_)
        return msgspec.structs.replace(kind, was_float=True) if type_ == "double" and _was_float(metadata) else kind
    if isinstance(type_, dict) and type_.get("type") in {"array", "map"}:
        return ColumnType(type_["type"])
    return None


def _was_float(metadata: Mapping[str, Any]) -> bool:
    """Return whether a column was widened from float to double (Delta protocol, "Type Change Metadata")."""
    changes = metadata.get("delta.typeChanges")
    return isinstance(changes, list) and any(
        isinstance(change, dict) and change.get("fromType") == "float" for change in changes
    )
