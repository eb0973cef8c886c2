"""Check that this server supports a table's features, and list the features that clients must support.

Delta protocol, "Table Features" and "Valid Feature Names in Table Features". Only reader features count, because writer
features do not affect readers.
"""

from typing import Final

from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.schema_string import TYPES, nested_parts, read_schema
from deltaic.errors import TableUnreadable, UnsupportedOperation
from deltaic.table_features import TABLE_FEATURES, Concerns

COLUMN_MAPPING: Final = "columnMapping"
DELETION_VECTORS: Final = "deletionVectors"
TIMESTAMP_NTZ: Final = "timestampNtz"
TYPE_WIDENING: Final = "typeWidening"
GEOSPATIAL: Final = "geospatial"
VARIANT: Final = "variantType"
VARIANT_SHREDDING: Final = "variantShredding"

LOG_ONLY: Final = frozenset(feature.name for feature in TABLE_FEATURES if feature.concerns is Concerns.LOG)
"""Reader features that affect only readers of the log. This server reads the log, so clients need not support them."""

PREVIEWS: Final = {feature.name: feature.final_name for feature in TABLE_FEATURES if feature.final_name}

PARQUET_MISREADS: Final = frozenset(
    feature.name for feature in TABLE_FEATURES if feature.misread_as_parquet and not feature.final_name
)
"""Features in use with which a client of the parquet format would return wrong rows, columns or values."""

READABLE: Final = LOG_ONLY | {feature.name for feature in TABLE_FEATURES if feature.concerns is Concerns.DATA}
"""Reader features that this server supports."""

_CATALOG: Final = (
    "The table is managed by a catalog (table feature '{}'), and this server cannot read commits from a catalog. Ask "
    "the provider to share a table without that feature."
)
REFUSED: Final = dict.fromkeys(("catalogManaged", "catalogOwned-preview", "catalogOwned"), _CATALOG)
"""Known but unsupported reader features, with the message for recipients."""

_FEATURES_READER_VERSION: Final = 3
_MAPPING_READER_VERSION: Final = 2


def check_readable(protocol: Protocol) -> None:
    """Raise UnsupportedOperation, with the feature's name, for a table that this server cannot read correctly.

    Raises TableUnreadable for an inconsistent protocol (feature lists require version 3, and version 3 requires them).
    """
    version, features = protocol.min_reader_version, protocol.reader_features
    if version > _FEATURES_READER_VERSION:
        raise UnsupportedOperation(
            f"The table needs reader version {version} of the Delta protocol; this server reads up to version "
            f"{_FEATURES_READER_VERSION}. Ask the provider for a table with a lower reader version."
        )
    if version == _FEATURES_READER_VERSION and features is None:
        raise TableUnreadable("the table's log is inconsistent: reader version 3 requires a list of reader features")
    if version < _FEATURES_READER_VERSION and features:
        raise TableUnreadable(
            f"the table's log is inconsistent: reader version {version} with reader features "
            f"{', '.join(sorted(features))}"
        )
    for feature in features or ():
        if feature in REFUSED:
            raise UnsupportedOperation(REFUSED[feature].format(feature))
    unknown = sorted(set(features or ()) - READABLE)
    if unknown:
        raise UnsupportedOperation(
            f"The table requires reader features that this server does not support: {', '.join(unknown)}. Ask the "
            "provider to share a table without them."
        )


def check_metadata(metadata: Metadata) -> None:
    """Raise UnsupportedOperation if the data files are not Parquet, which every client requires.

    Raises TableUnreadable, with the column's name, if the schema does not contain a partition column with the
    same upper and lower case: clients look up its values by name, and return NULL if they find none.
    """
    if metadata.format.provider.lower() != "parquet":
        raise UnsupportedOperation(
            f"The table's files are in the format '{metadata.format.provider}'; this server reads Parquet files only. "
            "Ask the provider to share a copy in Parquet."
        )
    if not metadata.partition_columns:
        return
    names = {field["name"] for field in read_schema(metadata.schema_string)["fields"]}
    for column in filter(lambda column: column not in names, metadata.partition_columns):
        problem = next((f"spells '{name}'" for name in names if name.lower() == column.lower()), "lacks")
        raise TableUnreadable(
            f"the table's log is inconsistent: partitionColumns has '{column}', which the schema {problem}"
        )


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Return the reader features that a table's protocol allows; previews have their final names."""
    if protocol.min_reader_version < _MAPPING_READER_VERSION:
        return frozenset()
    if protocol.min_reader_version == _MAPPING_READER_VERSION:
        return frozenset({COLUMN_MAPPING})
    return frozenset(PREVIEWS.get(name, name) for name in protocol.reader_features or ())


def live_features(protocol: Protocol, metadata: Metadata, *, has_deletion_vectors: bool = False) -> frozenset[str]:
    """Return the reader features that the table uses, which a client must support.

    Features that concern only the log are never included. Deletion vectors are in use if the table property allows
    writers to add them, or if a file has one (`has_deletion_vectors`, see Snapshot).
    """
    supported = supported_features(protocol)
    configuration = metadata.configuration
    live = set()
    # Column mapping applies even if the protocol lacks the feature: the files contain physical names.
    if configuration.get("delta.columnMapping.mode", "none").lower() != "none":
        live.add(COLUMN_MAPPING)
    enabled = configuration.get("delta.enableDeletionVectors", "false").lower() == "true"
    if has_deletion_vectors or (enabled and DELETION_VECTORS in supported):
        live.add(DELETION_VECTORS)
    types, widened = _schema_types(metadata)
    if "timestamp_ntz" in types:
        live.add(TIMESTAMP_NTZ)
    if "variant" in types:
        live.add(VARIANT)
        if VARIANT_SHREDDING in supported:
            live.add(VARIANT_SHREDDING)
    if any(name.startswith(("geometry", "geography")) for name in types):
        live.add(GEOSPATIAL)
    if widened:
        live.add(TYPE_WIDENING)
    return frozenset(live)


_PARTITION_VALUES_IN_FILES = ("materializePartitionColumns", "icebergCompatV1", "icebergCompatV2", "icebergCompatV3")


def partition_values_in_files(protocol: Protocol, metadata: Metadata) -> str | None:
    """Return the feature because of which data files also contain partition values; None if the table has none."""
    supported = {name.lower() for name in protocol.writer_features or ()}
    for feature in _PARTITION_VALUES_IN_FILES:
        enabled = metadata.configuration.get(f"delta.enable{feature[0].upper()}{feature[1:]}", "false")
        if feature.lower() in supported or enabled.lower() == "true":
            return feature
    return None


def change_data_enabled(metadata: Metadata) -> bool:
    """Return whether commits under this metadata record change data."""
    return metadata.configuration.get("delta.enableChangeDataFeed", "false").lower() == "true"


def _schema_types(metadata: Metadata) -> tuple[frozenset[str], bool]:
    parts = list(nested_parts(read_schema(metadata.schema_string)))
    types = frozenset(kind for part in parts for name, kind in part.items() if name in TYPES and isinstance(kind, str))
    return types, any("delta.typeChanges" in (part.get("metadata") or ()) for part in parts)
