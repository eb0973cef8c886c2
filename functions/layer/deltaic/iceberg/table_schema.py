"""A Delta schema as Iceberg's: field ids, partition spec and name mapping; or why there is none.

Under column mapping the ids are Delta's, which stand in the files. Elsewhere an id is made of the column's path: it
stays the same while the column does, with nothing kept, and no small number that a file of another writer may use.
"""

import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
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
"""How the properties begin that name columns of row tracking."""
_WIDENED: Final = {
    ("byte", "short"),
    ("byte", "integer"),
    ("byte", "long"),
    ("short", "integer"),
    ("short", "long"),
    ("integer", "long"),
    ("float", "double"),
}
"""Changes of type after which Iceberg clients read older files right; and decimals of one scale."""


class PartitionColumn(msgspec.Struct, frozen=True):
    """A column that partitions are made by."""

    name: str
    """Logical."""
    physical_name: str
    field_id: int
    """Of the partition field, not of the column."""
    source_id: int
    """Of the column."""
    type: ColumnType


class IcebergSchema(msgspec.Struct, frozen=True):
    """The columns of one version as Iceberg's metadata has them."""

    schema: dict[str, Any]
    """Iceberg's schema, with a `schema-id` of its content."""
    spec: dict[str, Any]
    """Iceberg's partition spec, with a `spec-id` of its content."""
    name_mapping: list[dict[str, Any]]
    """For files without field ids: physical names."""
    partitions: tuple[PartitionColumn, ...]
    leaf_ids: Mapping[tuple[str, ...], int]
    """Ids of columns with bounds, also below structs, by their physical paths."""


def iceberg_schema(metadata: TableMetadata) -> IcebergSchema:
    """Translate; raises UnsupportedOperation, naming column and reason, for what Iceberg clients would misread.

    These are types without a counterpart, arrays and maps under column mapping whose elements have no ids in the
    files, changes of type that Iceberg does not know, and two columns of one id. Files are not looked at.
    """
    translation = _Translation(metadata.configuration)
    try:
        columns = read_schema(metadata.schema_string)["fields"]
        fields, mapping = translation.struct(columns, (), ())
        partitions = _partitions(metadata.partition_columns, columns, fields, mapping)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        raise TableUnreadable(
            "the table's log cannot be read: metaData has a schemaString that is no schema"
        ) from broken
    _check_ids(fields)
    mapping += _undeclared(metadata.configuration, {name for one in mapping for name in one["names"]})
    spec = [
        {"source-id": one.source_id, "field-id": one.field_id, "name": one.name, "transform": "identity"}
        for one in partitions
    ]
    return IcebergSchema(
        {"type": "struct", "schema-id": _id(json.dumps(fields)), "fields": fields},
        {"spec-id": _id(json.dumps(spec)) if spec else 0, "fields": spec},
        mapping,
        partitions,
        translation.leaf_ids,
    )


def field_ids(kind: Any) -> Iterator[int]:
    """Yield the ids of all fields at and below an Iceberg type."""
    if not isinstance(kind, dict):
        return
    for one in kind.get("fields", ()):
        yield one["id"]
        yield from field_ids(one["type"])
    for part in ("element", "key", "value"):
        if part in kind:
            yield kind[f"{part}-id"]
            yield from field_ids(kind[part])


def _id(content: str) -> int:
    return 1 + (zlib.crc32(content.encode()) & _ID_BITS)


