"""Commit the changed rows of a refresh, so that the view's change feed has real changes only."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.file_sizing import sort_into_ranges
from deltaic_pipeline.table.merging import check_keys
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import commit_lines, set_properties
from deltaic_pipeline.table.transactions import Transaction, mark_commits
from deltaic_pipeline.view_refresh.computation import Computation, NetChanges, existing_table
from deltaic_pipeline.view_refresh.refresh_state import RefreshState, TableState, utc
from deltaic_pipeline.view_refresh.rewriting import rewrite
from deltaic_pipeline.view_refresh.row_changes import OPERATION, by_key, by_row, new_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES: Mapping[str, str] = {
    "delta.enableChangeDataFeed": "true",
    # Every client and both formats read the table.
    "delta.enableDeletionVectors": "false",
    # A path is part of a signed URL, so it must not contain the audience, for data and for changes.
    "delta.randomizeFilePrefixes": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
}
VERSION_PROPERTY = "deltaic.view.version"
"""Table property with the version to which the other `deltaic.view` properties belong."""


@dataclass(frozen=True, slots=True)
class RefreshCommit:
    """Commit of one refresh to the view's table."""

    computation: Computation
    run: str
    state: RefreshState
    why_full: str

    def create(self) -> None:
        """Create the view's table with its first rows; raises `PipelineError` for a null or duplicate key."""
        from pyspark import StorageLevel

        definition, rows = self.computation.definition, self.computation.rows()
        keys = [AUDIENCE_COLUMN, *definition.key] if definition.key else []
        persisted = rows.persist(StorageLevel.DISK_ONLY) if keys else rows
        try:
            if keys:
                check_keys(persisted, keys)
                rows = sort_into_ranges(persisted, keys)
            with mark_commits(self.computation.spark, self._transaction(), spread=not keys):
                writer = rows.write.format("delta").partitionBy(AUDIENCE_COLUMN).options(**PROPERTIES)
                writer.save(spark_path(definition.location))
        finally:
            if keys:
                persisted.unpersist()

    def apply(self, changes: NetChanges, before: TableState, row_counts: Mapping[str, int], key: Sequence[str]) -> None:
        """Write net changes to the view's table, by `key` if any; `row_counts`: rows of each audience before."""
        spark, counts = self.computation.spark, changes.counts
        staged = by_key(changes.rows, key) if key else by_row(changes.rows)
        definition_key = self.computation.definition.key
        layout = [AUDIENCE_COLUMN, *definition_key] if definition_key else []
        only_inserts = all(not (count.updated or count.deleted) for count in counts.values())
        with mark_commits(spark, self._transaction(), spread=not layout):
            if only_inserts and not (key and any(row_counts.get(name) for name in counts)):
                # All rows are new, and can add columns.
                new = new_rows(staged).drop(OPERATION)
                rows = (sort_into_ranges(new, layout) if layout else new).write.format("delta").mode("append")
                rows.option("mergeSchema", "true").save(spark_path(before.location))
            else:
                rewrite(spark, staged, before.location, key, layout, counts, self._transaction())

    def acknowledge(self) -> tuple[int, list[dict[str, Any]]]:
        """Read the commit back from the log and return its version and actions; raises `PipelineError` if missing."""
        spark, definition = self.computation.spark, self.computation.definition
        table = existing_table(spark, definition.name, definition.location)
        actions = list(commit_lines(table.snapshot, table.version))
        transaction = {"appId": self.state.application, "version": self.state.version}
        if not any(transaction.items() <= action.get("txn", {}).items() for action in actions):
            raise PipelineError(
                f"the commit of {self.run} is not in the log of {definition.location}: "
                "another writer, which does not acquire the table's lease, has overwritten it. Run the job again."
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


def describe(spark: "SparkSession", location: str, version: int, refreshed_at: str, sources: Mapping[str, int]) -> None:
    """Store the refresh time and the source versions of a view's rows in the properties of its table."""
    properties = {
        VERSION_PROPERTY: str(version),
        "deltaic.view.sourceVersions": json.dumps(sources, sort_keys=True),
        "deltaic.view.refreshedAt": refreshed_at,
    }
    set_properties(spark, location, properties)
