"""Delta table that a job writes: location, write mode, properties and comments."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.merging import Validity

Mode = Literal["overwrite", "append", "merge"]
MODES: tuple[str, ...] = get_args(Mode)
"""Modes of `publish`; datasets have two more."""

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"

TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
"""Property that expires the names of transactions, and with them the reading positions in sources."""


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """Delta table that a job writes."""

    location: str
    mode: Mode | Literal["overwrite_partitions", "scd2"] = "overwrite"
    partition_by: Sequence[str] = ()
    """Used when the table is created, or rewritten with `evolve_schema`."""

    keys: Sequence[str] = ()
    change_data_feed: bool = True
    """Enable the change data feed, also of an existing table; False leaves an existing table unchanged."""

    properties: Mapping[str, str] = field(default_factory=dict)
    evolve_schema: bool = False
    """Accept new columns (append, merge, scd2) or another schema and partitioning (overwrite)."""

    where: str | None = None
    """Rows to replace (overwrite_partitions), as a SQL condition; None: all partitions of the new rows."""

    validity: Validity | None = None
    delete_when: str | None = None
    """SQL condition of the rows that delete their key (merge), or end its state (scd2)."""

    missing_at_most: str | None = None
    """Delete keys that the rows lack, if they are not more than this limit; None: keep them."""

    cluster_by: Sequence[str] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `PipelineError` if the fields contradict each other."""
        if (self.mode in {"merge", "scd2"}) != bool(self.keys):
            raise PipelineError("mode merge and keys belong together: name the columns that identify a row.")

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
        """Required properties of the table."""
        return {**({CHANGE_DATA_FEED: "true"} if self.change_data_feed else {}), **self.properties}

    @property
    def description_digest(self) -> str:
        """Digest of the properties, comments and clustering that the table must have."""
        description = [self.required_properties, self.comment, self.column_comments, self.cluster_by]
        return sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:16]
