"""Run a job under writer leases in its own Spark session; set properties and catalog entry after the commit."""

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError
from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.failures import LeaseLost, PipelineError, Unfinished
from deltaic_pipeline.spark.session import close_thread_connection
from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.spark.sql_rules import drop_external_functions
from deltaic_pipeline.table.catalog_entry import CatalogEntry, JobCatalog
from deltaic_pipeline.table.lease import Lease, acquire, holder_name
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import describe, properties_of
from deltaic_pipeline.table.target import CHANGE_DATA_FEED, DeltaTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Attempt:
    """Spark session, job group and leases of one attempt of a run."""

    spark: "SparkSession"
    """Separate session: other jobs in this process do not see its temporary views and settings."""

    group: str
    leases: Sequence[Lease]

    def confirm(self) -> None:
        """Renew all leases to prove that this job holds them; raises `LeaseLost` otherwise."""
        for lease in self.leases:
            lease.confirm()

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Convert Spark's errors to `PipelineError`s of one line, or to `LeaseLost` if a lease was lost."""
        try:
            with refusals():
                yield
        except PipelineError:
            for lease in self.leases:
                lease.require()
            raise


@contextmanager
def leased_run(  # noqa: PLR0913 -- the locations, their run, and the wait
    spark: "SparkSession",
    catalog: JobCatalog,
    locations: Sequence[str],
    run_id: str,
    progress: Progress,
    *,
    wait: timedelta = timedelta(0),
) -> Iterator[Attempt]:
    """Acquire the leases of all locations, in this order, for the block; the Spark job's name contains the first.

    If a lease is lost, the Spark jobs of this attempt are cancelled. Raises the same errors as `acquire`.
    """
    group, ttl = uuid.uuid4().hex, catalog.lease_life
    with ExitStack() as stack:
        leases = []
        for location in locations:
            with step(progress, f"Acquiring the writer lease of {location}") as report:
                acquiring = acquire(catalog.leases, location, holder_name(run_id), wait=wait, ttl=ttl, waiting=report)
                leases.append(stack.enter_context(acquiring))
        for lease in leases:
            lease.on_loss(lambda: _cancel(spark, group))
        spark.sparkContext.setJobGroup(group, f"write {locations[0]}")
        # Later Spark jobs of this thread do not belong to the run.
        stack.callback(lambda: spark.sparkContext.setLocalProperty("spark.jobGroup.id", None))  # type: ignore[arg-type]
        session = spark.newSession()
        drop_external_functions(session)
        yield Attempt(session, group, leases)


def finish(  # noqa: PLR0913, PLR0917 -- whose run, and what belongs behind its rows
    attempt: Attempt | None,
    target: DeltaTarget,
    entry: CatalogEntry | None,
    catalog: JobCatalog,
    version: int | None,
    progress: Progress,
) -> Sequence[str]:
    """Set the table's properties and comments, create its catalog entries, and return the names of new entries.

    Every run repeats these steps, so the next run repairs a failed step. Without an `attempt`, the table has its
    properties and comments already. `version` is the table version with the run's rows; None: the run had no rows.
    Raises `Unfinished` if either step failed, and `LeaseLost`.
    """
    missing: list[str] = []
    cause: DeltaicError | None = None
    created: Sequence[str] = ()
    try:
        if attempt is not None:
            with step(progress, "Describing the table"), attempt.refusals():
                if describe(attempt.spark, target):
                    attempt.confirm()
    except LeaseLost:
        raise
    except DeltaicError as failure:
        cause = failure
        missing.append(f"properties, comments and clustering ({failure.message.rstrip('.')})")
    if entry is not None:
        try:
            with step(progress, f"Registering {entry.name}") as report:
                created = catalog.register(entry)
                details = [f"created {', '.join(created)}"] if created else []
                lacks_changes = entry.history and not target.change_data_feed
                if attempt and lacks_changes and not _records_changes(attempt.spark, target):
                    details.append(f"recipients get no changes, because the table lacks {CHANGE_DATA_FEED}=true")
                report("; ".join(details))
        except DeltaicError as failure:
            missing.append(f"the catalog entry {entry.name} ({failure.message.rstrip('.')})")
    if missing:
        raise Unfinished(version, missing) from cause
    return created


def _records_changes(spark: "SparkSession", target: DeltaTarget) -> bool:
    with refusals():
        return properties_of(spark, spark_path(target.location)).get(CHANGE_DATA_FEED, "").lower() == "true"


def _cancel(spark: "SparkSession", group: str) -> None:
    """Cancel the group's Spark jobs, including those that have not started; any thread can call this."""

    def cancel() -> None:
        context: Any = spark.sparkContext._jsc  # noqa: SLF001 -- pyspark cancels running jobs only
        context.sc().cancelJobGroupAndFutureJobs(group)
        close_thread_connection(spark)

    thread = threading.Thread(target=cancel)
    thread.start()
    thread.join()
