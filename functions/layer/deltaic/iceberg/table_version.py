"""What Iceberg metadata is made from: a version of a Delta table in plain values, and the means to read and to put."""

import sys
from collections.abc import Callable, Iterable, Sequence

import msgspec
import pyarrow as pa

from deltaic.delta.store import TableStore
from deltaic.pruning.columns import TableMetadata


class TableVersion(msgspec.Struct, frozen=True):
    """One version, as much of it as a recipient may see."""

    version: int
    timestamp: int
    """When it was committed, in ms since the epoch."""
    metadata: TableMetadata
    """Schema, partition columns and properties of this version; without columns that are hidden."""
    files: Callable[[], Iterable[pa.RecordBatch]]
    """Returns the live files, batches of `deltaic.delta.scan.file_batches.FILE_SCHEMA`; called once."""


class MetadataContext(msgspec.Struct, frozen=True):
    """Where metadata goes, and what reads the table."""

    location: str
    """URI of the folder of all that is made, without a slash at the end (`s3://metadata/2026-W48/...`).

    Of one table, place of it, rights and log: nothing below it may be shared with those who see other files.
    """
    put: Callable[[str, bytes], None]
    """Puts an object at a key below `location`; called for what is new, before the index that names it returns.

    The same key always has the same bytes, so that it may be put again.
    """
    uris: Callable[[pa.StringArray], Sequence[str]]
    """Returns the URIs of files, not encoded (`s3://bucket/key`), by their raw paths in the log."""
    store: TableStore
    """Reads footers and deletion vectors."""
    most_files: int = sys.maxsize
    """How many are listed anew at most."""
