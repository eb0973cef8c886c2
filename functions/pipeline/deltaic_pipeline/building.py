"""A dataset's run: leases, rows, one transaction, and the table's own words and its catalog entry last of all."""

import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from deltaic_pipeline.attempt import Attempt, attempt
from deltaic_pipeline.describing import describe
from deltaic_pipeline.differences import differences, refuse_drift
from deltaic_pipeline.following import Stream
from deltaic_pipeline.judging import put_aside_already, write_part
from deltaic_pipeline.lease import TIME_TO_LIVE
from deltaic_pipeline.register import Catalog, TableName
from deltaic_pipeline.runs import Run, Summary, target_of, told
from deltaic_pipeline.sources import catalog_location
from deltaic_pipeline.step_views import rows_of
from deltaic_pipeline.steps import Progress, step, tasks_shown
from deltaic_pipeline.target import Target
from deltaic_pipeline.writing import Transaction, committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build(
    spark: "SparkSession", run: Run, catalog: Catalog, progress: Progress, ttl: timedelta = TIME_TO_LIVE
) -> Summary:
    """Build the dataset: one new version of the table (a stream: one for each batch), then the catalog entry.

    Raises `ExpectationFailed`, `Conflict` when another writer holds the table or another table has the name,
    `LeaseLost` when the lease was lost on the way (nothing is acknowledged), `PipelineError` for everything else that
    keeps the rows from being read or written. A failure before the commit leaves the table as it was; one after it (the
    side table, the table's own words, the catalog) is made good by repeating the run with its id.
    """
    dataset, target = run.dataset, target_of(run.dataset)
    location = catalog_location(target.location)
    name = TableName.parse(dataset.target.share) if dataset.target.share else None
    if name is not None:
        catalog.register.check(name, location)
    locations = [location, *([catalog_location(dataset.quarantine_location)] if dataset.quarantines else [])]
    with attempt(spark, catalog, locations, run.run_id, progress, wait=run.wait, ttl=ttl) as held:

        def publish() -> None:
            with step(progress, "Describing the table"), held.refusals():
                if describe(held.spark, target):
                    held.confirm()
            if name is not None:
                with step(progress, f"Registering {name}"):
                    catalog.register.register(
                        name, location, history=dataset.target.history, storage=dataset.target.storage
                    )

        if dataset.stream is not None:
            return Stream(held, run, target, progress, publish).build(dataset.stream)
        summary = _batch(held, run, target, progress)
        publish()
    return summary


def _batch(held: Attempt, run: Run, target: Target, progress: Progress) -> Summary:
    began, transaction = time.monotonic(), Transaction.of_run(run.run_id)
    with held.refusals():
        before = committed(held.spark, target, transaction)
        whole = not run.dataset.quarantines or (before is not None and put_aside_already(held.spark, run, transaction))
    if before is not None and whole:
        with step(progress, f"Writing {target.location} ({target.mode})") as tell:
            tell(f"version {before.version} has this run's rows already")
        return Summary(run.run_id, target.location, before.version, repeated=True, rows=0, seconds=0.0)
    with step(progress, f"Reading {', '.join(run.dataset.sources)}"), held.refusals():
        rows = rows_of(held.spark, run)
        if before is None:
            refuse_drift(differences(held.spark, rows, target), target)
    with step(progress, f"Writing {target.location} ({target.mode})") as tell, held.refusals():
        with tasks_shown(held.spark, held.group, tell):
            part = write_part(held.spark, rows, run, target, transaction)
        held.confirm()
        tell(told(part, time.monotonic() - began))
    return replace(part, seconds=time.monotonic() - began)
