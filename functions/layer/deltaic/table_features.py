"""The table features that are known by name, and what each asks of who reads, serves or checkpoints a table.

Delta protocol, "Valid Feature Names in Table Features". Who asks about features derives the answer from here.
"""

from enum import Enum
from typing import Final, NamedTuple


class Concerns(Enum):
    """Whom a feature concerns."""

    DATA = "data"
    """Who reads the files: a client must know of it where it is in use."""
    LOG = "log"
    """Who reads the log, which is this server."""
    WRITERS = "writers"
    UNREAD = "unread"
    """Who reads, and this server does not read it."""


class TableFeature(NamedTuple):
    """One feature."""

    name: str
    concerns: Concerns
    misread_as_parquet: bool = False
    """In use, it makes a client of the parquet format return wrong rows, columns or values.

    The others such a client reads right or fails at by itself: a type in the schema that it does not know.
    """
    announced: bool = False
    """In use, a client of the delta format must name it in `readerfeatures`.

    Of the others the answer's `deltaProtocol` tells, and the Delta library behind every such client refuses by name
    what it cannot read; the published Python client reads them all, and announces timestampNtz only, and that not for
    change feeds. Deletion vectors and column mapping must be announced, as the reference demands.
    """
    checkpointed: bool = True
    """A checkpoint that keeps every action as it is keeps the feature."""
    final_name: str = ""
    """Of a preview."""


TABLE_FEATURES: Final = (
    TableFeature("columnMapping", Concerns.DATA, misread_as_parquet=True, announced=True),
    TableFeature("deletionVectors", Concerns.DATA, misread_as_parquet=True, announced=True),
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
    TableFeature("geospatial", Concerns.UNREAD, checkpointed=False),
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
