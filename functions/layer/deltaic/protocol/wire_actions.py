"""Metadata, and files with signed URLs, from which the lines of both response formats are written.

Callers convert actions of the log to these values. Writing the lines does not look up, filter or sign anything.
"""

from collections.abc import Mapping, Sequence
from hashlib import md5, sha256
from typing import Any, Literal, TypeAlias

import msgspec

from deltaic.protocol.capabilities import FileIdHash

ActionKind: TypeAlias = Literal["file", "add", "cdf", "remove"]
"""`file`: a file of a snapshot. The others: changes of a commit; in delta format add, cdc and remove."""


def file_id(raw_path: str, scheme: FileIdHash) -> str:
    """Return a file's id: hex MD5 (`parquet`) or SHA-256 (`delta`) of its path.

    The path is the `path` of the log's action, neither decoded nor resolved, in UTF-8. The reference server uses the
    same rule, so recipients' caches and streaming offsets survive a change of server.
    """
    content = raw_path.encode("utf-8", "surrogatepass")
    if scheme == "parquet":
        return md5(content, usedforsecurity=False).hexdigest()
    return sha256(content).hexdigest()


class WireDeletionVector(msgspec.Struct, frozen=True):
    """A deletion vector for the recipient: a signed URL, or inline bytes."""

    storage_type: Literal["p", "i"]
    """`p`: path; `i`: inline. The log's `u` must be resolved and signed, because Spark rejects it."""
    path_or_inline: str
    """Signed URL of the deletion vector file (`p`), or the unchanged Z85 string (`i`)."""
    size_in_bytes: int
    cardinality: int
    offset: int | None = None
    """Position in the file in bytes; None if inline."""
    file_id: str | None = None
    """Required for `p`: `file_id` of the path of the deletion vector file, not of the data file."""


class FileAction(msgspec.Struct, frozen=True):
    """A data file or a change data file."""

    kind: ActionKind
    url: str
    id: str
    partition_values: Mapping[str, str | None]
    """Physical column names and values as logged, in the order of the output. In parquet format it must contain every
    partition column, because Spark looks each up."""
    size: int
    """Size in bytes."""
    stats: str | None = None
    """JSON string of the statistics, unchanged from the log; omitted for `cdf` and `remove`."""
    version: int | None = None
    """Commit version: required for changes, and for a snapshot that was requested by version or timestamp."""
    timestamp: int | None = None
    """Commit time in ms since the epoch; present if `version` is."""
    expiration: int | None = None
    """Time at which the URLs expire, in ms since the epoch."""
    modification_time: int = 0
    """Milliseconds since the epoch, for delta format: modification time of an `add`, deletion time of a `remove`."""
    deletion_vector: WireDeletionVector | None = None
    """Only in delta format, and never for `cdf`."""
    base_row_id: int | None = None
    """Id of the first row, for row tracking like the next field; only in delta format."""
    default_row_commit_version: int | None = None


class WireMetadata(msgspec.Struct, frozen=True):
    """Metadata of a table for both response formats."""

    id: str
    """The Delta table's id (metaData.id), not the share's."""
    schema_string: str
    """Unchanged from the log, because Spark compares it between /metadata and /query."""
    partition_columns: Sequence[str]
    configuration: Mapping[str, str]
    """All table properties; each format sends some of them."""
    raw: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The log's complete metaData action; required in delta format."""
    name: str | None = None
    description: str | None = None
    history_shared: bool = False
    """Whether recipients may read the change data feed; only then the metadata in parquet format enables it."""
    version: int | None = None
    """Version of the metadata, if the response must contain it."""
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    """The table's root, if configured. The next fields: further locations, and the access modes `url` and `dir`."""
    auxiliary_locations: Sequence[str] = ()
    access_modes: Sequence[str] = ()
