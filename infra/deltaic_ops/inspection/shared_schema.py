"""Read the columns of a shared table, and check row filters and hidden columns against them."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from deltaic.catalog.items import Storage, Table
from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.features import partition_values_in_files
from deltaic.delta.schema_string import read_schema
from deltaic.errors import DeltaicError, InvalidParameter, TableRefused, UnsupportedOperation
from deltaic.partition_filters import check, parse
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.sessions import SigningSessions
from msgspec.structs import replace

if TYPE_CHECKING:
    from deltaic.delta.snapshot import Snapshot
    from deltaic.storage.locations import TableLocations
    from deltaic.storage.objects import ObjectTableStore

_Read = TypeVar("_Read")

LAKE_FORMATION = (
    "the table is registered with AWS Lake Formation, whose row and column rules do not apply to shared files: "
    "recipients read all rows and columns that you share"
)
"""Warning about an Iceberg table."""

_IDENTIFIER = re.compile(r"`((?:[^`]|``)+)`|(\w+)")


@dataclass(frozen=True, slots=True)
class SharedSchema:
    """Columns and table features of the latest version of a table, from its Delta log."""

    metadata: Metadata
    protocol: Protocol
    location: str = ""
    unscaled: tuple[str, ...] = ()
    """Decimal partition values (`column=value`) whose scale differs from their type, if `add` actions were read."""

    @property
    def columns(self) -> list[str]:
        """Column names."""
        return [*self.types]

    @property
    def types(self) -> dict[str, str]:
        """Column types as in SQL, such as array<string>, by column name."""
        return {field["name"]: _type_text(field["type"]) for field in _fields(self.metadata)}


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """Reader of shared tables and folders, with the operator's credentials or those of a storage."""

    home: StorageConfig
    """Object store of entries that name no storage: the stack's AWS S3."""

    own: Callable[[], Credentials]
    """The operator's credentials."""

    sessions: SigningSessions
    storage: Callable[[str], Storage]
    """Returns the storage of the catalog with this name; raises NotFound."""

    client: Callable[[Any], Any]
    """Creates a client of an AWS service, with the operator's credentials."""

    def read(self, table: Table) -> SharedSchema:
        """Read the schema of a table; raises the same errors as `look`."""
        return self.look(table, lambda latest: SharedSchema(latest.metadata, latest.protocol, table.location))

    def look(self, table: Table, extract: "Callable[[Snapshot], _Read]") -> _Read:
        """Call `extract` with the latest snapshot of a table.

        Raises NotFound for an unknown storage, UnsupportedOperation for an Iceberg table whose deletes clients cannot
        apply, and other DeltaicError.
        """

        def read_latest(store: "ObjectTableStore") -> _Read:
            if table.format == "iceberg":
                from deltaic.sharing.iceberg_tables import open_source

                log = open_source(store, _locations(table), table.metadata_location, self.client)
                return extract(log.snapshot().load_commits())
            from deltaic.delta.log import DeltaLog

            return extract(DeltaLog(store).snapshot())

        return self.in_store(table.location, table.storage, read_latest)

    def check_iceberg(self, table: Table) -> list[str]:
        """Return warnings about an Iceberg table.

        Raises DeltaicError if recipients cannot read it in a way that its entry offers.
        """
        from deltaic.sharing.native_metadata import read_native_metadata
        from deltaic.storage.table_catalogs import GLUE, find_table

        if table.iceberg:
            place = (_locations(table), table.metadata_location, self.client)
            self.in_store(table.location, table.storage, lambda store: read_native_metadata(store, *place))
        if "url" in table.access_modes:
            self.read(table)
        name = table.metadata_location
        if name.startswith(GLUE) and find_table(self.client, name).is_registered_with_lake_formation:
            return [LAKE_FORMATION]
        return []

    def in_store(self, location: str, storage: str, read: "Callable[[ObjectTableStore], _Read]") -> _Read:
        """Call `read` with an object store client for a folder; raises the same errors as `SchemaReader.read`."""
        # Imported here, because these modules load slowly and most commands do not need them.
        from deltaic.storage.locations import Location, TableLocations
        from deltaic.storage.objects import ObjectTableStore

        _skip_pandas()
        with self.reading(location, storage) as (config, credentials):
            return read(ObjectTableStore(TableLocations(Location.parse(location)), config, credentials))

    @contextmanager
    def reading(self, location: str, storage: str = "") -> Iterator[tuple[StorageConfig, Callable[[], Credentials]]]:
        """Yield the storage and credentials for a folder; rephrases errors of the `with` block for operators."""
        from deltaic.sharing.context import storage_config

        config = storage_config(self.storage(storage)) if storage else self.home
        # The operator's machine is outside the stack's network, as recipients are.
        config = replace(config, endpoint=config.public_endpoint or config.endpoint)
        by_storage = bool(config.secret or config.role_arn)
        try:
            # Called in any case, because it raises an error if AWS credentials are used for other object stores.
            session = self.sessions.reader(config)
            yield config, session if by_storage else self.own
        except TableRefused as refusal:
            access = f"it, or to the role or the keys of the storage '{storage}'," if by_storage else "it"
            reason = f"access to {access} is denied"
            raise TableRefused(f"{location} cannot be read with your credentials: {reason}") from refusal
        except DeltaicError as refusal:
            reason = refusal.message.rstrip(".") + (f" ({refusal.detail})" if refusal.detail else "")
            # No credentials help with tables that this version does not support.
            credentials = "" if isinstance(refusal, UnsupportedOperation) else " with your credentials"
            raise type(refusal)(f"{location} cannot be read{credentials}: {reason}") from refusal


def _locations(table: Table) -> "TableLocations":
    from deltaic.storage.locations import TableLocations

    return TableLocations.parse(table.location, table.auxiliary_locations)


class _NoPandas:
    """Import finder that hides pandas, which the Lambda layer does not include either."""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _skip_pandas() -> None:
    """Prevent pyarrow from importing pandas, which takes longer than the rest of a command."""
    import pyarrow as pa

    finder: Any = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)


def check_filter(text: str, schema: SharedSchema) -> None:
    """Raise InvalidParameter, with position and remedy, unless a row filter is valid for the partition columns."""
    check(parse(text), schema.metadata)


def check_hidden(columns: Sequence[str], schema: SharedSchema) -> tuple[str, ...]:
    """Return the names of hidden columns in the table's own case; raises InvalidParameter for other columns.

    Only partition columns can be hidden, because their values are not in the data files. At least one column must
    stay visible, and no visible column can be generated from a hidden one.
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


def _check_files(schema: SharedSchema) -> None:
    """Raise InvalidParameter for tables whose data files contain, or may contain, partition values."""
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
    """Return all identifiers in a SQL expression in lower case; any can be a column name."""
    return {(quoted.replace("``", "`") or unquoted).lower() for quoted, unquoted in _IDENTIFIER.findall(expression)}
