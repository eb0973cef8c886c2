"""The columns of a shared table, read from its log with the operator's credentials, and what must hold of them."""

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
_UNREAD_IN_FOLDERS = frozenset({TYPE_WIDENING, VARIANT_SHREDDING, "vacuumProtocolCheck"})
_PLAIN_IN_PATHS = ("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "date")
"""Types whose values have neither a space nor a letter beyond ASCII."""

_IDENTIFIER = re.compile(r"`((?:[^`]|``)+)`|(\w+)")


@dataclass(frozen=True, slots=True)
class SharedSchema:
    """What the log of a table says of its columns, at its latest version."""

    metadata: Metadata
    protocol: Protocol
    location: str = ""
    unscaled: tuple[str, ...] = ()
    """Partition values of decimals with fewer or more digits after the point than their type, if files were read."""

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [*self.types]

    @property
    def types(self) -> dict[str, str]:
        """The types of its columns by their names, as SQL writes them."""
        return {field["name"]: _type_text(field["type"]) for field in _fields(self.metadata)}


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """Reads the schemas of shared tables."""

    home: StorageConfig
    """The storage of tables that name none."""

    own: Callable[[], Credentials]
    """The operator's credentials."""

    sessions: SigningSessions
    storage: Callable[[str], Storage]
    """The storages of the catalog; raises NotFound."""

    def read(self, location: str, storage: str = "") -> SharedSchema:
        """Return the schema of the table in this folder; raises NotFound for the storage, or why it cannot be read."""
        return self.look(location, storage, lambda latest: SharedSchema(latest.metadata, latest.protocol, location))

    def look(self, location: str, storage: str, of: "Callable[[Snapshot], _Read]") -> _Read:
        """Return what is taken of the table's latest version; raises as `read` does."""

        def latest(store: "ObjectTableStore") -> _Read:
            from deltaic.delta.log import DeltaLog

            return of(DeltaLog(store).snapshot())

        return self.in_store(location, storage, latest)

    def check_iceberg(self, table: Table) -> None:
        """Raise why the metadata of an Iceberg table cannot be read, or is not named."""

        def document(store: "ObjectTableStore") -> None:
            from deltaic.sharing.iceberg_clients.native_metadata import read_native_metadata
            from deltaic.storage.glue_catalog import metadata_location
            from deltaic.storage.locations import TableLocations

            places = TableLocations.parse(table.location, table.auxiliary_locations)
            read_native_metadata(store, places, table.metadata_location, partial(metadata_location, self.home))

        self.in_store(table.location, table.storage, document)

    def in_store(self, location: str, storage: str, read: "Callable[[ObjectTableStore], _Read]") -> _Read:
        """Return what is read in the folder of a table; raises as `read` does."""
        # What reads logs takes longer to load than most commands to run, and most have nothing to check.
        from deltaic.storage.locations import Location, TableLocations
        from deltaic.storage.objects import ObjectTableStore

        _spare_pandas()
        with self.reading(location, storage) as (config, credentials):
            return read(ObjectTableStore(TableLocations(Location.parse(location)), config, credentials))

    @contextmanager
    def reading(self, location: str, storage: str = "") -> Iterator[tuple[StorageConfig, Callable[[], Credentials]]]:
        """Give where a folder is and with what it is read; raises what goes wrong meanwhile in an operator's words."""
        from deltaic.sharing.context import storage_config

        config = storage_config(self.storage(storage)) if storage else self.home
        # An operator stands where recipients do: outside.
        config = replace(config, endpoint=config.public_endpoint or config.endpoint)
        by_storage = bool(config.secret or config.role_arn)
        try:
            # Asked in any case: it refuses to sign with AWS's credentials for somebody else's store.
            session = self.sessions.reader(config)
            yield config, session if by_storage else self.own
        except TableRefused as refusal:
            what = f", or to the role or the keys of the storage '{storage}'," if by_storage else ""
            raise TableRefused(f"{location} cannot be read with your credentials: access to it{what} is refused") from (
                refusal
            )
        except DeltaicError as refusal:
            reason = refusal.message.rstrip(".") + (f" ({refusal.detail})" if refusal.detail else "")
            # What this version of ours does not support it would read with nobody's credentials.
            by_whom = "" if isinstance(refusal, UnsupportedOperation) else " with your credentials"
            raise type(refusal)(f"{location} cannot be read{by_whom}: {reason}") from refusal


class _NoPandas:
    """Finds no pandas, as in the layer, which ships none."""

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse it alone."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _spare_pandas() -> None:
    """Let pyarrow do without pandas: to load it would be most of such a command's time. It asks once, here."""
    import pyarrow as pa

    finder: Any = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)


def check_filter(text: str, schema: SharedSchema) -> None:
    """Raise InvalidParameter, with position and remedy, unless a filter is one over the table's partition columns."""
    check(parse(text), schema.metadata)


def check_hidden(columns: Sequence[str], schema: SharedSchema) -> tuple[str, ...]:
    """Return columns as the table spells them; raises InvalidParameter for those that cannot be hidden.

    Only partition columns can be, whose values are not in the files; and not all columns, and none that a visible one
    is computed from.
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
                f"cannot hide '{name}': its values are in the files, which recipients read as a whole. Only partition "
                f"columns can be hidden: {can}"
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


def unread_in_folders(schema: SharedSchema) -> frozenset[str]:
    """Return the table features that deltalake and polars cannot read."""
    return supported_features(schema.protocol) & _UNREAD_IN_FOLDERS


def is_odd(path: str) -> bool:
    """Return whether a path has a space or a non-ASCII letter."""
    return " " in path or not path.isascii()


def missed_by_folder(schema: SharedSchema) -> Iterator[str]:
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
    if unread := unread_in_folders(schema):
        yield f"deltalake and polars cannot read {', '.join(sorted(unread))}: add access mode url"
    odd = set(schema.metadata.partition_columns)
    odd -= {field["name"] for field in _fields(schema.metadata) if str(field["type"]).startswith(_PLAIN_IN_PATHS)}
    if odd:
        yield (
            f"values of {', '.join(sorted(odd))} may put a space or a non-ASCII letter into paths, and polars does not "
            "find such files; QueryBuilder of deltalake does"
        )


def missed_by_iceberg(schema: SharedSchema) -> Iterator[str]:
    """Yield reasons in the table's metadata why Iceberg clients cannot read it."""
    from deltaic.iceberg.table_schema import iceberg_schema

    try:
        iceberg_schema(schema.metadata)
    except DeltaicError as refusal:
        yield f"Iceberg clients cannot read it: {refusal.message}"


def missed_by_history(schema: SharedSchema) -> Iterator[str]:
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
            named = [f"{one['name']}: {_type_text(one['type'])}" for one in fields]
            return f"struct<{', '.join(named)}>"
        case _:
            return str(kind)


def _names(expression: str) -> set[str]:
    """Return everything in a SQL expression that may be the name of a column, lower-cased."""
    return {(quoted.replace("``", "`") or plain).lower() for quoted, plain in _IDENTIFIER.findall(expression)}
