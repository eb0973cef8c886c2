"""Translate Iceberg schemas to Delta's schema, and decide how columns of a version are found in its files.

If no column was ever renamed, reused or dropped and added again, names select columns, and every client can read the
table. Otherwise field ids do (Delta protocol, "Column Mapping", mode id), which only the delta format can express.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any, Final

from deltaic.delta.features import COLUMN_MAPPING, TIMESTAMP_NTZ, TYPE_WIDENING
from deltaic.iceberg.column_types import delta_type
from deltaic.iceberg.refusals import unshareable
from deltaic.iceberg.table_schema import is_widening, walk_fields
from deltaic.iceberg_source.source_metadata import SourceMetadata
from deltaic.pruning.values import ColumnType, column_type

_PARTITION_TYPES: Final = {"boolean", "integer", "long", "date", "string", "decimal"}
_WRITTEN_UNCHANGED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names that writers do not change in Parquet files, because they are valid in Avro."""
NAME_MAPPING: Final = "schema.name-mapping.default"
"""Table property that a table has if it contains files without field ids, such as those of a Hive table."""

Path = tuple[str, ...]


class ColumnHistory:
    """Names and types of all fields of a table, from all schemas in its metadata."""

    def __init__(self, metadata: SourceMetadata) -> None:
        self._has_all_schemas = [*metadata.schemas_by_id] == [*range(len(metadata.schemas))]
        self._paths: dict[int, dict[Path, None]] = {}
        self._ids: dict[Path, set[int]] = {}
        self._types: dict[int, dict[str, None]] = {}
        for schema in metadata.schemas_by_id.values():
            for field_id, path, type_ in walk_fields(schema):
                self._ids.setdefault(path, set()).add(field_id)
                self._paths.setdefault(field_id, {})[path] = None
                if isinstance(type_, str):
                    self._types.setdefault(field_id, {})[type_] = None
        self._current = {field_id for field_id, *_ in walk_fields(metadata.schemas_by_id[metadata.current_schema_id])}
        self.by_id_because = next(filter(None, map(self.reason_for_id, self._paths)), "")
        """Why names do not select columns in all files, with a column's name; empty if they do."""
        if self.by_id_because and metadata.properties.get(NAME_MAPPING):
            raise unshareable(
                f"it has files without field ids (property {NAME_MAPPING}), but {self.by_id_because}",
                "rewrite its data files and remove the property",
            )

    def reason_for_id(self, field_id: int) -> str:
        """Return why a field's name does not select it in all files; empty if it does."""
        first, *others = self._paths[field_id]
        if not self._has_all_schemas:
            return "an earlier schema was removed from the metadata, so columns may have been renamed"
        if others:
            return f"the column {'.'.join(first)} was renamed to {'.'.join(others[-1])}"
        if len(self._ids[first]) > 1:
            return f"the column {'.'.join(first)} was dropped and added again"
        # Clients that read by name return structs as they are in the files.
        if field_id not in self._current and not self._current.isdisjoint(self._ids.get(first[:-1], ())):
            return f"the field {'.'.join(first)} was dropped from its struct"
        if not _WRITTEN_UNCHANGED.fullmatch(first[-1]):
            return f"the column {'.'.join(first)} has another name in the files"
        return ""

    def types_until(self, kind: str, field_id: int) -> list[str]:
        """Return the Iceberg types of a primitive field, oldest first, up to `kind`."""
        kinds = list(self._types[field_id])
        return kinds[: kinds.index(kind) + 1]


