"""A view's refresh: the rows that changed since the last one, for all audiences in one commit (decision 86)."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.partition_filters.audiences import AUDIENCE_COLUMN

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.spark_errors import all_said, said_by_spark, spark_failures
from deltaic_pipeline.table.merging import refuse_undecided
from deltaic_pipeline.view_refresh.commit import VERSION_PROPERTY, Commit, describe
from deltaic_pipeline.view_refresh.computation import Computation
from deltaic_pipeline.view_refresh.decision import decide, why_full
from deltaic_pipeline.view_refresh.definition import Audience, Definition
from deltaic_pipeline.view_refresh.evaluation import at_fault
from deltaic_pipeline.view_refresh.refresh_state import Mark, RefreshState, TableState, recent_marks, table_state
from deltaic_pipeline.view_refresh.row_changes import Counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What a refresh did."""

    version: int
    """The version of the view that holds the wanted rows: the commit of the rows, or the latest if none changed."""

    sources: Mapping[str, int]
    """The version of each table that was read."""

    full_because: str
    inserted: int
    updated: int
    deleted: int
    rows: Mapping[str, int]
    bytes: int


def refresh(
    spark: "SparkSession", definition: Definition, audiences: Sequence[Audience], known: Collection[str], run: str
) -> RefreshResult:
    """Bring the view's table to the latest version of what it reads, in one commit, or none where nothing changed.

    `known` are the audiences that the catalog says the table holds; one that is not among them is computed in full, and
    rows of audiences that are not wanted are deleted, all in the same commit. The caller holds the lease on the view's
    location, `spark` is its attempt's own session, and `run` names this refresh in the log. Raises `InvalidParameter`
    for SQL that no view can have and `PipelineError` for what Spark refuses, for keys that are given twice or not at
    all, and for columns that the view's table would lose.
    """
    with _refusals_of(definition, audiences):
        computation = Computation.of(spark, definition, list({each.name: each for each in audiences}.values()))
        before = table_state(spark, definition.location)
        if before is None:
            return _first(computation, run)
        marks = recent_marks(spark, definition.location)
        if marks and before.properties.get(VERSION_PROPERTY) != str(marks[0][0]):
            # A refresh was killed between its rows and its words.
            describe(spark, definition.location, marks[0][0], marks[0][1], marks[0][2]["sourceVersions"])
        if AUDIENCE_COLUMN not in before.rows(spark).columns:
            raise PipelineError(f"at {before.location} lies a table that is no view's: give the view another location.")
        return _next(computation, run, known, before, marks)


def _first(computation: Computation, run: str) -> RefreshResult:
    computation.refuse_columns(None)
    commit = Commit(computation, run, computation.state(0), "it is the first refresh")
    commit.create()
    version, actions = commit.acknowledge()
    rows: Counter[str] = Counter()
    for add in (action["add"] for action in actions if "add" in action):
        rows[add["partitionValues"][AUDIENCE_COLUMN]] += int(json.loads(add["stats"])["numRecords"])
    counts = {name: Counts(count, 0, 0) for name, count in rows.items()}
    return _result(computation, version, counts, commit.why_full, rows, _growth(actions))


def _next(
    computation: Computation, run: str, known: Collection[str], before: TableState, marks: Sequence[Mark]
) -> RefreshResult:
    current, row_counts = RefreshState.of(before), before.row_counts(computation.spark)
    state = computation.state(0 if current is None else current.number + 1)
    decision = decide(
        current,
        state,
        computation.audiences,
        known=known,
        row_counts=row_counts,
        why=why_full(current, state, has_feed=computation.has_feed(), of_sql=computation.why_full),
        same_sources=bool(marks) and marks[0][2].get("sourceVersions") == computation.versions,
    )
    if decision.kind == "nothing":
        return _result(computation, before.version, {}, "", row_counts, before.bytes())
    key = computation.definition.key
    if key and (current is None or current.definition != state.definition):
        # The table's rows may have been made with another key: they are compared as a whole, this time.
        refuse_undecided(computation.rows(), [AUDIENCE_COLUMN, *key])
        key = ()
    try:
        changes = computation.changes(before, current, decision, key)
    except spark_failures():
        why = computation.why_unfollowed(current, decision)
        if not why:
            raise
        decision = decision.full(why)
        changes = computation.changes(before, current, decision, key)
    commit = Commit(computation, run, state, decision.why_full)
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
    computation: Computation, version: int, counts: Mapping[str, Counts], why: str, rows: Mapping[str, int], size: int
) -> RefreshResult:
    return RefreshResult(
        version,
        computation.versions,
        why,
        sum(count.inserted for count in counts.values()),
        sum(count.updated for count in counts.values()),
        sum(count.deleted for count in counts.values()),
        {each.name: rows.get(each.name, 0) for each in computation.audiences},
        size,
    )


@contextmanager
def _refusals_of(definition: Definition, audiences: Sequence[Audience]) -> Iterator[None]:
    """Name the view in what Spark refuses, and the property whose value it cannot cast."""
    try:
        yield
    except spark_failures() as failure:
        name = at_fault(all_said(failure), audiences)
        cause = f"the recipients' property '{name}' has a value that its SQL cannot take: " if name else ""
        raise PipelineError(f"view {definition.name}: {cause}{said_by_spark(failure)}") from failure
    except PipelineError as failure:
        raise PipelineError(f"view {definition.name}: {failure.message}") from failure


def _growth(actions: Sequence[Mapping[str, Any]]) -> int:
    added = sum(int(action["add"]["size"]) for action in actions if "add" in action)
    return added - sum(int(action["remove"].get("size") or 0) for action in actions if "remove" in action)
