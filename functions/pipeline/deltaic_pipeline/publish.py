"""The job that makes a shared Delta table of files or tables: read, transform, write under the lease, then register."""

import sys
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from deltaic.errors import DeltaicError
from deltaic.settings import settings

from deltaic_pipeline.access import S3Access
from deltaic_pipeline.arguments import VIEW, Job, job_of, parser
from deltaic_pipeline.attempt import attempt
from deltaic_pipeline.describing import describe
from deltaic_pipeline.failures import exit_code
from deltaic_pipeline.lease import TIME_TO_LIVE
from deltaic_pipeline.register import Catalog, connect
from deltaic_pipeline.session import session
from deltaic_pipeline.sources import catalog_location, read
from deltaic_pipeline.steps import Progress, silent, step, tasks_shown, terminal
from deltaic_pipeline.writing import Written, write

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
    location = catalog_location(job.target.location)
    if job.name is not None:
        catalog.register.check(job.name, location)
    with attempt(spark, catalog, [location], run_id, progress, wait=job.wait, ttl=ttl) as held:
        with step(progress, f"Reading {job.source.format} {', '.join(job.source.paths)}"), held.refusals():
            rows = transform(read(held.spark, job.source), job.sql)
        with step(progress, f"Writing {location} ({job.target.mode})") as tell, held.refusals():
            with tasks_shown(spark, held.group, tell):
                written = write(held.spark, rows, job.target, run_id)
            held.confirm()
            if describe(held.spark, job.target):
                held.confirm()
            tell(described(written))
        if job.name is not None:
            with step(progress, f"Registering {job.name}"):
                catalog.register.register(job.name, location, history=job.history, storage=job.storage)
    return written


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
        return exit_code(refusal)
    return 0


if __name__ == "__main__":
    sys.exit(main())
