"""Convert a Delta schema to an Iceberg schema with field ids, partition spec and name mapping.

With column mapping, field ids are Delta's, which data files contain. Otherwise an id is a hash of the column's path: it
is stable without stored state, and so large that it differs from the ids in files of other writers.
"""

import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from deltaic.delta.schema_string import read_schema
from deltaic.errors import TableUnreadable
from deltaic.iceberg.column_types import iceberg_type
from deltaic.iceberg.refusals import misread, misread_column
from deltaic.pruning.columns import TableMetadata
from deltaic.pruning.values import ColumnType, column_type

_ID_BITS: Final = 0x3FFFFFFF
_FIRST_PARTITION_ID: Final = 1000
_MAPPING: Final = "delta.columnMapping."
_UNDECLARED: Final = ("_change_type",)
_ROW_TRACKING: Final = "delta.rowtracking.materialized"
"""Prefix of table properties whose values are the names of materialized row tracking columns."""
_WIDENED: Final = {
    ("byte", "short"),
    ("byte", "integer"),
    ("byte", "long"),
    ("short", "integer"),
    ("short", "long"),
    ("integer", "long"),
    ("float", "double"),
}
"""Type changes after which Iceberg clients still read older files, in addition to decimals with the same scale."""


class PartitionColumn(msgspec.Struct, frozen=True):
    """A partition column in an Iceberg partition spec."""

    name: str
    physical_name: str
    field_id: int
    """Id of the partition field in the spec."""
    source_id: int
    """Field id of the column in the schema."""
    type: ColumnType


class IcebergSchema(msgspec.Struct, frozen=True):
    """Columns of one version, in Iceberg's format."""

    schema: dict[str, Any]
    """Iceberg schema; its `schema-id` is a hash of the content."""
    spec: dict[str, Any]
    """Iceberg partition spec; its `spec-id` is a hash of the content."""
    name_mapping: list[dict[str, Any]]
    """Iceberg name mapping with physical names, for data files without field ids."""
    partitions: tuple[PartitionColumn, ...]
    leaf_ids: Mapping[tuple[str, ...], int]
    """Field ids of columns that can have bounds, also inside structs, by physical path."""


def iceberg_schema(metadata: TableMetadata) -> IcebergSchema:
    """Convert a Delta schema; raises UnsupportedOperation, with column and reason, if Iceberg clients would misread it.

    Reasons are types that Iceberg lacks, arrays and maps with column mapping but without ids of their elements, type
    changes that Iceberg does not support, and two columns with the same id. This function does not read data files.
    """
    conversion = _Conversion(metadata.configuration)
    try:
        columns = read_schema(metadata.schema_string)["fields"]
        fields, mapping = conversion.convert_struct(columns, (), ())
        partitions = _partitions(metadata.partition_columns, columns, fields, mapping)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        raise TableUnreadable(
            "the table's log cannot be read: the schemaString in metaData is not a valid schema"
        ) from broken
    _check_ids(fields)
    mapping += _map_undeclared_columns(metadata.configuration, {name for column in mapping for name in column["names"]})
    spec = [
        {"source-id": column.source_id, "field-id": column.field_id, "name": column.name, "transform": "identity"}
        for column in partitions
    ]
    return IcebergSchema(
        {"type": "struct", "schema-id": _id(json.dumps(fields)), "fields": fields},
        {"spec-id": _id(json.dumps(spec)) if spec else 0, "fields": spec},
        mapping,
        partitions,
        conversion.leaf_ids,
    )


def walk_fields(type_: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[int, tuple[str, ...], Any]]:
    """Yield id, path and type of all fields in an Iceberg type, at all levels of nesting."""
    if not isinstance(type_, dict):
        return
    fields = [(field["id"], field["name"], field["type"]) for field in type_.get("fields", ())]
    fields += [(type_[f"{part}-id"], part, type_[part]) for part in ("element", "key", "value") if part in type_]
    for field_id, name, inner in fields:
        yield field_id, (*path, name), inner
        yield from walk_fields(inner, (*path, name))


def field_ids(type_: Any) -> Iterator[int]:
    """Yield the field ids of an Iceberg type, at all levels of nesting."""
    return (field_id for field_id, _, _ in walk_fields(type_))


def _id(content: str) -> int:
    return 1 + (zlib.crc32(content.encode()) & _ID_BITS)


