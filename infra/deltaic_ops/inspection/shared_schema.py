"""Read the columns of a shared table with the operator's credentials, and check filters and hidden columns."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from deltaic.catalog.items import Storage, Table
from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.features import (
    COLUMN_MAPPING,
    TYPE_WIDENING,
    VARIANT_SHREDDING,
    change_data_enabled,
    live_features,
    partition_values_in_files,
    supported_features,
)
from deltaic.delta.schema_string import read_schema
from deltaic.errors import DeltaicError, InvalidParameter, TableRefused, UnsupportedOperation
from deltaic.partition_filters import check, parse
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.sessions import SigningSessions
from msgspec.structs import replace

if TYPE_CHECKING:
    from deltaic.delta.snapshot import Snapshot
    from deltaic.storage.objects import ObjectTableStore

_Read = TypeVar("_Read")
_UNSUPPORTED_IN_FOLDERS = frozenset({TYPE_WIDENING, VARIANT_SHREDDING, "vacuumProtocolCheck"})
_SAFE_IN_PATHS = ("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "date")
"""Types whose values contain no space and no non-ASCII letter."""

_IDENTIFIER = re.compile(r"`((?:[^`]|``)+)`|(\w+)")


@dataclass(frozen=True, slots=True)
class SharedSchema:
    """Columns and features of a table at its latest version, from its log."""

    metadata: Metadata
    protocol: Protocol
    location: str = ""
    unscaled: tuple[str, ...] = ()
    """Partition values of decimals whose number of decimals differs from their type, if files were read."""

    @property
    def columns(self) -> list[str]:
        """Column names."""
        return [*self.types]

    @property
    def types(self) -> dict[str, str]:
        """Column types in SQL's notation, by column name."""
        return {field["name"]: _type_text(field["type"]) for field in _fields(self.metadata)}


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """Reader of the logs and folders of shared tables, with the operator's or a storage's credentials."""

    home: StorageConfig
    """Storage of tables without a storage."""

    own: Callable[[], Credentials]
    """The operator's credentials."""

    sessions: SigningSessions
    storage: Callable[[str], Storage]
    """Returns a storage of the catalog by name; raises NotFound."""

    def read(self, location: str, storage: str = "") -> SharedSchema:
        """Return the schema of the table in this folder; raises NotFound for the storage, otherwise DeltaicError."""
        return self.look(location, storage, lambda latest: SharedSchema(latest.metadata, latest.protocol, location))

    def look(self, location: str, storage: str, extract: "Callable[[Snapshot], _Read]") -> _Read:
        """Return what `extract` returns for the latest snapshot; raises as `read` does."""

        def read_latest(store: "ObjectTableStore") -> _Read:
            from deltaic.delta.log import DeltaLog

            return extract(DeltaLog(store).snapshot())

        return self.in_store(location, storage, read_latest)

    def check_iceberg(self, table: Table) -> None:
        """Raise DeltaicError if the metadata of an Iceberg table is unknown or cannot be read."""

        def read_metadata(store: "ObjectTableStore") -> None:
            from deltaic.sharing.iceberg_clients.native_metadata import read_native_metadata
            from deltaic.storage.glue_catalog import metadata_location
            from deltaic.storage.locations import TableLocations

            locations = TableLocations.parse(table.location, table.auxiliary_locations)
            read_native_metadata(store, locations, table.metadata_location, partial(metadata_location, self.home))

        self.in_store(table.location, table.storage, read_metadata)

    def in_store(self, location: str, storage: str, read: "Callable[[ObjectTableStore], _Read]") -> _Read:
        """Return what `read` returns for the store of a folder; raises as `SchemaReader.read` does."""
        # Imported here, because these modules load slowly and most commands do not need them.
        from deltaic.storage.locations import Location, TableLocations
        from deltaic.storage.objects import ObjectTableStore

        _skip_pandas()
        with self.reading(location, storage) as (config, credentials):
            return read(ObjectTableStore(TableLocations(Location.parse(location)), config, credentials))

    @contextmanager
    def reading(self, location: str, storage: str = "") -> Iterator[tuple[StorageConfig, Callable[[], Credentials]]]:
        """Yield the storage and the credentials of a folder; errors of the block get a message for operators."""
        from deltaic.sharing.context import storage_config

        config = storage_config(self.storage(storage)) if storage else self.home
        # The operator's machine is outside the stack's network, as recipients are.
        config = replace(config, endpoint=config.public_endpoint or config.endpoint)
        by_storage = bool(config.secret or config.role_arn)
        try:
            # Called in any case, because it refuses to use AWS's credentials for other object stores.
            session = self.sessions.reader(config)
            yield config, session if by_storage else self.own
        except TableRefused as refusal:
            access = f"it, or to the role or the keys of the storage '{storage}'," if by_storage else "it"
            reason = f"access to {access} is refused"
            raise TableRefused(f"{location} cannot be read with your credentials: {reason}") from refusal
        except DeltaicError as refusal:
            reason = refusal.message.rstrip(".") + (f" ({refusal.detail})" if refusal.detail else "")
            # No credentials help with tables that this version does not support.
            credentials = "" if isinstance(refusal, UnsupportedOperation) else " with your credentials"
            raise type(refusal)(f"{location} cannot be read{credentials}: {reason}") from refusal


