"""Describe the Delta table that a job writes: location, write mode, properties and comments."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.merging import Validity

Mode = Literal["overwrite", "append", "merge"]
MODES: tuple[str, ...] = get_args(Mode)
"""Write modes of `publish`; datasets have two more: `overwrite_partitions` and `scd2`."""

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"

TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
"""Property with the time after which Delta deletes transactions, which record how far runs have read their sources."""


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """Delta table that a job writes, and how to write it."""

    location: str
    mode: Mode | Literal["overwrite_partitions", "scd2"] = "overwrite"
    partition_by: Sequence[str] = ()
    """Partition columns of a new table, or of one that is overwritten with `evolve_schema`."""

    keys: Sequence[str] = ()
    change_data_feed: bool = True
    """Enable the change data feed of a new or existing table; False leaves an existing table unchanged."""

    properties: Mapping[str, str] = field(default_factory=dict)
    evolve_schema: bool = False
    """Accept new columns (append, merge, scd2) or another schema and partitioning (overwrite)."""

    where: str | None = None
    """SQL condition of the rows to replace (overwrite_partitions); None: all rows in the partitions of new rows."""

    validity: Validity | None = None
    delete_when: str | None = None
    """SQL condition of the rows that delete their key (merge), or close the current state of their key (scd2)."""

    missing_at_most: str | None = None
    """Limit of keys that may be deleted because the rows lack them, such as `1 %`; None: delete none."""

    cluster_by: Sequence[str] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `PipelineError` if mode and keys are inconsistent."""
        if (self.mode in {"merge", "scd2"}) != bool(self.keys):
            raise PipelineError("modes merge and scd2 need keys, and other modes have none: name the columns of a key.")

    @property
    def deletes(self) -> bool:
        """Return whether the rows can delete keys."""
        return self.delete_when is not None or self.missing_at_most is not None

    @property
    def rewrites(self) -> bool:
        """Return whether the rows can change an existing table's schema and partitioning."""
        return self.mode == "overwrite" and self.evolve_schema

    @property
    def required_properties(self) -> dict[str, str]:
        """Properties to set for the table, including the change data feed's."""
        return {**({CHANGE_DATA_FEED: "true"} if self.change_data_feed else {}), **self.properties}

    @property
    def description_digest(self) -> str:
        """Digest of the properties, comments and clustering that the table must have."""
        description = [self.required_properties, self.comment, self.column_comments, self.cluster_by]
        return sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:16]
