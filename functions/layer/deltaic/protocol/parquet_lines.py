"""Write lines of a response in parquet format (PROTOCOL.md, "API Response Format in Parquet")."""

from typing import Any, Final

from deltaic.errors import UnsupportedOperation
from deltaic.protocol.wire_actions import FileAction, WireMetadata

PROTOCOL: Final = {"minReaderVersion": 1}
"""PROTOCOL.md, "Protocol": "Currently it's always 1"."""

_CHANGE_DATA_FEED: Final = "delta.enablechangedatafeed"


def metadata(table: WireMetadata) -> dict[str, Any]:
    """Return the Metadata object; of the table properties, parquet format defines only `enableChangeDataFeed`."""
    return {
        "id": table.id,
        **present(name=table.name, description=table.description),
        "format": {"provider": "parquet"},
        "schemaString": table.schema_string,
        "partitionColumns": list(table.partition_columns),
        "configuration": {"enableChangeDataFeed": "true"} if _shares_changes(table) else {},
        **placement(table),
    }


def placement(table: WireMetadata) -> dict[str, Any]:
    """Return the metadata fields that both formats have: version, totals and locations."""
    return present(
        version=table.version,
        size=table.size,
        numFiles=table.num_files,
        location=table.location,
        auxiliaryLocations=list(table.auxiliary_locations) or None,
        accessModes=list(table.access_modes) or None,
    )


def deletion_vector_error() -> UnsupportedOperation:
    """Return the error for a file with a deletion vector, which a parquet-format client would ignore."""
    return UnsupportedOperation(
        "Unsupported Delta Table Properties: a file of this table has a deletion vector, which the parquet response "
        "format cannot express. Request the delta format, or ask the provider to purge the deletion vectors."
    )


def file(action: FileAction) -> dict[str, Any]:
    """Return the JSON object of a file: File, Add File, CDF File or Remove File in PROTOCOL.md."""
    if action.deletion_vector is not None:
        raise deletion_vector_error()
    return {
        "url": action.url,
        "id": action.id,
        "partitionValues": dict(action.partition_values),
        "size": action.size,
        **present(
            stats=action.stats if action.kind in {"file", "add"} else None,
            version=action.version,
            timestamp=action.timestamp,
            expirationTimestamp=action.expiration,
        ),
    }


def _shares_changes(table: WireMetadata) -> bool:
    """Return whether the change data feed is enabled for the table, and its history is shared."""
    if not table.history_shared:
        return False
    return any(
        name.lower() == _CHANGE_DATA_FEED and value.strip().lower() == "true"
        for name, value in table.configuration.items()
    )


def present(**fields: Any) -> dict[str, Any]:
    """Return a JSON object with the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
