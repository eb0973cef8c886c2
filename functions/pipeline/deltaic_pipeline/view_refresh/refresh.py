"""Refresh a view: commit changed rows of all audiences (property values) since the last refresh (decision 86)."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.spark_errors import full_message, safe_message, spark_failures
from deltaic_pipeline.table.merging import check_keys
from deltaic_pipeline.view_refresh.commit import VERSION_PROPERTY, RefreshCommit, describe
from deltaic_pipeline.view_refresh.computation import Computation
from deltaic_pipeline.view_refresh.decision import decide, why_full
from deltaic_pipeline.view_refresh.definition import Audience, Definition
from deltaic_pipeline.view_refresh.evaluation import property_at_fault
from deltaic_pipeline.view_refresh.refresh_state import Mark, RefreshState, TableState, recent_marks, table_state
from deltaic_pipeline.view_refresh.row_changes import ChangeCounts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """Result of refreshing the table of one view."""

    version: int
    """Version of the view's table: the refresh's commit, or the latest version if no row changed."""

    sources: Mapping[str, int]
    """Version of each source table that the refresh read, by name."""

    full_because: str
    inserted: int
    updated: int
    deleted: int
    rows: Mapping[str, int]
    bytes: int


def refresh(
    spark: "SparkSession", definition: Definition, audiences: Sequence[Audience], existing: Collection[str], run: str
) -> RefreshResult:
    """Update a view's table to the latest versions of its source tables, in at most one commit.

    `audiences` are the combinations of recipient properties that need rows; `existing` names those that have rows
    according to the catalog. The commit adds all rows of the others, and deletes rows of audiences that need none. The
    caller holds the writer lease of the view's table, `spark` is the session of its attempt, and `run` is the id of
    this refresh in the log. Raises `InvalidParameter` for invalid SQL, and `PipelineError` for errors of Spark, null or
    duplicate keys, and columns that the view's table would lose.
    """
    with _name_view(definition, audiences):
        computation = Computation.of(
            spark, definition, list({audience.name: audience for audience in audiences}.values())
        )
        before = table_state(spark, definition.location)
        if before is None:
            return _first(computation, run)
        marks = recent_marks(spark, definition.location)
        if marks and before.properties.get(VERSION_PROPERTY) != str(marks[0][0]):
            # A refresh was killed after its commit of rows, before it described them.
            describe(spark, definition.location, marks[0][0], marks[0][1], marks[0][2]["sourceVersions"])
        if AUDIENCE_COLUMN not in before.rows(spark).columns:
            raise PipelineError(
                f"the table at {before.location} does not belong to a view. Choose another location for the view."
            )
        return _next(computation, run, existing, before, marks)


def _first(computation: Computation, run: str) -> RefreshResult:
    computation.refuse_columns(None)
    commit = RefreshCommit(computation, run, computation.state(0), "it is the first refresh")
    commit.create()
    version, actions = commit.acknowledge()
    rows: Counter[str] = Counter()
    for add in (action["add"] for action in actions if "add" in action):
        rows[add["partitionValues"][AUDIENCE_COLUMN]] += int(json.loads(add["stats"])["numRecords"])
    counts = {name: ChangeCounts(count, 0, 0) for name, count in rows.items()}
    return _result(computation, version, counts, commit.why_full, rows, _growth(actions))


def _next(
    computation: Computation, run: str, existing: Collection[str], before: TableState, marks: Sequence[Mark]
) -> RefreshResult:
    current, row_counts = RefreshState.of(before), before.row_counts(computation.spark)
    state = computation.state(0 if current is None else current.number + 1)
    decision = decide(
        current,
        state,
        computation.audiences,
        existing=existing,
        row_counts=row_counts,
        reason=why_full(current, state, has_feed=computation.has_feed(), sql_reason=computation.why_full),
        same_sources=bool(marks) and marks[0][2].get("sourceVersions") == computation.versions,
    )
    if decision.kind == "nothing":
        return _result(computation, before.version, {}, "", row_counts, before.bytes())
    key = computation.definition.key
    if key and (current is None or current.definition != state.definition):
        # The table's rows can have another key, so all their columns are compared this time.
        check_keys(computation.rows(), [AUDIENCE_COLUMN, *key])
        key = ()
    try:
        changes = computation.changes(before, current, decision, key)
    except spark_failures():
        reason = computation.why_unfollowed(current, decision)
        if not reason:
            raise
        decision = decision.full(reason)
        changes = computation.changes(before, current, decision, key)
    commit = RefreshCommit(computation, run, state, decision.why_full)
    try:
        if not changes.counts:
            return _result(computation, before.version, {}, decision.why_full, row_counts, before.bytes())
        commit.apply(changes, before, row_counts, key)
    finally:
        changes.rows.unpersist()
    version, actions = commit.acknowledge()
    rows = Counter(row_counts)
    for name, count in changes.counts.items():
        rows[name] += count.inserted - count.deleted
    return _result(computation, version, changes.counts, decision.why_full, rows, before.bytes() + _growth(actions))


def _result(  # noqa: PLR0913, PLR0917 -- the fields of a result
    computation: Computation,
    version: int,
    counts: Mapping[str, ChangeCounts],
    reason: str,
    rows: Mapping[str, int],
    size: int,
) -> RefreshResult:
    return RefreshResult(
        version,
        computation.versions,
        reason,
        sum(count.inserted for count in counts.values()),
        sum(count.updated for count in counts.values()),
        sum(count.deleted for count in counts.values()),
        {audience.name: rows.get(audience.name, 0) for audience in computation.audiences},
        size,
    )


@contextmanager
def _name_view(definition: Definition, audiences: Sequence[Audience]) -> Iterator[None]:
    """Add the view's name to errors, and the recipient property whose value Spark cannot cast."""
    try:
        yield
    except spark_failures() as failure:
        name = property_at_fault(full_message(failure), audiences)
        cause = f"the recipients' property '{name}' has a value that its SQL cannot cast: " if name else ""
        raise PipelineError(f"view {definition.name}: {cause}{safe_message(failure)}") from failure
    except PipelineError as failure:
        raise PipelineError(f"view {definition.name}: {failure.message}") from failure


def _growth(actions: Sequence[Mapping[str, Any]]) -> int:
    added = sum(int(action["add"]["size"]) for action in actions if "add" in action)
    return added - sum(int(action["remove"].get("size") or 0) for action in actions if "remove" in action)
