"""Collect requests and downloads from the logs of functions and S3, and merge them into the usage table."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.storage.sessions import session_name
from deltaic_terminal.progress import Progress, step

from deltaic_pipeline.spark.task_progress import show_tasks
from deltaic_pipeline.table.catalog_entry import CatalogEntry, JobCatalog
from deltaic_pipeline.table.leased_run import Attempt, finish, leased_run
from deltaic_pipeline.table.sources import catalog_location, spark_path
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction, exists, find_commit
from deltaic_pipeline.table.writing import write
from deltaic_pipeline.usage_log.attribution import COMMENTS, COUNTS, READ_OFTEN, views
from deltaic_pipeline.usage_log.log_lines import COLUMNS
from deltaic_pipeline.usage_log.log_rows import LineCounts, count_lines, fetches, requests

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIER_DAYS = 2
"""Days before the oldest log line from which stored requests are candidates; URLs are valid for an hour at most."""


@dataclass(frozen=True, slots=True)
class UsageJob:
    """Options of one run of the usage job."""

    requests: Sequence[str]
    fetches: Sequence[str]
    target: str
    run_id: str
    entry: CatalogEntry | None = None
    """Catalog entry of the usage table; None: the table is not shared."""

    roles: Sequence[str] = ()
    """Names of IAM roles that sign URLs, by which sessions of unknown recipients are recognized."""

    wait: timedelta = timedelta(0)

    @property
    def table(self) -> DeltaTarget:
        """Delta table that the job writes."""
        return DeltaTarget(
            location=self.target,
            mode="merge",
            keys=("day", "id"),
            partition_by=("day",),
            comment="Who asked for what, and what was fetched: a row for each request and each fetch",
        )


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """Recipients and tables of the catalog, as rows of the views `recipients` and `tables`."""

    recipients: Sequence[tuple[str, str, str]]
    tables: Sequence[tuple[str, str, str, str, str]]


FACTS: Final = {
    "recipients": ("session", "recipient_id", "recipient"),
    "tables": ("location", "share", "schema", "table", "table_id"),
}
"""Columns of the rows of `CatalogFacts`."""


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """Result of a run of the usage job, with counts for its report."""

    run_id: str
    location: str
    version: int
    repeated: bool
    request_lines: LineCounts | None = None
    fetch_lines: LineCounts | None = None
    requests: int = 0
    fetches: int = 0
    explained: int = 0
    unexplained: int = 0
    bytes_sent: int = 0
    recipients: int = 0
    metrics: dict[str, int] | None = None
    engine: str = "spark"
    seconds: float = 0.0


def catalog_facts(admin: CatalogAdmin) -> CatalogFacts:
    """Read recipients, tables and folders from the catalog, with some requests for each share and AI model."""
    recipients = [(session_name(recipient.id), recipient.id, recipient.name) for recipient in admin.recipients.list()]
    tables = []
    for share in admin.shares.list():
        for table in admin.tables.list(share.name):
            locations = {catalog_location(location) for location in (table.location, *table.auxiliary_locations)}
            tables += [(location, table.share, table.schema_name, table.name, table.id) for location in locations]
        tables += [
            (catalog_location(folder.location), folder.share, folder.schema_name, folder.name_in_schema, folder.id)
            for folder in admin.folders(share.name)
        ]
    return CatalogFacts(recipients, tables)


def collect(
    spark: "SparkSession", job: UsageJob, catalog: JobCatalog, facts: CatalogFacts, progress: Progress
) -> UsageSummary:
    """Merge the logs into the usage table in one commit, and then create its catalog entry.

    Safe to repeat after any failure, and with logs that were read before. Raises `Conflict` if another writer holds the
    table's lease, `LeaseLost`, and `PipelineError` for unreadable logs.
    """
    began, entry = time.monotonic(), job.entry
    if entry is not None:
        catalog.check(entry)
    with leased_run(spark, catalog, [job.target], job.run_id, progress, wait=job.wait) as attempt:
        with attempt.refusals():
            earlier = find_commit(attempt.spark, job.table, Transaction.of_run(job.run_id))
        summary = (
            _merge(attempt, job, facts, progress)
            if earlier is None
            else UsageSummary(job.run_id, job.target, earlier.version, repeated=True)
        )
        finish(attempt, job.table, entry, catalog, summary.version, progress)
    return replace(summary, seconds=time.monotonic() - began)


def _merge(attempt: Attempt, job: UsageJob, facts: CatalogFacts, progress: Progress) -> UsageSummary:
    spark = attempt.spark
    with ExitStack() as stack, attempt.refusals():
        with step(progress, "Reading the logs") as report, show_tasks(spark, attempt.group, report):
            request_lines = _count_lines(stack, requests(spark, job.requests), "request_lines")
            fetch_lines = _count_lines(stack, fetches(spark, job.fetches), "fetch_lines")
        with step(progress, "Attributing downloads to requests") as report:
            with show_tasks(spark, attempt.group, report):
                _create_views(stack, spark, job, facts, earliest_day(request_lines, fetch_lines))
                rows = _commented(spark.table("usage_rows"))
                counts: Any = rows.selectExpr(*COUNTS).first()
            report(f"{counts['requests']:,} requests, {counts['fetches']:,} fetches")
        with step(progress, f"Merging into {job.target}") as report:
            with show_tasks(spark, attempt.group, report):
                written = write(spark, rows, job.table, job.run_id)
            attempt.confirm()
            report(f"version {written.version}")
    metrics = {name: int(value) for name, value in written.metrics.items() if value.isdigit()}
    return UsageSummary(
        job.run_id,
        job.target,
        written.version,
        written.repeated,
        request_lines,
        fetch_lines,
        metrics=metrics,
        **counts.asDict(),
    )


def earliest_day(*logs: LineCounts) -> str:
    """Return the first day whose stored rows can belong to lines of these logs; 9999-12-31 without lines."""
    first = min((lines.first for lines in logs if lines.first), default="")
    return str(date.fromisoformat(first) - timedelta(days=EARLIER_DAYS)) if first else "9999-12-31"


def _count_lines(stack: ExitStack, rows: "DataFrame", view: str) -> LineCounts:
    persisted = _persist(stack, rows)
    persisted.createOrReplaceTempView(view)
    return count_lines(persisted)


def _persist(stack: ExitStack, rows: "DataFrame") -> "DataFrame":
    from pyspark import StorageLevel

    persisted = rows.persist(StorageLevel.DISK_ONLY)
    stack.callback(persisted.unpersist)
    return persisted


def _create_views(stack: ExitStack, spark: "SparkSession", job: UsageJob, facts: CatalogFacts, since: str) -> None:
    for name, columns in FACTS.items():
        types = ", ".join(f"`{column}` STRING" for column in columns)
        spark.createDataFrame(list(getattr(facts, name)), types).createOrReplaceTempView(name)
    if exists(spark, job.table):
        usage = spark.read.format("delta").load(spark_path(job.target))
    else:
        usage = spark.createDataFrame([], ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items()))
    usage.createOrReplaceTempView("usage")
    for name, sql in views(job.roles, since).items():
        rows = spark.sql(sql)
        (_persist(stack, rows) if name in READ_OFTEN else rows).createOrReplaceTempView(name)


def _commented(rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions

    return rows.select(*(
        functions.col(name).alias(name, metadata={"comment": COMMENTS[name]} if name in COMMENTS else {})
        for name in COLUMNS
    ))  # fmt: skip
