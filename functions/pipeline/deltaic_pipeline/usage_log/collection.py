"""Collect requests and downloads from the logs of functions and S3, and merge them into the usage table."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

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
from deltaic_pipeline.usage_log.attribution import COLUMNS, recipient_fetches, transform
from deltaic_pipeline.usage_log.log_rows import LineCounts, count_lines, fetches, parsed_rows, requests

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
    """Recipients and tables of the catalog, as rows for Spark."""

    recipients: Sequence[tuple[str, str, str]]
    tables: Sequence[tuple[str, str, str, str, str]]


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
            request_lines, request_rows = _read(stack, requests(spark, job.requests))
            fetch_lines, fetch_rows = _read(stack, fetches(spark, job.fetches))
        since = min((lines.first for lines in (request_lines, fetch_lines) if lines.first), default="")
        with step(progress, "Attributing downloads to requests") as report:
            with show_tasks(spark, attempt.group, report):
                rows = _persist(stack, _rows(stack, spark, job, facts, (request_rows, fetch_rows), since))
                counts: Any = rows.selectExpr(
                    "count_if(kind = 'request') AS requests",
                    "count_if(kind = 'fetch') AS fetches",
                    "count_if(kind = 'fetch' AND request_id IS NOT NULL) AS explained",
                    "count_if(kind = 'fetch' AND explained_by = 0) AS unexplained",
                    "coalesce(sum(bytes_sent), 0) AS bytes_sent",
                    "count(DISTINCT recipient_id) AS recipients",
                ).first()
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


def _read(stack: ExitStack, rows: "DataFrame") -> tuple[LineCounts, "DataFrame"]:
    persisted = _persist(stack, rows)
    return count_lines(persisted), parsed_rows(persisted)


def _persist(stack: ExitStack, rows: "DataFrame") -> "DataFrame":
    from pyspark import StorageLevel

    persisted = rows.persist(StorageLevel.DISK_ONLY)
    stack.callback(persisted.unpersist)
    return persisted


def _rows(  # noqa: PLR0913, PLR0917 -- the inputs of one join
    stack: ExitStack,
    spark: "SparkSession",
    job: UsageJob,
    facts: CatalogFacts,
    logs: tuple["DataFrame", "DataFrame"],
    since: str,
) -> "DataFrame":
    from pyspark.sql import functions

    requests, fetch_rows = logs
    recipients = spark.createDataFrame(list(facts.recipients), "session STRING, recipient_id STRING, recipient STRING")
    tables = spark.createDataFrame(
        list(facts.tables), "location STRING, share STRING, schema STRING, table STRING, table_id STRING"
    )
    earlier, all_requests = None, requests
    if since and exists(spark, job.table):
        table = spark.read.format("delta").load(spark_path(job.target))
        earlier = table.where(functions.expr(f"day >= DATE'{since}' - {EARLIER_DAYS}")).select(*COLUMNS)
        stored = earlier.where("kind = 'request'").join(requests.select("id"), "id", "left_anti")
        all_requests = requests.unionByName(stored.select(*requests.columns))
    known_sessions = all_requests.where("session IS NOT NULL").select(*recipients.columns).unionByName(recipients)
    sessions = known_sessions.groupBy("session").agg(
        functions.max("recipient_id").alias("recipient_id"), functions.max("recipient").alias("recipient")
    )
    downloads = recipient_fetches(fetch_rows, sessions, list(job.roles))
    if earlier is not None:
        unattributed = earlier.where("kind = 'fetch' AND request_id IS NULL").join(
            downloads.select("id"), "id", "left_anti"
        )
        downloads = downloads.unionByName(unattributed.select(*downloads.columns))
    return transform(requests, _persist(stack, all_requests), _persist(stack, downloads), tables)