class _Translation:
    """Goes down a Delta schema; `path` is what messages call a column, `physical` how files name it."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        settings = {name.lower(): value.lower() for name, value in configuration.items()}
        self._mapped = settings.get("delta.columnmapping.mode", "none") != "none"
        self._nested_ids = "true" in (settings.get(f"delta.enableicebergcompatv{version}") for version in (2, 3))
        self.leaf_ids: dict[tuple[str, ...], int] = {}

    def struct(
        self, columns: Sequence[Mapping[str, Any]], path: tuple[str, ...], physical: tuple[str, ...] | None
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return Iceberg's fields and their name mapping; `physical` is None below an array or a map."""
        fields, mapping = [], []
        for column in columns:
            field, names = self._column(column, (*path, column["name"]), physical)
            fields.append(field)
            mapping.append(names)
        return fields, mapping

    def _column(
        self, column: Mapping[str, Any], path: tuple[str, ...], physical: tuple[str, ...] | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        about = column.get("metadata") or {}
        name, field_id = column["name"], _id("\0".join(path))
        nested: Mapping[str, int] = {}
        if self._mapped:
            try:
                name, field_id = str(about[f"{_MAPPING}physicalName"]), int(about[f"{_MAPPING}id"])
            except KeyError:
                raise misread_column(path, "has no id, although the table maps its columns by ids") from None
            nested = about.get(f"{_MAPPING}nested.ids") or {}
        _check_changes(path, about.get("delta.typeChanges") or ())
        own = None if physical is None else (*physical, name)
        kind, below = self._type(column["type"], path, own, (name, nested))
        if own is not None and isinstance(kind, str):
            self.leaf_ids[own] = field_id
        field = {"id": field_id, "name": column["name"], "required": not column["nullable"], "type": kind}
        if isinstance(about.get("comment"), str):
            field["doc"] = about["comment"]
        return field, _names(field_id, [name], below)

    def _type(
        self, kind: Any, path: tuple[str, ...], physical: tuple[str, ...] | None, nested: tuple[str, Mapping[str, int]]
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Return the type and what the name mapping has below it; `nested` names the ids of elements below a column."""
        if isinstance(kind, str):
            found = iceberg_type(kind)
            if found is None:
                raise misread_column(path, f"is of type {kind}, which Iceberg clients do not read here")
            return found, []
        if kind["type"] == "struct":
            fields, mapping = self.struct(kind["fields"], path, physical)
            return {"type": "struct", "fields": fields}, mapping
        if kind["type"] == "array":
            field_id, element, names = self._part("element", kind["elementType"], path, nested, "item")
            required = not kind["containsNull"]
            made = {"type": "list", "element-id": field_id, "element": element, "element-required": required}
            return made, [names]
        if kind["type"] != "map":
            raise misread_column(path, f"is of type {kind['type']}, which Iceberg clients do not read here")
        key_id, key, key_names = self._part("key", kind["keyType"], path, nested, "keys")
        value_id, value, value_names = self._part("value", kind["valueType"], path, nested, "values")
        made = {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value}
        return {**made, "value-required": not kind["valueContainsNull"]}, [key_names, value_names]

    def _part(
        self, part: str, kind: Any, path: tuple[str, ...], nested: tuple[str, Mapping[str, int]], alias: str
    ) -> tuple[int, Any, dict[str, Any]]:
        """Return id, type and name mapping of an array's elements, or a map's keys or values."""
        own = f"{nested[0]}.{part}"
        field_id = _id("\0".join((*path, part)))
        if self._mapped:
            if not self._nested_ids or own not in nested[1]:
                raise misread_column(
                    path,
                    "is an array or a map whose elements have no ids in the table's files, since the table maps its "
                    "columns by ids; with delta.enableIcebergCompatV2 they have them",
                )
            field_id = int(nested[1][own])
        found, below = self._type(kind, (*path, part), None, (own, nested[1]))
        return field_id, found, _names(field_id, [part, alias], below)


def _names(field_id: int, names: list[str], below: list[dict[str, Any]]) -> dict[str, Any]:
    return {"field-id": field_id, "names": names, **({"fields": below} if below else {})}


def _check_changes(path: tuple[str, ...], changes: Sequence[Mapping[str, Any]]) -> None:
    """Delta protocol, "Type Change Metadata"."""
    for change in changes:
        before, after = change["fromType"], change["toType"]
        old, new = column_type(before), column_type(after)
        wider = old.name == new.name == "decimal" and old.scale == new.scale and old.precision <= new.precision
        if not wider and (before, after) not in _WIDENED:
            raise misread_column(path, f"was changed from {before} to {after}, which Iceberg clients do not read")


def _partitions(
    names: Sequence[str],
    columns: Sequence[Mapping[str, Any]],
    fields: list[dict[str, Any]],
    mapping: list[dict[str, Any]],
) -> tuple[PartitionColumn, ...]:
    known = {field["name"]: at for at, field in enumerate(fields)}
    found = []
    for name in names:
        at = known[name]
        field, kind = fields[at], columns[at]["type"]
        own = _FIRST_PARTITION_ID + _id(f"{field['id']} {field['type']}")
        found.append(PartitionColumn(name, mapping[at]["names"][0], own, field["id"], column_type(kind)))
    return tuple(found)


def _undeclared(configuration: Mapping[str, str], known: Collection[str]) -> list[dict[str, Any]]:
    """Return the mapping of columns that Delta writes into files beside the table's: pyiceberg reads no others."""
    tracked = [value for name, value in configuration.items() if name.lower().startswith(_ROW_TRACKING)]
    return [_names(_id(f"\0{name}"), [name], []) for name in (*_UNDECLARED, *tracked) if name not in known]


def _check_ids(fields: list[dict[str, Any]]) -> None:
    ids = list(field_ids({"fields": fields}))
    if len(set(ids)) < len(ids):
        raise misread("two of its columns have one field id")
    names = list(_names_below({"fields": fields}, ""))
    if len(set(names)) < len(names):
        raise misread("two of its columns have one name where a dot stands for a level")


def _names_below(kind: Any, above: str) -> Iterator[str]:
    """Yield the names of all fields as clients write them: with dots between levels."""
    if not isinstance(kind, dict):
        return
    below = [(one["name"], one["type"]) for one in kind.get("fields", ())]
    below += [(part, kind[part]) for part in ("element", "key", "value") if part in kind]
    for name, inner in below:
        yield above + name
        yield from _names_below(inner, f"{above}{name}.")
