"""Apply expectations to rows: write rows that pass, and drop or quarantine others, or fail the run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError, Unfinished
from deltaic_pipeline.spark.spark_errors import refusals, safe_message, spark_failures
from deltaic_pipeline.table.sources import Reading
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction, WriteResult, find_commit
from deltaic_pipeline.table.writing import INSERTED, UPDATED, write

from deltaic_datasets.run.delivery import delivery_of
from deltaic_datasets.run.expectations import FAILED_RUN, Expectations, ExpectationVerdict, RowCounts, refuse_failed
from deltaic_datasets.run.observation import ObservedPass
from deltaic_datasets.run.run_state import Run, RunSummary
from deltaic_datasets.run.sql_steps import DatasetRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_part(
    spark: "SparkSession", data: DatasetRows, run: Run, target: DeltaTarget, commit: Transaction
) -> RunSummary:
    """Write the rows that pass the expectations, and quarantine or drop the others.

    Raises `ExpectationFailed` before the commit, and `Unfinished` if only the quarantined rows could not be written.
    """
    from pyspark import StorageLevel

    expectations = Expectations(run.dataset.expectations)
    flagged = expectations.add_flags(data.rows)
    rejects, reject_counts = count_malformed(data.sources)

    def rejected(rows: "DataFrame") -> "DataFrame":
        sources = data.sources.items()
        malformed = [source.quarantine(name) for name, source in sources if source.malformed == "quarantine"]
        return expectations.quarantine_rows(rows, run.run_id, malformed)

    if expectations.fits_one_pass and not target.keys:
        written, verdicts, counts, failing = _write_in_one_pass(spark, flagged, expectations, target, commit)
        quarantined = _quarantine(spark, lambda: rejected(failing()), run, commit, written, rejects + verdicts)
    else:
        # If the rows are committed, an earlier attempt has checked them: only quarantined rows may be missing.
        not_committed = not run.dataset.quarantines or find_commit(spark, target, commit) is None
        with ExitStack() as stack:
            # Spark reads the sources once: the rows are stored on disk, counted, and written from there.
            stored = flagged.persist(StorageLevel.DISK_ONLY)
            stack.callback(stored.unpersist)
            verdicts, counts = measure(stored, expectations)
            if not_committed:
                refuse_failed(verdicts)
            if commit.delivery:
                # If files were replaced during the run, the next run must read them again.
                delivery = commit.delivery if delivery_of(spark, run) == commit.delivery else ""
                commit = replace(commit, delivery=delivery, quarantine=_has_quarantined(rejects + verdicts))
            rows, unique = expectations.passing_rows(stored), expectations.proves_unique_keys(target.keys, verdicts)
            written = write(spark, rows, target, commit, stored, unique_keys=unique)
            quarantined = _quarantine(spark, lambda: rejected(stored), run, commit, written, rejects + verdicts)
    changed = 0 if written.repeated else _count_changed(written, target, counts)
    return RunSummary(
        run.run_id,
        target.location,
        written.version,
        written.repeated,
        0 if written.repeated else counts.rows + reject_counts.rows,
        0.0,
        verdicts=rejects + verdicts,
        written=changed,
        unchanged=0 if written.repeated else counts.passing - changed - written.deleted,
        deleted=written.deleted + written.missing,
        dropped=0 if written.repeated else counts.dropped + reject_counts.dropped,
        quarantined=quarantined,
        metrics={name: int(value) for name, value in written.metrics.items() if value.isdigit()},
        committed=written.committed,
    )


def _write_in_one_pass(
    spark: "SparkSession", flagged: "DataFrame", expectations: Expectations, target: DeltaTarget, commit: Transaction
) -> tuple[WriteResult, list[ExpectationVerdict], RowCounts, "Callable[[], DataFrame]"]:
    observed = ObservedPass(flagged, expectations)
    try:
        written = write(spark, expectations.passing_rows(observed.rows, stop_at_failure=True), target, commit)
    except spark_failures() as failure:
        if FAILED_RUN in safe_message(failure):
            refuse_failed(measure(flagged, expectations)[0])
        raise
    values = None if written.repeated else observed.counts()
    if values is None:
        return written, *measure(flagged, expectations), lambda: flagged
    verdicts, counts = expectations.verdicts(values), expectations.counts(values)
    return written, verdicts, counts, lambda: observed.quarantined_rows() or flagged


def count_malformed(sources: Mapping[str, Reading]) -> tuple[list[ExpectationVerdict], RowCounts]:
    """Count the malformed rows, which steps do not read, of each source that drops or quarantines such rows."""
    verdicts = []
    for name, reading in sources.items():
        if reading.malformed != "fail":
            rows, count = reading.count_rows()
            text = f"{count:,} of {rows:,} rows"
            verdicts.append(ExpectationVerdict(f"sources.{name}.malformed", reading.malformed, count, text))
    quarantined = sum(verdict.failing for verdict in verdicts if verdict.action == "quarantine")
    return verdicts, RowCounts(sum(verdict.failing for verdict in verdicts), 0, quarantined)


def measure(flagged: "DataFrame", expectations: Expectations) -> tuple[list[ExpectationVerdict], RowCounts]:
    """Read the flagged rows, and return the verdicts of expectations and the numbers of rows."""
    first_row: Any = flagged.agg(*expectations.aggregates()).first()
    values = {**first_row.asDict(), **expectations.count_duplicates(flagged)}
    return expectations.verdicts(values), expectations.counts(values)


def _count_changed(written: WriteResult, target: DeltaTarget, counts: RowCounts) -> int:
    if INSERTED not in written.metrics:
        return counts.passing if not target.deletes else int(written.metrics["numOutputRows"])
    # scd2 inserts a state for each change; its updates only end earlier states.
    updated = int(written.metrics[UPDATED]) if target.mode == "merge" else 0
    return int(written.metrics[INSERTED]) + updated


def _quarantine(  # noqa: PLR0913, PLR0917 -- context of a run
    spark: "SparkSession",
    rows: "Callable[[], DataFrame]",
    run: Run,
    transaction: Transaction,
    written: WriteResult,
    verdicts: Sequence[ExpectationVerdict],
) -> int:
    """Append the quarantined rows to the quarantine table exactly once, after the commit of the run's other rows.

    A run with a watermark makes this commit even without rows, because the next run checks whether the commit exists.
    """
    needed = run.dataset.quarantines and (run.dataset.has_watermark or _has_quarantined(verdicts))
    if not needed or (written.repeated and is_quarantined(spark, run, transaction)):
        return 0
    target = _quarantine_target(run)
    try:
        with refusals():
            added = write(spark, rows(), target, transaction.of_target(run.dataset.target.location))
    except PipelineError as failure:
        missing = f"the quarantined rows in {target.location} ({failure.message.rstrip('.')})"
        remedy = "start the stream again" if run.dataset.stream else f"run it again with --run-id {run.run_id}"
        raise Unfinished(written.version, [missing], remedy) from failure
    return int(added.metrics.get("numOutputRows", 0))


def _has_quarantined(verdicts: Sequence[ExpectationVerdict]) -> bool:
    return any(verdict.action == "quarantine" and verdict.failing for verdict in verdicts)


def _quarantine_target(run: Run) -> DeltaTarget:
    return DeltaTarget(run.dataset.quarantine_location, "append", change_data_feed=False, evolve_schema=True)


def is_quarantined(spark: "SparkSession", run: Run, transaction: Transaction) -> bool:
    """Return whether the quarantined rows of this run are in the quarantine table."""
    return find_commit(spark, _quarantine_target(run), transaction.of_target(run.dataset.target.location)) is not None
