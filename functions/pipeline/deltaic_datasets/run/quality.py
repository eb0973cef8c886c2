"""Applies expectations to rows: writes those that pass, leaves out or puts aside others, or refuses them all."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError, Unfinished
from deltaic_pipeline.spark.spark_errors import refusals, said_by_spark, spark_failures
from deltaic_pipeline.table.sources import Reading
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Transaction, Written, committed
from deltaic_pipeline.table.writing import INSERTED, UPDATED, write

from deltaic_datasets.run.delivery import delivery_of
from deltaic_datasets.run.expectations import BROKEN, Counts, Expectations, Verdict, refuse_failed
from deltaic_datasets.run.observation import ObservedPass
from deltaic_datasets.run.run_state import Run, Summary
from deltaic_datasets.run.sql_steps import Answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_part(spark: "SparkSession", answer: Answer, run: Run, target: Target, transaction: Transaction) -> Summary:
    """Judge the rows, write those that may be and put aside those that must not be.

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
            # Read once, kept on disk, measured, and written from there.
            kept = flagged.persist(StorageLevel.DISK_ONLY)
            stack.callback(kept.unpersist)
            verdicts, counts = measured(kept, expectations)
            if first:
                refuse_failed(verdicts)
            if transaction.delivery:
                # Files that were replaced while they were read are read again by the next run.
                delivery = transaction.delivery if delivery_of(spark, run) == transaction.delivery else ""
                some_aside = any(one.action == "quarantine" and one.failing for one in [*misfits, *verdicts])
                transaction = replace(transaction, delivery=delivery, aside=some_aside)
            rows, known = expectations.kept(kept), expectations.tell_apart(target.keys, verdicts)
            written = write(spark, rows, target, transaction, kept, keys_apart=known)
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
            added = write(spark, aside(), target, transaction.of_target(run.dataset.target.location))
    except PipelineError as failure:
        missing = f"the quarantined rows in {target.location} ({failure.message.rstrip('.')})"
        again = "start the stream again" if run.dataset.stream else f"run it again with --run-id {run.run_id}"
        raise Unfinished(written.version, [missing], again) from failure
    return int(added.metrics.get("numOutputRows", 0))


def _quarantine(run: Run) -> Target:
    return Target(run.dataset.quarantine_location, "append", change_data_feed=False, evolve_schema=True)


def put_aside_already(spark: "SparkSession", run: Run, transaction: Transaction) -> bool:
    """Tell whether the side table has this run's rows."""
    return committed(spark, _quarantine(run), transaction.of_target(run.dataset.target.location)) is not None
