"""Share golden tables, and list what a format or the published client cannot read.

A golden table that is in none of the lists must be read completely and correctly, in both formats at every version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from client.provider import SCHEMA, SHARE, Provider
from contract.recipient import Recipient, Table
from deltaic_ops.local.resources import DATA_BUCKET
from golden.library import TABLES, Golden, load, names, place

Format = Literal["delta", "parquet"]
FORMATS: Final[tuple[Format, ...]] = ("delta", "parquet")
CAPABILITIES: Final[Mapping[Format, str | None]] = {
    "delta": "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz",
    "parquet": None,
}
"""Capabilities that the published client sends for each format."""

CHANGE_FEEDS: Final = [name for name in names() if load(name).change_range is not None]
"""Golden tables with a change feed."""

MAPPING, VECTORS, WIDENING = "columnMapping", "deletionVectors", "typeWidening"
REFUSED_AS_PARQUET: Final[Mapping[str, Mapping[str, int]]] = {
    "checkpoint_v2_json": {VECTORS: 0},
    "clone_deletion_vectors": {VECTORS: 0},
    "column_mapping_change_feed": {MAPPING: 0},
    "column_mapping_id": {MAPPING: 0},
    "column_mapping_later": {MAPPING: 2},
    "column_mapping_name": {MAPPING: 0},
    "deletion_vectors": {VECTORS: 0},
    "deletion_vectors_change_feed": {VECTORS: 0},
    "deletion_vectors_inline": {VECTORS: 0},
    "everything": {MAPPING: 0, VECTORS: 0},
    "iceberg_compat": {MAPPING: 0},
    "log_compaction": {VECTORS: 0},
    "odd_columns": {MAPPING: 0},
    "type_widening": {WIDENING: 2},
}
"""Features that a client of the parquet format would misread, and the first version with them."""


@dataclass(frozen=True)
class ClientError:
    """An error of the published client (delta-sharing 1.4.2, kernel wrapper 0.3.3) although the response is correct."""

    since: int
    error: str
    """The error message."""


CLIENT_ERRORS: Final[Mapping[tuple[str, Format], ClientError]] = {
    # This converter does not support partitions by binary.
    ("partitioned_types", "parquet"): ClientError(1, "Cannot partition on binary or complex columns"),
    # The converter of the parquet format does not support these types, even for empty tables.
    ("timestamp_ntz", "parquet"): ClientError(0, "Could not parse datatype: timestamp_ntz"),
    ("timestamp_ntz_change_feed", "parquet"): ClientError(0, "Could not parse datatype: timestamp_ntz"),
    ("variant", "parquet"): ClientError(0, "Could not parse datatype: variant"),
    ("variant_shredded", "parquet"): ClientError(0, "Could not parse datatype: variant"),
    # Its kernel does not support shredded variants.
    ("variant_shredded", "delta"): ClientError(0, "Feature 'variantShredding' is not supported"),
    # Its kernel does not widen types within an array or a map.
    ("type_widening", "delta"): ClientError(6, "Cannot cast list to non-list data types"),
}

COLUMNS_CHANGE: Final[Mapping[str, int]] = {
    "columns_added_change_feed": 5,
    "columns_added_partitioned_change_feed": 3,
}
"""Tables whose columns change within the feed, and the last version with a change.

