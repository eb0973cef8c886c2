"""The job that makes a shared Delta table of files or tables: read, transform, write under the lease, then register."""

import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError
from deltaic.settings import settings

from deltaic_pipeline.access import S3Access
from deltaic_pipeline.arguments import VIEW, Job, job_of, parser
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.lease import TIME_TO_LIVE, Held, hold, holder_name
from deltaic_pipeline.register import Catalog, connect
from deltaic_pipeline.session import leave, session
from deltaic_pipeline.sources import catalog_location, read
from deltaic_pipeline.steps import Progress, silent, step, tasks_shown, terminal
from deltaic_pipeline.writing import Written, set_properties, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transform(rows: "DataFrame", sql: str | None) -> "DataFrame":
    """Return the rows to publish: the answer of `sql` over the view `source`, or the rows themselves."""
    if not sql:
        return rows
    rows.createOrReplaceTempView(VIEW)
    return rows.sparkSession.sql(sql)


def publish(
    spark: "SparkSession",
    job: Job,
    catalog: Catalog,
    progress: Progress = silent,
    ttl: timedelta = TIME_TO_LIVE,
) -> Written:
    """Publish: one new version of the table, acknowledged only while the lease was held, then the catalog entry.

    Properties that an existing table lacks are one version more, after the rows.

    Raises `Conflict` when another writer holds the table or another table has the name, `LeaseLost` when the lease was
    lost on the way (nothing is acknowledged), `PipelineError` when the rows cannot be read or written. Whatever fails,
    the catalog is as it was.
    """
    job.target.check()
    run_id = job.run_id or uuid.uuid4().hex
    group = uuid.uuid4().hex  # of this attempt: Spark runs nothing more for a group that was cancelled
    location = catalog_location(job.target.location)
    if job.name is not None:
        catalog.register.check(job.name, location)
    # A session of its own: its view and its settings are seen by no other job of this process.
    own = spark.newSession()
    with ExitStack() as stack:
        with step(progress, f"Taking the writer lease of {location}") as tell:
            lease = hold(catalog.leases, location, holder_name(run_id), wait=job.wait, ttl=ttl, waiting=tell)
            held = stack.enter_context(lease)
        held.on_loss(lambda: _cancel(spark, group))
        spark.sparkContext.setJobGroup(group, f"publish {location}")
        # What this thread does next is no part of the run.
        stack.callback(lambda: spark.sparkContext.setLocalProperty("spark.jobGroup.id", None))  # type: ignore[arg-type]
        with step(progress, f"Reading {job.source.format} {', '.join(job.source.paths)}"), refusals(held):
            rows = transform(read(own, job.source), job.sql)
        with step(progress, f"Writing {location} ({job.target.mode})") as tell, refusals(held):
            with tasks_shown(spark, group, tell):
                written = write(own, rows, job.target, run_id)
            held.confirm()
            if set_properties(own, job.target):
                held.confirm()
            tell(described(written))
        if job.name is not None:
            with step(progress, f"Registering {job.name}"):
                catalog.register.register(job.name, location, history=job.history, storage=job.storage)
    return written


@contextmanager
def refusals(held: Held) -> Iterator[None]:
    """Turn what Spark says when it cannot go on into one line; a lost lease is the reason if it was lost."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as refusal:
        held.require()
        raise PipelineError(_reason(str(refusal), getattr(refusal, "_origin", None))) from refusal
    except Py4JJavaError as failure:
        held.require()
        raise PipelineError(_reason(str(failure.java_exception), failure.java_exception)) from failure


def _reason(said: str, thrown: Any) -> str:
    """Return the first line of what Spark said and, if it only says that a job failed, of the cause below it."""
    innermost = thrown
    while innermost is not None and innermost.getCause() is not None:
        innermost = innermost.getCause()
    below = str(innermost.getMessage() or "") if innermost is not None else ""
    first, last = (next((line.strip() for line in text.splitlines() if line.strip()), "") for text in (said, below))
    return first if last in first else f"{first} Cause: {last}"


def _cancel(spark: "SparkSession", group: str) -> None:
    """Stop the group's Spark jobs, those that have not begun too, from whatever thread has found out that they must."""

    def cancel() -> None:
        context: Any = spark.sparkContext._jsc  # noqa: SLF001 -- pyspark itself cancels only what runs already
        context.sc().cancelJobGroupAndFutureJobs(group)
        leave(spark)

    thread = threading.Thread(target=cancel)
    thread.start()
    thread.join()


def described(written: Written) -> str:
    """Say in a few words what a run did."""
    if written.repeated:
        return f"version {written.version} has this run's rows already"
    rows = written.metrics.get("numOutputRows") or written.metrics.get("numTargetRowsInserted") or "0"
    return f"version {written.version}, {int(rows):,} rows"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    given = parser().parse_args(arguments)
    progress = terminal()
    try:
        job = job_of(given)
        catalog = connect(given.catalog or settings().catalog_table, settings().tokens_table)
        with step(progress, "Starting Spark") as tell:
            spark = session("deltaic publish", S3Access.from_environment(), report=tell)
        publish(spark, job, catalog, progress)
    except DeltaicError as refusal:
        print(f"error: {refusal.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
