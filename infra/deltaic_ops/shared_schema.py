"""The columns of a shared table, read from its log with the operator's credentials, and what must hold of them."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from deltaic.catalog.items import Storage
from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.features import partition_values_in_files
from deltaic.errors import DeltaicError, InvalidParameter, TableUnreadable
from deltaic.partition_filters import check, parse
from deltaic.storage.credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.sessions import SigningSessions
from msgspec.structs import replace

_IDENTIFIER = re.compile(r"`((?:[^`]|``)+)`|(\w+)")


@dataclass(frozen=True, slots=True)
class SharedSchema:
    """What the log of a table says of its columns, at its latest version."""

    metadata: Metadata
    protocol: Protocol


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
        """Return the schema of the table in this folder; raises DeltaicError of any kind, with the reason."""
        # What reads logs takes longer to load than most commands to run, and most have nothing to check.
        from deltaic.delta.log import DeltaLog
        from deltaic.sharing.context import storage_config
        from deltaic.storage.locations import Location, TableLocations
        from deltaic.storage.objects import ObjectTableStore

        try:
            config = storage_config(self.storage(storage)) if storage else self.home
            # An operator stands where recipients do: outside.
            config = replace(config, endpoint=config.public_endpoint or config.endpoint)
            session = self.sessions.reader(config)
            credentials = session if config.secret or config.role_arn else self.own
            store = ObjectTableStore(TableLocations(Location.parse(location)), config, credentials)
            snapshot = DeltaLog(store).snapshot()
            return SharedSchema(snapshot.metadata, snapshot.protocol)
        except DeltaicError as refusal:
            reason = refusal.message + (f" ({refusal.detail})" if refusal.detail else "")
            raise type(refusal)(
                f"{location} cannot be read with your credentials, so its columns are not known: {reason}"
            ) from refusal


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
    known = {field["name"].lower(): field["name"] for field in fields}
    partitions = {name.lower() for name in schema.metadata.partition_columns}
    for name in columns:
        if name.lower() not in known:
            raise InvalidParameter(f"'{name}' cannot be hidden: the table has the columns {', '.join(known.values())}")
        if name.lower() not in partitions:
            can = ", ".join(schema.metadata.partition_columns) or "none"
            raise InvalidParameter(
                f"'{name}' cannot be hidden: its values are in the files, which are read whole. Only partition columns "
                f"can be: {can}"
            )
    hidden = {name.lower() for name in columns}
    if hidden >= known.keys():
        raise InvalidParameter("all columns of the table would be hidden: leave one at least")
    _check_files(schema)
    for field in fields:
        said = (field.get("metadata") or {}).get("delta.generationExpression")
        told = hidden & _names(said) if isinstance(said, str) and field["name"].lower() not in hidden else set()
        if told:
            raise InvalidParameter(
                f"'{known[min(told)]}' cannot be hidden: the column '{field['name']}' is generated from it ({said}). "
                f"Hide '{field['name']}' too, if it is a partition column"
            )
    return tuple(known[name.lower()] for name in columns)


def _check_files(schema: SharedSchema) -> None:
    """Refuse tables whose files hold, or once held, the partition values too."""
    feature = partition_values_in_files(schema.protocol, schema.metadata)
    if feature is not None:
        raise InvalidParameter(
            f"no column of this table can be hidden: it has the feature {feature}, under which partition values "
            "are written into the files. Share a copy without that feature"
        )


def _fields(metadata: Metadata) -> list[dict[str, Any]]:
    try:
        return [{**field, "name": str(field["name"])} for field in json.loads(metadata.schema_string)["fields"]]
    except (ValueError, TypeError, KeyError) as broken:
        raise TableUnreadable("the table's log has a schema that cannot be read: repair the table first") from broken


def _names(expression: str) -> set[str]:
    """Return everything in a SQL expression that may be the name of a column, lower-cased."""
    return {(quoted.replace("``", "`") or plain).lower() for quoted, plain in _IDENTIFIER.findall(expression)}
