"""Applies expectations to rows: writes those that pass, leaves out or puts aside others, or refuses them all."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.datasets import model
from deltaic_pipeline.datasets.expectations import BROKEN, Counts, Expectations, Verdict, refuse_failed
from deltaic_pipeline.datasets.observation import ObservedPass
from deltaic_pipeline.datasets.run_state import Run, Summary
from deltaic_pipeline.datasets.sql_steps import Answer
from deltaic_pipeline.failures import PipelineError, Unfinished
from deltaic_pipeline.spark.errors import refusals, said_by_spark, spark_failures
from deltaic_pipeline.table.deletions import entering
from deltaic_pipeline.table.file_sizing import SMALL, estimated_size, one_machine
from deltaic_pipeline.table.news import News, news_of
from deltaic_pipeline.table.sources import Reading
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Transaction, Written, committed, exists
from deltaic_pipeline.table.writing import INSERTED, UPDATED, current_rows, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_part(spark: "SparkSession", answer: Answer, run: Run, target: Target, transaction: Transaction) -> Summary:
    """Judge the rows, write those that may be and put aside those that must not be (decision 54).

    Raises `ExpectationFailed` before anything is committed, `Unfinished` when the side table lacks its rows.
    """
    from pyspark import StorageLevel

    expectations = Expectations(run.dataset.expectations)
    flagged = expectations.flagged(answer.rows)
    misfits, apart = left_out(answer.sources)

    def aside(rows: "DataFrame") -> "DataFrame":
        unread = [reading.aside(name) for name, reading in answer.sources.items() if reading.malformed == "quarantine"]
        return expectations.quarantined(rows, run.run_id, unread)

    if expectations.only_of_rows and not target.keys:
        written, verdicts, counts, failing = _observed(spark, flagged, expectations, target, transaction)
        quarantined = _put_aside(spark, lambda: aside(failing()), run, transaction, written, [*misfits, *verdicts])
    else:
        # A run that had committed when it was killed was judged then: what is missing is its side table.
        first = not run.dataset.quarantines or committed(spark, target, transaction) is None
        with ExitStack() as stack:
            whole = first and _may_be_whole(spark, flagged, run, target, expectations)
            news = stack.enter_context(_news(spark, flagged, target, expectations)) if whole else None
            if news:
                kept, found = news.rows, news.measured
                verdicts, counts = expectations.verdicts(found), expectations.counts(found)
            else:
                # Read once, kept on disk, measured, and written from there.
                kept = flagged.persist(StorageLevel.DISK_ONLY)
                stack.callback(kept.unpersist)
                verdicts, counts = measured(kept, expectations)
            if first:
                refuse_failed(verdicts)
            rows, known = expectations.kept(kept), expectations.tell_apart(target.keys, verdicts)
            none = news is not None and rows.isEmpty()
            written = write(spark, rows, target, transaction, kept, keys_apart=known, none=none)
            quarantined = _put_aside(spark, lambda: aside(kept), run, transaction, written, [*misfits, *verdicts])
    changed = 0 if written.repeated else _changed(written, target, counts)
    return Summary(
        run.run_id,
        target.location,
        written.version,
        written.repeated,
        0 if written.repeated else counts.rows + apart.rows,
        0.0,
        verdicts=[*misfits, *verdicts],
        written=changed,
        unchanged=0 if written.repeated else counts.kept - changed - written.deleted,
        deleted=written.deleted + written.missing,
        dropped=0 if written.repeated else counts.dropped + apart.dropped,
        quarantined=quarantined,
        metrics={name: int(value) for name, value in written.metrics.items() if value.isdigit()},
        committed=written.committed,
    )


def _may_be_whole(
    spark: "SparkSession", flagged: "DataFrame", run: Run, target: Target, expectations: Expectations
) -> bool:
    """Tell whether rows by key may be all that a table has, so that they are compared with it while they are read.

    As large they are, at least. A database would have to be read twice where they are not, and a cluster may repeat a
    task, and count its rows twice.
    """
    return (
        bool(target.keys)
        and one_machine(spark)
        and exists(spark, target)
        and not (target.evolve_schema or target.missing_at_most or run.dataset.stream)
        and expectations.proved_by(target.keys)
        and not any(isinstance(source, model.JdbcSource) for source in run.dataset.sources.values())
        and estimated_size(flagged) > max(SMALL, estimated_size(current_rows(spark, target)))
    )


def _news(
    spark: "SparkSession", flagged: "DataFrame", target: Target, expectations: Expectations
) -> AbstractContextManager[News | None]:
    own = entering(spark, expectations.kept(flagged), target)
    anyway = f"(({expectations.left_out}) OR coalesce(({target.delete_when or 'false'}), false))"
    return news_of(flagged, own, current_rows(spark, target), target, anyway, expectations.measures())


def _observed(
    spark: "SparkSession", flagged: "DataFrame", expectations: Expectations, target: Target, transaction: Transaction
) -> tuple[Written, list[Verdict], Counts, "Callable[[], DataFrame]"]:
    """Write in one pass that counts and holds what is put aside; a row that fails the run ends it before it commits."""
    watched = ObservedPass(flagged, expectations)
    try:
        written = write(spark, expectations.kept(watched.rows, breaking=True), target, transaction)
    except spark_failures() as failure:
        if BROKEN in said_by_spark(failure):
            refuse_failed(measured(flagged, expectations)[0])
        raise
    found = None if written.repeated else watched.counts()
    if found is None:
        return written, *measured(flagged, expectations), lambda: flagged
    return written, expectations.verdicts(found), expectations.counts(found), lambda: watched.aside() or flagged


def left_out(sources: Mapping[str, Reading]) -> tuple[list[Verdict], Counts]:
    """Count the rows of files that do not fit their schema, and that a dataset lets be: no step sees them."""
    verdicts = []
    for name, reading in sources.items():
        if reading.malformed != "fail":
            rows, wrong = reading.counted()
            said = f"{wrong:,} of {rows:,} rows"
            verdicts.append(Verdict(f"sources.{name}.malformed", reading.malformed, wrong, said))
    aside = sum(verdict.failing for verdict in verdicts if verdict.action == "quarantine")
    return verdicts, Counts(sum(verdict.failing for verdict in verdicts), 0, aside)


def measured(flagged: "DataFrame", expectations: Expectations) -> tuple[list[Verdict], Counts]:
    """Return the verdicts on flagged rows and where they go, by reading them."""
    found: Any = flagged.agg(*expectations.measures()).first()
    counts = {**found.asDict(), **expectations.repeated(flagged)}
    return expectations.verdicts(counts), expectations.counts(counts)


def _changed(written: Written, target: Target, counts: Counts) -> int:
    """Return how many rows came into the table: by key only those that are new there, or say something new."""
    if INSERTED not in written.metrics:
        return counts.kept if not target.deletes else int(written.metrics["numOutputRows"])
    # Of states each row that changes something is inserted, and the updated ones are those that it ends.
    updated = int(written.metrics[UPDATED]) if target.mode == "merge" else 0
    return int(written.metrics[INSERTED]) + updated


def _put_aside(  # noqa: PLR0913, PLR0917 -- whose rows, of what, whereto
    spark: "SparkSession",
    aside: "Callable[[], DataFrame]",
    run: Run,
    transaction: Transaction,
    written: Written,
    verdicts: Sequence[Verdict],
) -> int:
    """Append the quarantined rows to the side table, once a run; after the rows, so that a refused run leaves none.

    Where a run reads what no later one does, it says so there even if it has none: the next run asks for it.
    """
    some = run.dataset.marked or any(verdict.action == "quarantine" and verdict.failing for verdict in verdicts)
    some &= run.dataset.quarantines
    if not some or (written.repeated and put_aside_already(spark, run, transaction)):
        return 0
    target = _quarantine(run)
    try:
        with refusals():
            added = write(spark, aside(), target, transaction)
    except PipelineError as failure:
        missing = f"the quarantined rows in {target.location} ({failure.message.rstrip('.')})"
        again = "start the stream again" if run.dataset.stream else f"run it again with --run-id {run.run_id}"
        raise Unfinished(written.version, [missing], again) from failure
    return int(added.metrics.get("numOutputRows", 0))


def _quarantine(run: Run) -> Target:
    return Target(run.dataset.quarantine_location, "append", change_data_feed=False, evolve_schema=True)


def put_aside_already(spark: "SparkSession", run: Run, transaction: Transaction) -> bool:
    """Tell whether the side table has this run's rows."""
    return committed(spark, _quarantine(run), transaction) is not None
