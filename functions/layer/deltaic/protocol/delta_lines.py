"""Lines of a response in delta format (PROTOCOL.md, "API Response Format in Delta").

The client writes `deltaProtocol`, `deltaMetadata` and `deltaSingleAction` into a temporary Delta log and reads it with
a Delta library. They must be valid Delta actions with consistent features and properties.
"""

from collections.abc import Mapping
from typing import Any, Final

from deltaic.protocol.parquet_lines import placement, present
from deltaic.protocol.wire_actions import FileAction, WireDeletionVector, WireMetadata

READER_PROPERTIES: Final = frozenset(
    name.lower()
    for name in (
        "delta.columnMapping.mode",
        "delta.columnMapping.maxColumnId",
        "delta.enableChangeDataFeed",
        "delta.enableDeletionVectors",
        "delta.enableTypeWidening",
        "delta.enableVariantShredding",
        "delta.enableRowTracking",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    )
)
"""Table properties, in lower case, that affect a recipient's Delta library; all others are omitted.

In-commit timestamps are omitted, because the client's log has no commitInfo, where a library would look for them. The
other properties concern writers, or are private to the provider.
"""

_TABLE_FEATURES_READER: Final = 3
_TABLE_FEATURES_WRITER: Final = 7


def protocol(action: Mapping[str, Any], version: int | None) -> dict[str, Any]:
    """Return the `deltaProtocol` object for a protocol action, with consistent feature lists.

    Delta's protocol, "Table Features": reader version 3 requires both lists, writer version 7 requires
    `writerFeatures`, and each reader feature must also be a writer feature. Libraries reject any other protocol.
    """
    reader, writer = int(action.get("minReaderVersion", 1)), int(action.get("minWriterVersion", 2))
    wrapped: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    reader_features = [str(name) for name in action.get("readerFeatures") or ()]
    writer_features = [str(name) for name in action.get("writerFeatures") or ()]
    if reader >= _TABLE_FEATURES_READER:
        wrapped["readerFeatures"] = reader_features
        writer_features += [name for name in reader_features if name not in writer_features]
    if writer >= _TABLE_FEATURES_WRITER:
        wrapped["writerFeatures"] = writer_features
    return {"deltaProtocol": wrapped, **({} if version is None else {"version": version})}


def metadata(table: WireMetadata) -> dict[str, Any]:
    """Return the `deltaMetadata` object for a metaData action, with only the properties in `READER_PROPERTIES`."""
    logged = table.raw
    fields = present(
        id=logged.get("id", table.id),
        name=logged.get("name", table.name),
        description=logged.get("description", table.description),
        format=logged.get("format", {"provider": "parquet", "options": {}}),
        schemaString=table.schema_string,
        partitionColumns=list(table.partition_columns),
        configuration={name: text for name, text in table.configuration.items() if name.lower() in READER_PROPERTIES},
        createdTime=logged.get("createdTime"),
    )
    return {"deltaMetadata": fields, **placement(table)}


def file(action: FileAction) -> dict[str, Any]:
    """Return the object of a `file` line, whose `deltaSingleAction` is an add, remove or cdc action.

    Spark requires an id for a deletion vector that is stored in a file. Tags are private to the provider and omitted.
    """
    vector = action.deletion_vector
    wrapper = present(
        id=action.id,
        deletionVectorFileId=None if vector is None else vector.file_id,
        version=action.version,
        timestamp=action.timestamp,
        expirationTimestamp=action.expiration,
    )
    return {**wrapper, "deltaSingleAction": _single_action(action)}


def _single_action(action: FileAction) -> dict[str, Any]:
    base: dict[str, Any] = {
        "path": action.url,
        "partitionValues": dict(action.partition_values),
        "size": action.size,
    }
    if action.kind == "cdf":
        return {"cdc": {**base, "dataChange": False}}  # Delta's protocol: "should always be set to false"
    extra = present(
        dataChange=True,
        stats=None if action.kind == "remove" else action.stats,
        deletionVector=None if action.deletion_vector is None else _vector(action.deletion_vector),
        baseRowId=action.base_row_id,
        defaultRowCommitVersion=action.default_row_commit_version,
    )
    if action.kind == "remove":
        return {
            "remove": {**base, "deletionTimestamp": action.modification_time, "extendedFileMetadata": True, **extra}
        }
    return {"add": {**base, "modificationTime": action.modification_time, **extra}}


def _vector(vector: WireDeletionVector) -> dict[str, Any]:
    return present(
        storageType=vector.storage_type,
        pathOrInlineDv=vector.path_or_inline,
        offset=vector.offset,
        sizeInBytes=vector.size_in_bytes,
        cardinality=vector.cardinality,
    )
