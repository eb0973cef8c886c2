"""The computation of a refresh: the rows that a view gains and loses, by its SQL over tables at fixed versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.spark.spark_errors import said_by_spark, spark_failures
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.writing import refuse_void_columns
from deltaic_pipeline.view_refresh.decision import Decision
from deltaic_pipeline.view_refresh.definition import Audience, Definition
from deltaic_pipeline.view_refresh.evaluation import Evaluation
from deltaic_pipeline.view_refresh.refresh_state import RefreshState, TableState, digest, table_state
from deltaic_pipeline.view_refresh.row_changes import Counts, by_key, counted_as_rows, counted_by_key, net
from deltaic_pipeline.view_refresh.view_sql import CLOCK_IS_ASKED, read_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MADE_BY = 1
"""Counts the ways in which rows were made of the same SQL; another one computes all rows anew."""

FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
GAINED, LOST = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass(frozen=True, slots=True)
class Changes:
    """The net changes of a view, on the local disk until they are let go of."""

    rows: "DataFrame"
    counts: Mapping[str, Counts]


@dataclass(frozen=True)
class Computation:
    """A view's SQL over its tables as they are at the begin of a refresh."""

    spark: "SparkSession"
    definition: Definition
    audiences: Sequence[Audience]
    source: TableState
    others: Mapping[str, TableState]
    versions: Mapping[str, int]
    evaluation: Evaluation

    @classmethod
    def of(cls, spark: "SparkSession", definition: Definition, audiences: Sequence[Audience]) -> "Computation":
        """Look at the tables; raises `InvalidParameter` for SQL that no view can have, `PipelineError` for a table."""
        sql = read_sql(definition.sql, definition.source.name)
        source = existing_table(spark, definition.source.name, definition.source.location)
        shared = {name.lower(): table for name, table in definition.others.items()}
        missing = next((name for name in sql.tables if name.lower() not in shared), None)
        if missing is not None:
            raise PipelineError(f"the SQL reads {missing}, which is not shared: share it, or leave it out.")
        others = {name: existing_table(spark, name, shared[name.lower()].location) for name in sql.tables}
        versions = {definition.source.name: source.version}
        versions |= {shared[name.lower()].name: table.version for name, table in others.items()}
        evaluation = Evaluation(spark, sql, {name.lower(): table.rows(spark) for name, table in others.items()})
        return cls(spark, definition, audiences, source, others, versions, evaluation)

    @cached_property
    def columns(self) -> "DataFrame":
        """No rows, of the view's columns."""
        return self.evaluation.columns(self._source_rows)

    @cached_property
    def _source_rows(self) -> "DataFrame":
        return self.source.rows(self.spark)

    def state(self, number: int) -> RefreshState:
        """Return the state of the view after a refresh, the `number`th."""
        one = self.definition
        others = {name.lower(): table.location for name, table in one.others.items() if name in self.others}
        definition = digest([MADE_BY, one.sql, [name.lower() for name in one.key], one.source.location, others])
        return RefreshState(number, definition, self.source.id, self.source.columns, self.source.version)

    def has_feed(self) -> bool:
        """Return whether the source keeps its changes."""
        return self.source.properties.get("delta.enableChangeDataFeed", "false").lower() == "true"

    def why_full(self) -> str:
        """Return why the SQL's rows cannot be followed; empty if they can."""
        if self.evaluation.asks_for_time(self._source_rows, self.audiences):
            return CLOCK_IS_ASKED
        if why := self.evaluation.sql.why_full:
            return why
        alone = self.evaluation.stands_alone(self._source_rows)
        return "" if alone else "the SQL is more than columns and a WHERE"

    def rows(self) -> "DataFrame":
        """Return the rows of all audiences (lazily)."""
        return self.evaluation.rows(self._source_rows, self.audiences)

    def changes(
        self, before: TableState, current: RefreshState | None, decision: Decision, key: Sequence[str]
    ) -> Changes:
        """Compute the net changes and count them, by key if there is one."""
        from pyspark import StorageLevel

        rows = self._changed(before, current, decision).persist(StorageLevel.DISK_ONLY)
        try:
            return Changes(rows, counted_by_key(by_key(rows, key), key) if key else counted_as_rows(rows))
        except BaseException:
            rows.unpersist()
            raise

    def why_unfollowed(self, current: RefreshState | None, decision: Decision) -> str:
        """Return why the source's changes cannot be read, if that is why Spark failed."""
        try:
            feed = self._feed(current, decision)
            if feed is not None:
                # Delta looks at the log when it plans, and at files when they are read: one of them may be gone.
                feed.count()
        except spark_failures() as failure:
            return f"the source no longer tells its changes: {said_by_spark(failure)}"
        return ""

    def _feed(self, current: RefreshState | None, decision: Decision) -> "DataFrame | None":
        """Return what changed at the source since the last refresh; None where nothing is followed."""
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
        replaced = [*(each.name for each in decision.in_full), *decision.removed]
        return net(gained, lost.unionAll(self.shaped(old, replaced)) if replaced else lost)

    def shaped(self, rows: "DataFrame", audiences: Sequence[str]) -> "DataFrame":
        """Return audiences' rows of the view's table in the columns that the SQL gives now; null where one is new."""
        from pyspark.sql import functions

        names = {name.lower() for name in rows.columns}
        return rows.where(functions.col(AUDIENCE_COLUMN).isin(audiences)).select(*(
            functions.col(quoted(field.name)) if field.name.lower() in names
            else functions.lit(None).cast(field.dataType).alias(field.name)
            for field in self.columns.schema.fields
        ))  # fmt: skip

    def refuse_columns(self, old: "DataFrame | None") -> None:
        """Refuse columns that lack a key, and such as the view's table cannot have."""
        rows = self.columns
        refuse_void_columns(rows)
        new = {field.name.lower(): field.dataType.simpleString() for field in rows.schema.fields}
        missing = next((name for name in self.definition.key if name.lower() not in new), None)
        if missing is not None:
            raise PipelineError(f"the key column {missing} is not among the view's: {', '.join(rows.columns[1:])}.")
        # By their names: whether an element may be null is another matter to Spark than to the table.
        for field in old.schema.fields if old is not None else ():
            before, now = field.dataType.simpleString(), new.get(field.name.lower())
            if now != before:
                change = "is gone" if now is None else f"is {now} now"
                raise PipelineError(
                    f"the column {field.name} ({before}) {change}, which whoever streams the view "
                    "cannot follow: keep it in the SQL (CAST(... AS type) AS name), or make a new view."
                )


def existing_table(spark: "SparkSession", name: str, location: str) -> TableState:
    """Return a table at its latest version; raises `PipelineError` where there is none."""
    table = table_state(spark, location)
    if table is None:
        raise PipelineError(f"there is no Delta table of {name} at {location}.")
    return table
