"""Decides how files or a table become a shared Delta table: read, transform, write under the lease, then register."""

import argparse
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError
from deltaic.settings import settings

from deltaic_pipeline.access import S3Access
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.lease import TIME_TO_LIVE, Held, hold, holder_name
from deltaic_pipeline.register import Catalog, TableName, connect
from deltaic_pipeline.session import leave, session
from deltaic_pipeline.sources import FORMATS, Source, catalog_location, read
from deltaic_pipeline.steps import Progress, silent, step, tasks_shown, terminal
from deltaic_pipeline.writing import MODES, Target, Written, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "source"


@dataclass(frozen=True, slots=True)
class Job:
    """One publication."""

    source: Source
    target: Target
    sql: str | None = None
    """A query over the view `source`; None: the rows as they are."""

    name: TableName | None = None
    """Where it is shared; None: it is written and not registered."""

    history: bool = True
    """Recipients may read earlier versions and the change feed."""

    storage: str = ""
    """The catalog's name of the store that `target.location` lies in; empty: AWS S3."""

    run_id: str = ""
    """Names this run: repeated with the same one, a job that had committed commits nothing. Empty: a new one."""

    wait: timedelta = timedelta(0)
    """How long to wait for another writer of the same table."""


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

    Raises `Conflict` when another writer holds the table or another table has the name, `LeaseLost` when the lease was
    lost on the way (nothing is acknowledged), `PipelineError` when the rows cannot be read or written. Whatever fails,
    the catalog is as it was.
    """
    job.target.check()
    run_id = job.run_id or uuid.uuid4().hex
    location = catalog_location(job.target.location)
    if job.name is not None:
        catalog.register.check(job.name, location)
    # A session of its own: its view and its settings are seen by no other job of this process.
    own = spark.newSession()
    with ExitStack() as stack:
        with step(progress, f"Taking the writer lease of {location}") as tell:
            lease = hold(catalog.leases, location, holder_name(run_id), wait=job.wait, ttl=ttl, waiting=tell)
            held = stack.enter_context(lease)
        held.on_loss(lambda: _cancel(spark, run_id))
        spark.sparkContext.setJobGroup(run_id, f"publish {location}")
        # What this thread does next is no part of the run: a cancelled group stays cancelled.
        stack.callback(lambda: spark.sparkContext.setLocalProperty("spark.jobGroup.id", None))  # type: ignore[arg-type]
        with step(progress, f"Reading {job.source.format} {', '.join(job.source.paths)}"), refusals(held):
            rows = transform(read(own, job.source), job.sql)
        with step(progress, f"Writing {location} ({job.target.mode})") as tell, refusals(held):
            with tasks_shown(spark, run_id, tell):
                written = write(own, rows, job.target, run_id)
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


EXAMPLES = """examples:
  # CSV files with a header become a table, partitioned by day, and are shared
  python -m deltaic_pipeline.publish --from data/patients/*.csv --format csv --to s3://bucket/vaccine/patients \\
      --partition-by day --table vaccine_share.acme_vaccine_data.vaccine_patients

  # the next day's rows are appended; repeated with the same run id, nothing is appended twice
  python -m deltaic_pipeline.publish --from s3://inbox/2026-11-21/ --format json --mode append --run-id 2026-11-21 \\
      --to s3://bucket/vaccine/patients --table vaccine_share.acme_vaccine_data.vaccine_patients

  # corrections are merged by key; SQL selects and renames; another writer is waited for
  python -m deltaic_pipeline.publish --from corrections.parquet --format parquet --mode merge --key patient_id \\
      --sql "SELECT id AS patient_id, site, dose FROM source WHERE site IS NOT NULL" --wait 600 \\
      --to s3://bucket/vaccine/patients --table vaccine_share.acme_vaccine_data.vaccine_patients

AWS is found through AWS_ENDPOINT_URL, AWS_PROFILE, AWS_REGION and keys, as by any AWS tool. The first run fetches
19 MB of jars into ~/.cache/deltaic (DELTAIC_CACHE; DEFAULT_ARTIFACT_REPOSITORY names a mirror of Maven Central).
exit codes: 0 published, 1 refused or failed, 2 wrong arguments
"""


def parser() -> argparse.ArgumentParser:
    """Return the command line of the job."""
    line = argparse.ArgumentParser(
        prog="python -m deltaic_pipeline.publish",
        description="Publish files or a table as a shared Delta table.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    reading = line.add_argument_group("what to read")
    reading.add_argument(
        "--from",
        dest="paths",
        nargs="+",
        required=True,
        metavar="PATH",
        help="files, folders, globs (local or s3://), or one table",
    )
    reading.add_argument(
        "--format", choices=FORMATS, required=True, help="delta: a location; table: a name in Spark's catalog"
    )
    reading.add_argument(
        "--option", action="append", default=[], metavar="K=V", help="option of Spark's reader, such as sep=;"
    )
    reading.add_argument("--schema", metavar="DDL", help="such as 'id bigint, day date'; else it is found out")
    reading.add_argument("--sql", help=f"query over the view `{VIEW}`")
    writing = line.add_argument_group("what to write")
    writing.add_argument("--to", required=True, metavar="S3_URL", help="location of the Delta table")
    writing.add_argument("--mode", choices=MODES, default="overwrite")
    writing.add_argument(
        "--key", action="append", default=[], metavar="COLUMN", help="column that identifies a row (merge)"
    )
    writing.add_argument("--partition-by", action="append", default=[], metavar="COLUMN")
    writing.add_argument("--property", action="append", default=[], metavar="K=V", help="table property")
    writing.add_argument("--evolve-schema", action="store_true", help="accept new columns (overwrite: any schema)")
    writing.add_argument("--no-change-data-feed", action="store_true", help="do not turn the change data feed on")
    writing.add_argument("--run-id", default="", help="name of this run: a repetition makes no second version")
    writing.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait for another writer of the table"
    )
    sharing = line.add_argument_group("how to share")
    sharing.add_argument(
        "--table", metavar="SHARE.SCHEMA.TABLE", help="name for recipients; without it nothing is shared"
    )
    sharing.add_argument("--storage", default="", metavar="NAME", help="the catalog's storage that --to lies in")
    sharing.add_argument("--no-history", action="store_true", help="recipients see the latest version only")
    sharing.add_argument("--catalog", metavar="NAME", help="DynamoDB table of the catalog (default: CATALOG_TABLE)")
    return line


def job_of(arguments: argparse.Namespace) -> Job:
    """Return the job that a command line describes; raises `DeltaicError` when its values contradict each other."""
    target = Target(
        location=arguments.to,
        mode=arguments.mode,
        partition_by=tuple(arguments.partition_by),
        keys=tuple(arguments.key),
        change_data_feed=not arguments.no_change_data_feed,
        properties=_pairs(arguments.property),
        evolve_schema=arguments.evolve_schema,
    )
    target.check()
    return Job(
        source=Source(arguments.format, tuple(arguments.paths), _pairs(arguments.option), arguments.schema),
        target=target,
        sql=arguments.sql,
        name=TableName.parse(arguments.table) if arguments.table else None,
        history=not arguments.no_history,
        storage=arguments.storage,
        run_id=arguments.run_id,
        wait=timedelta(seconds=arguments.wait),
    )


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


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in given)
    if "" in pairs or any("=" not in pair for pair in given):
        raise PipelineError("options and properties are written NAME=VALUE.")
    return pairs


if __name__ == "__main__":
    sys.exit(main())