class _NoPandas:
    """Import finder that hides pandas, as in the layer, which does not include it."""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _skip_pandas() -> None:
    """Prevent that pyarrow loads pandas at its first conversion, which takes longer than the rest of a command."""
    import pyarrow as pa

    finder: Any = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)


def check_filter(text: str, schema: SharedSchema) -> None:
    """Raise InvalidParameter, with position and remedy, unless a filter is valid for the table's partition columns."""
    check(parse(text), schema.metadata)


def check_hidden(columns: Sequence[str], schema: SharedSchema) -> tuple[str, ...]:
    """Return column names as spelled in the table; raises InvalidParameter for columns that cannot be hidden.

    Only partition columns can be hidden, because their values are not in the files. At least one column must stay
    visible, and no visible column can be generated from a hidden one.
    """
    if not columns:
        return ()
    fields = _fields(schema.metadata)
    by_name = {field["name"].lower(): field["name"] for field in fields}
    partitions = {name.lower() for name in schema.metadata.partition_columns}
    for name in columns:
        if name.lower() not in by_name:
            raise InvalidParameter(
                f"cannot hide '{name}': the table has only the columns {', '.join(by_name.values())}"
            )
        if name.lower() not in partitions:
            can = ", ".join(schema.metadata.partition_columns) or "none"
            raise InvalidParameter(
                f"cannot hide '{name}': its values are in the files, which recipients download. Only partition columns "
                f"can be hidden: {can}"
            )
    hidden = {name.lower() for name in columns}
    if hidden >= by_name.keys():
        raise InvalidParameter("cannot hide all columns of the table: leave at least one visible")
    _check_files(schema)
    for field in fields:
        sql = (field.get("metadata") or {}).get("delta.generationExpression")
        sources = hidden & _names(sql) if isinstance(sql, str) and field["name"].lower() not in hidden else set()
        if sources:
            raise InvalidParameter(
                f"cannot hide '{by_name[min(sources)]}': column '{field['name']}' is generated from it ({sql}). "
                f"Hide '{field['name']}' too, if it is a partition column"
            )
    return tuple(by_name[name.lower()] for name in columns)


def unsupported_in_folders(schema: SharedSchema) -> frozenset[str]:
    """Return the table features that deltalake and polars cannot read."""
    return supported_features(schema.protocol) & _UNSUPPORTED_IN_FOLDERS


def is_odd(path: str) -> bool:
    """Return whether a path has a space or a non-ASCII letter."""
    return " " in path or not path.isascii()


def folder_limits(schema: SharedSchema) -> Iterator[str]:
    """Yield limitations for recipients with credentials for the folder (deltalake 1.6, polars 2.1)."""
    if is_odd(schema.location):
        yield (
            f"deltalake and polars get 403 for '{schema.location}', whose path has a space or a non-ASCII letter: "
            "move the table, or add access mode url"
        )
    if COLUMN_MAPPING in live_features(schema.protocol, schema.metadata):
        yield (
            "it uses column mapping: to_pyarrow_table and to_pandas of deltalake silently return nulls, "
            "and polars refuses the table; QueryBuilder of deltalake reads it"
        )
    if unsupported := unsupported_in_folders(schema):
        yield f"deltalake and polars cannot read {', '.join(sorted(unsupported))}: add access mode url"
    odd = set(schema.metadata.partition_columns)
    odd -= {field["name"] for field in _fields(schema.metadata) if str(field["type"]).startswith(_SAFE_IN_PATHS)}
    if odd:
        yield (
            f"values of {', '.join(sorted(odd))} may put a space or a non-ASCII letter into paths, and polars does not "
            "find such files; QueryBuilder of deltalake does"
        )


def incompatible_with_iceberg(schema: SharedSchema) -> Iterator[str]:
    """Yield reasons in the table's metadata why Iceberg clients cannot read it."""
    from deltaic.iceberg.table_schema import iceberg_schema

    try:
        iceberg_schema(schema.metadata)
    except DeltaicError as refusal:
        yield f"Iceberg clients cannot read it: {refusal.message}"


def history_limits(schema: SharedSchema) -> Iterator[str]:
    """Yield limitations for recipients of a table's history."""
    if not change_data_enabled(schema.metadata):
        yield (
            "it has no change data feed, so recipients can read earlier versions, but not changes: set the table "
            "property delta.enableChangeDataFeed to true; the feed starts with the next version"
        )


def _check_files(schema: SharedSchema) -> None:
    """Raise InvalidParameter for tables whose files contain, or once contained, partition values."""
    feature = partition_values_in_files(schema.protocol, schema.metadata)
    if feature is not None:
        raise InvalidParameter(
            f"cannot hide columns of this table: with its feature {feature}, partition values are written into the "
            "files. Share a copy without that feature"
        )


def _fields(metadata: Metadata) -> list[dict[str, Any]]:
    return list(read_schema(metadata.schema_string)["fields"])


def _type_text(kind: Any) -> str:
    match kind:
        case {"type": "array", "elementType": element}:
            return f"array<{_type_text(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_type_text(key)}, {_type_text(value)}>"
        case {"type": "struct", "fields": [*fields]}:
            members = [f"{field['name']}: {_type_text(field['type'])}" for field in fields]
            return f"struct<{', '.join(members)}>"
        case _:
            return str(kind)


def _names(expression: str) -> set[str]:
    """Return all possible column names in a SQL expression, in lower case."""
    return {(quoted.replace("``", "`") or unquoted).lower() for quoted, unquoted in _IDENTIFIER.findall(expression)}