class DeltaSchema:
    """Delta schema of one Iceberg schema."""

    def __init__(self, history: ColumnHistory, schema: Mapping[str, Any]) -> None:
        """Translate a schema; raises UnsupportedOperation with the column's name for a type that Delta lacks."""
        self._history = history
        self.by_id = bool(self._history.by_id_because)
        self._promotion = ""
        self._has_ntz = False
        self.defaults: dict[int, Path] = {}
        """Columns with an initial default, which every file must contain, because clients would read null instead."""
        self.columns: dict[int, tuple[Path, ColumnType]] = {}
        """Physical path and type of each primitive column by field id, except those in arrays and maps."""
        self.fields = self._struct(schema["fields"], (), ())
        self.names: dict[int, str] = {field["id"]: field["name"] for field in schema["fields"]}
        """Name of each top-level column by field id."""
        self.parquet_refusal = self._history.by_id_because or self._promotion
        """Why clients of the parquet format would misread a column; empty if they would not."""
        uses = ((COLUMN_MAPPING, self.by_id), (TIMESTAMP_NTZ, self._has_ntz), (TYPE_WIDENING, self._promotion))
        self.features = [name for name, is_used in uses if is_used]
        """Reader features that the schema requires."""

    def partition_columns(
        self, specs: Sequence[Sequence[Mapping[str, Any]]], summaries: Sequence[Sequence[Mapping[str, Any]]]
    ) -> list[int]:
        """Return the field ids of the columns that all specs partition by, and whose values clients read as they are.

        `summaries` are those of the manifests that have these specs, in the same order; the last spec is the newest.
        """
        # Delta clients read an empty string as null. Without summaries, any value may be empty.
        can_be_empty = {
            field["source-id"]
            for fields, of_fields in zip(specs, summaries, strict=False)
            for field, summary in zip_longest(fields, of_fields)
            if summary is None or summary.get("lower_bound") == b""
        }
        readable = [[field["source-id"] for field in fields if self._is_readable_partition(field)] for fields in specs]
        usable = set(readable[-1]).intersection(*readable) - can_be_empty
        columns = [column for column in readable[-1] if column in usable]
        return columns if self._can_insert(columns) else []

    def _is_readable_partition(self, field: Mapping[str, Any]) -> bool:
        path, type_ = self.columns.get(field["source-id"], ((), ColumnType("")))
        return field["transform"] == "identity" and len(path) == 1 and type_.name in _PARTITION_TYPES

    def _can_insert(self, columns: Sequence[int]) -> bool:
        """Return whether clients can insert partition columns into the rows of the files, which also have them.

        With column mapping by id, the published Python client finds the place of a partition column by the physical
        name of the column before it, which must then be its name in the files.
        """
        before: int | None = None
        for field_id in self.names:
            if field_id not in columns:
                before = field_id
            elif before is not None and self._history.reason_for_id(before):
                return False
        return True

    def _struct(self, fields: list[dict[str, Any]], path: Path, physical: Path | None) -> dict[str, Any]:
        """Translate the fields of a struct; `physical` is None inside arrays and maps."""
        spelled = Counter(field["name"].lower() for field in fields)
        columns = []
        for field in fields:
            name, field_id = field["name"], field["id"]
            logical = (*path, name)
            if spelled[name.lower()] > 1:
                raise column_error(logical, "differs only in case from another column", "rename one of the two")
            if field.get("initial-default") is not None:
                self.defaults[field_id] = logical
            stored = f"col-{field_id}" if self._history.reason_for_id(field_id) else name
            changes: list[dict[str, str]] = []
            column_path = None if physical is None else (*physical, stored)
            kind = self._type(field["type"], field_id, logical, column_path, changes)
            metadata: dict[str, Any] = {"comment": field["doc"]} if field.get("doc") else {}
            if self.by_id:
                metadata |= {"delta.columnMapping.id": field_id, "delta.columnMapping.physicalName": stored}
            if changes:
                metadata["delta.typeChanges"] = changes
            columns.append({"name": name, "type": kind, "nullable": not field["required"], "metadata": metadata})
        return {"type": "struct", "fields": columns}

    def _type(  # noqa: PLR0913, PLR0917 -- a field and where it is
        self, kind: Any, field_id: int, path: Path, physical: Path | None, changes: list[dict[str, str]], part: str = ""
    ) -> Any:
        """Translate a type; add type changes of the field to `changes`, in arrays and maps with the place `part`."""
        if isinstance(kind, str):
            types = [_translate(old, path) for old in self._history.types_until(kind, field_id)]
            for old, new in pairwise(types):
                if not is_widening(old, new):
                    raise column_error(path, f"was changed from {old} to {new}", "rewrite the table")
                changes.append({"fromType": old, "toType": new} | ({"fieldPath": part} if part else {}))
                self._promotion = f"the column {'.'.join(path)} was promoted from {old} to {new}"
            self._has_ntz |= types[-1] == "timestamp_ntz"
            if physical is not None:
                self.columns[field_id] = physical, column_type(types[-1])
            return types[-1]
        if kind["type"] == "struct":
            return self._struct(kind["fields"], path, physical)
        inner = {}
        for name in ("element",) if kind["type"] == "list" else ("key", "value"):
            place = f"{part}.{name}".lstrip(".")
            inner[f"{name}Type"] = self._type(kind[name], kind[f"{name}-id"], (*path, name), None, changes, place)
        if kind["type"] == "list":
            return {"type": "array", **inner, "containsNull": not kind["element-required"]}
        return {"type": "map", **inner, "valueContainsNull": not kind["value-required"]}


def _translate(kind: str, path: Path) -> str:
    name = delta_type(kind)
    if name is None:
        reason = f"has the Iceberg type {kind}"
        raise column_error(path, reason, "share a table without this column, or read it with an Iceberg client")
    return name


def column_error(path: Path, reason: str, remedy: str) -> Exception:
    """Return the error for a table that Delta Sharing clients would misread because of one column."""
    return unshareable(f"the column {'.'.join(path)} {reason}", remedy)
