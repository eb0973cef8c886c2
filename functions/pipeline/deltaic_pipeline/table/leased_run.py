"""A run under writer leases: a session and a job group of its own, and what belongs behind the commit of its rows."""

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
from deltaic_pipeline.spark.session import leave
from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.spark.sql_rules import drop_reaching
from deltaic_pipeline.table.catalog_entry import Catalog, Entry
from deltaic_pipeline.table.lease import Lease, acquire, holder_name
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import describe, properties_of
from deltaic_pipeline.table.target import CHANGE_DATA_FEED, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a run works with while it holds its leases."""

    spark: "SparkSession"
    """A session of its own: its views and its settings are seen by no other job of this process."""

    group: str
    leases: Sequence[Lease]

    def confirm(self) -> None:
        """Prove by a round trip that the leases are held; raises `LeaseLost` otherwise."""
        for lease in self.leases:
            lease.confirm()

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Turn what Spark says when it cannot go on into one line; a lost lease is the reason if one was lost."""
        try:
            with refusals():
                yield
        except PipelineError:
            for lease in self.leases:
                lease.require()
            raise


@contextmanager
def leased_run(  # noqa: PLR0913 -- what is held, for whom, and for how long
    spark: "SparkSession",
    catalog: Catalog,
    locations: Sequence[str],
    run_id: str,
    progress: Progress,
    *,
    wait: timedelta = timedelta(0),
) -> Iterator[Attempt]:
    """Acquire the leases of all locations for the block, in the order given; the first one names the job.

    When one is lost Spark's jobs of this attempt are cancelled. Raises `Conflict` as `acquire` does.
    """
    group, ttl = uuid.uuid4().hex, catalog.lease_life
    with ExitStack() as stack:
        leases = []
        for location in locations:
            with step(progress, f"Taking the writer lease of {location}") as tell:
                acquiring = acquire(catalog.leases, location, holder_name(run_id), wait=wait, ttl=ttl, waiting=tell)
                leases.append(stack.enter_context(acquiring))
        for lease in leases:
            lease.on_loss(lambda: _cancel(spark, group))
        spark.sparkContext.setJobGroup(group, f"write {locations[0]}")
        # What this thread does next is no part of the run.
        stack.callback(lambda: spark.sparkContext.setLocalProperty("spark.jobGroup.id", None))  # type: ignore[arg-type]
        own = spark.newSession()
        drop_reaching(own)
        yield Attempt(own, group, leases)


def finish(  # noqa: PLR0913, PLR0917 -- whose run, and what belongs behind its rows
    attempt: Attempt, target: Target, entry: Entry | None, catalog: Catalog, version: int | None, progress: Progress
) -> Sequence[str]:
    """Describe the table, make its entry, and return what was made.

    Both are done by every run, so what fails here is told as missing, and the next run does it. `version` has the
    rows; None: there were none. Raises `Unfinished` when one of both is not done, and `LeaseLost`.
    """
    missing: list[str] = []
    cause: DeltaicError | None = None
    made: Sequence[str] = ()
    try:
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
            with step(progress, f"Registering {entry.name}") as tell:
                made = catalog.register(entry)
                details = [f"made {', '.join(made)}"] if made else []
                if entry.history and not target.change_data_feed and not _records_changes(attempt.spark, target):
                    details.append(f"recipients get no changes, for the table lacks {CHANGE_DATA_FEED}=true")
                tell("; ".join(details))
        except DeltaicError as failure:
            missing.append(f"the catalog entry {entry.name} ({failure.message.rstrip('.')})")
    if missing:
        raise Unfinished(version, missing) from cause
    return made


def _records_changes(spark: "SparkSession", target: Target) -> bool:
    with refusals():
        return properties_of(spark, spark_path(target.location)).get(CHANGE_DATA_FEED, "").lower() == "true"


def _cancel(spark: "SparkSession", group: str) -> None:
    """Stop the group's Spark jobs, those that have not begun too, from whatever thread has found out that they must."""

    def cancel() -> None:
        context: Any = spark.sparkContext._jsc  # noqa: SLF001 -- pyspark itself cancels only what runs already
        context.sc().cancelJobGroupAndFutureJobs(group)
        leave(spark)

    thread = threading.Thread(target=cancel)
    thread.start()
    thread.join()