class _Conversion:
    """Recursive conversion of a schema; `path` has a column's logical names, `physical` its names in data files."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        settings = {name.lower(): value.lower() for name, value in configuration.items()}
        self._mapped = settings.get("delta.columnmapping.mode", "none") != "none"
        self._nested_ids = "true" in (settings.get(f"delta.enableicebergcompatv{version}") for version in (2, 3))
        self.leaf_ids: dict[tuple[str, ...], int] = {}

    def convert_struct(
        self, columns: Sequence[Mapping[str, Any]], path: tuple[str, ...], physical: tuple[str, ...] | None
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the Iceberg fields of a struct and their name mapping; `physical` is None inside arrays and maps."""
        fields, mapping = [], []
        for column in columns:
            field, names = self._convert_column(column, (*path, column["name"]), physical)
            fields.append(field)
            mapping.append(names)
        return fields, mapping

    def _convert_column(
        self, column: Mapping[str, Any], path: tuple[str, ...], physical: tuple[str, ...] | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        metadata = column.get("metadata") or {}
        name, field_id = column["name"], _id("\0".join(path))
        nested: Mapping[str, int] = {}
        if self._mapped:
            try:
                name, field_id = str(metadata[f"{_MAPPING}physicalName"]), int(metadata[f"{_MAPPING}id"])
            except KeyError:
                raise misread_column(path, "has no id, although the table uses column mapping") from None
            nested = metadata.get(f"{_MAPPING}nested.ids") or {}
        _check_changes(path, metadata.get("delta.typeChanges") or ())
        column_path = None if physical is None else (*physical, name)
        type_, nested_mapping = self._convert_type(column["type"], path, column_path, (name, nested))
        if column_path is not None and isinstance(type_, str):
            self.leaf_ids[column_path] = field_id
        field = {"id": field_id, "name": column["name"], "required": not column["nullable"], "type": type_}
        if isinstance(metadata.get("comment"), str):
            field["doc"] = metadata["comment"]
        return field, _mapping_of(field_id, [name], nested_mapping)

    def _convert_type(
        self, type_: Any, path: tuple[str, ...], physical: tuple[str, ...] | None, nested: tuple[str, Mapping[str, int]]
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Return an Iceberg type and its name mapping; `nested` has a column's name and the ids of its elements."""
        if isinstance(type_, str):
            with suppress(KeyError):
                return iceberg_type(column_type(type_)).name, []
            raise misread_column(path, f"is of type {type_}, which this server does not convert for Iceberg")
        if type_["type"] == "struct":
            fields, mapping = self.convert_struct(type_["fields"], path, physical)
            return {"type": "struct", "fields": fields}, mapping
        if type_["type"] == "array":
            field_id, element, names = self._element("element", type_["elementType"], path, nested, "item")
            required = not type_["containsNull"]
            converted = {"type": "list", "element-id": field_id, "element": element, "element-required": required}
            return converted, [names]
        if type_["type"] != "map":
            raise misread_column(path, f"is of type {type_['type']}, which this server does not convert for Iceberg")
        key_id, key, key_names = self._element("key", type_["keyType"], path, nested, "keys")
        value_id, value, value_names = self._element("value", type_["valueType"], path, nested, "values")
        converted = {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value}
        return {**converted, "value-required": not type_["valueContainsNull"]}, [key_names, value_names]

    def _element(
        self, part: str, type_: Any, path: tuple[str, ...], nested: tuple[str, Mapping[str, int]], alias: str
    ) -> tuple[int, Any, dict[str, Any]]:
        """Return field id, type and name mapping of elements, keys or values, named `part` or `alias` in files."""
        element_name = f"{nested[0]}.{part}"
        field_id = _id("\0".join((*path, part)))
        if self._mapped:
            if not self._nested_ids or element_name not in nested[1]:
                raise misread_column(
                    path,
                    "is an array or a map whose elements have no ids in the table's files, because the table uses "
                    "column mapping without delta.enableIcebergCompatV2",
                )
            field_id = int(nested[1][element_name])
        element_type, nested_mapping = self._convert_type(type_, (*path, part), None, (element_name, nested[1]))
        return field_id, element_type, _mapping_of(field_id, [part, alias], nested_mapping)


def _mapping_of(field_id: int, names: list[str], nested_mapping: list[dict[str, Any]]) -> dict[str, Any]:
    return {"field-id": field_id, "names": names, **({"fields": nested_mapping} if nested_mapping else {})}


def _check_changes(path: tuple[str, ...], changes: Sequence[Mapping[str, Any]]) -> None:
    """Raise UnsupportedOperation for type changes of a column that Iceberg does not support."""
    for change in changes:
        before, after = change["fromType"], change["toType"]
        if not is_widening(before, after):
            raise misread_column(path, f"was changed from {before} to {after}, which Iceberg clients cannot read")


def is_widening(before: str, after: str) -> bool:
    """Return whether both Iceberg and Delta clients read older files after a change of a primitive Delta type."""
    old, new = column_type(before), column_type(after)
    is_wider = old.name == new.name == "decimal" and old.scale == new.scale and old.precision <= new.precision
    return is_wider or (before, after) in _WIDENED


def _partitions(
    names: Sequence[str],
    columns: Sequence[Mapping[str, Any]],
    fields: list[dict[str, Any]],
    mapping: list[dict[str, Any]],
) -> tuple[PartitionColumn, ...]:
    positions = {field["name"]: position for position, field in enumerate(fields)}
    partition_columns = []
    for name in names:
        position = positions[name]
        field, type_ = fields[position], columns[position]["type"]
        field_id, physical = _id(f"{field['id']} {field['type']}"), mapping[position]["names"][0]
        column = PartitionColumn(name, physical, _FIRST_PARTITION_ID + field_id, field["id"], column_type(type_))
        partition_columns.append(column)
    return tuple(partition_columns)


def _map_undeclared_columns(configuration: Mapping[str, str], mapped_names: Collection[str]) -> list[dict[str, Any]]:
    """Map columns that are only in data files, not in the schema: pyiceberg rejects files with unmapped columns."""
    tracked = [value for name, value in configuration.items() if name.lower().startswith(_ROW_TRACKING)]
    return [_mapping_of(_id(f"\0{name}"), [name], []) for name in (*_UNDECLARED, *tracked) if name not in mapped_names]


def _check_ids(fields: list[dict[str, Any]]) -> None:
    all_fields = list(walk_fields({"fields": fields}))
    if len({field_id for field_id, _, _ in all_fields}) < len(all_fields):
        raise misread("two of its columns have the same field id")
    if len({".".join(path) for _, path, _ in all_fields}) < len(all_fields):
        raise misread("two of its columns have the same full name, in which dots separate levels")
