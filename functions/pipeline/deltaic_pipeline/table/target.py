"""The Delta table that a job writes: where it is, how rows enter it, and what it shall say of itself."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.merging import Validity

Mode = Literal["overwrite", "append", "merge"]
MODES: tuple[str, ...] = get_args(Mode)
"""What a publication knows; a dataset knows two more."""

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"

FORGETS = "delta.setTransactionRetentionDuration"
"""The property after which a table forgets the names of transactions, and with them how far sources were read."""


@dataclass(frozen=True, slots=True)
class Target:
    """The Delta table to write."""

    location: str
    mode: Mode | Literal["overwrite_partitions", "scd2"] = "overwrite"
    partition_by: Sequence[str] = ()
    """Used when the table is created, or rewritten with `evolve_schema`."""

    keys: Sequence[str] = ()
    change_data_feed: bool = True
    """Turned on for new and existing tables; False leaves an existing table as it is."""

    properties: Mapping[str, str] = field(default_factory=dict)
    evolve_schema: bool = False
    """Accept new columns (append, merge, scd2) or another schema and partitioning (overwrite)."""

    where: str | None = None
    """Which rows are replaced (overwrite_partitions); None: the partitions that the new rows fall into."""

    validity: Validity | None = None
    delete_when: str | None = None
    """A condition in SQL: rows for which it holds delete their key (merge), or end its state (scd2)."""

    missing_at_most: str | None = None
    """Keys that the rows lack are deleted, unless they are more than this limit; None: they stay."""

    cluster_by: Sequence[str] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `PipelineError` when the fields contradict each other."""
        if (self.mode in {"merge", "scd2"}) != bool(self.keys):
            raise PipelineError("mode merge and keys belong together: name the columns that identify a row.")

    @property
    def deletes(self) -> bool:
        """Whether keys may be deleted."""
        return self.delete_when is not None or self.missing_at_most is not None

    @property
    def rewrites(self) -> bool:
        """Whether the rows may give an existing table another schema and partitioning."""
        return self.mode == "overwrite" and self.evolve_schema

    @property
    def wanted_properties(self) -> dict[str, str]:
        """Every property that the table shall have."""
        return {**({CHANGE_DATA_FEED: "true"} if self.change_data_feed else {}), **self.properties}

    @property
    def description_digest(self) -> str:
        """Identifies the properties, comments and clustering that the table shall have."""
        words = [self.wanted_properties, self.comment, self.column_comments, self.cluster_by]
        return sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]
