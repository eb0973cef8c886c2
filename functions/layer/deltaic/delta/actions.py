"""The log's actions in memory: the fields that are read, and the raw JSON where it travels on.

Delta protocol, "Actions". Fields are as lenient as the writers are: an absent field and a null one are the same,
and a number such as `5100.0` is an integer (`strict=False` of the decoders).
"""

from typing import Any, Final

import msgspec

from deltaic.delta.deletion_vectors import DeletionVector
from deltaic.errors import TableUnreadable


class Format(msgspec.Struct, frozen=True, gc=False):
    """How the data files are encoded (Delta protocol, "Format Specification")."""

    provider: str = "parquet"
    options: dict[str, str] = {}


class Metadata(msgspec.Struct, frozen=True):
    """The table's metadata, as the newest `metaData` action has it.

    `raw` is the action as one JSON object, without nulls and in one fixed order, so that it is the same whether it
    was found in a commit, in a checkpoint or in a version checksum; fields that are not known here are kept in it.
    """

    id: str
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]
    format: Format
    name: str | None
    description: str | None
    raw: bytes


class Protocol(msgspec.Struct, frozen=True):
    """What a reader must be able to do; None where the action has no feature list. `raw` as in Metadata."""

    min_reader_version: int
    reader_features: tuple[str, ...] | None
    writer_features: tuple[str, ...] | None
    raw: bytes


class Add(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A file that becomes part of the table (or, with a new deletion vector, another logical file)."""

    path: str
    partition_values: dict[str, Any] | None = None
    size: int | None = None
    modification_time: int | None = None
    data_change: bool | None = None
    stats: Any = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


class Remove(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A logical file that leaves the table; everything but the path is optional in old logs."""

    path: str
    deletion_timestamp: int | None = None
    data_change: bool | None = None
    partition_values: dict[str, Any] | None = None
    size: int | None = None
    stats: Any = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


class AddCdcFile(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A file of changed rows (Delta protocol, "Add CDC File")."""

    path: str
    partition_values: dict[str, Any] | None = None
    size: int | None = None
    data_change: bool | None = None


class Sidecar(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A file of a v2 checkpoint that holds adds and removes (Delta protocol, "Sidecar File Information")."""

    path: str
    size_in_bytes: int | None = None
    tags: Any = None


_NO_COLUMNS: Final = '{"type":"struct","fields":[]}'
_READER_WITH_FEATURES: Final = 3
_WRITER_WITH_FEATURES: Final = 7


def text(value: Any) -> str:
    """Return a JSON scalar as the string that a writer should have put there: numbers and booleans as JSON text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def integer(value: Any) -> Any:
    """Return a float without a fraction as an integer, any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def text_map(values: dict[str, Any] | None) -> dict[str, str | None]:
    """Return a string map of the log with every value a string or None."""
    return {key: value if value is None else text(value) for key, value in (values or {}).items()}


def metadata_of(action: dict[str, Any], where: str) -> Metadata:
    """Read a `metaData` action given as plain JSON values; raises TableUnreadable naming `where` it stands."""
    try:
        encoding = action.get("format") or {}
        configuration = text_map(action.get("configuration"))
        form = Format(encoding.get("provider") or "parquet", _without_nulls(text_map(encoding.get("options"))))
        plain: dict[str, Any] = {
            "id": str(action["id"]),
            "name": action.get("name"),
            "description": action.get("description"),
            "format": {"provider": form.provider, "options": form.options},
            # A table whose first writer knew no columns yet has none, as Spark reads it.
            "schemaString": text(action.get("schemaString") or _NO_COLUMNS),
            "partitionColumns": [str(name) for name in action.get("partitionColumns") or ()],
            "configuration": dict(sorted(_without_nulls(configuration).items())),
            "createdTime": integer(action.get("createdTime")),
        }
    except (KeyError, TypeError, AttributeError) as broken:
        message = f"the table's log cannot be read: {where} has a broken metaData: {broken!r}"
        raise TableUnreadable(message, where) from broken
    return Metadata(
        plain["id"],
        plain["schemaString"],
        plain["partitionColumns"],
        plain["configuration"],
        form,
        plain["name"],
        plain["description"],
        _ordered(plain, action),
    )


def protocol_of(action: dict[str, Any], where: str) -> Protocol:
    """Read a `protocol` action given as plain JSON values; raises TableUnreadable naming `where` it stands."""
    try:
        reader = int(action.get("minReaderVersion") or 1)
        writer = int(action.get("minWriterVersion") or 1)
        plain: dict[str, Any] = {
            "minReaderVersion": reader,
            "minWriterVersion": writer,
            "readerFeatures": _features(action.get("readerFeatures"), reader, _READER_WITH_FEATURES),
            "writerFeatures": _features(action.get("writerFeatures"), writer, _WRITER_WITH_FEATURES),
        }
    except (TypeError, ValueError, AttributeError) as broken:
        message = f"the table's log cannot be read: {where} has a broken protocol: {broken!r}"
        raise TableUnreadable(message, where) from broken
    return Protocol(reader, plain["readerFeatures"], plain["writerFeatures"], _ordered(plain, action))


def _features(names: list[Any] | None, version: int, named_from: int) -> tuple[str, ...] | None:
    """Return a feature list in one order; an empty list where there should be none is none."""
    if names is None or (not names and version < named_from):
        return None
    return tuple(sorted({str(name) for name in names}))


def _without_nulls(values: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _ordered(known: dict[str, Any], action: dict[str, Any]) -> bytes:
    """Return an action as JSON: what is known of it in one order, the rest by name."""
    unknown = {name: value for name, value in sorted(action.items()) if name not in known}
    return msgspec.json.encode({name: value for name, value in (known | unknown).items() if value is not None})
