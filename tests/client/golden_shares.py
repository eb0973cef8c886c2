"""Decides how a golden table is shared, and what is known of it: what parquet cannot carry, what the client cannot.

A golden table that is in none of the lists below has to be read, whole and right, in both formats at every version.
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
ASKING: Final[Mapping[Format, str | None]] = {
    "delta": "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz",
    "parquet": None,
}
"""The capabilities that the published client sends for each format."""

CHANGED: Final = [name for name in names() if load(name).change_range is not None]
"""The golden tables that have a change feed."""

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
"""What a parquet-format client would misread, and the version from which on it is in the table."""


@dataclass(frozen=True)
class Unreadable:
    """The published client (delta-sharing 1.4.2, kernel wrapper 0.3.3) fails although the answer is right."""

    since: int
    error: str
    """What it says."""


UNREADABLE: Final[Mapping[tuple[str, Format], Unreadable]] = {
    # Spark partitions by binary, and this converter does not.
    ("partitioned_types", "parquet"): Unreadable(1, "Cannot partition on binary or complex columns"),
    # The converter of the parquet format has a list of types, and these are not on it, not even for empty tables.
    ("timestamp_ntz", "parquet"): Unreadable(0, "Could not parse datatype: timestamp_ntz"),
    ("timestamp_ntz_change_feed", "parquet"): Unreadable(0, "Could not parse datatype: timestamp_ntz"),
    ("variant", "parquet"): Unreadable(0, "Could not parse datatype: variant"),
    ("variant_shredded", "parquet"): Unreadable(0, "Could not parse datatype: variant"),
    # Its kernel knows variants, whole ones.
    ("variant_shredded", "delta"): Unreadable(0, "Feature 'variantShredding' is not supported"),
    # Its kernel widens columns, and not what is inside an array or a map.
    ("type_widening", "delta"): Unreadable(6, "Cannot cast list to non-list data types"),
}

COLUMNS_CHANGE: Final[Mapping[str, int]] = {
    "columns_added_change_feed": 5,
    "columns_added_partitioned_change_feed": 3,
}
"""Tables whose columns change within the feed, and the last version at which they do.

The client's kernel (delta format) says of a range across it: "Start and end version schemas are different".
"""

ADVANCED: Final = {*REFUSED_AS_PARQUET, "timestamp_ntz", "timestamp_ntz_change_feed", "variant", "variant_shredded"}
"""Tables whose latest version uses a reader feature: a client that offers both formats is answered in delta."""

PADDED: Final[Mapping[str, Sequence[str]]] = {"char_varchar": ["c"]}
"""CHAR columns: Spark pads them when it reads; they are sent as they were written, with the length in the schema."""


@dataclass(frozen=True)
class Shared:
    """A golden table on the server."""

    golden: Golden
    folder: Path
    """The table as it was uploaded."""
    profile: Path
    recipient: Recipient

    @property
    def name(self) -> str:
        """Its name in the share."""
        return f"golden_{self.golden.name}"

    @property
    def url(self) -> str:
        """What the client opens."""
        return f"{self.profile}#{SHARE}.{SCHEMA}.{self.name}"

    @property
    def found_out(self) -> Format:
        """The format of the latest version for a client that takes either."""
        return "delta" if self.golden.name in ADVANCED else "parquet"

    @property
    def log(self) -> Path:
        return self.folder / "_delta_log"

    @property
    def prefix(self) -> str:
        """Where the table lies in the bucket."""
        return f"golden/{self.golden.name}/delta"

    def asked(self, as_format: Format) -> Table:
        """Return the table for plain HTTP, asked as the client asks for a format."""
        return Table(self.recipient, SHARE, SCHEMA, self.name).asking(ASKING[as_format])

    def rows(self, version: int) -> pa.Table:
        """Return what Spark read at a version, CHAR columns without their padding."""
        rows = self.golden.rows(version)
        for name in PADDED.get(self.golden.name, ()):
            at = rows.column_names.index(name)
            rows = rows.set_column(at, rows.schema.field(at), pc.utf8_rtrim(rows[name], " "))
        return rows

    def refused(self, version: int, as_format: Format) -> list[str]:
        """Return the features for which this format must be refused at a version."""
        if as_format == "delta":
            return []
        features = REFUSED_AS_PARQUET.get(self.golden.name, {})
        return [feature for feature, since in features.items() if version >= since]

    def unreadable(self, version: int, as_format: Format) -> str | None:
        """Return the error with which the client fails at a version, if it does."""
        known = UNREADABLE.get((self.golden.name, as_format))
        return known.error if known and version >= known.since else None

    def file(self, raw_path: str) -> Path:
        """Return the uploaded file that a URL's path in the bucket (decoded) means."""
        folders = {f"{self.prefix}/": self.folder, f"golden/{self.golden.name}/source/": self.source}
        (found,) = [
            folder / raw_path.removeprefix(prefix) for prefix, folder in folders.items() if raw_path.startswith(prefix)
        ]
        return found

    @property
    def source(self) -> Path:
        """What a shallow clone was cloned from."""
        return TABLES / self.golden.name / "source"


def share(provider: Provider, golden: Golden, folder: Path) -> Shared:
    """Upload a golden table, and what it was cloned from, and share it with its history."""
    placed = place(golden, folder, f"s3://{DATA_BUCKET}/golden")
    found = Shared(golden, placed, provider.profile, provider.recipient("reader"))
    auxiliary = []
    if found.source.is_dir():
        provider.upload(found.source, f"golden/{golden.name}/source")
        auxiliary.append(f"s3://{DATA_BUCKET}/golden/{golden.name}/source")
    provider.put(found.name, placed, found.prefix, history=True, auxiliary_locations=auxiliary)
    return found


def commit_times(provider: Provider, table: Shared) -> dict[int, int]:
    """Return when each commit was made, in milliseconds: as it says itself, else as its object does.

    Delta protocol, "In-Commit Timestamps"; without them the times of the files, pushed up where they do not rise.
    """
    changes = table.golden.changes()
    if table.golden.name in {"everything", "in_commit_timestamps"}:
        told = pc.cast(changes["_commit_timestamp"], pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        return dict(zip(changes["_commit_version"].to_pylist(), told.to_pylist(), strict=True))
    s3 = provider.client("s3")
    listed: list[Any] = s3.list_objects_v2(Bucket=DATA_BUCKET, Prefix=f"{table.prefix}/_delta_log/0")["Contents"]
    times: dict[int, int] = {}
    for entry in sorted(listed, key=lambda entry: entry["Key"]):
        name = entry["Key"].rpartition("/")[2]
        if name[20:] == ".json":
            modified = round(entry["LastModified"].timestamp() * 1000)
            times[int(name[:20])] = max(modified, max(times.values(), default=0) + 1)
    return times
