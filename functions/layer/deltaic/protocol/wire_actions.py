"""Tables and files on their way to the wire: what the renderers of both formats need to know, signed.

Whoever answers a request converts the log's actions into these. Nothing here has been looked up, filtered or signed
by the renderers: what stands in these values is what the client reads.
"""

from collections.abc import Mapping, Sequence
from hashlib import md5, sha256
from typing import Any, Literal, TypeAlias

import msgspec

from deltaic.protocol.capabilities import FileIdHash

ActionKind: TypeAlias = Literal["file", "add", "cdf", "remove"]
"""`file`: a file of a snapshot. The others: changes of a commit; in delta format they become add, cdc and remove."""


def file_id(raw_path: str, scheme: FileIdHash) -> str:
    """Return the id of a file: lower-case hex of MD5 (`parquet`) or SHA-256 (`delta`) of its path as logged.

    The path is the `path` of the log's action, neither decoded nor resolved, in UTF-8. This is the reference server's
    rule, so that caches and streaming offsets of recipients survive a change of server.
    """
    content = raw_path.encode("utf-8", "surrogatepass")
    if scheme == "parquet":
        return md5(content, usedforsecurity=False).hexdigest()
    return sha256(content).hexdigest()


class WireDeletionVector(msgspec.Struct, frozen=True):
    """A deletion vector as the recipient may read it: a signed URL, or inline bytes."""

    storage_type: Literal["p", "i"]
    """`p`: path; `i`: inline. The log's `u` must have been resolved and signed: Spark rejects it on the wire."""
    path_or_inline: str
    """The signed URL of the deletion vector file (`p`), or the descriptor's own Z85 text, untouched (`i`)."""
    size_in_bytes: int
    cardinality: int
    """Rows deleted."""
    offset: int | None = None
    """Bytes into the file; None for inline ones."""
    file_id: str | None = None
    """Required for `p`: `file_id` of the deletion vector file's path; other than the data file's id."""


class FileAction(msgspec.Struct, frozen=True):
    """One data file, or one file of changes."""

    kind: ActionKind
    url: str
    """Signed."""
    id: str
    partition_values: Mapping[str, str | None]
    """Physical column names and texts as logged; in the order to be written. In parquet format Spark looks every
    partition column up, so it is named even where the log leaves it out."""
    size: int
    """Bytes."""
    stats: str | None = None
    """The statistics' JSON text, as logged; not written for `cdf` and `remove`."""
    version: int | None = None
    """Commit version: required for changes; for a snapshot when it was asked for by version or timestamp."""
    timestamp: int | None = None
    """Milliseconds of that commit; as `version`."""
    expiration: int | None = None
    """Milliseconds at which the URL (and the deletion vector's) dies."""
    modification_time: int = 0
    """Milliseconds; for `add` in delta format; for `remove` it is the deletion time."""
    deletion_vector: WireDeletionVector | None = None
    """Delta format only; never for `cdf`."""
    base_row_id: int | None = None
    """Row tracking, with the next: delta format only."""
    default_row_commit_version: int | None = None


class WireMetadata(msgspec.Struct, frozen=True):
    """What both formats say about a table."""

    id: str
    """The Delta table's own id (metaData.id), not the share's."""
    schema_string: str
    """As logged, character by character: Spark compares it between /metadata and /query."""
    partition_columns: Sequence[str]
    configuration: Mapping[str, str]
    """All table properties; each format decides which of them leave."""
    raw: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The log's metaData action, complete; needed in delta format."""
    name: str | None = None
    description: str | None = None
    history_shared: bool = False
    """Whether the change data feed may be read; parquet format announces it only then."""
    version: int | None = None
    """The version that the metadata describes, where the request makes the answer say so."""
    size: int | None = None
    """Bytes of all live files."""
    num_files: int | None = None
    location: str | None = None
    """Where configured, with the next two: the root, further locations, and `url` and `dir`."""
    auxiliary_locations: Sequence[str] = ()
    access_modes: Sequence[str] = ()
