"""The columns of a table by name: case-insensitive, nested, and physical under column mapping."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from deltaic.pruning.values import ColumnType, column_type, is_utf8


class TableMetadata(Protocol):
    """What pruning needs of a table's `metaData` action."""

    @property
    def schema_string(self) -> str:
        """The schema as JSON."""
        ...

    @property
    def partition_columns(self) -> Sequence[str]:
        """Logical names."""
        ...

    @property
    def configuration(self) -> Mapping[str, str]:
        """Table properties."""
        ...


_Field: TypeAlias = Mapping[str, Any]
_Fields: TypeAlias = list[_Field]


class TableColumn(msgspec.Struct, frozen=True):
    """A column as statistics and partition values name it: by its physical path."""

    path: tuple[str, ...]
    type: ColumnType
    is_partition: bool


class Columns:
    """The columns of one table; a schema that cannot be read has none."""

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
        """Return the one column of that name; None when there is none, several, or its values follow other rules."""
        found = self._walk(path)
        # JSON hints have one name only, in which dots are levels where no column has the dots in its name.
        if found is None and len(path) == 1 and "." in path[0] and not _named(self._fields, path[0]):
            return self._walk(tuple(path[0].split(".")))
        return found

    def leaves(self) -> Iterator[tuple[tuple[str, ...], TableColumn]]:
        """Yield every column that `find` finds and that is no struct, by its name, in the order of the schema."""

        def below(fields: _Fields, above: tuple[_Field, ...]) -> Iterator[tuple[_Field, ...]]:
            spelled = Counter(field["name"].lower() for field in fields)
            for field in fields:
                if spelled[field["name"].lower()] == 1:
                    inner, way = _fields(field.get("type")), (*above, field)
                    yield from below(inner, way) if inner else (way,)

        for way in below(self._fields, ()):
            if (found := self._column(way)) is not None:
                yield tuple(field["name"] for field in way), found

    def _walk(self, path: tuple[str, ...]) -> TableColumn | None:
        fields, way = self._fields, list[_Field]()
        for name in path:
            matches = _named(fields, name)
            if len(matches) != 1:
                return None
            way += matches
            fields = _fields(matches[0].get("type"))
        return self._column(way) if way else None

    def _column(self, way: Sequence[_Field]) -> TableColumn | None:
        """Return the column to which fields lead, each within the one before."""
        physical, type_ = tuple(map(self._physical, way)), _type(way[-1])
        if type_ is None or not all(map(is_utf8, physical)):
            return None
        return TableColumn(physical, type_, len(way) == 1 and way[0]["name"].lower() in self._partitions)

    def _physical(self, field: _Field) -> str:
        name = _metadata(field).get("delta.columnMapping.physicalName") if self._mapped else None
        return name if isinstance(name, str) else str(field["name"])


def _metadata(field: Mapping[str, Any]) -> Mapping[str, Any]:
    found = field.get("metadata")
    return found if isinstance(found, dict) else {}


def _fields(type_: Any) -> list[Mapping[str, Any]]:
    fields = type_.get("fields") if isinstance(type_, dict) and type_.get("type") == "struct" else None
    if not isinstance(fields, list):
        return []
    return [field for field in fields if isinstance(field, dict) and isinstance(field.get("name"), str)]


def _named(fields: list[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [field for field in fields if field["name"].lower() == name.lower()]


def _type(field: Mapping[str, Any]) -> ColumnType | None:
    """Return a leaf's type; None for structs, which have no statistics of their own."""
    type_, metadata = field.get("type"), _metadata(field)
    if isinstance(type_, str):
        padded = str(metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")).lower().startswith("char")
        if type_ == "string" and (padded or "__COLLATIONS" in metadata):
            # char(n) compares padded, a collation by its own order: such a string can be tested for null only.
            return ColumnType("string by other rules")
        found = column_type(type_)
        return msgspec.structs.replace(found, was_float=True) if type_ == "double" and _was_float(metadata) else found
    if isinstance(type_, dict) and type_.get("type") in {"array", "map"}:
        return ColumnType(type_["type"])
    return None


def _was_float(metadata: Mapping[str, Any]) -> bool:
    """Delta protocol, "Type Change Metadata"."""
    changes = metadata.get("delta.typeChanges")
    return isinstance(changes, list) and any(
        isinstance(change, dict) and change.get("fromType") == "float" for change in changes
    )
