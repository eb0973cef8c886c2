"""Run a dataset once: acquire leases, commit rows in one transaction, update table properties and catalog."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from deltaic.errors import Conflict, InvalidParameter, NotFound
from deltaic_pipeline.spark.task_progress import show_tasks
from deltaic_pipeline.table.catalog_entry import CatalogEntry, EntryName, JobCatalog
from deltaic_pipeline.table.leased_run import Attempt, finish, leased_run
from deltaic_pipeline.table.schema_diff import differences, refuse_drift
from deltaic_pipeline.table.sources import catalog_location
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction, exists, find_commit
from deltaic_terminal.progress import Progress, step

from deltaic_datasets.run.delivery import delivery_of, written_before
from deltaic_datasets.run.quality import is_quarantined, write_part
from deltaic_datasets.run.run_recording import unchanged_before
from deltaic_datasets.run.run_state import Run, RunSummary, describe_summary, target_of
from deltaic_datasets.run.sql_steps import locate_errors, locate_errors_at, locate_values, read_dataset
from deltaic_datasets.run.stream import StreamRun
from deltaic_datasets.run.target_checks import check_target
from deltaic_datasets.run.watermark import Advance, advances, next_advance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build(spark: "SparkSession", run: Run, catalog: JobCatalog, progress: Progress) -> RunSummary:
    """Commit a new version of the table (one per batch of a stream), then share it in the catalog.

    Raises `ExpectationFailed`; `Conflict` if another writer has a lease on the table, or another table is shared under
    the name; `LeaseLost` if this run loses its lease (it then reports no result); `PipelineError` for other errors. All
    leave the table unchanged if raised before the commit. `Unfinished` is raised after the commit: the next run
    completes properties, comments and catalog. To complete the quarantine table, repeat the run with the same id.
    """
    dataset, target = run.dataset, target_of(run.dataset)
    location = catalog_location(target.location)
    refuse_unshareable(run, catalog)
    entry = _entry(run)
    locations = [location, *([catalog_location(dataset.quarantine_location)] if dataset.quarantines else [])]
    with leased_run(spark, catalog, locations, run.run_id, progress, wait=run.wait) as attempt:
        if dataset.stream is not None:
            summary = StreamRun(attempt, run, target, progress).build(dataset.stream)
            with attempt.refusals():
                if not exists(spark, target):  # a first run that found no rows
                    return summary
        else:
            summary = _run_batch(attempt, run, target, progress)
        return replace(summary, created=finish(attempt, target, entry, catalog, summary.version, progress))


def refuse_unshareable(run: Run, catalog: JobCatalog) -> None:
    """Raise a DeltaicError if the catalog does not permit to share the table under its name; needs no Spark."""
    entry = _entry(run)
    if entry is not None:
        try:
            catalog.check(entry)
        except (Conflict, InvalidParameter, NotFound) as refusal:
            raise type(refusal)(f"{run.origin(('target', 'share'))}: {refusal.message}") from None


def _entry(run: Run) -> CatalogEntry | None:
    target = run.dataset.target
    if not target.share:
        return None
    location = catalog_location(target.location)
    return CatalogEntry(EntryName.parse(target.share), location, target.history, target.storage, target.create_share)


def _run_batch(attempt: Attempt, run: Run, target: DeltaTarget, progress: Progress) -> RunSummary:
    began = time.monotonic()
    advance = _find_advance(attempt, run, target, progress) if run.dataset.has_watermark else None
    transaction = advance.transaction if advance else Transaction.of_run(run.run_id, run.dataset.name)
    before = None
    with attempt.refusals():
        transaction = replace(transaction, delivery=delivery_of(attempt.spark, run))
        done = unchanged_before(attempt.spark, run) or written_before(attempt.spark, run, target, transaction.delivery)
        if done is None:
            before = done = find_commit(attempt.spark, target, transaction)
        if before and run.dataset.quarantines and not is_quarantined(attempt.spark, run, transaction):
            done = None
    if done is not None:
        summary = RunSummary(
            run.run_id, target.location, done.version, done.repeated, rows=0, seconds=0.0, committed=done.committed,
            redelivered=not done.repeated,
        )  # fmt: skip
        with step(progress, f"Writing {target.location} ({target.mode})") as report:
            report(describe_summary(summary))
        return summary
    with step(progress, f"Reading {', '.join(run.dataset.sources)}"), locate_errors(run), attempt.refusals():
        answer = read_dataset(attempt.spark, run, windows=advance.windows if advance else {})
        if advance and not transaction.moves and exists(attempt.spark, target) and answer.rows.isEmpty():
            seconds = time.monotonic() - began
            return RunSummary(run.run_id, target.location, None, repeated=False, rows=0, seconds=seconds)
        if before is None:
            check_target(attempt.spark, answer.rows, run, target)
            with locate_errors_at(run, ("target",)):
                refuse_drift(differences(attempt.spark, answer.rows, target), target)
    with (
        step(progress, f"Writing {target.location} ({target.mode})") as report,
        locate_errors(run),
        locate_values(run, answer.sources),
        attempt.refusals(),
    ):
        with show_tasks(attempt.spark, attempt.group, report):
            part = write_part(attempt.spark, answer, run, target, transaction)
        attempt.confirm()
        report(describe_summary(part))
    return replace(part, seconds=time.monotonic() - began)


def _find_advance(attempt: Attempt, run: Run, target: DeltaTarget, progress: Progress) -> Advance:
    """Return the windows (ranges of watermark values) that a run reads: those of its committed attempt, or new ones.

    If the previous run was killed before it wrote its quarantined rows, that run is first repeated to write them.
    """
    with attempt.refusals():
        earlier = advances(attempt.spark, run, target)
        advance = next((advance for advance in earlier if advance.run == run.run_id), None)
        if advance is not None:
            return advance
        last = next(reversed(earlier), None)
        unfinished = last is not None and last.aside and not last.is_quarantined(attempt.spark, run.dataset)
    if last is not None and unfinished:
        _run_batch(attempt, replace(run, run_id=last.run), target, progress)
    with step(progress, "Asking databases for their highest values") as report, attempt.refusals():
        advance = next_advance(attempt.spark, run, last)
        report("; ".join(f"{name}: {window}" for name, window in advance.windows.items()))
    return advance
