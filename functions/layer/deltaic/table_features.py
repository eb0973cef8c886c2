"""Delta table features, and what clients, this server and checkpoint writers need for them.

Delta protocol, "Valid Feature Names in Table Features". All other lists of features are derived from this one.
"""

from enum import Enum
from typing import Final, NamedTuple


class Concerns(Enum):
    """Kind of program that must support a feature."""

    DATA = "data"
    """Readers of data files: a client must support the feature if a table uses it."""
    LOG = "log"
    """Programs that read the log: only this server must support the feature, not its clients."""
    WRITERS = "writers"
    UNREAD = "unread"
    """All readers, but this server does not support the feature."""


class TableFeature(NamedTuple):
    """A table feature of the Delta protocol."""

    name: str
    concerns: Concerns
    misread_as_parquet: bool = False
    """Whether the parquet format is refused if the table uses the feature.

    A client of this format would return wrong rows, columns or values, or, with geospatial columns, fail at their types
    without naming the remedy. With the other features it reads correctly, or fails at a type that it names.
    """
    announced: bool = False
    """Whether a client of the delta format must list the feature in `readerfeatures` if the table uses it.

    The reference requires this for deletion vectors and column mapping. Geospatial columns are read by few clients yet,
    and others fail without naming the column. The remaining features are in the response's
    `deltaProtocol`, and the client's Delta library rejects those that it does not support. The published Python client
    supports them all, but lists only timestampNtz, and not for change feeds.
    """
    checkpointed: bool = True
    """Whether a checkpoint that copies every action unchanged preserves the feature."""
    final_name: str = ""
    """For a preview, the name of the final feature."""


TABLE_FEATURES: Final = (
    TableFeature("columnMapping", Concerns.DATA, misread_as_parquet=True, announced=True),
    TableFeature("deletionVectors", Concerns.DATA, misread_as_parquet=True, announced=True),
    TableFeature("geospatial", Concerns.DATA, misread_as_parquet=True, announced=True, checkpointed=False),
    TableFeature("timestampNtz", Concerns.DATA),
    TableFeature("typeWidening", Concerns.DATA, misread_as_parquet=True),
    TableFeature("typeWidening-preview", Concerns.DATA, misread_as_parquet=True, final_name="typeWidening"),
    TableFeature("variantType", Concerns.DATA),
    TableFeature("variantType-preview", Concerns.DATA, final_name="variantType"),
    TableFeature("variantShredding", Concerns.DATA),
    TableFeature("variantShredding-preview", Concerns.DATA, final_name="variantShredding"),
    TableFeature("v2Checkpoint", Concerns.LOG),
    TableFeature("vacuumProtocolCheck", Concerns.LOG),
    TableFeature("catalogManaged", Concerns.UNREAD, checkpointed=False),
    TableFeature("catalogOwned", Concerns.UNREAD, checkpointed=False),
    TableFeature("catalogOwned-preview", Concerns.UNREAD, checkpointed=False),
    TableFeature("allowColumnDefaults", Concerns.WRITERS),
    TableFeature("appendOnly", Concerns.WRITERS),
    TableFeature("changeDataFeed", Concerns.WRITERS),
    TableFeature("checkConstraints", Concerns.WRITERS),
    TableFeature("checkpointProtection", Concerns.WRITERS, checkpointed=False),
    TableFeature("clustering", Concerns.WRITERS),
    TableFeature("domainMetadata", Concerns.WRITERS),
    TableFeature("generatedColumns", Concerns.WRITERS),
    TableFeature("icebergCompatV1", Concerns.WRITERS),
    TableFeature("icebergCompatV2", Concerns.WRITERS),
    TableFeature("icebergCompatV3", Concerns.WRITERS, checkpointed=False),
    TableFeature("icebergWriterCompatV1", Concerns.WRITERS, checkpointed=False),
    TableFeature("icebergWriterCompatV3", Concerns.WRITERS, checkpointed=False),
    TableFeature("identityColumns", Concerns.WRITERS),
    TableFeature("inCommitTimestamp", Concerns.WRITERS),
    TableFeature("invariants", Concerns.WRITERS),
    TableFeature("materializePartitionColumns", Concerns.WRITERS),
    TableFeature("rowTracking", Concerns.WRITERS),
)
