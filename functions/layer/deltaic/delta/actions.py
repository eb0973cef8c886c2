"""Actions of the Delta log: decoded fields, and the raw JSON of actions that clients receive.

Delta protocol, "Actions". Decoding accepts what writers produce: a missing field equals null, and a number such as
`5100.0` is an integer (`strict=False` of the decoders).
"""

from typing import Any, ClassVar, Final

import msgspec

from deltaic.delta.deletion_vectors import DeletionVector
from deltaic.errors import TableUnreadable


class Format(msgspec.Struct, frozen=True, gc=False):
    """Format of the data files (Delta protocol, "Format Specification")."""

    provider: str = "parquet"
    options: dict[str, str] = {}


class Metadata(msgspec.Struct, frozen=True):
    """Metadata of a table, from its newest `metaData` action.

    `raw` is the action as one JSON object without nulls and in a fixed order, so it is the same from a commit, a
    checkpoint or a version checksum. It keeps unknown fields.
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
    """Requirements for readers (`protocol` action); a missing feature list is None, and `raw` is as in Metadata."""

    min_reader_version: int
    reader_features: tuple[str, ...] | None
    writer_features: tuple[str, ...] | None
    raw: bytes


class _PathAction(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Fields of all actions on files: `add`, `remove` and `cdc`."""

    path: str
    partition_values: dict[str, Any] | None = None
    size: int | None = None
    data_change: bool | None = None


class AddCdcFile(_PathAction, frozen=True, gc=False, rename="camel"):
    """A file of changed rows (Delta protocol, "Add CDC File")."""

    deletion_vector: ClassVar[None] = None


class _LogicalFileAction(_PathAction, frozen=True, gc=False, rename="camel"):
    """Fields of the actions on logical files: `add` and `remove`."""

    stats: Any = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


class Add(_LogicalFileAction, frozen=True, gc=False, rename="camel"):
    """A file that is added, or a logical file with a new deletion vector."""

    modification_time: int | None = None


class Remove(_LogicalFileAction, frozen=True, gc=False, rename="camel"):
    """A logical file that is removed; in old logs only the path is required."""

    deletion_timestamp: int | None = None


class Sidecar(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A file of a v2 checkpoint with `add` and `remove` actions (Delta protocol, "Sidecar File Information")."""

    path: str
    size_in_bytes: int | None = None
    tags: Any = None


_NO_COLUMNS: Final = '{"type":"struct","fields":[]}'
_READER_WITH_FEATURES: Final = 3
_WRITER_WITH_FEATURES: Final = 7


def text(value: Any) -> str:
    """Return a JSON scalar as a string, for values that the protocol defines as strings."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def integer(value: Any) -> Any:
    """Return a float without a fraction as an integer, and any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def to_text_map(values: dict[str, Any] | None) -> dict[str, str | None]:
    """Convert the values of a JSON object of the log, such as `partitionValues`, to strings; null becomes None."""
    return {key: value if value is None else text(value) for key, value in (values or {}).items()}


def parse_metadata(action: dict[str, Any], path: str) -> Metadata:
    """Parse a `metaData` action; raises TableUnreadable with the log file's `path` if the action is invalid."""
    try:
        encoding = action.get("format") or {}
        configuration = to_text_map(action.get("configuration"))
        form = Format(encoding.get("provider") or "parquet", _without_nulls(to_text_map(encoding.get("options"))))
        fields: dict[str, Any] = {
            "id": str(action["id"]),
            "name": action.get("name"),
            "description": action.get("description"),
            "format": {"provider": form.provider, "options": form.options},
            # Spark reads a table without a schema as one without columns.
            "schemaString": text(action.get("schemaString") or _NO_COLUMNS),
            "partitionColumns": [str(name) for name in action.get("partitionColumns") or ()],
            "configuration": dict(sorted(_without_nulls(configuration).items())),
            "createdTime": integer(action.get("createdTime")),
        }
    except (KeyError, TypeError, AttributeError) as broken:
        message = f"the table's log cannot be read: {path} contains an invalid metaData action: {broken!r}"
        raise TableUnreadable(message, path) from broken
    return Metadata(
        fields["id"],
        fields["schemaString"],
        fields["partitionColumns"],
        fields["configuration"],
        form,
        fields["name"],
        fields["description"],
        _encode_ordered(fields, action),
    )


def parse_protocol(action: dict[str, Any], path: str) -> Protocol:
    """Parse a `protocol` action; raises TableUnreadable with the log file's `path` if the action is invalid."""
    try:
        reader = int(action.get("minReaderVersion") or 1)
        writer = int(action.get("minWriterVersion") or 1)
        fields: dict[str, Any] = {
            "minReaderVersion": reader,
            "minWriterVersion": writer,
            "readerFeatures": _parse_features(action.get("readerFeatures"), reader, _READER_WITH_FEATURES),
            "writerFeatures": _parse_features(action.get("writerFeatures"), writer, _WRITER_WITH_FEATURES),
        }
    except (TypeError, ValueError, AttributeError) as broken:
        message = f"the table's log cannot be read: {path} contains an invalid protocol action: {broken!r}"
        raise TableUnreadable(message, path) from broken
    return Protocol(reader, fields["readerFeatures"], fields["writerFeatures"], _encode_ordered(fields, action))


def _parse_features(names: list[Any] | None, version: int, named_from: int) -> tuple[str, ...] | None:
    """Sort a feature list; None without a list, or for an empty one below `named_from`, which requires lists."""
    if names is None or (not names and version < named_from):
        return None
    return tuple(sorted({str(name) for name in names}))


def _without_nulls(values: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _encode_ordered(fields: dict[str, Any], action: dict[str, Any]) -> bytes:
    """Return an action as JSON: known fields first, then unknown fields by name."""
    unknown = {name: value for name, value in sorted(action.items()) if name not in fields}
    return msgspec.json.encode({name: value for name, value in (fields | unknown).items() if value is not None})
