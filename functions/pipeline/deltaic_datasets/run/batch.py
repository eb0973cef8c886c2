"""The batch run of a dataset: leases, rows, one transaction, and at last the table's properties and catalog entry."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from deltaic.errors import Conflict, InvalidParameter, NotFound
from deltaic_pipeline.spark.task_progress import tasks_shown
from deltaic_pipeline.table.catalog_entry import Catalog, Entry, TableName
from deltaic_pipeline.table.leased_run import Attempt, finish, leased_run
from deltaic_pipeline.table.schema_diff import differences, refuse_drift
from deltaic_pipeline.table.sources import catalog_location
from deltaic_pipeline.table.target import Target
from deltaic_pipeline.table.transactions import Transaction, committed, exists
from deltaic_terminal.progress import Progress, step

from deltaic_datasets.run.delivery import delivery_of, written_before
from deltaic_datasets.run.quality import put_aside_already, write_part
from deltaic_datasets.run.run_recording import found_unchanged
from deltaic_datasets.run.run_state import Run, Summary, target_of, told
from deltaic_datasets.run.sql_steps import answer_of, placed, said_of_values, said_where
from deltaic_datasets.run.stream import Stream
from deltaic_datasets.run.target_checks import refuse_unfit
from deltaic_datasets.run.watermark import Advance, advances, next_advance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build(spark: "SparkSession", run: Run, catalog: Catalog, progress: Progress) -> Summary:
    """Build the dataset: one new version of the table (a stream: one for each batch), then the catalog entry.

    Raises `ExpectationFailed`, `Conflict` when another writer holds the table or another table has the name,
    `LeaseLost` when the lease was lost on the way (nothing is acknowledged), `PipelineError` for everything else that
    keeps the rows from being read or written. A failure before the commit leaves the table as it was. `Unfinished` is
    one after it (the table's own words, the catalog), which the next run makes good; what is missing in the side table
    is made good by repeating the run with its id.
    """
    dataset, target = run.dataset, target_of(run.dataset)
    location = catalog_location(target.location)
    refuse_unshareable(run, catalog)
    entry = _entry(run)
    locations = [location, *([catalog_location(dataset.quarantine_location)] if dataset.quarantines else [])]
    with leased_run(spark, catalog, locations, run.run_id, progress, wait=run.wait) as attempt:
        if dataset.stream is not None:
            summary = Stream(attempt, run, target, progress).build(dataset.stream)
            with attempt.refusals():
                if not exists(spark, target):  # a first run that found no rows
                    return summary
        else:
            summary = _batch(attempt, run, target, progress)
        return replace(summary, made=finish(attempt, target, entry, catalog, summary.version, progress))


def refuse_unshareable(run: Run, catalog: Catalog) -> None:
    """Raise what would keep the table from being shared under its name; needs no Spark."""
    entry = _entry(run)
    if entry is not None:
        try:
            catalog.check(entry)
        except (Conflict, InvalidParameter, NotFound) as refusal:
            raise type(refusal)(f"{run.origin(('target', 'share'))}: {refusal.message}") from None


def _entry(run: Run) -> Entry | None:
    said = run.dataset.target
    if not said.share:
        return None
    location = catalog_location(said.location)
    return Entry(TableName.parse(said.share), location, said.history, said.storage, said.create_share)


def _batch(attempt: Attempt, run: Run, target: Target, progress: Progress) -> Summary:
    began, advance = time.monotonic(), _advance(attempt, run, target, progress) if run.dataset.marked else None
    transaction = advance.transaction if advance else Transaction.of_run(run.run_id, run.dataset.name)
    before = None
    with attempt.refusals():
        transaction = replace(transaction, delivery=delivery_of(attempt.spark, run))
        done = found_unchanged(attempt.spark, run) or written_before(attempt.spark, run, target, transaction.delivery)
        if done is None:
            before = done = committed(attempt.spark, target, transaction)
        if before and run.dataset.quarantines and not put_aside_already(attempt.spark, run, transaction):
            done = None
    if done is not None:
        summary = Summary(
            run.run_id, target.location, done.version, done.repeated, rows=0, seconds=0.0, committed=done.committed,
            redelivered=not done.repeated,
        )  # fmt: skip
        with step(progress, f"Writing {target.location} ({target.mode})") as tell:
            tell(told(summary))
        return summary
    with step(progress, f"Reading {', '.join(run.dataset.sources)}"), placed(run), attempt.refusals():
        answer = answer_of(attempt.spark, run, windows=advance.windows if advance else {})
        if advance and not transaction.moves and exists(attempt.spark, target) and answer.rows.isEmpty():
            return Summary(run.run_id, target.location, None, repeated=False, rows=0, seconds=time.monotonic() - began)
        if before is None:
            refuse_unfit(attempt.spark, answer.rows, run, target)
            with said_where(run, ("target",)):
                refuse_drift(differences(attempt.spark, answer.rows, target), target)
    with (
        step(progress, f"Writing {target.location} ({target.mode})") as tell,
        placed(run),
        said_of_values(run, answer.sources),
        attempt.refusals(),
    ):
        with tasks_shown(attempt.spark, attempt.group, tell):
            part = write_part(attempt.spark, answer, run, target, transaction)
        attempt.confirm()
        tell(told(part))
    return replace(part, seconds=time.monotonic() - began)


def _advance(attempt: Attempt, run: Run, target: Target, progress: Progress) -> Advance:
    """Return what a run of databases with watermarks reads: what it has read if it had committed, else what is new.

    What the run before it has not put aside, since it was killed, is put aside first: its rows are read once more.
    """
    with attempt.refusals():
        known = advances(attempt.spark, run, target)
        mine = next((one for one in known if one.run == run.run_id), None)
        if mine is not None:
            return mine
        last = next(reversed(known), None)
        unfinished = last is not None and last.aside and not last.is_put_aside(attempt.spark, run.dataset)
    if last is not None and unfinished:
        _batch(attempt, replace(run, run_id=last.run), target, progress)
    with step(progress, "Asking databases for their highest values") as tell, attempt.refusals():
        advance = next_advance(attempt.spark, run, last)
        tell("; ".join(f"{name}: {window}" for name, window in advance.windows.items()))
    return advance
