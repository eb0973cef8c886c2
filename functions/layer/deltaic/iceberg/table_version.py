"""Input of Iceberg metadata: a version of a Delta table, and the context that reads and writes."""

import sys
from collections.abc import Callable, Iterable, Sequence

import msgspec
import pyarrow as pa

from deltaic.delta.store import TableStore
from deltaic.pruning.columns import TableMetadata


class TableVersion(msgspec.Struct, frozen=True):
    """The part of a table version that a recipient may read."""

    version: int
    timestamp: int
    """Commit time, in ms since the epoch."""
    metadata: TableMetadata
    """Schema, partition columns and properties of this version, without hidden columns."""
    files: Callable[[], Iterable[pa.RecordBatch]]
    """Returns the live files, batches of `deltaic.delta.scan.file_batches.FILE_SCHEMA`; called once."""


class MetadataContext(msgspec.Struct, frozen=True):
    """Functions and settings that read the table and write its Iceberg metadata."""

    location: str
    """URI of the metadata's folder, without a slash at the end (`s3://metadata/2026-W48/...`).

    Use a separate folder for each table, location, set of rights and log: recipients of other files must not read it.
    """
    put: Callable[[str, bytes], None]
    """Writes a new object at a key below `location`, before the index that names it is returned.

    A key always has the same bytes, so writing it again is safe.
    """
    uris: Callable[[pa.StringArray], Sequence[str]]
    """Returns the unencoded URIs (`s3://bucket/key`) of files, from their raw paths in the log."""
    store: TableStore
    """Reads footers and deletion vectors."""
    most_files: int = sys.maxsize
    """Maximum number of files that one call adds to new manifests."""
