"""Decides which tables can be read, and which of a table's features a client must know of.

Delta protocol, "Table Features" and "Valid Feature Names in Table Features". Only reader features count: a writer
feature changes nothing for those who read.
"""

from typing import Final

from deltaic.delta.actions import Metadata, Protocol
from deltaic.delta.schema_string import TYPES, parts_of, read_schema
from deltaic.errors import TableUnreadable, UnsupportedOperation
from deltaic.table_features import TABLE_FEATURES, Concerns

COLUMN_MAPPING: Final = "columnMapping"
DELETION_VECTORS: Final = "deletionVectors"
TIMESTAMP_NTZ: Final = "timestampNtz"
TYPE_WIDENING: Final = "typeWidening"
VARIANT: Final = "variantType"
VARIANT_SHREDDING: Final = "variantShredding"

LOG_ONLY: Final = frozenset(one.name for one in TABLE_FEATURES if one.concerns is Concerns.LOG)
"""Reader features that only concern whoever reads the log, which is this server: no client needs to know of them."""

PREVIEWS: Final = {one.name: one.final_name for one in TABLE_FEATURES if one.final_name}

PARQUET_MISREADS: Final = frozenset(one.name for one in TABLE_FEATURES if one.misread_as_parquet and not one.final_name)
"""Live features that make a client of the parquet format return wrong rows, columns or values."""

READABLE: Final = LOG_ONLY | {one.name for one in TABLE_FEATURES if one.concerns is Concerns.DATA}
"""What a table may require of its readers for this server to read it."""

_CATALOG: Final = (
    "The table is managed by a catalog (table feature '{}'), whose commits this server cannot see yet. Ask the "
    "provider to share a table without that feature."
)
REFUSED: Final = {
    **dict.fromkeys(("catalogManaged", "catalogOwned-preview", "catalogOwned"), _CATALOG),
    "geospatial": (
        "The table has geometry or geography columns (table feature '{}'), which this server does not read yet. Ask "
        "the provider to share a table that holds them as text (WKT) or bytes (WKB)."
    ),
}
"""Reader features that are known and not read, with what a recipient is told of each."""

_NAMED_READER_VERSION: Final = 3
_MAPPING_READER_VERSION: Final = 2


def check_readable(protocol: Protocol) -> None:
    """Raise UnsupportedOperation, naming the feature, for a table that this server cannot read right.

    Raises TableUnreadable for a protocol that contradicts itself (features are listed exactly from version 3 on).
    """
    version, features = protocol.min_reader_version, protocol.reader_features
    if version > _NAMED_READER_VERSION:
        raise UnsupportedOperation(
            f"The table needs reader version {version} of the Delta protocol; this server reads up to version "
            f"{_NAMED_READER_VERSION}. Ask the provider for a table without it."
        )
    if version == _NAMED_READER_VERSION and features is None:
        raise TableUnreadable("the table's log contradicts itself: reader version 3 without a list of reader features")
    if version < _NAMED_READER_VERSION and features:
        raise TableUnreadable(
            f"the table's log contradicts itself: reader version {version} with reader features "
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
    """Raise UnsupportedOperation for data files that are not Parquet, which no client of this server reads.

    Raises TableUnreadable, naming the column, where a partition column is not in the schema under that very name:
    clients look its values up by it, and show NULL where they find none.
    """
    if metadata.format.provider.lower() != "parquet":
        raise UnsupportedOperation(
            f"The table's files are in the format '{metadata.format.provider}'; this server reads Parquet files only. "
            "Ask the provider to share a copy in Parquet."
        )
    if not metadata.partition_columns:
        return
    names = {field["name"] for field in read_schema(metadata.schema_string)["fields"]}
    for missing in (column for column in metadata.partition_columns if column not in names):
        spelled = next((f"spells '{name}'" for name in names if name.lower() == missing.lower()), "lacks")
        raise TableUnreadable(
            f"the table's log contradicts itself: partitionColumns has '{missing}', which the schema {spelled}"
        )


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Return the reader features that a table of this protocol may use, previews under their final names."""
    if protocol.min_reader_version < _MAPPING_READER_VERSION:
        return frozenset()
    if protocol.min_reader_version == _MAPPING_READER_VERSION:
        return frozenset({COLUMN_MAPPING})
    return frozenset(PREVIEWS.get(name, name) for name in protocol.reader_features or ())


def live_features(protocol: Protocol, metadata: Metadata, *, has_deletion_vectors: bool = False) -> frozenset[str]:
    """Return the reader features that are in use here: what a client has to know to read this version right.

    Log-only features are never among them. Deletion vectors are in use when the table property says that writers may
    add them, or when a file has one (`has_deletion_vectors`, see Snapshot).
    """
    supported = supported_features(protocol)
    configuration = metadata.configuration
    live = set()
    # A mapping that the protocol does not carry is obeyed all the same: files named physically are read wrongly else.
    if configuration.get("delta.columnMapping.mode", "none").lower() != "none":
        live.add(COLUMN_MAPPING)
    enabled = configuration.get("delta.enableDeletionVectors", "false").lower() == "true"
    if has_deletion_vectors or (enabled and DELETION_VECTORS in supported):
        live.add(DELETION_VECTORS)
    types, widened = _schema_marks(metadata)
    if "timestamp_ntz" in types:
        live.add(TIMESTAMP_NTZ)
    if "variant" in types:
        live.add(VARIANT)
        if VARIANT_SHREDDING in supported:
            live.add(VARIANT_SHREDDING)
    if widened:
        live.add(TYPE_WIDENING)
    return frozenset(live)


_PARTITION_VALUES_IN_FILES = ("materializePartitionColumns", "icebergCompatV1", "icebergCompatV2", "icebergCompatV3")


def partition_values_in_files(protocol: Protocol, metadata: Metadata) -> str | None:
    """Return the feature under which writers put partition values into the files too; None for a table without one."""
    known = {name.lower() for name in protocol.writer_features or ()}
    for feature in _PARTITION_VALUES_IN_FILES:
        enabled = metadata.configuration.get(f"delta.enable{feature[0].upper()}{feature[1:]}", "false")
        if feature.lower() in known or enabled.lower() == "true":
            return feature
    return None


def change_data_enabled(metadata: Metadata) -> bool:
    """Tell whether commits under this metadata record change data."""
    return metadata.configuration.get("delta.enableChangeDataFeed", "false").lower() == "true"


def _schema_marks(metadata: Metadata) -> tuple[frozenset[str], bool]:
    parts = list(parts_of(read_schema(metadata.schema_string)))
    types = frozenset(kind for part in parts for name, kind in part.items() if name in TYPES and isinstance(kind, str))
    return types, any("delta.typeChanges" in (part.get("metadata") or ()) for part in parts)
