"""The commit of a refresh: one, by which the change feed shows what changed and no more, and the words about it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.file_sizing import in_ranges
from deltaic_pipeline.table.merging import refuse_undecided
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import commit_lines, set_properties
from deltaic_pipeline.table.transactions import Transaction, marked
from deltaic_pipeline.view_refresh.computation import Changes, Computation, existing_table
from deltaic_pipeline.view_refresh.refresh_state import RefreshState, TableState, utc
from deltaic_pipeline.view_refresh.rewriting import rewrite
from deltaic_pipeline.view_refresh.row_changes import OPERATION, by_key, by_row, new_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES: Mapping[str, str] = {
    "delta.enableChangeDataFeed": "true",
    # Every client and both formats read the table.
    "delta.enableDeletionVectors": "false",
    # A path is part of a signed URL: the audience does not stand in it, neither of data nor of changes.
    "delta.randomizeFilePrefixes": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
}
VERSION_PROPERTY = "deltaic.view.version"
"""The version whose rows the other properties tell of."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit of a refresh's rows, before and after it is made."""

    computation: Computation
    run: str
    state: RefreshState
    why_full: str

    def create(self) -> None:
        """Make the view's table of its first rows; raises `PipelineError` for a key that is null or given twice."""
        from pyspark import StorageLevel

        definition, rows = self.computation.definition, self.computation.rows()
        keys = [AUDIENCE_COLUMN, *definition.key] if definition.key else []
        kept = rows.persist(StorageLevel.DISK_ONLY) if keys else rows
        try:
            if keys:
                refuse_undecided(kept, keys)
                rows = in_ranges(kept, keys)
            with marked(self.computation.spark, self._transaction(), spread=not keys):
                writer = rows.write.format("delta").partitionBy(AUDIENCE_COLUMN).options(**PROPERTIES)
                writer.save(spark_path(definition.location))
        finally:
            if keys:
                kept.unpersist()

    def apply(self, changes: Changes, before: TableState, row_counts: Mapping[str, int], key: Sequence[str]) -> None:
        """Write net changes into the view's table, by key if there is one; `row_counts` are those before."""
        spark, counts = self.computation.spark, changes.counts
        staged = by_key(changes.rows, key) if key else by_row(changes.rows)
        own = self.computation.definition.key
        layout = [AUDIENCE_COLUMN, *own] if own else []
        grows = all(not (count.updated or count.deleted) for count in counts.values())
        with marked(spark, self._transaction(), spread=not layout):
            if grows and not (key and any(row_counts.get(name) for name in counts)):
                # All rows are new; columns that the table lacks come with them.
                new = new_rows(staged).drop(OPERATION)
                rows = (in_ranges(new, layout) if layout else new).write.format("delta").mode("append")
                rows.option("mergeSchema", "true").save(spark_path(before.location))
            else:
                rewrite(spark, staged, before.location, key, layout, counts, self._transaction())

    def acknowledge(self) -> tuple[int, list[dict[str, Any]]]:
        """Return its version and its actions as the log has them; raises `PipelineError` if it is not there."""
        spark, definition = self.computation.spark, self.computation.definition
        table = existing_table(spark, definition.name, definition.location)
        actions = list(commit_lines(table.snapshot, table.version))
        ours = {"appId": self.state.application, "version": self.state.version}
        if not any(ours.items() <= action.get("txn", {}).items() for action in actions):
            raise PipelineError(
                f"the commit of {self.run} is not in the log of {definition.location}: "
                "another writer that does not take the table's lease has overwritten it. Run the job again."
            )
        describe(spark, definition.location, table.version, utc(datetime.now(UTC)), self.computation.versions)
        return table.version, actions

    def _transaction(self) -> Transaction:
        mark: dict[str, str | int | Mapping[str, int]] = {
            "view": self.computation.definition.name,
            "run": self.run,
            "sourceVersions": self.computation.versions,
        }
        full = {"full": self.why_full} if self.why_full else {}
        return Transaction(self.state.application, self.state.version, mark | full)


def describe(spark: "SparkSession", location: str, version: int, moment: str, sources: Mapping[str, int]) -> None:
    """Let a view's table tell how fresh its rows are."""
    properties = {
        VERSION_PROPERTY: str(version),
        "deltaic.view.sourceVersions": json.dumps(sources, sort_keys=True),
        "deltaic.view.refreshedAt": moment,
    }
    set_properties(spark, location, properties)
