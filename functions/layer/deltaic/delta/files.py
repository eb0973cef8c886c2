"""Decides the shape in which live files travel from the log to the wire: Arrow batches of one schema."""

from collections.abc import Hashable
from typing import Protocol

import pyarrow as pa

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        # Physical column names, raw strings as they stand in the log; a null value is a null partition value.
        pa.field("partitionValues", pa.map_(pa.string(), pa.string())),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        # The JSON string of the log, or one rebuilt from typed statistics; null when there is none.
        pa.field("stats", pa.string()),
        pa.field("deletionVector", DELETION_VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
    ]
)
"""One live `add` per row (Delta protocol, "Add File and Remove File"); `path` is raw, as it stands in the log.

`tags` and `clusteringProvider` are not here: they concern writers, no line of an answer has them, and some checkpoints
hold a lot of them. Nor is `dataChange`: it says what a commit did, writers of checkpoints overwrite it (Spark with
false), and whoever reads a whole version sees every file as new data.
"""


class FileFilter(Protocol):
    """Decides which files may hold matching rows; it may keep too many, never too few.

    The log calls the steps in this order and reads what the next step needs only for what survived. Each step returns
    a boolean array as long as its input, without nulls: true keeps the file. Names are physical column names.
    """

    @property
    def identity(self) -> Hashable:
        """Name what this filter keeps: filters of one identity keep the same rows of any file of the log."""
        ...

    @property
    def needs_statistics(self) -> bool:
        """False when partition values alone decide: then neither statistics step is called."""
        ...

    def by_partition(self, partition_values: pa.MapArray) -> pa.BooleanArray:
        """Decide by partition values (`map<string,string>`)."""
        ...

    def typed_leaves(self, stats_parsed: pa.StructType) -> list[str]:
        """Name the leaves of `stats_parsed` to read, such as `minValues.price`; empty: typed statistics cannot help."""
        ...

    def by_typed_statistics(self, partition_values: pa.MapArray, stats_parsed: pa.StructArray) -> pa.BooleanArray:
        """Decide by partition values and those leaves (other leaves are absent from the struct)."""
        ...

    def by_json_statistics(self, partition_values: pa.MapArray, stats: pa.StringArray) -> pa.BooleanArray:
        """Decide by partition values and the raw statistics; a null or unreadable value keeps the file."""
        ...
