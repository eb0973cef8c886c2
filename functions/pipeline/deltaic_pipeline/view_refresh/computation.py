"""Compute the rows that a view gains and loses, with its SQL over fixed versions of its source tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.spark.spark_errors import safe_message, spark_failures
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.writing import refuse_void_columns
from deltaic_pipeline.view_refresh.decision import Decision
from deltaic_pipeline.view_refresh.definition import Audience, Definition
from deltaic_pipeline.view_refresh.evaluation import Evaluation
from deltaic_pipeline.view_refresh.refresh_state import RefreshState, TableState, digest, table_state
from deltaic_pipeline.view_refresh.row_changes import ChangeCounts, by_key, count_by_key, count_by_row, net_changes
from deltaic_pipeline.view_refresh.view_sql import SQL_READS_CLOCK, read_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METHOD = 1
"""Version of the code that computes rows from SQL; after an increase, the next refresh computes all rows."""

FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
GAINED, LOST = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass(frozen=True, slots=True)
class NetChanges:
    """Net changes of a view's rows, persisted on disk, with counts by audience (recipients' property values)."""

    rows: "DataFrame"
    counts: Mapping[str, ChangeCounts]


@dataclass(frozen=True)
class Computation:
    """Computation of a view's rows from the versions of its source tables at the start of a refresh."""

    spark: "SparkSession"
    definition: Definition
    audiences: Sequence[Audience]
    source: TableState
    others: Mapping[str, TableState]
    versions: Mapping[str, int]
    evaluation: Evaluation

    @classmethod
    def of(cls, spark: "SparkSession", definition: Definition, audiences: Sequence[Audience]) -> "Computation":
        """Open the source tables; raises `InvalidParameter` for invalid SQL, `PipelineError` for a missing table."""
        sql = read_sql(definition.sql, definition.source.name)
        source = existing_table(spark, definition.source.name, definition.source.location)
        shared = {name.lower(): table for name, table in definition.others.items()}
        missing = next((name for name in sql.tables if name.lower() not in shared), None)
        if missing is not None:
            raise PipelineError(f"the SQL reads {missing}, which is not shared. Share it, or remove it from the SQL.")
        others = {name: existing_table(spark, name, shared[name.lower()].location) for name in sql.tables}
        versions = {definition.source.name: source.version}
        versions |= {shared[name.lower()].name: table.version for name, table in others.items()}
        evaluation = Evaluation(spark, sql, {name.lower(): table.rows(spark) for name, table in others.items()})
        return cls(spark, definition, audiences, source, others, versions, evaluation)

    @cached_property
    def columns(self) -> "DataFrame":
        """DataFrame without rows that has the view's columns."""
        return self.evaluation.columns(self._source_rows)

    @cached_property
    def _source_rows(self) -> "DataFrame":
        return self.source.rows(self.spark)

    def state(self, number: int) -> RefreshState:
        """Return the state of the view's rows after the refresh with this number."""
        view = self.definition
        others = {name.lower(): table.location for name, table in view.others.items() if name in self.others}
        definition = digest([METHOD, view.sql, [name.lower() for name in view.key], view.source.location, others])
        return RefreshState(number, definition, self.source.id, self.source.columns, self.source.version)

    def has_feed(self) -> bool:
        """Return whether the source table has a change data feed."""
        return self.source.properties.get("delta.enableChangeDataFeed", "false").lower() == "true"

    def why_full(self) -> str:
        """Return the reason in the SQL why the view cannot be computed from changed source rows; empty if it can."""
        if self.evaluation.asks_for_time(self._source_rows, self.audiences):
            return SQL_READS_CLOCK
        if reason := self.evaluation.sql.why_full:
            return reason
        independent = self.evaluation.has_independent_rows(self._source_rows)
        return "" if independent else "the SQL is more than columns and a WHERE"

    def rows(self) -> "DataFrame":
        """Compute the view's rows for all audiences (recipients' property values), lazily."""
        return self.evaluation.rows(self._source_rows, self.audiences)

    def changes(
        self, before: TableState, current: RefreshState | None, decision: Decision, key: Sequence[str]
    ) -> NetChanges:
        """Compute the net changes of the view's rows, and count them by audience, and by key if there is one."""
        from pyspark import StorageLevel

        rows = self._changed(before, current, decision).persist(StorageLevel.DISK_ONLY)
        try:
            return NetChanges(rows, count_by_key(by_key(rows, key), key) if key else count_by_row(rows))
        except BaseException:
            rows.unpersist()
            raise

    def why_unfollowed(self, current: RefreshState | None, decision: Decision) -> str:
        """Return the reason why the source's change data feed cannot be read; empty if it can."""
        try:
            feed = self._feed(current, decision)
            if feed is not None:
                # Delta reads the log for the plan, and files during the query: either can be deleted.
                feed.count()
        except spark_failures() as failure:
            return f"the source's change feed is no longer complete: {safe_message(failure)}"
        return ""

    def _feed(self, current: RefreshState | None, decision: Decision) -> "DataFrame | None":
        """Return the source's changed rows since the last refresh; None if the refresh needs no changed rows."""
        if not decision.followed or current is None or current.source_version == self.source.version:
            return None
        first, last = str(current.source_version + 1), str(self.source.version)
        options = {"readChangeFeed": "true", "startingVersion": first, "endingVersion": last}
        return self.spark.read.format("delta").options(**options).load(spark_path(self.source.location))

    def _changed(self, before: TableState, current: RefreshState | None, decision: Decision) -> "DataFrame":
        from pyspark.sql import functions

        old, feed = before.rows(self.spark), self._feed(current, decision)
        self.refuse_columns(old)
        gained, lost = self.columns, self.columns
        if feed is not None:
            kind = functions.col(FEED_COLUMNS[0])
            new_rows = feed.where(kind.isin(*GAINED)).drop(*FEED_COLUMNS)
            old_rows = feed.where(kind.isin(*LOST)).drop(*FEED_COLUMNS)
            gained = gained.unionAll(self.evaluation.rows(new_rows, decision.followed))
            lost = lost.unionAll(self.evaluation.rows(old_rows, decision.followed))
        if decision.in_full:
            gained = gained.unionAll(self.evaluation.rows(self._source_rows, decision.in_full))
        replaced = [*(audience.name for audience in decision.in_full), *decision.removed]
        return net_changes(gained, lost.unionAll(self.select_columns(old, replaced)) if replaced else lost)

    def select_columns(self, rows: "DataFrame", audiences: Sequence[str]) -> "DataFrame":
        """Return the rows of some audiences in the view's table, with the SQL's columns; new columns are null."""
        from pyspark.sql import functions

        names = {name.lower() for name in rows.columns}
        return rows.where(functions.col(AUDIENCE_COLUMN).isin(audiences)).select(*(
            functions.col(quoted(field.name)) if field.name.lower() in names
            else functions.lit(None).cast(field.dataType).alias(field.name)
            for field in self.columns.schema.fields
        ))  # fmt: skip

    def refuse_columns(self, old: "DataFrame | None") -> None:
        """Raise `PipelineError` for missing key columns, and for columns that differ from those in the view's table."""
        rows = self.columns
        refuse_void_columns(rows)
        new = {field.name.lower(): field.dataType.simpleString() for field in rows.schema.fields}
        missing = next((name for name in self.definition.key if name.lower() not in new), None)
        if missing is not None:
            raise PipelineError(f"the key column {missing} is not a column of the view: {', '.join(rows.columns[1:])}.")
        # Types are compared by name, because Spark and the table disagree on the nullability of elements.
        for field in old.schema.fields if old is not None else ():
            before, now = field.dataType.simpleString(), new.get(field.name.lower())
            if now != before:
                change = "is missing" if now is None else f"is {now} now"
                raise PipelineError(
                    f"the column {field.name} ({before}) {change}, which streams from the view cannot "
                    "follow. Keep it in the SQL (CAST(... AS type) AS name), or create a new view."
                )


def existing_table(spark: "SparkSession", name: str, location: str) -> TableState:
    """Return the state of a Delta table at its latest version; raises `PipelineError` if there is no table."""
    table = table_state(spark, location)
    if table is None:
        raise PipelineError(f"there is no Delta table for {name} at {location}. Correct its location in the catalog.")
    return table
