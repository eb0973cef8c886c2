"""Input for generating Iceberg metadata: a table version, and functions that read the table and write metadata."""

import sys
from collections.abc import Callable, Iterable, Sequence

import msgspec
import pyarrow as pa

from deltaic.delta.store import TableStore
from deltaic.pruning.columns import TableMetadata


class TableVersion(msgspec.Struct, frozen=True):
    """A version of a Delta table, limited to the columns and files that a recipient may read."""

    version: int
    timestamp: int
    """Commit time, in ms since the epoch."""
    metadata: TableMetadata
    """Schema, partition columns and properties of this version, without hidden columns."""
    files: Callable[[], Iterable[pa.RecordBatch]]
    """Function that returns the live files in batches with FILE_SCHEMA (file_batches.py); it is called only once."""


class MetadataContext(msgspec.Struct, frozen=True):
    """Functions and settings for reading a table and writing its Iceberg metadata."""

    location: str
    """URI of the folder for the metadata, without a slash at the end (`s3://metadata/2026-W48/...`).

    Use a separate folder for each table, location, log and set of rights, because everyone who may read the folder
    can read the metadata of all files that it lists.
    """
    put: Callable[[str, bytes], None]
    """Function that writes an object at a key relative to `location`, before the index that lists it is returned.

    Every write of a key has the same bytes, so repeating it is safe.
    """
    uris: Callable[[pa.StringArray], Sequence[str]]
    """Function that returns the decoded URIs (`s3://bucket/key`) of files, from their paths in the log."""
    store: TableStore
    most_files: int = sys.maxsize
    """Maximum number of files that one version adds to new manifests."""