The client's kernel (delta format) rejects a range across it: "Start and end version schemas are different".
"""

ADVANCED: Final = {*REFUSED_AS_PARQUET, "timestamp_ntz", "timestamp_ntz_change_feed", "variant", "variant_shredded"}
"""Tables whose latest version uses a reader feature: a client that supports both formats gets delta."""

PADDED: Final[Mapping[str, Sequence[str]]] = {"char_varchar": ["c"]}
"""CHAR columns: Spark pads them when it reads; the server sends the written values, with the length in the schema."""


@dataclass(frozen=True)
class Shared:
    """A golden table on the server."""

    golden: Golden
    folder: Path
    """The uploaded table."""
    profile: Path
    recipient: Recipient

    @property
    def name(self) -> str:
        """Name in the share."""
        return f"golden_{self.golden.name}"

    @property
    def url(self) -> str:
        """URL for the client."""
        return f"{self.profile}#{SHARE}.{SCHEMA}.{self.name}"

    @property
    def default_format(self) -> Format:
        """Format of the latest version for a client that supports both."""
        return "delta" if self.golden.name in ADVANCED else "parquet"

    @property
    def log(self) -> Path:
        return self.folder / "_delta_log"

    @property
    def prefix(self) -> str:
        """Prefix in the bucket."""
        return f"golden/{self.golden.name}/delta"

    def requested(self, as_format: Format) -> Table:
        """Return the table for plain HTTP, with the capabilities that the client sends for a format."""
        return Table(self.recipient, SHARE, SCHEMA, self.name).with_capabilities(CAPABILITIES[as_format])

    def rows(self, version: int) -> pa.Table:
        """Return what Spark read at a version, with unpadded CHAR columns."""
        rows = self.golden.rows(version)
        for name in PADDED.get(self.golden.name, ()):
            at = rows.column_names.index(name)
            rows = rows.set_column(at, rows.schema.field(at), pc.utf8_rtrim(rows[name], " "))
        return rows

    def refused_features(self, version: int, as_format: Format) -> list[str]:
        """Return the features for which this format must be refused at a version."""
        if as_format == "delta":
            return []
        features = REFUSED_AS_PARQUET.get(self.golden.name, {})
        return [feature for feature, since in features.items() if version >= since]

    def expected_error(self, version: int, as_format: Format) -> str | None:
        """Return the client's error at a version; None if it can read it."""
        client_error = CLIENT_ERRORS.get((self.golden.name, as_format))
        return client_error.error if client_error and version >= client_error.since else None

    def file(self, raw_path: str) -> Path:
        """Return the uploaded file for the decoded path of a URL."""
        folders = {f"{self.prefix}/": self.folder, f"golden/{self.golden.name}/source/": self.source}
        (path,) = [
            folder / raw_path.removeprefix(prefix) for prefix, folder in folders.items() if raw_path.startswith(prefix)
        ]
        return path

    @property
    def source(self) -> Path:
        """Source of a shallow clone."""
        return TABLES / self.golden.name / "source"


def share(provider: Provider, golden: Golden, folder: Path) -> Shared:
    """Upload and share a golden table with history, and upload the source of a clone."""
    placed = place(golden, folder, f"s3://{DATA_BUCKET}/golden")
    shared = Shared(golden, placed, provider.profile, provider.recipient("reader"))
    auxiliary = []
    if shared.source.is_dir():
        provider.upload(shared.source, f"golden/{golden.name}/source")
        auxiliary.append(f"s3://{DATA_BUCKET}/golden/{golden.name}/source")
    provider.put(shared.name, placed, shared.prefix, history=True, auxiliary_locations=auxiliary)
    return shared


def commit_times(provider: Provider, table: Shared) -> dict[int, int]:
    """Return each commit's time in milliseconds: its in-commit timestamp, else its object's time.

    Delta protocol, "In-Commit Timestamps": file times are made strictly increasing.
    """
    changes = table.golden.changes()
    if table.golden.name in {"everything", "in_commit_timestamps"}:
        milliseconds = pc.cast(changes["_commit_timestamp"], pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        return dict(zip(changes["_commit_version"].to_pylist(), milliseconds.to_pylist(), strict=True))
    s3 = provider.client("s3")
    objects: list[Any] = s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=f"{table.prefix}/_delta_log/0")["Contents"]
    times: dict[int, int] = {}
    for entry in sorted(objects, key=lambda entry: entry["Key"]):
        name = entry["Key"].rpartition("/")[2]
        if name[20:] == ".json":
            modified = round(entry["LastModified"].timestamp() * 1000)
            times[int(name[:20])] = max(modified, max(times.values(), default=0) + 1)
    return times
